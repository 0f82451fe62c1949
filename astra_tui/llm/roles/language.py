"""What code has to keep to: the launch plan's language and what the emulator refuses.

Both follow from the tables of the model that parse and refuse.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby
from string import Template

from astra_tui.llm.roles.material import prompt_text
from astra_tui.model.launch.parser import MAX_STEPS
from astra_tui.model.launch.scope import DEVICE_ATTRIBUTES, FUNCTIONS
from astra_tui.model.opcodes import REFUSED


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


@cache
def refusals() -> str:
    """Instructions that the emulator does not run, and what to do, one reason a line."""
    entries = sorted(REFUSED, key=lambda r: (r.what, r.advice))
    lines = []
    for (what, advice), group in groupby(entries, key=lambda r: (r.what, r.advice)):
        names = ", ".join(r.prefix for r in group)
        lines.append(f"- {names} ({what}): {advice}")
    return "\n".join(lines)


@cache
def refused_features() -> str:
    """The same in one line, for a planner."""
    return "; ".join(sorted({r.what for r in REFUSED}))
