"""What code has to keep to: the launch plan's language and what the emulator refuses.

The first follows from the tables of the model that parse; the second from the emulator's table, by
docs/generate.py.
"""

from __future__ import annotations

from functools import cache
from string import Template

from astra_tui.llm.roles.prompts import prompt_text
from astra_tui.model.launch.parser import MAX_STEPS
from astra_tui.model.launch.scope import DEVICE_ATTRIBUTES, FUNCTIONS


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
