"""What a kernel task can be called: exports make files, functions and macros of its name."""

from __future__ import annotations

import keyword
import re

MAX_LENGTH = 64
NAME_RULE = (
    f"a small letter, then small letters, digits and underscores: {MAX_LENGTH} at most, and no "
    "keyword of C++ or Python"
)

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_CPP_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
wchar_t while xor xor_eq
"""


def is_task_name(name: str) -> bool:
    """Whether a task can have this name; `NAME_RULE` says which can."""
    return (
        _NAME.fullmatch(name) is not None
        and len(name) <= MAX_LENGTH
        and name not in _CPP_KEYWORDS.split()
        and not keyword.iskeyword(name)
    )
