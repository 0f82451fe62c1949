"""Runs one source on one case: plan, buffers, device, outputs back in their shapes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from astra_tui.lab.check.binding import bind_launch
from astra_tui.lab.check.inputs import Inputs
from astra_tui.lab.check.layout import (
    POISON_NAN,
    TensorLayout,
    device_buffers,
    gaps_changed,
    layouts_of,
    plan_layouts,
    tensor_of,
)
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import (
    PLAIN,
    Accepts,
    Device,
    DeviceBuffer,
    PackedLaunch,
    RunOutcome,
    Variation,
    accept_nothing,
)
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.launch import (
    DEVICE_ATTRIBUTES,
    LaunchPlan,
    Refused,
    ResolvedPlan,
    plan_of,
    resolve,
    validate_plan,
)
from astra_tui.model.launch.resolve import ResolvedWorkspace
from astra_tui.model.launch.scope import Bindings
from astra_tui.model.task import KernelTask


@dataclass(frozen=True)
class Source:
    """A kernel source with its validated plan. `file` is for messages."""

    text: str
    plan: LaunchPlan
    file: str
    resolved: dict[Hashable, ResolvedPlan | Refused] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What the plan made of each case that it was asked about, see `resolve_case`."""


@dataclass(frozen=True)
class Run:
    """What one run gave: outputs as bit patterns by argument, findings, counters."""

    outputs: Mapping[str, Any]
    outcome: RunOutcome
    findings: tuple[Finding, ...]
    kernels: tuple[str, ...]


def read_source(task: KernelTask, text: str, file: str) -> Source:
    """A source with its plan, checked against the task. Raises PlanError."""
    plan = plan_of(text, file)
    validate_plan(plan, task.scope, file)
    return Source(text, plan, file)


def resolve_case(
    task: KernelTask,
    source: Source,
    case: Case,
    scalars: Mapping[str, int | float],
    attributes: Mapping[str, int] = DEVICE_ATTRIBUTES,
) -> ResolvedPlan | Refused:
    """The plan for a case on a device with these attributes. Raises PlanError."""
    sizes = case.dims, case.offsets, case.row_padding, scalars, attributes
    key = task.hash, case.dtype, *(tuple(each.items()) for each in sizes)
    if key not in source.resolved:
        layouts = layouts_of(task, case)
        bindings = Bindings(case.dtype, case.dims, plan_layouts(layouts), scalars, attributes)
        source.resolved[key] = resolve(source.plan, bindings, source.file)
    return source.resolved[key]


def run_case(
    task: KernelTask,
    source: Source,
    compilation: Compilation,
    resolved: ResolvedPlan,
    case: Case,
    inputs: Inputs,
    device: Device,
    *,
    poison: str = POISON_NAN,
    checked: bool = True,
    counted: bool = True,
    traffic: bool = False,
    variation: Variation = PLAIN,
) -> Run:
    """Runs the launches of a case on fresh buffers. Raises PlanError where arguments do not fit."""
    excess = _excess(resolved.workspaces, device)
    if excess is not None:
        return Run({}, RunOutcome({}, (excess,)), (excess,), ())
    layouts = layouts_of(task, case)
    types = {name: layout.dtype for name, layout in layouts.items()}
    types.update({w.name: w.dtype for w in resolved.workspaces})
    launches = tuple(
        bind_launch(compilation.kernel(launch.kernel), launch, types, source.file)
        for launch in resolved.launches
    )
    buffers = device_buffers(layouts, inputs, resolved.workspaces, poison)
    outcome = device.run(
        compilation,
        launches,
        buffers,
        checked=checked,
        counted=counted,
        traffic=traffic,
        variation=variation,
        accepts=accepts_of(task, source),
    )
    return _collect(layouts, buffers, outcome, launches)


def accepts_of(task: KernelTask, source: Source) -> Accepts:
    """What an engineer accepts in task.toml, as a device asks for it."""
    rulings = [ruling for ruling in task.accepted if ruling.finding is not None]
    if not rulings:
        return accept_nothing
    name, lines = PurePath(source.file).name, source.text.splitlines()

    def accepts(finding: Finding) -> str:
        line = lines[finding.line - 1] if 0 < finding.line <= len(lines) else ""
        for ruling in rulings:
            place = finding.header if ruling.is_upstream else line
            if ruling.finding is finding.kind and ruling.covers(name, finding.kernel, place):
                return ruling.reason
        return ""

    return accepts


def _excess(workspaces: tuple[ResolvedWorkspace, ...], device: Device) -> Finding | None:
    """The finding about the workspace with which there are too many bytes, before any is taken."""
    total = 0
    for workspace in workspaces:
        total += workspace.bytes
        if total > device.workspace_bytes:
            text = (
                f"workspace {workspace.name} has {workspace.bytes:,} bytes in this case; the "
                f"{device.name} holds at most {device.workspace_bytes:,} bytes of workspaces"
            )
            line = workspace.place.line
            return Finding(FindingKind.UNSUPPORTED, text, line=line, launch_line=line)
    return None


def _collect(
    layouts: Mapping[str, TensorLayout],
    buffers: tuple[DeviceBuffer, ...],
    outcome: RunOutcome,
    launches: tuple[PackedLaunch, ...],
) -> Run:
    findings = list(outcome.findings)
    outputs = {}
    given = {b.name: b.content for b in buffers}
    for name, layout in layouts.items():
        content = outcome.contents[name]
        if layout.argument.is_written:
            outputs[name] = tensor_of(layout, content)
            if gaps_changed(layout, content):
                text = f"bytes between the rows of {name} have changed"
                findings.append(Finding(FindingKind.WROTE_OUTSIDE, text))
        elif (content != given[name]).any():
            text = f"{name} has changed; it is only read"
            findings.append(Finding(FindingKind.WROTE_INPUT, text))
    names = tuple(dict.fromkeys(launch.kernel.expression for launch in launches))
    return Run(outputs, outcome, tuple(findings), names)
