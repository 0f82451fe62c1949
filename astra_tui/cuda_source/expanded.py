"""The text of a translation with macros expanded, at the lines of its main file where it can be."""

from __future__ import annotations

import re
from collections.abc import Iterable

from astra_tui.cuda_source.translation import Declaration, Translation

_WORD = re.compile(r"[A-Za-z_]\w*")
_MACRO_CALL = re.compile(r"\b[A-Z][A-Z0-9_]{4,}\s*\(")
_LAUNCHES = ("<<<", "cudaLaunch")
_LOOK_AHEAD = 40
"""Lines of the original that one line may skip: comments and dead branches."""


def expanded_text(translation: Translation) -> str:
    """The main file's declarations, and after them what they need of the project's headers.

    What stands on a line of the main file stands there in the text too, as far as macros let it
    be found again; `#pragma` lines are left out.
    """
    main = [d for d in translation.declarations if d.file == translation.main]
    source = translation.files[translation.main]
    original, data = source.split("\n"), source.encode()
    lines = [""] * (len(original) + 1)
    for declaration in main:
        text = translation.original(declaration) if _lost(translation, declaration) else None
        place = declaration.line - 1
        lines[place] += "".join(f"namespace {name} {{ " for name in declaration.scope)
        own = original[: data.count(b"\n", 0, declaration.end) + 1]
        place = _write_aligned(text or declaration.text, own, lines, place)
        lines[place] += " }" * len(declaration.scope) + " "
    for declaration in needed(translation, main):
        if declaration.file != translation.main:
            opened = "".join(f"namespace {name} {{ " for name in declaration.scope)
            lines.append(f"{opened}{declaration.text}{' }' * len(declaration.scope)}")
    return "\n".join(lines) + "\n"


def needed(translation: Translation, roots: Iterable[Declaration]) -> list[Declaration]:
    """The declarations that define a name which `roots` mention, directly or not, in order.

    `roots` are among them. Macros are expanded, so what only a macro's text names is found.
    """
    by_name: dict[str, list[Declaration]] = {}
    for declaration in translation.declarations:
        for name in (declaration.name, *declaration.enumerators):
            by_name.setdefault(name, []).append(declaration)
    chosen: dict[int, None] = {}
    waiting = list(roots)
    while waiting:
        declaration = waiting.pop()
        if id(declaration) in chosen:
            continue
        chosen[id(declaration)] = None
        for word in mentioned(declaration.text):
            waiting += by_name.get(word, ())
    return [d for d in translation.declarations if id(d) in chosen]


def mentioned(text: str) -> set[str]:
    """The names that a text mentions outside of strings."""
    return set(_WORD.findall(re.sub(r'"(?:\\.|[^"\\\n])*"', " ", text)))


def _lost(translation: Translation, declaration: Declaration) -> bool:
    """Whether host code reads better as it is written: a part of it was not understood.

    A launch is missing, or there are gaps, and no macro that would have to be expanded.
    """
    if declaration.is_kernel or declaration.is_device:
        return False
    original = translation.original(declaration)
    if any(mark in original and mark not in declaration.text for mark in _LAUNCHES):
        return True
    return "astra_unknown(" in declaration.text and _MACRO_CALL.search(original) is None


def _write_aligned(text: str, original: list[str], lines: list[str], place: int) -> int:
    """Writes each line of a text where the original has it, else where the last one is.

    Returns the place of the last.
    """
    for line in text.split("\n"):
        if line.lstrip().startswith("#pragma"):
            continue
        words = _WORD.findall(line)[:4]
        ahead = range(place, min(place + _LOOK_AHEAD, len(original))) if words else ()
        place = next((n for n in ahead if _WORD.findall(original[n])[: len(words)] == words), place)
        lines[place] += f"{line.strip()} "
    return place
