"""Finds the parts of a source that NVRTC's preprocessor surely skips.

Only what is certain counts: conditions over 0, 1, `defined` and a few names that NVRTC always or
never defines and that the source itself leaves alone. All other conditions may go either way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NEVER = frozenset(
    {
        *("USE_ROCM", "__HIP__", "__HIPCC__", "__HIPCC_RTC__", "__HIP_DEVICE_COMPILE__"),
        *("__HIP_PLATFORM_AMD__", "__HIP_PLATFORM_HCC__", "USE_MUSA", "__MUSACC__", "USE_MACA"),
        *("_WIN32", "_WIN64", "_MSC_VER", "__APPLE__"),
    }
)
"""Macros of other platforms: neither NVRTC nor CUDA's headers define them, on Linux."""

_ALWAYS = frozenset({"__CUDACC__", "__CUDACC_RTC__", "__cplusplus"})
"""Macros that NVRTC always defines."""

_CHANGES = {"define", "undef"}
_OPENS = {"if", "ifdef", "ifndef"}
_BLANK = " \t\v\f\r\0"
_PLAIN_NAME = re.compile(rf"[{_BLANK}]*[A-Za-z_][A-Za-z_0-9]*(?:[{_BLANK}(]|$)")
_NAME = re.compile(rf"[{_BLANK}]*(\w+)")
_DEFINED = re.compile(rf"defined[{_BLANK}]*(?:\([{_BLANK}]*(\w+)[{_BLANK}]*\)|[{_BLANK}](\w+))")
_COMPARED = re.compile(
    r"(?:CUDA_VERSION|CUDART_VERSION|__CUDA_ARCH__|__CUDACC_VER_MAJOR__|ROCM_VERSION|HIP_VERSION)"
    rf"[{_BLANK}]*(?:[<>]=?|[!=]=)[{_BLANK}]*\d+"
)
_TOKEN = re.compile(rf"[{_BLANK}]*({_DEFINED.pattern}|{_COMPARED.pattern}|[01]\b|&&|\|\||[!()])")

Truth = bool | None
"""None where it is not known."""


@dataclass(frozen=True)
class Directive:
    """A directive, by its name, what follows it on its line, and where it stands."""

    name: str
    rest: str
    offset: int
    shares_line: bool = False
    """Whether a comment of several lines ends on its line, before it."""


@dataclass
class _Open:
    """An #if whose #endif has not come yet."""

    skipped: bool
    """Whether all of it stands in a part that is skipped."""
    taken: bool
    """Whether one of its branches so far is surely the one that is taken."""
    dead: bool
    """Whether the branch that the scan is in is surely skipped."""
    last: bool = False
    """Whether its #else has come."""


def skipped_offsets(
    directives: Iterable[Directive], elsewhere: frozenset[str] = frozenset()
) -> frozenset[int]:
    """The offsets of the directives that NVRTC surely skips; none where #if and #endif do not
    match, or where it is in doubt what a name or a line is. `directives` are all of a source, in
    order, free of comments and line splices; `elsewhere` are macros that others change.
    """
    known = list(directives)
    if any(_is_odd(directive) for directive in known):
        return frozenset()
    touched = {m[1] for d in known if d.name in _CHANGES and (m := _NAME.match(d.rest))}
    touched |= elsewhere
    stack: list[_Open] = []
    skipped: set[int] = set()
    for directive in known:
        if directive.name in _OPENS:
            stack.append(_opened(directive, bool(stack) and stack[-1].dead, touched))
        elif directive.name in ("elif", "else", "endif"):
            if not stack or (stack[-1].last and directive.name != "endif"):
                return frozenset()
            if directive.name == "endif":
                stack.pop()
            else:
                _turn(stack[-1], directive, touched)
        elif stack and stack[-1].dead:
            skipped.add(directive.offset)
    return frozenset() if stack else frozenset(skipped)


def _is_odd(directive: Directive) -> bool:
    """Whether a directive shares its line with the end of a comment of several lines, or changes
    a macro with an unusual name.
    """
    if directive.name in _CHANGES:
        return _PLAIN_NAME.match(directive.rest) is None
    branches = directive.name in _OPENS | {"elif", "else", "endif"}
    return branches and (directive.shares_line or "\0" in directive.rest)


def _opened(directive: Directive, skipped: bool, touched: set[str]) -> _Open:
    truth = _condition(directive, touched)
    return _Open(skipped, truth is True, skipped or truth is False)


def _turn(opened: _Open, directive: Directive, touched: set[str]) -> None:
    """Moves to the next branch."""
    opened.last = directive.name == "else"
    truth = True if directive.name == "else" else _condition(directive, touched)
    opened.dead = opened.skipped or opened.taken or truth is False
    opened.taken = opened.taken or truth is True


def _condition(directive: Directive, touched: set[str]) -> Truth:
    text = directive.rest.strip(_BLANK)
    if directive.name in ("ifdef", "ifndef"):
        truth = _is_defined(text, touched)
        return truth if directive.name == "ifdef" or truth is None else not truth
    tokens = _tokens(text)
    return _Evaluator(tokens, touched).whole() if tokens else None


def _is_defined(name: str, touched: set[str]) -> Truth:
    if name in touched or name not in _NEVER | _ALWAYS:
        return None
    return name in _ALWAYS


def _tokens(text: str) -> list[str]:
    """The parts of a condition; empty where there is one of another kind."""
    tokens = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return []
        tokens.append(match[1])
        position = match.end()
    return tokens


class _Evaluator:
    """`a || b && !c` over truths of which some are not known, from left to right."""

    def __init__(self, tokens: list[str], touched: set[str]):
        self.tokens = [*tokens, ""]
        self.touched = touched
        self.at = 0

    def whole(self) -> Truth:
        try:
            truth = self._either()
        except (_Unreadable, RecursionError):
            return None
        return truth if self.at == len(self.tokens) - 1 else None

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _either(self) -> Truth:
        truths = [self._both()]
        while self.tokens[self.at] == "||":
            self._next()
            truths.append(self._both())
        return True if True in truths else None if None in truths else False

    def _both(self) -> Truth:
        truths = [self._one()]
        while self.tokens[self.at] == "&&":
            self._next()
            truths.append(self._one())
        return False if False in truths else None if None in truths else True

    def _one(self) -> Truth:
        token = self._next()
        if token == "!":
            truth = self._one()
            return None if truth is None else not truth
        if token == "(":
            truth = self._either()
            if self._next() != ")":
                raise _Unreadable
            return truth
        if token in ("0", "1"):
            return token == "1"
        if match := _DEFINED.fullmatch(token):
            return _is_defined(match[1] or match[2], self.touched)
        if _COMPARED.fullmatch(token) and not self.touched & set(re.findall(r"\w+", token)):
            return None
        raise _Unreadable


class _Unreadable(Exception):
    """A condition that is not of the kind that is understood."""
