"""The names that a launch plan reads."""

from __future__ import annotations

import re

from astra_tui.model.launch import Dispatch, LaunchPlan, Let, Workspace
from astra_tui.model.launch.expression import names_in
from astra_tui.model.launch.plan import Verbatim

NAME = re.compile(r"[A-Za-z_]\w*")


def names_of_plan(plan: LaunchPlan) -> set[str]:
    """Every name that a plan reads, in quotes or not."""
    found: set[str] = set()
    for declaration in plan.declarations:
        match declaration:
            case Workspace(shape=shape):
                found.update(*map(names_in, shape))
            case Let(value=value):
                found.update(names_in(value))
    for step in plan.steps:
        if isinstance(step, Dispatch):
            found.update(*(names_in(b.condition) for b in step.branches if b.condition))
    for launch in plan.launches():
        found.update(*map(names_in, launch.expressions()))
        for argument in launch.template_args:
            if isinstance(argument, Verbatim):
                found.update(NAME.findall(argument.text))
            else:
                found |= names_in(argument)
    return found
