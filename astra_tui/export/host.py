"""Checks generated host code without a GPU: do its launches equal those of the plan itself?"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tui.export.artefact import Subject, rendered
from astra_tui.export.cases import Artefact
from astra_tui.export.cpp_plan import (
    CallArgument,
    CppPlan,
    MovedPointer,
    StructCall,
    cpp_plan,
)
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import DEVICE_ATTRIBUTES, Layout, PlanError, Refused, resolve
from astra_tui.model.launch.resolve import (
    BufferArgument,
    NullArgument,
    NumberArgument,
    ResolvedArgument,
    ResolvedPlan,
    StructArgument,
)
from astra_tui.model.launch.scope import Bindings
from astra_tui.model.task import KernelTask
from astra_tui.processes.child import child_environment

COMPILE_SECONDS = 120.0
RUN_SECONDS = 60.0

_FIRST_ADDRESS = 1 << 20

Launches = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class HostAnswer:
    """What host code says of a call: its launches, or None where it refuses."""

    launches: Launches | None


class HostCheckFailed(Exception):
    """The host code does not compile, or does not run."""


def expected(subject: Subject, call: Bindings) -> HostAnswer | None:
    """What the plan says of a call; None where the plan itself is at fault."""
    if subject.task.broken(call):
        return HostAnswer(None)
    try:
        resolved = resolve(subject.plan, call)
    except PlanError:
        return None
    if isinstance(resolved, Refused):
        return HostAnswer(None)
    types = {a.name: subject.task.dtype_of(a, call.element) for a in subject.task.tensors}
    types |= {w.name: w.dtype for w in resolved.workspaces}
    return HostAnswer(_launches(resolved, types))


def differences(
    subject: Subject, calls: Sequence[Bindings], answers: Sequence[HostAnswer]
) -> list[str]:
    """The calls on which host code and plan do not agree."""
    found = []
    for call, answer in zip(calls, answers, strict=True):
        wanted = expected(subject, call)
        if wanted is not None and wanted != answer:
            found.append(
                f"{call.element.value} {dict(call.dims)}: {answer.launches}, the plan says "
                f"{wanted.launches}"
            )
    return found


def python_answers(artefact: Artefact, calls: Iterable[Bindings]) -> list[HostAnswer]:
    """What the plan of an exported Python package says. Raises ArtefactFailed."""
    answers = []
    for call in calls:
        layouts = {n: (_address(i, y), y.strides) for i, (n, y) in enumerate(call.layouts.items())}
        found = artefact.ask(
            {
                "element": call.element.value,
                "dims": dict(call.dims),
                "layouts": layouts,
                "scalars": dict(call.scalars),
                "device": dict(call.device),
            }
        )
        if "error" in found:
            raise HostCheckFailed(found["error"])
        launches = found.get("launches")
        answers.append(HostAnswer(None if launches is None else _plain(launches)))
    return answers


def cpp_answers(
    subject: Subject, folder: Path, scratch: Path, compiler: str, calls: Sequence[Bindings]
) -> list[HostAnswer]:
    """What the C++ plan in a folder says; it is compiled by a host compiler in `scratch`.

    Raises HostCheckFailed.
    """
    source = scratch / "host_check.cpp"
    program = scratch / "host_check"
    words = {
        "task": subject.task,
        "name": subject.task.name,
        "attributes": subject.attributes,
        "device_attributes": DEVICE_ATTRIBUTES,
    }
    source.write_text(rendered("host_check.cpp.jinja", words), encoding="utf-8")
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{folder}", "-o", str(program)]
    _ran([compiler, *options, str(source)], "", COMPILE_SECONDS)
    lines = [" ".join(_words(subject.task, call)) for call in calls]
    output = _ran([str(program)], "\n".join(lines) + "\n", RUN_SECONDS).splitlines()
    if len(output) != len(calls):
        raise HostCheckFailed(f"{len(output)} answers to {len(calls)} calls")
    plan = cpp_plan(subject)
    return [_read(plan, line) for line in output]


def _words(task: KernelTask, call: Bindings) -> list[str]:
    words = [str(task.dtypes.index(call.element) + 1), *(str(call.dims[d]) for d in task.dims)]
    addresses = {n: _address(i, y) for i, (n, y) in enumerate(call.layouts.items())}
    for argument in task.args.values():
        if not argument.is_tensor:
            words.append(repr(call.scalars[argument.name]))
            continue
        words.append(str(addresses[argument.name]))
        if argument.strided and len(argument.shape) > 1:
            words += [str(s) for s in call.layouts[argument.name].strides]
    return [*words, *(str(call.device[name]) for name in DEVICE_ATTRIBUTES)]


def _address(number: int, layout: Layout) -> int:
    """An address that is aligned as the layout says, and no better below 256 bytes."""
    return _FIRST_ADDRESS * (number + 1) + layout.alignment % 256


def _launches(resolved: ResolvedPlan, types: Mapping[str, DType]) -> Launches:
    return tuple(
        (
            launch.kernel,
            launch.grid,
            launch.block,
            launch.shared_bytes,
            tuple(_argument(argument, types) for argument in launch.args),
            launch.pdl,
            launch.cluster,
        )
        for launch in resolved.launches
    )


def _argument(argument: ResolvedArgument, types: Mapping[str, DType]) -> Any:
    """An argument as plain data, alike for all kinds of host code."""
    match argument:
        case BufferArgument(name=name, elements=elements):
            return (name, elements * types[name].size)
        case NullArgument():
            return None
        case NumberArgument(value=value):
            return value
        case StructArgument(extent=extent, leaves=leaves):
            members = ((x.offset, _type(x.dtype), _argument(x.value, types)) for x in leaves)
            return (extent.size, extent.alignment, tuple(members))


def _type(dtype: DType | None) -> str:
    return dtype.value if dtype is not None else ""


def _plain(answer: Any) -> Any:
    """An answer in which every list is a tuple."""
    return tuple(map(_plain, answer)) if isinstance(answer, list) else answer


def _read(plan: CppPlan, line: str) -> HostAnswer:
    if line.startswith("refused"):
        return HostAnswer(None)
    launches = []
    for part in line.removeprefix("launches").split("|")[1:]:
        number, *rest = part.split()
        call = plan.calls[int(number)]
        sizes = tuple(map(int, rest[:7]))
        cluster = tuple(map(int, rest[8:11]))
        args = tuple(_passed(argument, rest[11:]) for argument in call.args)
        pdl = rest[7] == "1"
        launches.append((call.kernel, sizes[:3], sizes[3:6], sizes[6], args, pdl, cluster))
    return HostAnswer(tuple(launches))


def _passed(argument: CallArgument, numbers: Sequence[str]) -> Any:
    match argument:
        case StructCall(extent=extent, members=members):
            placed = ((o, _type(d), _passed(source, numbers)) for o, d, source in members)
            return (extent.size, extent.alignment, tuple(placed))
        case int():
            return _number(numbers[argument])
        case str():
            return (argument, 0)
        case MovedPointer(name=name, number=number):
            return (name, _number(numbers[number]))
        case None:
            return None


def _number(word: str) -> int | float:
    return float.fromhex(word) if "x" in word or "n" in word else int(word)


def _ran(command: Sequence[str], given: str, seconds: float) -> str:
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=child_environment(),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostCheckFailed(str(error)) from None
    if done.returncode:
        raise HostCheckFailed((done.stderr or done.stdout).strip()[:2000] or "it failed")
    return done.stdout
