"""Reads a source's preprocessor directives before the compiler does, and refuses the unsafe ones.

A candidate may include CUDA's headers and the stand-ins, by their literal names. It may not name
other files, directly or through a macro, nor ask whether a file exists, nor rename its own lines:
NVRTC would print what it finds into its log. This is the first of three walls; the compiler's
process cannot open other files (`lab/confine.py`), and log lines about them are dropped (`log.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from astra_tui.lab.compiler.standins import STAND_INS
from astra_tui.model.compilation import Diagnostic, Severity

MAX_SOURCE_BYTES = 1 << 20

_ALLOWED = {
    "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif",
    "error", "warning", "pragma", "",
}  # fmt: skip

_SPLICE = re.compile(r"\\\r?\n")
_INVISIBLE = re.compile(
    r"""(?P<raw>R"(?P<fence>[^()\\\s]{0,16})\(.*?(?:\)(?P=fence)"|\Z))
      | (?P<string>"(?:\\.|[^"\\\n])*"?)
      | (?P<character>'(?:\\.|[^'\\\n])*')
      | (?P<line>//[^\n]*)
      | (?P<block>/\*.*?(?:\*/|\Z))
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t\v\f]*(?:\#|%:)[ \t\v\f]*(\w*)(.*)$", re.MULTILINE)
_INCLUDE = re.compile(r"\s*(?:<([^<>\n]+)>|\"([^\"\n]+)\")\s*$")
_MACRO = re.compile(r"\s*(\w+)(\()?")
_QUERIES = re.compile(r"\b__has_(?:include|include_next|embed)\b")


@dataclass(frozen=True)
class _Directive:
    name: str
    rest: str
    line: int


def refuse_unsafe(source: str, include_dirs: tuple[Path, ...]) -> list[Diagnostic]:
    """The errors for directives that a candidate may not use; empty when all is well."""
    if len(source.encode()) > MAX_SOURCE_BYTES:
        return [_error(f"this source is larger than {MAX_SOURCE_BYTES} bytes", 1)]
    if "\0" in source:
        return [
            _error(
                "this source holds a NUL character", source.count("\n", 0, source.index("\0")) + 1
            )
        ]
    text, lines = _visible(source)
    errors = [
        _error("__has_include and its kin are refused: a kernel does not look at files", line)
        for line in (_line_at(lines, match.start()) for match in _QUERIES.finditer(text))
    ]
    directives = [
        _Directive(match[1], match[2], _line_at(lines, match.start(1)))
        for match in _DIRECTIVE.finditer(text)
    ]
    shady = _computing_macros(directives)
    for directive in directives:
        errors.extend(_check(directive, include_dirs, shady))
    return errors


def _check(
    directive: _Directive, include_dirs: tuple[Path, ...], shady: set[str]
) -> Iterator[Diagnostic]:
    if directive.name not in _ALLOWED:
        yield _error(f"the directive #{directive.name} is refused", directive.line)
    elif directive.name == "include":
        yield from _check_include(directive, include_dirs)
    elif directive.name in ("if", "elif"):
        used = shady & set(re.findall(r"\w+", directive.rest))
        if used:
            yield _error(
                f"#{directive.name} may not use the macro {min(used)}, which takes arguments or "
                "pastes names together",
                directive.line,
            )
    elif directive.name == "pragma" and "nv_mangled_name" in directive.rest:
        yield _error("this pragma is refused", directive.line)


def _check_include(directive: _Directive, include_dirs: tuple[Path, ...]) -> Iterator[Diagnostic]:
    match = _INCLUDE.match(directive.rest)
    if match is None:
        yield _error("#include needs a literal file name; a macro is refused", directive.line)
        return
    name = match[1] or match[2]
    if name in STAND_INS:
        return
    parts = Path(name).parts
    inside = not Path(name).is_absolute() and ".." not in parts and "\\" not in name
    if not inside or not any((root / name).is_file() for root in include_dirs):
        yield _error(
            f"cannot include '{name}': a kernel source can use CUDA's own headers and "
            f"{', '.join(n for n in STAND_INS if n.endswith('.h'))}",
            directive.line,
        )


def _computing_macros(directives: list[_Directive]) -> set[str]:
    """Macros that take arguments or paste names, and those that mention one of these."""
    bodies: dict[str, tuple[bool, set[str]]] = {}
    for directive in directives:
        match = _MACRO.match(directive.rest) if directive.name == "define" else None
        if match:
            body = directive.rest[match.end(1) :]
            words = set(re.findall(r"\w+", body))
            computing = bool(match[2]) or "##" in body or "%:%:" in body
            known = bodies.get(match[1], (False, set()))
            bodies[match[1]] = (known[0] or computing, known[1] | words)
    shady = {name for name, (computing, _) in bodies.items() if computing}
    while True:
        more = {name for name, (_, words) in bodies.items() if words & shady} - shady
        if not more:
            return shady
        shady |= more


def _visible(source: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without line splices and comments, string contents kept only after #include.

    Also a table that maps offsets of that text to lines of the source.
    """
    joined, lines = _join_lines(source)
    text = _INVISIBLE.sub(_blank, joined)
    return text, lines


def _join_lines(source: str) -> tuple[str, list[tuple[int, int]]]:
    pieces: list[str] = []
    lines = [(0, 1)]
    offset = line = 0
    begin = 0
    for match in [*_SPLICE.finditer(source), None]:
        piece = source[begin : match.start() if match else len(source)]
        for found in re.finditer("\n", piece):
            line += 1
            lines.append((offset + found.end(), line + 1))
        pieces.append(piece)
        offset += len(piece)
        if match:
            line += 1
            lines.append((offset, line + 1))
            begin = match.end()
    return "".join(pieces), lines


def _blank(match: re.Match[str]) -> str:
    """Spaces in place of what the preprocessor does not look into, so that offsets stay."""
    kept = match["string"]
    if kept is not None:
        before = match.string[: match.start()].rpartition("\n")[2]
        if re.match(r"[ \t\v\f]*(?:\#|%:)[ \t\v\f]*include\b", before):
            return kept
    return re.sub(r"[^\n]", " ", match.group())


def _line_at(lines: list[tuple[int, int]], offset: int) -> int:
    line = 1
    for start, number in lines:
        if start > offset:
            break
        line = number
    return line


def _error(message: str, line: int) -> Diagnostic:
    return Diagnostic(Severity.ERROR, message, line)
