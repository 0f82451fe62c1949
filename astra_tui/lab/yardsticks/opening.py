"""Opens yardsticks: fetches their package, takes out or compiles kernels, checks parameters.

The result is a `Compiled` like a candidate's, which the lab times and runs in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from astra_tui.cuda_source.stand_ins import STAND_INS
from astra_tui.gpu.elf import ElfError, LaunchFacts, launch_facts
from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.compiler import Build, Compiler, CompilerUnavailable
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.lab.upstream import package_headers, user_packages
from astra_tui.lab.yardsticks.generated import generate
from astra_tui.lab.yardsticks.machine_code import cubin_of
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation, CompiledKernel, Parameter, Resources
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.launch import DEVICE_ATTRIBUTES, PlanError, Refused, ResolvedPlan
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.task.yardstick import (
    KERNEL,
    Generated,
    MachineCode,
    OutOfReach,
    ParameterType,
    ShippedSource,
    Variant,
    Yardstick,
)
from astra_tui.packages import Packages
from astra_tui.packages.pip import Progress

_NO_RESOURCES = Resources(0, 0, 0, 0, 0, 0)
_T = re.compile(r"\bT\b")
_NULL = Parameter("integer", "null pointer", 8, 0, DType.UINT64)
_PARAMETERS = {
    ParameterType.POINTER: Parameter("pointer", "void", 8, 0),
    ParameterType.INT32: Parameter("integer", "int", 4, 0, DType.INT32),
    ParameterType.UINT32: Parameter("integer", "unsigned int", 4, 0, DType.UINT32),
    ParameterType.INT64: Parameter("integer", "long", 8, 0, DType.INT64),
    ParameterType.UINT64: Parameter("integer", "unsigned long", 8, 0, DType.UINT64),
    ParameterType.FLOAT32: Parameter("float", "float", 4, 0, DType.FLOAT32),
}


def refusal(
    task: KernelTask,
    yardstick: Yardstick,
    workload: Workload,
    attributes: Mapping[str, int] = DEVICE_ATTRIBUTES,
) -> str:
    """Why a yardstick does not serve a workload; "" where it does. Nothing is opened for that."""
    try:
        resolved = _resolved(task, yardstick, workload, {}, attributes)
    except PlanError as error:
        return error.message
    return resolved.reason if isinstance(resolved, Refused) else ""


def _resolved(
    task: KernelTask,
    yardstick: Yardstick,
    workload: Workload,
    numbers: Mapping[str, int],
    attributes: Mapping[str, int] = DEVICE_ATTRIBUTES,
) -> ResolvedPlan | Refused:
    source = Source("", yardstick.plan(False, numbers), yardstick.name)
    case = Case(workload.name, "", workload.dtype, dict(workload.dims))
    return resolve_case(task, source, case, scalars_of(task, case), attributes)


class Opened(NamedTuple):
    """One kernel of a yardstick, and numbers by the names that the launch has for them."""

    compilation: Compilation
    numbers: Mapping[str, int]


@dataclass(frozen=True)
class Shipped:
    """A yardstick that is ready to run: its kernels by what is compiled into each."""

    task: KernelTask
    yardstick: Yardstick
    kernels: Mapping[Variant, Opened]

    def compiled(self, shape: Workload | Case, pdl: bool) -> Compiled:
        """Its kernel for a shape as a candidate is, launched with or without dependent launch.

        Raises UserError for constants that no workload of the task has.
        """
        yardstick = self.yardstick
        variant = yardstick.variant(shape.dtype, shape.dims)
        found = self.kernels.get(variant)
        if found is None:
            raise UserError(f"{yardstick.name} was not generated for {_words(variant)}")
        text = f"{yardstick.package}: {yardstick.name}\n"
        text += f"{yardstick.plan_text(pdl, found.numbers)}\n"
        plan = yardstick.plan(pdl, found.numbers)
        return Compiled(Source(text, plan, f"{yardstick.name} ({KERNEL})"), found.compilation)


@dataclass(frozen=True)
class NotBuilt:
    """A yardstick that cannot run here, and why, in words for "not timed: REASON"."""

    yardstick: Yardstick
    reason: str
    hint: str = ""


def open_yardsticks(
    task: KernelTask,
    yardsticks: tuple[Yardstick, ...],
    compiler: Compiler,
    arch: str,
    packages: Packages | None = None,
) -> Iterator[Shipped | NotBuilt]:
    """Opens yardsticks of a task for a device of an architecture, one by one; never raises."""
    for yardstick in yardsticks:
        yield open_yardstick(task, yardstick, compiler, arch, packages)


def open_yardstick(
    task: KernelTask,
    yardstick: Yardstick,
    compiler: Compiler,
    arch: str,
    packages: Packages | None = None,
    progress: Progress | None = None,
) -> Shipped | NotBuilt:
    """Opens one yardstick, from the cache or from the package index; what is wrong is a NotBuilt.

    `progress` is told how many bytes of a package have come.
    """
    if isinstance(yardstick.code, OutOfReach):
        return NotBuilt(yardstick, yardstick.code.reason)
    if arch != yardstick.arch:
        return NotBuilt(yardstick, f"it is for {yardstick.arch}, the device is {arch}")
    opener = _Opener(task, yardstick, compiler, packages or user_packages(), progress)
    try:
        return Shipped(task, yardstick, opener.kernels())
    except UserError as error:
        return NotBuilt(yardstick, error.message, error.hint)
    except CompilerUnavailable as error:
        return NotBuilt(yardstick, str(error))


@dataclass(frozen=True)
class _Opener:
    task: KernelTask
    yardstick: Yardstick
    compiler: Compiler
    packages: Packages
    progress: Progress | None

    def kernels(self) -> dict[Variant, Opened]:
        """The kernels by the names that the plan has for them. Raises UserError."""
        match self.yardstick.code:
            case MachineCode() as code:
                return {Variant(): self._checked(Variant(), self._taken_out(code), {})}
            case ShippedSource() as code:
                return {Variant(): self._checked(Variant(), self._compiled(code), {})}
            case Generated() as code:
                return dict(self._generated(code))
            case OutOfReach():
                raise AssertionError("it is not opened")

    def _served(self) -> tuple[Workload, ...]:
        task = self.task
        return tuple(w for w in task.workloads if not refusal(task, self.yardstick, w))

    def _checked(self, variant: Variant, built: Build, numbers: Mapping[str, int]) -> Opened:
        """A kernel whose cubin says what yardsticks.toml declares. Raises UserError."""
        facts = self._facts(built)
        for symbol in built.symbols.values():
            self._check_parameters(symbol, facts.get(symbol, LaunchFacts(())))
            self._check_sizes(symbol, facts.get(symbol, LaunchFacts(())), variant, numbers)
        dtypes = [dtype for dtype in self.yardstick.dtypes if _plan_name(dtype) in built.symbols]
        compilation = Compilation(
            diagnostics=(),
            kernels=tuple(self._kernel(dtype, built) for dtype in dtypes),
            ptx=built.ptx,
            cubin=built.cubin,
            arch=self.yardstick.arch,
            compiler=built.compiler,
            seconds=0.0,
        )
        return Opened(compilation, numbers)

    def _generated(self, code: Generated) -> Iterator[tuple[Variant, Opened]]:
        """One kernel for each element type and constants of the workloads that it serves."""
        yardstick = self.yardstick
        variants = tuple(dict.fromkeys(yardstick.variant(w.dtype, w.dims) for w in self._served()))
        made = generate(self.packages, yardstick, code, variants, self.progress)
        for variant, kernel in made.items():
            assert variant.dtype is not None, "a kernel is generated for an element type"
            built = Build({}, kernel.ptx, kernel.cubin, f"{code.by}, from {yardstick.package}", "")
            symbols = tuple(self._facts(built))
            if len(symbols) != 1:
                raise UserError(f"{yardstick.package}: {len(symbols)} kernels came, not one")
            built = replace(built, symbols={_plan_name(variant.dtype): symbols[0]})
            yield variant, self._checked(variant, built, kernel.numbers)

    def _taken_out(self, code: MachineCode) -> Build:
        symbols = {_plan_name(dtype): symbol for dtype, symbol in code.symbols.items()}
        unique = tuple(dict.fromkeys(symbols.values()))
        package, arch = self.yardstick.package, self.yardstick.arch
        cubin = cubin_of(self.packages, package, code.file, unique, arch, self.progress)
        return Build(symbols, "", cubin, f"as shipped in {package}", "")

    def _compiled(self, code: ShippedSource) -> Build:
        given = {**STAND_INS, **code.stand_ins}
        package = self.yardstick.package
        headers = package_headers(
            self.packages, package, code.text, code.include, given, self.progress
        )
        names = {_plan_name(d): _T.sub(d.cuda, code.kernel) for d in code.dtypes}
        types = dict.fromkeys(d.header for d in code.dtypes if d.header)
        flags = (*(f"--pre-include={header}" for header in types), *code.flags)
        built = self.compiler.build(
            code.text, tuple(names.values()), headers, flags, self.yardstick.arch
        )
        if built.problem:
            raise UserError(f"{package} does not compile here: {built.problem}")
        return replace(
            built, symbols={plan: built.symbols[expression] for plan, expression in names.items()}
        )

    def _facts(self, built: Build) -> Mapping[str, LaunchFacts]:
        try:
            return launch_facts(built.cubin)
        except ElfError as error:
            raise UserError(f"{self.yardstick.package}: {error}") from None

    def _check_parameters(self, symbol: str, facts: LaunchFacts) -> None:
        declared = self.yardstick.places()
        taken = tuple((place.offset, place.size) for place in facts.parameters)
        if taken != declared:
            raise UserError(
                f"{symbol} takes parameters of {_sizes(taken)} bytes, yardsticks.toml "
                f"declares {_sizes(declared)}"
            )

    def _check_sizes(
        self, symbol: str, facts: LaunchFacts, variant: Variant, numbers: Mapping[str, int]
    ) -> None:
        for workload in self._served():
            if self.yardstick.variant(workload.dtype, workload.dims) != variant:
                continue
            resolved = _resolved(self.task, self.yardstick, workload, numbers)
            for launch in resolved.launches if isinstance(resolved, ResolvedPlan) else ():
                if facts.block not in (None, launch.block):
                    raise UserError(
                        f"{symbol} takes blocks of {facts.block}, yardsticks.toml launches "
                        f"{launch.block} on {workload.name}"
                    )
                if facts.cluster not in (None, launch.cluster):
                    raise UserError(
                        f"{symbol} takes clusters of {facts.cluster}, yardsticks.toml launches "
                        f"{launch.cluster} on {workload.name}"
                    )

    def _kernel(self, dtype: DType, built: Build) -> CompiledKernel:
        yardstick, name = self.yardstick, _plan_name(dtype)
        offset, size = yardstick.places()[-1] if yardstick.parameters else (0, 0)
        nulls = yardstick.nulls
        parameters = tuple(
            replace(_NULL if n in nulls else _PARAMETERS[leaf.type], offset=leaf.offset)
            for n, leaf in enumerate(yardstick.leaves())
        )
        return CompiledKernel(name, built.symbols[name], parameters, offset + size, _NO_RESOURCES)


def _words(variant: Variant) -> str:
    constants = (f"{name} = {value}" for name, value in variant.constants)
    return ", ".join([*([variant.dtype.value] if variant.dtype else []), *constants])


def _plan_name(dtype: DType) -> str:
    """What a yardstick's plan calls its kernel for an element type."""
    return f"{KERNEL}<{dtype.cuda}>"


def _sizes(places: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{size} at {offset}" for offset, size in places) or "0"
