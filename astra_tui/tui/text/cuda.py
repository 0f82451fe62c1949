"""What each piece of a kernel source is, line by line, for colouring; and which pieces are prose.

The lexer is Pygments' CudaLexer. The launch plan is a comment for the compiler but code for the
engineer, so it is read by a small lexer of its own. A source is read in slices of time: the lexer
takes about 50 microseconds a line, too long for a thread that also answers keys.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from pygments.lexers.c_like import CudaLexer
from pygments.token import Comment, Keyword, Name, Number, String

from astra_tui.model.launch import DEVICE_ATTRIBUTES
from astra_tui.tui.text.visible import Range

LONGEST_LINE = 2000
"""Longer lines stay plain: Pygments' patterns take quadratic time on some texts."""


class Role(StrEnum):
    """What a piece of source is; a pane has one style for each."""

    KEYWORD = "keyword"
    TYPE = "type"
    BUILTIN = "builtin"
    NAME = "name"
    NUMBER = "number"
    STRING = "string"
    COMMENT = "comment"
    DIRECTIVE = "directive"
    LAUNCH = "launch"


Span = tuple[int, int, Role]
"""Begin and end in the characters of one line, and the role of what stands there."""

_ROLES: tuple[tuple[Any, Role], ...] = (
    (Comment.Preproc, Role.DIRECTIVE),
    (Comment.PreprocFile, Role.STRING),
    (Comment, Role.COMMENT),
    (Keyword.Type, Role.TYPE),
    (Keyword, Role.KEYWORD),
    (Name.Builtin, Role.BUILTIN),
    (Name.Function, Role.NAME),
    (Name.Class, Role.NAME),
    (String, Role.STRING),
    (Number, Role.NUMBER),
)

_CUDA_TYPE = re.compile(r"(?:half2?|__half2?(?:_raw)?|__nv_\w+|nv_bfloat162?|float\d+x?\d*)\Z")

_PLAN = re.compile(r"/\*[\s*!]*@launch(?![\w-])")

_PLAN_TOKENS = re.compile(
    r"""(?P<launch>/\*|\*/|@launch\b)
      | (?P<comment>\#[^\n]*?(?=\*/|\n|\Z))
      | (?P<string>"[^"\n]*")
      | (?P<number>\b\d\w*)
      | (?P<keyword>\b(?:let|tune|workspace|when|otherwise|refuse|if|else|and|or|not|in)\b
                   |\b(?:grid|block|shared|args|cluster|pdl|cooperative|stream)(?==(?!=)))
      | (?P<name>(?:^|(?<=:))[ \t]*[A-Za-z_]\w*(?=<|[ \t]+(?:grid|block)=))
      | (?P<word>\b[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.MULTILINE,
)
_PLAN_BUILTINS = frozenset(
    {"min", "max", "ceil_div", "aligned", "stride", "sizeof", *DEVICE_ATTRIBUTES}
)
_PLAN_TYPES = frozenset({"T", "float16", "bfloat16", "float32", "float64", "int32", "int64"})

_PROSE = re.compile(
    r"""\b(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"
      | "(?:\\\r?\n|\\.|[^"\\\n])*"
      | \b[0-9](?:'?\w)*
      | '(?:\\.|[^'\\\n])*'
      | //(?:\\\r?\n|[^\n])*
      | /\*.*?\*/
    """,
    re.VERBOSE | re.DOTALL,
)


class Highlighter:
    """The spans of one source, computed a slice at a time.

    Lines before `ready` have their spans; the others have none yet.
    """

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        self._lines: list[tuple[Span, ...]] = [()] * (len(lines) + 1)
        self._tokens = self._read(lines)
        self.ready = 0
        self.done = False

    def advance(self, seconds: float) -> bool:
        """Goes on for about some seconds; whether all lines are done."""
        end = time.perf_counter() + seconds
        while not self.done:
            if next(self._tokens, None) is None:
                self.ready = len(self._lines)
                self.done = True
            elif time.perf_counter() >= end:
                break
        return self.done

    def spans(self, line: int) -> tuple[Span, ...]:
        """The spans of a line counted from 0, in order; nothing for plain text."""
        return self._lines[line] if line < len(self._lines) else ()

    def _read(self, lines: list[str]) -> Iterator[int]:
        """Fills the spans line by line, giving way after each token."""
        # The lexer knows a line comment only by the line feed at its end.
        source = "".join((line if len(line) <= LONGEST_LINE else "") + "\n" for line in lines)
        spans: list[Span] = []
        line = column = 0
        for role, text in _tokens(source):
            for index, piece in enumerate(text.split("\n")):
                if index:
                    self._lines[line] = tuple(spans)
                    spans = []
                    line, column = line + 1, 0
                    self.ready = line
                if piece and role is not None:
                    spans.append((column, column + len(piece), role))
                column += len(piece)
            yield line
        self._lines[line] = tuple(spans)


def prose_of(text: str) -> list[list[Range]]:
    """For each line, the ranges that are comments or strings: where any script may be written."""
    begins = [0]
    for content in text.split("\n"):
        begins.append(begins[-1] + len(content) + 1)
    found: list[list[Range]] = [[] for _ in begins[1:]]
    for match in _PROSE.finditer(text):
        if match.group()[0].isdigit():
            continue
        begin, end = match.span()
        line = bisect_right(begins, begin) - 1
        while line < len(found) and begins[line] < end:
            first, last = begins[line], begins[line + 1]
            found[line].append((max(begin, first) - first, min(end, last) - first))
            line += 1
    return found


def _tokens(source: str) -> Iterator[tuple[Role | None, str]]:
    for _, kind, value in CudaLexer().get_tokens_unprocessed(source):
        if kind in Comment and _PLAN.match(value):
            yield from _plan_tokens(value)
        else:
            yield _role(kind, value), value


def _role(kind: Any, value: str) -> Role | None:
    for ancestor, role in _ROLES:
        if kind in ancestor:
            return role
    if kind in Name:
        if _CUDA_TYPE.match(value):
            return Role.TYPE
        if value.startswith("__"):
            return Role.BUILTIN
    return None


def _plan_tokens(plan: str) -> Iterator[tuple[Role | None, str]]:
    done = 0
    for match in _PLAN_TOKENS.finditer(plan):
        if match.start() > done:
            yield None, plan[done : match.start()]
        yield _plan_role(match), match.group()
        done = match.end()
    if done < len(plan):
        yield None, plan[done:]


def _plan_role(match: re.Match[str]) -> Role | None:
    kind = match.lastgroup
    if kind != "word":
        return Role(kind) if kind else None
    if match.group() in _PLAN_BUILTINS:
        return Role.BUILTIN
    return Role.TYPE if match.group() in _PLAN_TYPES else None
