"""What each piece of a kernel source is: Pygments' CudaLexer, and our lexer of launch plans.

The launch plan is a comment for the compiler but code for the engineer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pygments.lexers.c_like import CudaLexer
from pygments.token import Comment, Keyword, Name, Number, String

from astra_tui.model.dtypes import PLAN_TYPES, DType
from astra_tui.model.launch import DEVICE_ATTRIBUTES
from astra_tui.tui.text.cuda import TokenKind

_ROLES: tuple[tuple[Any, TokenKind], ...] = (
    (Comment.Preproc, TokenKind.DIRECTIVE),
    (Comment.PreprocFile, TokenKind.STRING),
    (Comment, TokenKind.COMMENT),
    (Keyword.Type, TokenKind.TYPE),
    (Keyword, TokenKind.KEYWORD),
    (Name.Builtin, TokenKind.BUILTIN),
    (Name.Function, TokenKind.NAME),
    (Name.Class, TokenKind.NAME),
    (String, TokenKind.STRING),
    (Number, TokenKind.NUMBER),
)

_CUDA_TYPES = frozenset(
    name for dtype in DType if dtype.is_float for name in (*dtype.spellings, *dtype.vectors)
)

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
_PLAN_TYPES = frozenset({"T", *PLAN_TYPES})


def tokens_of(source: str) -> Iterator[tuple[TokenKind | None, str]]:
    """The pieces of a source from first to last; None is plain."""
    for _, kind, value in CudaLexer().get_tokens_unprocessed(source):
        if kind in Comment and _PLAN.match(value):
            yield from _plan_tokens(value)
        else:
            yield _role(kind, value), value


def _role(kind: Any, value: str) -> TokenKind | None:
    for ancestor, role in _ROLES:
        if kind in ancestor:
            return role
    if kind in Name:
        if value in _CUDA_TYPES or value.startswith("__nv_"):
            return TokenKind.TYPE
        if value.startswith("__"):
            return TokenKind.BUILTIN
    return None


def _plan_tokens(plan: str) -> Iterator[tuple[TokenKind | None, str]]:
    done = 0
    for match in _PLAN_TOKENS.finditer(plan):
        if match.start() > done:
            yield None, plan[done : match.start()]
        yield _plan_role(match), match.group()
        done = match.end()
    if done < len(plan):
        yield None, plan[done:]


def _plan_role(match: re.Match[str]) -> TokenKind | None:
    kind = match.lastgroup
    if kind != "word":
        return TokenKind(kind) if kind else None
    if match.group() in _PLAN_BUILTINS:
        return TokenKind.BUILTIN
    return TokenKind.TYPE if match.group() in _PLAN_TYPES else None
