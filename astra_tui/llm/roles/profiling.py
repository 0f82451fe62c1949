"""The profiling agent: a profile in words, with no numbers but the profile's own.

Agents comment on numbers and never produce them: those that were not measured are struck out.
"""

from __future__ import annotations

import re

from astra_tui.llm.roles.asking import Asker, Step
from astra_tui.llm.roles.facts import (
    device_text,
    goal_text,
    included_text,
    measured_text,
    said_text,
    task_text,
)
from astra_tui.llm.roles.prompts import Data, compose, in_words, numbered, prompt_text
from astra_tui.llm.roles.toolbox import Toolbox, open_toolbox, tools_text
from astra_tui.model.roles import Role
from astra_tui.model.team import Brief, OnText

MAX_WORDS = 160


async def name_bottleneck(asker: Asker, brief: Brief, on_text: OnText) -> str:
    """The bottleneck in words; empty without a profile, or where the model gave no answer."""
    if brief.profile is None:
        return ""
    box = open_toolbox(brief, Role.PROFILING)
    step = Step(Role.PROFILING, "read profile", profiling_prompt(brief, box))
    said = await asker.advise(step, on_text, box)
    told = box.transcript() if box is not None else ""
    known = f"{device_text(brief)}\n{measured_text(brief)}\n{told}"
    return strike_numbers(in_words(said, MAX_WORDS), known)


def profiling_prompt(brief: Brief, box: Toolbox | None = None) -> str:
    """The prompt for a reading of the profile."""
    return compose(
        "profile",
        {
            "round": str(brief.round),
            "words": str(MAX_WORDS),
            "counts_legend": prompt_text("counts_legend"),
            "goal": goal_text(brief),
            "included": included_text(brief),
            "tools": tools_text(box),
        },
        {
            "task": Data("task", task_text(brief.task)),
            "source": Data("kernel source", numbered(brief.source)),
            "device": Data("device", device_text(brief)),
            "said": Data("words of the engineer", said_text(brief)),
            "profile": Data("profile", measured_text(brief)),
        },
    )


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
