"""Agents comment on numbers and never produce them: strikes out those that no one measured."""

from __future__ import annotations

import re

REMOVED = "[number removed]"

_SIGN_NUMBERS = (
    "\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2079\u2080-\u2089\u2150-\u218b\u2460-\u249b"
)
_TOKEN = re.compile(
    rf"(?P<times>[xX](?P<factor>\d+(?:\.\d+)?))"
    rf"|(?P<word>[^\W\d{_SIGN_NUMBERS}][^\W{_SIGN_NUMBERS}]*)"
    rf"|(?P<number>0[xX][0-9a-fA-F]+|\d+(?:[,_']\d{{3}})+(?:\.\d+)?|\d*\.?\d+(?:[eE][+-]?\d+)?)"
    rf"|(?P<sign>[{_SIGN_NUMBERS}]+)"
)


def strike_numbers(text: str, data: str) -> str:
    """The text with `REMOVED` in place of every number that is not in `data`.

    Numbers are compared by value, so that 4,096 is 4096. Names such as `float16` or `L2` are no
    numbers; numbers written as words are not found.
    """
    known = {_value(m["number"]) for m in _TOKEN.finditer(data) if m["number"]}

    def judged(match: re.Match[str]) -> str:
        if match["word"]:
            return match[0]
        number = match["number"] or match["factor"]
        if number and _value(number) in known:
            return match[0]
        return REMOVED

    return _TOKEN.sub(judged, text)


def _value(number: str) -> float:
    plain = re.sub(r"[,_']", "", number)
    if plain[:2].lower() == "0x":
        return float(int(plain, 16))
    return float(plain)
