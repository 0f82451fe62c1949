"""Opens yardsticks: fetches their package, takes out or compiles the kernel, checks parameters.

The result is a `Compiled` like a candidate's, which the lab times and runs in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from astra_tui.cuda_source.stand_ins import STAND_INS
from astra_tui.gpu.elf import ElfError, kernel_parameters
from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.compiler import Build, Compiler, CompilerUnavailable
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.lab.upstream import package_headers, user_packages
from astra_tui.lab.yardsticks.machine_code import cubin_of
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation, CompiledKernel, Parameter, Resources
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.launch import DEVICE_ATTRIBUTES, PlanError, Refused
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.task.yardstick import (
    KERNEL,
    Leaf,
    MachineCode,
    OutOfReach,
    ParameterType,
    ShippedSource,
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
    source = Source("", yardstick.plan(False), yardstick.name)
    case = Case(workload.name, "", workload.dtype, dict(workload.dims))
    try:
        resolved = resolve_case(task, source, case, scalars_of(task, case), attributes)
    except PlanError as error:
        return error.message
    return resolved.reason if isinstance(resolved, Refused) else ""


@dataclass(frozen=True)
class Shipped:
    """A yardstick that is ready to run."""

    task: KernelTask
    yardstick: Yardstick
    compilation: Compilation

    def compiled(self, pdl: bool) -> Compiled:
        """It as a candidate is, launched with or without programmatic dependent launch."""
        yardstick = self.yardstick
        plan = yardstick.plan(pdl)
        text = f"{yardstick.package}: {yardstick.name}\n{yardstick.plan_text(pdl)}\n"
        return Compiled(Source(text, plan, f"{yardstick.name} ({KERNEL})"), self.compilation)


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
    progress: Progress | None = None,
) -> Iterator[Shipped | NotBuilt]:
    """Opens yardsticks of a task for a device of an architecture, one by one; never raises."""
    for yardstick in yardsticks:
        yield open_yardstick(task, yardstick, compiler, arch, packages, progress)


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
    opener = _Opener(yardstick, compiler, packages or user_packages(), progress)
    try:
        return Shipped(task, yardstick, opener.compilation())
    except UserError as error:
        return NotBuilt(yardstick, error.message, error.hint)
    except CompilerUnavailable as error:
        return NotBuilt(yardstick, str(error))


@dataclass(frozen=True)
class _Opener:
    yardstick: Yardstick
    compiler: Compiler
    packages: Packages
    progress: Progress | None

    def compilation(self) -> Compilation:
        """The kernels by the name that the plan has for them. Raises UserError."""
        code = self.yardstick.code
        if isinstance(code, MachineCode):
            built = self._taken_out(code)
        else:
            assert isinstance(code, ShippedSource), "nothing else is opened"
            built = self._compiled(code)
        self._check_parameters(built)
        return Compilation(
            diagnostics=(),
            kernels=tuple(self._kernel(dtype, built) for dtype in self.yardstick.dtypes),
            ptx=built.ptx,
            cubin=built.cubin,
            arch=self.yardstick.arch,
            compiler=built.compiler,
            seconds=0.0,
        )

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
        names = {_plan_name(d): _cpp_name(code.kernel, d) for d in code.dtypes}
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

    def _check_parameters(self, built: Build) -> None:
        """What a cubin says of its kernels has to be what the task's author declared."""
        declared = self.yardstick.places()
        try:
            found = kernel_parameters(built.cubin)
        except ElfError as error:
            raise UserError(f"{self.yardstick.package}: {error}") from None
        for symbol in built.symbols.values():
            taken = tuple((place.offset, place.size) for place in found.get(symbol, ()))
            if taken != declared:
                raise UserError(
                    f"{symbol} takes parameters of {_sizes(taken)} bytes, yardsticks.toml "
                    f"declares {_sizes(declared)}"
                )

    def _kernel(self, dtype: DType, built: Build) -> CompiledKernel:
        yardstick, name = self.yardstick, _plan_name(dtype)
        offset, size = yardstick.places()[-1] if yardstick.parameters else (0, 0)
        nulls = yardstick.nulls
        parameters = tuple(
            _parameter(leaf, number in nulls) for number, leaf in enumerate(yardstick.leaves())
        )
        return CompiledKernel(name, built.symbols[name], parameters, offset + size, _NO_RESOURCES)


def _parameter(leaf: Leaf, is_null: bool) -> Parameter:
    return replace(_NULL if is_null else _PARAMETERS[leaf.type], offset=leaf.offset)


def _plan_name(dtype: DType) -> str:
    """What a yardstick's plan calls its kernel for an element type."""
    return f"{KERNEL}<{dtype.cuda}>"


def _cpp_name(kernel: str, dtype: DType) -> str:
    return _T.sub(dtype.cuda, kernel)


def _sizes(places: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"{size} at {offset}" for offset, size in places) or "0"
