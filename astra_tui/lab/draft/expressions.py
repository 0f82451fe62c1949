"""C++ integer expressions of host code, rewritten in the launch plan's language."""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_SUBSTITUTIONS = 16

_CAST = re.compile(
    r"\(\s*(?:const\s+)?(?:unsigned(?:\s+(?:int|long))?|int|long(?:\s+long)?|size_t|u?int\d+_t)\s*\)"
)
_STATIC_CAST = re.compile(r"static_cast\s*<[^>]*>\s*(?=\()")
_CEIL = re.compile(
    r"\(\s*(?P<n>[\w\s*]+?)\s*\+\s*(?P<b>\w+)\s*-\s*1\s*\)\s*/\s*(?P=b)(?!\w)"
    r"|\(\s*(?P<n2>[\w\s*]+?)\s*\+\s*\(\s*(?P<b2>\w+)\s*-\s*1\s*\)\s*\)\s*/\s*(?P=b2)(?!\w)"
)
_CEIL_NUMBER = re.compile(r"\(\s*(?P<n>[\w\s*]+?)\s*\+\s*(?P<a>\d+)\s*\)\s*/\s*(?P<b>\d+)(?!\w)")
_SIZES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "int": "int32",
}


def to_plan_expression(
    text: str, values: Mapping[str, tuple[str, ...]], constants: Mapping[str, str]
) -> str:
    """Rewrites a C++ expression; local names and constants are replaced by what they stand for.

    The result still has to be parsed as a plan's expression: not everything can be rewritten.
    """
    text = _without_casts(text)
    for _ in range(MAX_SUBSTITUTIONS):
        replaced = re.sub(
            r"(?<![\w.])[A-Za-z_]\w*(?![\w(])", lambda m: _known(m[0], values, constants), text
        )
        replaced = _without_casts(replaced)
        if replaced == text:
            break
        text = replaced
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text)
    text = _CEIL.sub(_ceil, text)
    text = _CEIL_NUMBER.sub(_ceil_number, text)
    text = re.sub(r"\bstd::(min|max)\b(?:<[^>]*>)?", r"\1", text)
    text = re.sub(r"sizeof\(\s*(\w+)\s*\)", lambda m: f"sizeof({_SIZES.get(m[1], 'T')})", text)
    text = text.replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"(?<!/)/(?!/)", "//", text)
    ternary = re.match(r"^(.+?)\?(.+?):(.+)$", text)
    if ternary:
        text = f"({ternary[2].strip()} if {ternary[1].strip()} else {ternary[3].strip()})"
    return _without_needless_parentheses(" ".join(text.split()))


def _without_casts(text: str) -> str:
    return _STATIC_CAST.sub("", _CAST.sub("", text))


def _known(name: str, values: Mapping[str, tuple[str, ...]], constants: Mapping[str, str]) -> str:
    if name in values and len(values[name]) == 1:
        return _wrapped(values[name][0])
    if name in constants:
        return _wrapped(constants[name])
    return name


def _wrapped(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def _ceil(match: re.Match[str]) -> str:
    return f"ceil_div({(match['n'] or match['n2']).strip()}, {match['b'] or match['b2']})"


def _ceil_number(match: re.Match[str]) -> str:
    if int(match["a"]) + 1 == int(match["b"]):
        return f"ceil_div({match['n'].strip()}, {match['b']})"
    return match[0]


def _without_needless_parentheses(text: str) -> str:
    while text.startswith("(") and text.endswith(")"):
        depth = 0
        for position, character in enumerate(text):
            depth += (character == "(") - (character == ")")
            if depth == 0 and position < len(text) - 1:
                return text
        text = text[1:-1].strip()
    return re.sub(r"\((\w+)\)", lambda m: m[1], text) if re.fullmatch(r"\(\w+\)", text) else text
