"""The profiling agent: a profile in words, with no numbers but the profile's own."""

from __future__ import annotations

from astra_tui.llm.roles.asking import NO_ADVICE, Asker, Step
from astra_tui.llm.roles.facts import measured_text, task_text
from astra_tui.llm.roles.numbers import strike_numbers
from astra_tui.llm.roles.prompts import Data, compose, in_words, numbered, prompt_text
from astra_tui.model.team import Brief, OnText, Role

MAX_WORDS = 160


async def name_bottleneck(asker: Asker, brief: Brief, on_text: OnText) -> str:
    """The bottleneck in words; empty without a profile, or where the model gave no answer."""
    if brief.profile is None:
        return ""
    try:
        said = await asker.say(
            Step(Role.PROFILING, "read profile", profiling_prompt(brief)), on_text
        )
    except NO_ADVICE:
        return ""
    return strike_numbers(in_words(said, MAX_WORDS), measured_text(brief))


def profiling_prompt(brief: Brief) -> str:
    """The prompt for a reading of the profile."""
    return compose(
        "profile",
        {
            "round": str(brief.round),
            "words": str(MAX_WORDS),
            "counts_legend": prompt_text("counts_legend"),
        },
        {
            "task": Data("task", task_text(brief.task)),
            "source": Data("kernel source", numbered(brief.source)),
            "profile": Data("profile", measured_text(brief)),
        },
    )
