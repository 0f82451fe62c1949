"""Finding the JSON object in an answer that says more than it should."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
END_OF_THOUGHT = re.compile(r"</think(?:ing)?>")
MAX_STARTS = 200
"""Places of a text at which an object is looked for; bounds the work on hostile texts."""


def json_candidates(text: str) -> Iterator[str]:
    """Parts of an answer that may be its JSON object, the likeliest first.

    The whole answer, then without its thoughts, then fenced blocks, then objects in running
    text; of several the last comes first, because examples precede the answer.
    """
    text = text.lstrip("\ufeff").strip()
    spoken = without_thoughts(text)
    seen: set[str] = set()
    for part in (text, spoken, *_fenced(spoken), *_objects(spoken), *_objects(text)):
        if part.startswith("{") and part not in seen:
            seen.add(part)
            yield part


def without_thoughts(text: str) -> str:
    """An answer without `<think>` blocks, also where a chat template ate the opening tag."""
    text = THOUGHT.sub("", text)
    return END_OF_THOUGHT.split(text)[-1].lstrip("\ufeff").strip()


def _fenced(text: str) -> list[str]:
    return [block.strip() for block in reversed(FENCED.findall(text))]


def _objects(text: str) -> list[str]:
    """The outermost JSON objects of a text, last first."""
    decoder = json.JSONDecoder()
    found: list[str] = []
    start = text.find("{")
    for _ in range(MAX_STARTS):
        if start < 0:
            break
        end = start + 1
        try:
            _, end = decoder.raw_decode(text, start)
            found.append(text[start:end])
        except (ValueError, RecursionError):
            pass
        start = text.find("{", end)
    return found[::-1]
