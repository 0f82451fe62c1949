"""Prompts from files, with data that cannot pass for instructions.

Kernel sources, logs, notes and what models wrote may hold sentences that address the model. They
stand between marks that nothing inside can close; the system prompt says that they are data. No
prompt can stop a model from obeying them all the same: what protects is that models decide nothing.

What code has to keep to follows from tables: the launch plan's language from those that parse it,
what the emulator refuses from its own, by docs/generate.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

from astra_tui.model.digest import content_hash
from astra_tui.model.launch.parser import MAX_STEPS
from astra_tui.model.launch.scope import DEVICE_ATTRIBUTES, FUNCTIONS

MARK_LENGTH = 12
NOTHING = "(none)"


@dataclass(frozen=True)
class Data:
    """Text that others wrote; `kind` says what it is, in words of ours."""

    kind: str
    text: str


@cache
def prompt_text(name: str) -> str:
    """The text of a prompt file."""
    file = files("astra_tui.llm") / "prompts" / f"{name}.txt"
    return file.read_text(encoding="utf-8")


def compose(name: str, words: Mapping[str, str], data: Mapping[str, Data]) -> str:
    """A prompt file with its placeholders filled. Raises KeyError for one that nothing fills."""
    mark = data_mark(d.text for d in data.values())
    blocks = {key: _block(d, mark) for key, d in data.items()}
    return Template(prompt_text(name)).substitute({**words, **blocks})


def data_mark(texts: Iterable[str]) -> str:
    """A mark that is in none of the texts; it follows from them, so that recordings replay."""
    everything = "\0".join(texts)
    mark = content_hash(everything)[:MARK_LENGTH]
    while mark in everything:
        mark = content_hash(mark)[:MARK_LENGTH]
    return mark


def clipped(text: str, most: int) -> str:
    """A text of bounded length that says how much was left out."""
    return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} characters more]"


def in_words(text: str, most: int) -> str:
    """At most so many words of a text, on one line."""
    words = text.split()
    return " ".join(words) if len(words) <= most else " ".join(words[:most]) + " ..."


def numbered(source: str) -> str:
    """A source with its line numbers, counted from 1."""
    lines = source.removesuffix("\n").split("\n")
    width = len(str(len(lines)))
    return "\n".join(f"{n:{width}d} | {line}" for n, line in enumerate(lines, 1))


def _block(data: Data, mark: str) -> str:
    if not data.text.strip():
        return NOTHING
    text = data.text.removesuffix("\n")
    return f'<data id="{mark}" kind="{data.kind}">\n{text}\n</data id="{mark}">'


@cache
def launch_plan_rules() -> str:
    """The language of launch plans."""
    return Template(prompt_text("launch_plan")).substitute(
        example=prompt_text("launch_example").strip(),
        grammar=prompt_text("launch_grammar"),
        functions="; ".join(FUNCTIONS.values()),
        attributes=", ".join(DEVICE_ATTRIBUTES),
        steps=MAX_STEPS,
    )


def refusals() -> str:
    """Instructions that the emulator does not run, and what to do, one reason a line."""
    return prompt_text("refused_instructions").rstrip()


def refused_features() -> str:
    """The same in one line, for a planner."""
    return prompt_text("refused_features").rstrip()
