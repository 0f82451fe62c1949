"""The launch plan: which kernel runs when, with which grid, block, shared memory and arguments.

A kernel source carries its plan in a block comment that begins with `@launch`, so that one file
is the whole kernel and no host code is ever run. See docs/launch-plan.md for the language.
"""

from astra_tui.model.launch.extract import find_plan, plan_of
from astra_tui.model.launch.parser import parse_plan
from astra_tui.model.launch.plan import (
    Branch,
    Dispatch,
    Launch,
    LaunchPlan,
    Let,
    PlanError,
    Refuse,
    Tune,
    Workspace,
)
from astra_tui.model.launch.printer import print_expression, print_plan
from astra_tui.model.launch.resolve import Refused, ResolvedPlan, resolve
from astra_tui.model.launch.scope import DEVICE_ATTRIBUTES, Layout, Scope
from astra_tui.model.launch.validate import validate_plan

__all__ = [
    "DEVICE_ATTRIBUTES",
    "Branch",
    "Dispatch",
    "Launch",
    "LaunchPlan",
    "Layout",
    "Let",
    "PlanError",
    "Refuse",
    "Refused",
    "ResolvedPlan",
    "Scope",
    "Tune",
    "Workspace",
    "find_plan",
    "parse_plan",
    "plan_of",
    "print_expression",
    "print_plan",
    "resolve",
    "validate_plan",
]
