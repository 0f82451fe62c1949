"""The profile of a source: every workload counted, with the resources of what it launches."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.counting import PROFILE_ELEMENTS, Judge, count, shape_case
from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.explain.sass import disassemble
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.counters import Counters
from astra_tui.model.errors import UserError
from astra_tui.model.launch import DEVICE_ATTRIBUTES, Refused, ResolvedPlan
from astra_tui.model.launch.resolve import ResolvedLaunch
from astra_tui.model.occupancy import UnknownArchitecture, limited_by, occupancy, resident_blocks
from astra_tui.model.sass import packed
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.traffic import ArgumentTraffic
from astra_tui.model.verdict import (
    KernelCode,
    KernelUse,
    Profile,
    Profiled,
    Waves,
    WorkloadProfile,
    waves_of,
)


def profile_source(
    task: KernelTask,
    source: Source,
    compiler: Compiler,
    device: str = Emulator.name,
    attributes: Mapping[str, int] = DEVICE_ATTRIBUTES,
    judge: Judge | None = None,
    shapes: tuple[Workload, ...] = (),
) -> Profiled:
    """Counts all workloads of a source on the emulator, whatever the device, and looks at its code;
    with `shapes`, these in the place of the workloads.

    `attributes` are those of the device: plans and waves follow them. Raises UserError when a
    source does not compile or its plan refuses a workload; on the emulator also when it cannot
    count, which on other devices is among what is missing. With `judge`, counters are only given
    for outputs that are right: raises WrongOutputs for others. Without it a source may be wrong,
    and never end: it has the steps of a check.
    """
    return _Profiler(task, source, compiler, device, attributes, judge).profile(
        shapes or task.workloads
    )


class WrongOutputs(UserError):
    """A source that is wrong on a workload, at the size at which it is counted."""


class _Profiler:
    def __init__(
        self,
        task: KernelTask,
        source: Source,
        compiler: Compiler,
        device: str,
        attributes: Mapping[str, int],
        judge: Judge | None,
    ):
        self.task = task
        self.source = source
        self.device = device
        self.attributes = attributes
        self.compiler = compiler
        self.judge = judge
        self.emulator = Emulator() if judge is None else Emulator(budget=1 << 40)
        self.missing: dict[str, str] = {}
        self.kernels: dict[str, KernelUse] = {}

    def profile(self, shapes: tuple[Workload, ...]) -> Profiled:
        plans = [(w, self._resolved(w)) for w in shapes]
        names = dict.fromkeys(launch.kernel for _, p in plans for launch in p.launches)
        compilation = self.compiler.compile(self.source.text, tuple(names))
        if not compilation.ok:
            raise UserError(
                f"it does not compile: {compilation.errors[0].message}", file=self.source.file
            )
        for _, plan in plans:
            for launch in plan.launches:
                self._use(compilation, launch)
        workloads = tuple(self._workload(w, plan) for w, plan in plans)
        found = disassemble(compilation)
        if not found.available:
            self.missing["code"] = f"{found.problem} {found.remedy}".strip()
        code = tuple(KernelCode(kernel.name, kernel.histogram) for kernel in found.kernels)
        uses = tuple(self.kernels.values())
        content = self.compiler.content_hash()
        profile = Profile(
            self.device, workloads, uses, code, self.missing, content, self.compiler.arch
        )
        return Profiled(profile, packed(found))

    def _workload(self, workload: Workload, plan: ResolvedPlan) -> WorkloadProfile:
        case = shape_case(self.task, workload, None, PROFILE_ELEMENTS)
        counters, kernels, traffic = self._count(workload, case)
        return WorkloadProfile(
            workload=workload.name,
            dims=dict(case.dims),
            dtype=workload.dtype,
            kernels=kernels,
            counters=counters,
            blocks=sum(prod(launch.grid) for launch in plan.launches),
            threads=max(prod(launch.block) for launch in plan.launches),
            compulsory_bytes=self.task.compulsory_bytes(workload.dims, workload.dtype),
            waves=self._waves(plan),
            traffic=traffic,
        )

    def _count(
        self, workload: Workload, case: Case
    ) -> tuple[Counters, tuple[str, ...], tuple[ArgumentTraffic, ...]]:
        try:
            counted = count(self.task, self.source, case, self.compiler, self.emulator, self.judge)
            if counted.problem:
                sizes = ", ".join(f"{name}={size}" for name, size in case.dims.items())
                raise WrongOutputs(
                    f"workload {workload.name} is wrong where it is counted ({sizes}): "
                    f"{counted.problem}",
                    file=self.source.file,
                )
            if not counted.faults:
                return counted.counters, counted.kernels, counted.traffic
            why = counted.faults[0].describe()
            raise UserError(
                f"workload {workload.name} cannot be counted: {why}", file=self.source.file
            )
        except UserError as error:
            if self.device == Emulator.name or isinstance(error, WrongOutputs):
                raise
            self.missing["counters"] = error.message
            return Counters(), (), ()

    def _waves(self, plan: ResolvedPlan) -> Waves | None:
        """Of the launch that needs most."""
        found = (
            waves_of(
                prod(launch.grid),
                self.kernels[launch.kernel].resident_blocks,
                self.attributes["sm_count"],
            )
            for launch in plan.launches
        )
        return max((w for w in found if w is not None), key=lambda w: w.waves, default=None)

    def _resolved(self, workload: Workload) -> ResolvedPlan:
        case = Case(workload.name, "", workload.dtype, dict(workload.dims))
        scalars = scalars_of(self.task, case)
        resolved = resolve_case(self.task, self.source, case, scalars, self.attributes)
        if isinstance(resolved, Refused):
            raise UserError(
                f"the launch plan refuses workload {workload.name}: {resolved.reason}",
                file=self.source.file,
                place=resolved.place,
            )
        return resolved

    def _use(self, compilation: Compilation, launch: ResolvedLaunch) -> None:
        if launch.kernel in self.kernels:
            return
        resources = compilation.kernel(launch.kernel).resources
        shared = resources.static_shared + launch.shared_bytes
        needs = compilation.arch, prod(launch.block), resources.registers, shared
        try:
            share, blocks, limit = occupancy(*needs), resident_blocks(*needs), limited_by(*needs)
        except UnknownArchitecture as error:
            self.missing["occupancy"] = str(error)
            share, blocks, limit = 0.0, 0, ""
        self.kernels[launch.kernel] = KernelUse(
            kernel=launch.kernel,
            registers=resources.registers,
            spill_bytes=resources.spill_loads + resources.spill_stores,
            shared_bytes=shared,
            occupancy=share,
            resident_blocks=blocks,
            limited_by=limit,
        )
