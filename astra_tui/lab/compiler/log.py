"""Turns NVRTC's log into diagnostics about the candidate's own text, and ptxas' resource lines.

A line about another file is dropped: it could quote that file (see directives.py). A message that
arises in a CUDA header keeps its words, with the line of the candidate that led there.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path

from astra_tui.model.compilation import Diagnostic, Resources, Severity

NAME_MAP_FILE = "__nv_name_map"
MAX_DIAGNOSTICS = 20

_HEAD = re.compile(
    r"^(?P<file>.+?)\((?P<line>\d+)\): "
    r"(?P<severity>catastrophic error|error|warning|note|remark)(?: #[\w-]+)?: (?P<text>.*)$"
)
_LOOSE = re.compile(r"^(?:At end of source|nvrtc): (?:catastrophic )?error.*?: (?P<text>.*)$")
_CAME_FROM = re.compile(r'at line (\d+)(?: of "?([^"]+?)"?)?$')
_ASKED_NAME = re.compile(r"^\s*#pragma nv_mangled_name (.*)$")
_NAME_ECHO = "Error in parsing name expression"
_CARET = re.compile(r"^(\s*)\^\s*$")
_PTXAS_ERROR = re.compile(r"^\s*ptxas (?:fatal|error)\s*:\s*(?P<text>.*)$")
_PTX_LINE = re.compile(r"^\s*ptxas .*?, line (?P<line>\d+); (?:fatal|error)\s*:\s*(?P<text>.*)$")

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?(.*)$")
_SHARED = re.compile(r"(\d+) bytes smem")

_SEVERITIES = {"error": Severity.ERROR, "catastrophic error": Severity.ERROR}


@dataclass
class _Message:
    file: str
    line: int
    severity: str
    text: str
    details: list[str] = field(default_factory=list)


def parse_diagnostics(
    log: str,
    own_name: str,
    source: str,
    include_dirs: tuple[Path, ...] = (),
    ptx_lines: dict[int, int] | None = None,
) -> tuple[Diagnostic, ...]:
    """The log's errors, then its warnings, without repetition; at most MAX_DIAGNOSTICS of them.

    `ptx_lines` maps lines of the PTX to lines of the source, for what ptxas says of inline PTX.
    """
    found: list[Diagnostic] = []
    source_lines = source.splitlines()
    for message in _messages(log):
        diagnostic = _diagnostic(message, own_name, source_lines, include_dirs, ptx_lines or {})
        if diagnostic is not None and diagnostic not in found:
            found.append(diagnostic)
    found.sort(key=lambda d: d.severity is not Severity.ERROR)
    left_out = len(found) - MAX_DIAGNOSTICS
    if left_out > 0:
        more = Diagnostic(found[MAX_DIAGNOSTICS].severity, f"and {left_out} more messages")
        found[MAX_DIAGNOSTICS:] = [more]
    return tuple(found)


def parse_resources(log: str) -> dict[str, Resources]:
    """What ptxas says of each kernel, by symbol."""
    found: dict[str, Resources] = {}
    entry, stack = "", (0, 0, 0)
    subject = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = subject = match[1]
            stack = (0, 0, 0)
        elif match := _PROPERTIES.search(line):
            subject = match[1]
        elif (match := _STACK.search(line)) and subject == entry:
            stack = (int(match[1]), int(match[2]), int(match[3]))
        elif (match := _USED.search(line)) and entry:
            shared = _SHARED.search(match[3])
            found[entry] = Resources(
                registers=int(match[1]),
                spill_stores=stack[1],
                spill_loads=stack[2],
                stack=stack[0],
                static_shared=int(shared[1]) if shared else 0,
                barriers=int(match[2] or 0),
            )
    return found


def _messages(log: str) -> list[_Message]:
    messages: list[_Message] = []
    for line in log.splitlines():
        head, loose = _HEAD.match(line), _LOOSE.match(line)
        ptx, ptxas = _PTX_LINE.match(line), _PTXAS_ERROR.match(line)
        if head:
            messages.append(
                _Message(head["file"], int(head["line"]), head["severity"], head["text"])
            )
        elif loose:
            messages.append(_Message("", 0, "error", loose["text"]))
        elif ptx:
            messages.append(_Message("ptx", int(ptx["line"]), "error", ptx["text"]))
        elif ptxas:
            messages.append(_Message("ptxas", 0, "error", ptxas["text"]))
        elif messages and line.startswith(" "):
            messages[-1].details.append(line)
    return messages


def _diagnostic(
    message: _Message,
    own_name: str,
    source_lines: list[str],
    include_dirs: tuple[Path, ...],
    ptx_lines: dict[int, int],
) -> Diagnostic | None:
    severity = _SEVERITIES.get(message.severity, Severity.WARNING)
    text, line, column = message.text, message.line, 0
    if message.file == own_name:
        if message.severity in ("note", "remark"):
            return None
        column = _column(message.details)
        text = _without_paths(_with_explanations(message), include_dirs)
    elif message.file == NAME_MAP_FILE:
        return _about_a_name(message)
    elif message.file == "ptx":
        line, text = ptx_lines.get(message.line, 0), f"in inline PTX: {text}"
    elif message.file in ("", "ptxas"):
        line = 0
    elif severity is Severity.ERROR and _is_under(message.file, include_dirs):
        line = _origin(message, own_name)
        text = f"{text} (in {Path(message.file).name})"
    else:
        return None
    shown = source_lines[line - 1] if 0 < line <= len(source_lines) else ""
    return Diagnostic(severity, text, line, column, shown)


def _about_a_name(message: _Message) -> Diagnostic | None:
    if message.text.startswith(_NAME_ECHO):
        return None
    asked = next((m[1] for m in map(_ASKED_NAME.match, message.details) if m), "")
    return Diagnostic(Severity.ERROR, message.text, kernel=asked)


def _column(details: list[str]) -> int:
    for previous, line in itertools.pairwise(details):
        caret = _CARET.match(line)
        if caret and previous.startswith("  "):
            return len(caret[1]) - 1
    return 0


def _with_explanations(message: _Message) -> str:
    """The message and the indented lines before the quoted source, such as argument types."""
    carets = [n for n, line in enumerate(message.details) if _CARET.match(line)]
    extra = message.details[: carets[0] - 1] if carets else []
    lines = [message.text, *(line.strip() for line in extra if not _CAME_FROM.search(line))]
    return "; ".join(line for line in lines if line)


def _origin(message: _Message, own_name: str) -> int:
    for line in message.details:
        match = _CAME_FROM.search(line)
        if match and (match[2] is None or match[2] == own_name):
            return int(match[1])
    return 0


def _without_paths(text: str, include_dirs: tuple[Path, ...]) -> str:
    for folder in sorted(include_dirs, key=lambda p: -len(p.parts)):
        text = text.replace(f"{folder}/", "")
    return text


def _is_under(file: str, roots: tuple[Path, ...]) -> bool:
    path = Path(file)
    return ".." not in path.parts and any(path.is_relative_to(root) for root in roots)
