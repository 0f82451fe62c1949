"""Runs an exported artefact on a task's cases, in a process of its own, and judges what it gives.

The artefact gets tensors and numbers; expected values never leave this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from astra_tui.export import Winner
from astra_tui.lab.check.execution import Run
from astra_tui.lab.check.inputs import Inputs, draw_inputs
from astra_tui.lab.check.layout import (
    POISON_NAN,
    TensorLayout,
    device_buffers,
    gaps_changed,
    layouts_of,
    tensor_of,
)
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.model.check import Case
from astra_tui.model.device import RunOutcome
from astra_tui.model.task import KernelTask
from astra_tui.model.task.dims import dim_sources
from astra_tui.processes.child import Child, ChildDied, ChildTimeout

START_SECONDS = 120.0
CASE_SECONDS = 120.0


class ArtefactFailed(Exception):
    """The artefact could not be opened, or its process died."""


class NoGpuForArtefact(ArtefactFailed):
    """The artefact needs a GPU, and its process has none."""


@dataclass(frozen=True)
class CaseTally:
    """The result of a set of cases; `wrong` has the first few that failed."""

    passed: int
    refused: int
    wrong: tuple[str, ...]

    def describe(self) -> str:
        """As in "70 cases passed, 2 refused as they should be"."""
        text = f"{self.passed} cases passed"
        if self.refused:
            text += f", {self.refused} outside the contract refused"
        return f"{text}; {'; '.join(self.wrong)}" if self.wrong else text


class Artefact:
    """An exported package or library in a process of its own, which sees one GPU, or none."""

    def __init__(self, mode: str, path: Path, name: str, gpu: str = ""):
        self._child = Child(
            "astra_tui.export.artefact_process", (mode, str(path), name, gpu), name="the export"
        )

    def __enter__(self) -> Artefact:
        try:
            hello = self._child.receive(START_SECONDS)
        except (ChildDied, ChildTimeout) as error:
            self._child.close()
            raise ArtefactFailed(str(error)) from None
        if "ready" not in hello:
            self._child.close()
            if "missing" in hello:
                raise NoGpuForArtefact(hello["missing"])
            raise ArtefactFailed(hello["error"])
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close()

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """One answer. Raises ArtefactFailed when the process is gone."""
        try:
            answer: dict[str, Any] = self._child.ask(message, CASE_SECONDS)
        except (ChildDied, ChildTimeout) as error:
            raise ArtefactFailed(str(error)) from None
        return answer


def run_cases(
    artefact: Artefact, checker: Checker, cases: Iterable[Case], *, compiled: bool = False
) -> CaseTally:
    """Runs cases and judges their outputs as a check does. Raises ArtefactFailed."""
    passed = refused = 0
    wrong: list[str] = []
    for case in cases:
        problem, was_refused = _run(artefact, checker, case, compiled)
        if problem:
            wrong.append(f"{case.id}: {problem}")
        elif was_refused:
            refused += 1
        else:
            passed += 1
    more = (f"and {len(wrong) - 3} more",) if len(wrong) > 3 else ()
    return CaseTally(passed, refused, (*wrong[:3], *more))


def case_message(task: KernelTask, case: Case, inputs: Inputs) -> dict[str, Any]:
    """A case as the process wants it: buffers in the order of the task, then numbers."""
    layouts = layouts_of(task, case)
    contents = {b.name: b.content for b in device_buffers(layouts, inputs, (), POISON_NAN)}
    sources = dim_sources(task, (a for a in task.tensors if a.is_read))
    passed = [case.dims[d] for d in task.dims if d not in sources]
    return {
        "buffers": [_buffer(layout, contents[name]) for name, layout in layouts.items()],
        "numbers": [*(inputs.scalars[a.name] for a in task.scalars), *passed],
        "fields": _fields(task, case, inputs, layouts),
    }


def _run(artefact: Artefact, checker: Checker, case: Case, compiled: bool) -> tuple[str, bool]:
    """What is wrong, and whether the artefact refused the case, as it should outside a contract."""
    task = checker.task
    inputs = draw_inputs(task, case)
    message = case_message(task, case, inputs)
    answer = artefact.ask({**message, "compiled": compiled})
    if "error" in answer:
        return answer["error"], False
    if "refused" in answer:
        return ("" if case.outside_contract else f"refused: {answer['refused']}"), True
    if case.outside_contract:
        return "outside the contract, and not refused", False
    if answer["overrun"]:
        return f"a write outside of {', '.join(answer['overrun'])}", False
    return _judge(checker, case, inputs, message, answer["contents"]), False


def _judge(
    checker: Checker,
    case: Case,
    inputs: Inputs,
    message: Mapping[str, Any],
    contents: Mapping[str, bytes],
) -> str:
    outputs = {}
    given = {b["name"]: b["content"] for b in message["buffers"]}
    for name, layout in layouts_of(checker.task, case).items():
        content = np.frombuffer(contents[name], np.uint8)
        if not layout.argument.is_written:
            if contents[name] != given[name]:
                return f"{name} has changed; it is only read"
            continue
        if gaps_changed(layout, content):
            return f"bytes between the rows of {name} have changed"
        outputs[name] = tensor_of(layout, content)
    run = Run(outputs, RunOutcome({}), (), ())
    judged = checker.judge(case, inputs, run, lambda name: checker.allowance(case, inputs, name))
    return next((f"{o.argument}: {o.problem}" for o in judged if not o.ok), "")


def _buffer(layout: TensorLayout, content: Any) -> dict[str, Any]:
    return {
        "name": layout.argument.name,
        "role": layout.argument.role.value,
        "dtype": layout.dtype.value,
        "shape": list(layout.shape),
        "strides": list(layout.strides),
        "misalignment": layout.offset * layout.dtype.size,
        "content": content.tobytes(),
    }


def _fields(
    task: KernelTask, case: Case, inputs: Inputs, layouts: Mapping[str, TensorLayout]
) -> list[tuple[str, Any]]:
    """The members of the C++ launcher's struct in order: a code of `struct`, and the value.

    The value of a pointer, "P", is the tensor's name.
    """
    fields: list[tuple[str, Any]] = [("i", task.dtypes.index(case.dtype) + 1)]
    fields += [("q", case.dims[d]) for d in task.dims]
    for argument in task.args.values():
        if argument.is_tensor:
            fields.append(("P", argument.name))
            if argument.strided and len(argument.shape) > 1:
                fields += [("q", s) for s in layouts[argument.name].strides]
        else:
            assert argument.dtype is not None
            code = "d" if argument.dtype.is_float else "q"
            fields.append((code, inputs.scalars[argument.name]))
    return fields


def all_cases(winner: Winner, task: KernelTask, seed: int) -> tuple[Case, ...]:
    """The task's suite, and after it the cases that were added in the session."""
    return (*build_suite(task, seed), *winner.cases)


def full_size_cases(task: KernelTask) -> tuple[Case, ...]:
    """The workloads as cases at their own size, for choosing kernels; they are never run."""
    return tuple(Case(f"workload {w.name}", "", w.dtype, dict(w.dims)) for w in task.workloads)
