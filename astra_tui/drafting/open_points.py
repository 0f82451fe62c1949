"""What a draft leaves open: collected as it is read, then shown with its line and its guesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from astra_tui.cuda_source.syntax import line_of, of_type, text_of
from astra_tui.drafting.answers import Answers, ArgumentAnswer, toml_text
from astra_tui.drafting.expressions import free_name, printed
from astra_tui.drafting.geometry import LaunchDraft
from astra_tui.drafting.host_launches import HostLaunch
from astra_tui.drafting.reading import KernelFunction
from astra_tui.model.drafts import Guess, OpenPoint
from astra_tui.model.dtypes import DType
from astra_tui.model.task import ArgumentRole

_DTYPES = ("T", *(d.value for d in DType))
_ROLES = tuple(r.value for r in ArgumentRole if r.is_input or r.is_output)


class OpenPoints:
    """Collects points; what is answered is none."""

    def __init__(self, answers: Answers):
        self.answers = answers
        self._points: list[OpenPoint] = []

    def __call__(self, text: str, key: str = "", line: int = 0) -> None:
        """Notes a point, unless its key is answered."""
        if not key or not self.answers.has(key):
            self._points.append(OpenPoint(text, key, line))

    def shown(
        self, kernel: KernelFunction, launch: HostLaunch | None, guesses: Mapping[str, Guess]
    ) -> tuple[OpenPoint, ...]:
        """The points in order, each with a line of the kernel's file and what the draft says."""
        return tuple(
            msgspec.structs.replace(
                point,
                line=point.line or _line_for(point.key, kernel, launch),
                guesses=tuple(_below(point.key, guesses)),
            )
            for point in self._points
        )


def _below(key: str, guesses: Mapping[str, Guess]) -> Iterator[Guess]:
    found = [g for name, g in guesses.items() if name == key or name.startswith(f"{key}.")]
    yield from found or ([Guess(key)] if key else [])


def _line_for(key: str, kernel: KernelFunction, launch: HostLaunch | None) -> int:
    """The line that a key is about: a parameter, a template parameter, the launch or the kernel."""
    table, _, name = key.partition(".")
    name = name.removeprefix("args.").partition(".")[0]
    if launch is not None and (table in ("plan", "launch") and not key.startswith("plan.args")):
        return launch.line
    functions = [kernel.node, *([launch.function] if launch is not None else [])]
    for function in functions if table in ("args", "plan", "template", "dims") else ():
        outer = function.parent if table == "template" and function.parent else function
        for node in of_type(outer, "identifier", "type_identifier"):
            if free_name(text_of(node)) == name:
                return line_of(node)
    return kernel.line if key else 0


def guesses_of(
    task: Mapping[str, Any],
    accepts: Sequence[str],
    kernel: KernelFunction,
    plan: LaunchDraft,
    arguments: Sequence[str],
    launch: tuple[int, Sequence[int]],
    operators: Sequence[str],
) -> dict[str, Guess]:
    """What a draft says at each key of an answers file.

    `task` is task.toml as read, `accepts` its conditions beyond positive sizes, `arguments` what
    the plan passes, `launch` the line that it follows and all lines of launches, `operators` those
    whose reference is offered.
    """
    followed, lines = launch
    found = [
        Guess("launch", str(followed), tuple(map(str, lines))),
        Guess("dtypes", toml_text(task["dtypes"])),
        Guess("rows", task.get("rows", ""), (task.get("rows", ""), '""')),
        Guess("reference", operators[0] if len(operators) == 1 else "", tuple(operators)),
        Guess("contract.accepts", toml_text(list(accepts))),
        Guess("workloads", toml_text(task["workloads"])),
    ]
    found += _of_plan(kernel, plan, arguments)
    for name, argument in task.get("args", {}).items():
        found += _of_argument(f"args.{name}", argument)
    for name, dimension in task["dims"].items():
        found.append(Guess(f"dims.{name}.sizes", toml_text(dimension["sizes"])))
    for dtype, bounds in task.get("tolerance", {}).items():
        for part in ("atol", "rtol"):
            if part in bounds:
                found.append(Guess(f"tolerance.{dtype}.{part}", toml_text(bounds[part])))
    return {guess.key: guess for guess in found}


def _of_plan(
    kernel: KernelFunction, plan: LaunchDraft, arguments: Sequence[str]
) -> Iterator[Guess]:
    yield Guess("plan.grid", toml_text([printed(part) for part in plan.grid or ()]))
    yield Guess("plan.block", toml_text([printed(part) for part in plan.block]))
    yield Guess("plan.shared", toml_text(plan.shared or "0"))
    if len(arguments) == len(kernel.parameters):
        for parameter, argument in zip(kernel.parameters, arguments, strict=True):
            yield Guess(f"plan.args.{parameter.name}", toml_text(argument))
    for (kind, name, _), text in zip(kernel.template, plan.template, strict=False):
        choices = _DTYPES if kind == "typename" else ("true", "false") if kind == "bool" else ()
        value = text.strip('"')
        yield Guess(f"template.{name}", value, choices if value in choices else ())


def _of_argument(key: str, argument: Mapping[str, Any]) -> Iterator[Guess]:
    if argument["role"] == ArgumentRole.SCALAR.value:
        yield Guess(f"{key}.choices", toml_text(argument.get("choices", ())))
        return
    said = {"dtype": "T", "limit": None, **argument}
    choices = {"role": _ROLES, "dtype": _DTYPES}
    for name in ArgumentAnswer.__struct_fields__:
        if name in said:
            value = said[name]
            text = "" if value is None else toml_text(value)
            yield Guess(f"{key}.{name}", text, choices.get(name, ()))
