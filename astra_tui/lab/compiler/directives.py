"""Reads a source's preprocessor directives before the compiler does, and refuses the unsafe ones.

A candidate may include CUDA's headers, the stand-ins and the task's upstream files, by their
literal names. It may not name other files, directly or through a macro, its own or one by which an
upstream file includes others, nor ask whether a file exists, nor rename its own lines:
NVRTC would print what it finds into its log. This is the first of three walls; the compiler's
process cannot open other files (`processes/confine.py`), and log lines about them are dropped
(`log.py`). An include in a branch that NVRTC surely skips (`branches.py`) may name any file.

Where quotes make it hard to say where a comment begins (raw strings, digit separators, unpaired
apostrophes), NVRTC itself decides differently in skipped text and in live text. So a source that
holds such quotes is read a second time, with every `#` taken for the start of a directive.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from astra_tui.cuda_source.stand_ins import STAND_INS
from astra_tui.lab.compiler.branches import Directive, skipped_offsets
from astra_tui.lab.compiler.headers import NOTHING, HeaderTree, Included
from astra_tui.lab.compiler.log import shortened
from astra_tui.model.compilation import Diagnostic, Severity
from astra_tui.model.errors import nearest

MAX_SOURCE_BYTES = 1 << 20

_ALLOWED = {
    "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif",
    "error", "warning", "pragma",
}  # fmt: skip
_NAME_FILES = {"include", "include_next", "import", "embed", "line"}

_LINE_END = re.compile(r"\\\r?\n|\n")
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<raw>(?<!\w)(?:u8|[uUL])?R"(?P<fence>[^()\\\s"]{0,16})\(.*?(?:\)(?P=fence)"|\Z))
      | (?P<literal>(?P<quote>["'])
            (?P<content>(?:\\[^\n]|(?!(?P=quote))[^\\\n])*)(?P<end>(?P=quote))?)
    """,
    re.VERBOSE | re.DOTALL,
)
_MISLEADING = re.compile(r"//|/\*|\*/|[\"']")

# Stands for the end of a comment of several lines, after which NVRTC sees a new line begin,
# except within a directive. No source holds it.
_NEW_LINE = "\0"
_BLANK = r"[ \t\v\f\r\0]*"
_DIRECTIVE = re.compile(rf"(?:^|\0){_BLANK}(?:\#|%:){_BLANK}(\w*)(.*)$", re.MULTILINE)
_SECOND = re.compile(rf"\0{_BLANK}(?:\#|%:)")
_ANYWHERE = re.compile(rf"(?:\#|%:){_BLANK}(/\*|\w+)((?:[^\n#%]|%(?!:))*(?:##|%:%:)?)")
_INCLUDE = re.compile(rf"{_BLANK}(?:<([^<>\n]+)>|\"([^\"\n]+)\"){_BLANK}(?:$|//|/\*)")
_MACRO = re.compile(rf"{_BLANK}(\w+)(\()?")
_DEFINED_THERE = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)(.*)$", re.MULTILINE)
_NAMED_BY_MACRO = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]+([^\W\d].*)$|\b__has_include\s*\(\s*([^\W\d][^)]*)", re.MULTILINE
)
_QUERIES = re.compile(r"\b__has_(?:include|include_next|embed)\b|\bnv_mangled_name\b")

# Not worth a line of an error's advice: headers of frameworks, and those that others include.
_OURS_ALONE = re.compile(r".*/|astra_tui_|cu")

_CALL = re.compile(rf"\b([^\W\d]\w*){_BLANK}\((?!{_BLANK}\))")
_CALLABLE_IN_IF = {
    "defined", "not", "and", "or", "bitand", "bitor", "xor", "compl", "not_eq",
    "__has_builtin", "__has_attribute", "__has_cpp_attribute", "__has_feature", "__has_extension",
}  # fmt: skip


@dataclass(frozen=True)
class _Reading:
    """A source without its line splices, and then without its comments; offsets agree."""

    joined: str
    text: str
    doubtful: bool
    starts: list[int]
    numbers: list[int]

    def line(self, offset: int) -> int:
        return self.numbers[bisect.bisect_right(self.starts, offset) - 1]


def refuse_unsafe(
    source: str,
    include_dirs: tuple[Path, ...],
    included: Included = NOTHING,
    upstream: HeaderTree | None = None,
) -> list[Diagnostic]:
    """The errors for directives that a candidate may not use; empty when all is well.

    `included` is what it needs of the upstream files.
    """
    unreadable = _refuse_unreadable(source)
    if unreadable:
        return [unreadable]
    reading = _read(source)
    directives = [
        Directive(m[1], m[2], m.start(1), shares_line="\0" in reading.text[m.start() : m.start(1)])
        for m in _DIRECTIVE.finditer(reading.text)
    ]
    searched = reading.text
    known = _Known(include_dirs, included, upstream)
    found: list[tuple[int, str]] = []
    if reading.doubtful:
        searched = reading.joined
        hidden = [Directive(m[1], m[2], m.start(1)) for m in _ANYWHERE.finditer(reading.joined)]
        found.extend(_check_all(hidden, known, hidden=True))
    skipped = frozenset() if reading.doubtful else skipped_offsets(directives, known.macros)
    found.extend(_check_all(directives, known, skipped=skipped))
    found.extend(
        (match.start(), f"{match.group()} is refused: a kernel does not look at files")
        for match in _QUERIES.finditer(searched)
    )
    errors = sorted({(reading.line(offset), message) for offset, message in found})
    return shortened([_error(message, line) for line, message in errors])


def _refuse_unreadable(source: str) -> Diagnostic | None:
    surrogate = re.search("[\ud800-\udfff]", source)
    if surrogate:
        line = source.count("\n", 0, surrogate.start()) + 1
        return _error("this source holds a lone surrogate, which is no character", line)
    if len(source.encode()) > MAX_SOURCE_BYTES:
        return _error(f"this source is larger than {MAX_SOURCE_BYTES} bytes", 1)
    nul = source.find("\0")
    if nul >= 0:
        return _error("this source holds a NUL character", source.count("\n", 0, nul) + 1)
    return None


def _check_all(
    directives: list[Directive],
    known: _Known,
    hidden: bool = False,
    skipped: frozenset[int] = frozenset(),
) -> Iterator[tuple[int, str]]:
    """What is wrong, with its offset. `hidden` directives may be mere text, so most may stay;
    those at `skipped` are none that NVRTC follows.
    """
    shady = _computing_macros(directives)
    for directive in directives:
        message = ""
        if _SECOND.search(directive.rest):
            message = "a # after a comment of several lines is refused in a directive"
        elif directive.name == "include":
            message = _check_include(directive, known, skipped)
        elif directive.name in ("define", "undef") and (named := known.file_naming(directive)):
            message = f"#{directive.name} {named}: it names a file that an upstream file includes"
        elif directive.name in ("if", "elif"):
            message = _check_condition(directive, shady)
        elif hidden:
            marks_line = directive.name[0].isdigit() and '"' in directive.rest
            if directive.name in _NAME_FILES or marks_line:
                message = f"the directive #{directive.name} is refused"
            elif directive.name == "/*":
                message = "a comment inside a directive is refused in a source with such quotes"
        elif directive.name not in _ALLOWED and (
            directive.name or directive.rest.strip(" \t\v\f\r\0")
        ):
            message = f"the directive #{directive.name} is refused"
        if message:
            yield directive.offset, message


def _check_include(directive: Directive, known: _Known, skipped: frozenset[int]) -> str:
    match = _INCLUDE.match(directive.rest)
    if match is None:
        return "#include needs a literal file name; a macro is refused"
    name = match[1] or match[2]
    if directive.offset in skipped or known.is_header(name):
        return ""
    ours = ", ".join(n for n in STAND_INS if n.endswith(".h") and not _OURS_ALONE.match(n))
    usual = f"a kernel source can use CUDA's own headers and {ours}"
    if known.upstream is None:
        return f"cannot include '{name}': {usual}"
    return (
        f"cannot include '{name}': it is no file of upstream.toml; "
        f"{nearest(name, known.upstream.includable)}. Besides those, {usual}"
    )


@dataclass(frozen=True)
class _Known:
    """What a source may include, and the macros of what it includes from the upstream files."""

    include_dirs: tuple[Path, ...]
    included: Included
    upstream: HeaderTree | None

    def is_header(self, name: str) -> bool:
        return name in self.included.names or is_known_header(name, self.include_dirs)

    @cached_property
    def macros(self) -> frozenset[str]:
        """The macros that upstream files and the task define or undefine."""
        defines = self.upstream.defines if self.upstream is not None else ()
        return frozenset((*(d.partition("=")[0] for d in defines), *self._bodies))

    def file_naming(self, directive: Directive) -> str:
        """The macro that a directive changes, if it has a part in the name of an included file."""
        match = _MACRO.match(directive.rest)
        return match[1] if match is not None and match[1] in self._file_naming else ""

    @cached_property
    def _bodies(self) -> dict[str, set[str]]:
        """The words in all bodies of each macro."""
        bodies: dict[str, set[str]] = {}
        for text in self.included.headers.values():
            for name, body in _DEFINED_THERE.findall(text.replace("\\\n", " ")):
                bodies.setdefault(name, set()).update(re.findall(r"[^\W\d]\w*", body))
        return bodies

    @cached_property
    def _file_naming(self) -> frozenset[str]:
        waiting = [
            word
            for text in self.included.headers.values()
            for m in _NAMED_BY_MACRO.finditer(text.replace("\\\n", " "))
            for word in re.findall(r"[^\W\d]\w*", m[1] or m[2])
        ]
        found: set[str] = set()
        while waiting:
            word = waiting.pop()
            if word not in found:
                found.add(word)
                waiting.extend(self._bodies.get(word, ()))
        return frozenset(found)


def is_known_header(name: str, include_dirs: tuple[Path, ...]) -> bool:
    """Whether a name is that of a stand-in, or of a header of CUDA in one of these folders."""
    return name in STAND_INS or _is_header(name, include_dirs)


@lru_cache(maxsize=4096)
def _is_header(name: str, include_dirs: tuple[Path, ...]) -> bool:
    if Path(name).is_absolute() or ".." in Path(name).parts or "\\" in name:
        return False
    try:
        return any((root / name).is_file() for root in include_dirs)
    except OSError:  # The name is too long.
        return False


def _check_condition(directive: Directive, shady: set[str]) -> str:
    condition = directive.rest.partition("//")[0]
    if _QUERIES.search(condition):
        return ""  # It is reported with those outside of conditions.
    if re.search(r"[\"'\\]|/\*", condition):
        return f"#{directive.name} may hold names, numbers and operators only"
    used = _foreign_calls(condition) | shady & set(re.findall(r"\w+", condition))
    if used:
        return (
            f"#{directive.name} may not use the macro {min(used)}, which takes arguments or "
            "pastes names together"
        )
    return ""


def _foreign_calls(text: str) -> set[str]:
    return set(_CALL.findall(text)) - _CALLABLE_IN_IF


def _computing_macros(directives: Iterable[Directive]) -> set[str]:
    """Macros that take arguments or paste names, and those that mention one of these."""
    users: dict[str, set[str]] = {}
    shady: set[str] = set()
    for directive in directives:
        match = _MACRO.match(directive.rest) if directive.name == "define" else None
        if match:
            body = directive.rest[match.end(1) :]
            for word in re.findall(r"\w+", body):
                users.setdefault(word, set()).add(match[1])
            if match[2] or "##" in body or "%:%:" in body or _foreign_calls(body):
                shady.add(match[1])
    waiting = list(shady)
    while waiting:
        more = users.get(waiting.pop(), set()) - shady
        shady |= more
        waiting.extend(more)
    return shady


def _read(source: str) -> _Reading:
    joined, starts, numbers = _join_lines(source)
    doubtful = False

    def blank(match: re.Match[str]) -> str:
        nonlocal doubtful
        doubtful = doubtful or _is_doubtful(match)
        if match["literal"]:
            return match.group()
        last = _NEW_LINE if match["comment"] and "\n" in match.group() else " "
        return " " * (len(match.group()) - 1) + last

    text = _TOKEN.sub(blank, joined)
    return _Reading(joined, text, doubtful, starts, numbers)


def _is_doubtful(token: re.Match[str]) -> bool:
    """Whether NVRTC might find the end of these quotes, or a comment in them, elsewhere."""
    if token["literal"] is None:
        return token["raw"] is not None
    before = token.string[max(token.start() - 1, 0) : token.start()]
    glued = before == "R" if token["quote"] == '"' else before.isalnum() or before == "_"
    return glued or not token["end"] or _MISLEADING.search(token["content"]) is not None


def _join_lines(source: str) -> tuple[str, list[int], list[int]]:
    """The text without line splices; then where a line begins in it, and that line's number."""
    pieces: list[str] = []
    starts, numbers = [0], [1]
    offset = begin = 0
    for match in _LINE_END.finditer(source):
        spliced = match.group() != "\n"
        piece = source[begin : match.start() if spliced else match.end()]
        pieces.append(piece)
        offset += len(piece)
        begin = match.end()
        starts.append(offset)
        numbers.append(numbers[-1] + 1)
    pieces.append(source[begin:])
    return "".join(pieces), starts, numbers


def _error(message: str, line: int) -> Diagnostic:
    return Diagnostic(Severity.ERROR, message, line)
