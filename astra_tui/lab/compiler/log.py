"""Turns NVRTC's log into diagnostics about the candidate's own text, and ptxas' resource lines.

A line about another file is dropped: it could quote that file (see directives.py). A message that
arises in a header keeps its words, with the line of the candidate that led there; in an upstream
file of the task, with the place in that file as well. That a file exists but may not be read is not
said either.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path

from astra_tui.cuda_source.stand_ins import STAND_INS
from astra_tui.model.compilation import (
    UPSTREAM_PREFIX,
    Diagnostic,
    Resources,
    Severity,
    upstream_place,
)

NAME_MAP_FILE = "__nv_name_map"
MAX_DIAGNOSTICS = 20
MAX_TEXT = 2_000
"""Characters of a message and of a quoted line; NVRTC quotes whole template arguments."""

_HEAD = re.compile(
    r"^(?P<file>.+?)\((?P<line>\d+)\): "
    r"(?P<severity>catastrophic error|error|warning|note|remark)(?: #[\w-]+)?: (?P<text>.*)$"
)
_LOOSE = re.compile(r"^(?:At end of source|nvrtc): (?:catastrophic )?error.*?: (?P<text>.*)$")
_CAME_FROM = re.compile(r'at line (\d+)(?: of "?([^"]+?)"?)?$')
_LED_THERE = re.compile(rf"instantiation of|{_CAME_FROM.pattern}")
_UNREADABLE = re.compile(r'^(cannot open source file "[^"]*").*$')
_ASKED_NAME = re.compile(r"^\s*#pragma nv_mangled_name (.*)$")
_NAME_ECHO = "Error in parsing name expression"
_CARET = re.compile(r"^(\s*)\^\s*$")
_PTXAS = re.compile(r"^\s*ptxas (?P<severity>fatal|error|warning)\s*:\s*(?P<text>.*)$")
_PTX_LINE = re.compile(r"^\s*ptxas .*?, line (?P<line>\d+); (?:fatal|error)\s*:\s*(?P<text>.*)$")

_UNLINKED = re.compile(r"Unresolved extern function '([^']+)'")
_LAUNCHES = ("cudaGetParameterBufferV2", "cudaLaunchDeviceV2")
_ENTRY = re.compile(r"^ptxas info\s*: Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"^ptxas info\s*: Function properties for (\S+)")
_STACK = re.compile(
    r"^(?:ptxas)?[\s.]*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_USED = re.compile(r"^ptxas info\s*: Used (\d+) registers(?:, used (\d+) barriers)?(.*)$")
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
    source_lines = [line.rstrip("\r") for line in source.split("\n")]
    for message in _messages(log):
        diagnostic = _diagnostic(message, own_name, source_lines, include_dirs, ptx_lines or {})
        if diagnostic is not None and diagnostic not in found:
            found.append(diagnostic)
    found.sort(key=lambda d: d.severity is not Severity.ERROR)
    return tuple(shortened(found))


def parse_instantiations(log: str) -> list[tuple[str, ...]]:
    """For each error, the instantiations that led there, the innermost first."""
    return [
        tuple(line.strip() for line in message.details if "instantiation of" in line)
        for message in _messages(log)
        if _SEVERITIES.get(message.severity) is Severity.ERROR
    ]


def shortened(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """The first MAX_DIAGNOSTICS of them, and one that counts the rest."""
    kept, rest = diagnostics[:MAX_DIAGNOSTICS], diagnostics[MAX_DIAGNOSTICS:]
    return [*kept, Diagnostic(rest[0].severity, f"and {len(rest)} more messages")] if rest else kept


def parse_resources(log: str) -> dict[str, Resources]:
    """What ptxas says of each kernel, by symbol."""
    found: dict[str, Resources] = {}
    entry, stack = "", (0, 0, 0)
    subject = ""
    for line in log.split("\n"):
        if match := _ENTRY.match(line):
            entry = subject = match[1]
            stack = (0, 0, 0)
        elif match := _PROPERTIES.match(line):
            subject = match[1]
        elif (match := _STACK.match(line)) and subject == entry:
            stack = (int(match[1]), int(match[2]), int(match[3]))
        elif (match := _USED.match(line)) and entry:
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
    in_note = False
    for line in log.split("\n"):
        message = _headed(line)
        if message is not None:
            in_note = message.severity == "note"
            if not in_note:
                messages.append(message)
        elif messages and line.startswith(" ") and (not in_note or _LED_THERE.search(line)):
            # Where an error came from follows its notes.
            messages[-1].details.append(line)
    return messages


def _headed(line: str) -> _Message | None:
    """The message that begins with this line, if one does."""
    if match := _HEAD.match(line):
        return _Message(match["file"], int(match["line"]), match["severity"], match["text"])
    if match := _LOOSE.match(line):
        return _Message("", 0, "error", match["text"])
    if match := _PTX_LINE.match(line):
        return _Message("ptx", int(match["line"]), "error", match["text"])
    if match := _PTXAS.match(line):
        severity = "warning" if match["severity"] == "warning" else "error"
        return _Message("ptxas", 0, severity, _unlinked(match["text"]) or match["text"])
    return None


def _unlinked(text: str) -> str:
    """What it means that a function has no body, "" for another message."""
    match = _UNLINKED.search(text)
    if match is None:
        return ""
    if match[1] in _LAUNCHES:
        return "a kernel launches a kernel: only the launch plan can launch kernels"
    return f"a kernel calls host code, or a function that has no body here ({match[1]})"


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
        if message.severity == "remark":
            return None
        column = _column(message.details)
        text = _UNREADABLE.sub(r"\1", _with_explanations(message))
    elif message.file == NAME_MAP_FILE:
        return _about_a_name(message)
    elif message.file == "ptx":
        line, text = ptx_lines.get(message.line, 0), f"in inline PTX: {text}"
    elif message.file in ("", "ptxas"):
        line = 0
    elif severity is Severity.ERROR and (place := upstream_place(message.file, line)):
        line, text = _origin(message, own_name), f"{place}: {_with_explanations(message)}"
    elif severity is Severity.ERROR and _is_header(message.file, include_dirs):
        line = _origin(message, own_name)
        text = f"{text} (in {Path(message.file).name})"
    else:
        return None
    shown = source_lines[line - 1] if 0 < line <= len(source_lines) else ""
    text = _without_paths(text, include_dirs)[:MAX_TEXT]
    return Diagnostic(severity, text, line, _in_characters(column, shown), shown[:MAX_TEXT])


def _about_a_name(message: _Message) -> Diagnostic | None:
    if message.text.startswith(_NAME_ECHO):
        return None
    asked = next((m[1] for m in map(_ASKED_NAME.match, message.details) if m), "")
    return Diagnostic(Severity.ERROR, message.text[:MAX_TEXT], kernel=asked)


def _column(details: list[str]) -> int:
    """The column that the caret points at, in bytes; 0 without a caret."""
    for previous, line in itertools.pairwise(details):
        caret = _CARET.match(line)
        if caret and previous.startswith("  "):
            return len(caret[1]) - 1
    return 0


def _in_characters(column: int, line: str) -> int:
    if column <= 1:
        return column
    return len(line.encode(errors="replace")[: column - 1].decode(errors="ignore")) + 1


def _with_explanations(message: _Message) -> str:
    """The message and the indented lines before the quoted source, such as argument types."""
    carets = [n for n, line in enumerate(message.details) if _CARET.match(line)]
    extra = message.details[: carets[0] - 1] if carets else []
    lines = [message.text, *(line.strip() for line in extra if not _CAME_FROM.search(line))]
    return "; ".join(line for line in lines if line)


def _origin(message: _Message, own_name: str) -> int:
    for line in message.details:
        match = _CAME_FROM.search(line)
        if match and match[2] == own_name:
            return int(match[1])
    return 0


def _without_paths(text: str, include_dirs: tuple[Path, ...]) -> str:
    for folder in sorted(include_dirs, key=lambda p: -len(p.parts)):
        text = text.replace(f"{folder}/", "")
    return text.replace(UPSTREAM_PREFIX, UPSTREAM_PREFIX[1:])


def _is_header(file: str, roots: tuple[Path, ...]) -> bool:
    if file in STAND_INS:
        return True
    path = Path(file)
    return ".." not in path.parts and any(path.is_relative_to(root) for root in roots)
