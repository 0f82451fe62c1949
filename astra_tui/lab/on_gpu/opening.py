"""Opens a GPU by the name that `--device` gives it: cuda:0, cuda:1, or cuda for the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from astra_tui.gpu.gpu_process import find_devices
from astra_tui.gpu.messages import DeviceFacts
from astra_tui.gpu.nvml import GpuReader
from astra_tui.gpu.tools import EXPRESSIONS, SOURCE, ToolKernels, tools_source
from astra_tui.lab.compiler import Compiler, CompilerUnavailable
from astra_tui.model.errors import DeviceMissing
from astra_tui.model.gpu import GpuIdentity
from astra_tui.model.task import KernelTask

if TYPE_CHECKING:
    from astra_tui.lab.check.oracle import Oracle

OLDEST = (7, 5)
"""The lowest compute capability that NVRTC 13 compiles for."""


@dataclass(frozen=True)
class Gpu:
    """A GPU with our own kernels compiled for it."""

    facts: DeviceFacts
    tools: ToolKernels

    def identify(self) -> GpuIdentity:
        """As `identify` says."""
        return identify(self.facts)


def identify(facts: DeviceFacts) -> GpuIdentity:
    """What NVML tells of a GPU, with what CUDA tells alone, or where NVML does not."""
    with GpuReader(facts.uuid) as reader:
        return completed(reader.identity(), facts)


def completed(identity: GpuIdentity, facts: DeviceFacts) -> GpuIdentity:
    """What NVML told of a GPU, with what CUDA does."""
    known: dict[str, Any] = {
        "l2_bytes": facts.attributes["l2_cache_bytes"],
        "name": identity.name or facts.name,
        "uuid": identity.uuid or facts.uuid,
    }
    missing = {what: why for what, why in identity.missing.items() if what not in known}
    return replace(identity, missing=missing, **known)


def find_gpu(name: str) -> DeviceFacts:
    """The device of that name. Raises DeviceMissing, which says why there is none."""
    found = find_devices()
    if not found.devices:
        hint = "--device emulator runs without a GPU; see: astra-tui doctor"
        raise DeviceMissing(f"there is no device '{name}': {found.problem}", hint=hint)
    names = {f"cuda:{d.ordinal}": d for d in found.devices}
    chosen = names.get("cuda:0" if name == "cuda" else name)
    if chosen is None:
        raise DeviceMissing(f"there is no device '{name}'", hint=f"there is {', '.join(names)}")
    if chosen.capability < OLDEST:
        raise DeviceMissing(
            f"{chosen.name} has compute capability {chosen.capability[0]}.{chosen.capability[1]}; "
            f"NVRTC 13 compiles for {OLDEST[0]}.{OLDEST[1]} and newer"
        )
    return chosen


def open_gpu(facts: DeviceFacts, compiler: Compiler) -> Gpu:
    """Prepares a compiler and our own kernels for a device. Raises CompilerUnavailable."""
    compiler.arch = facts.arch
    return Gpu(facts, compile_tools(compiler, facts.arch))


def compile_tools(compiler: Compiler, arch: str) -> ToolKernels:
    """Raises CompilerUnavailable, also when this NVRTC cannot compile them."""
    compiled = compiler.compile(tools_source(), tuple(EXPRESSIONS.values()), arch)
    if not compiled.ok:
        first = compiled.errors[0]
        where = f"{SOURCE.name}:{first.line}"
        raise CompilerUnavailable(f"{where}: {first.message} ({compiled.compiler})")
    symbols = {name: compiled.kernel(e).symbol for name, e in EXPRESSIONS.items()}
    return ToolKernels(compiled.cubin, symbols)


def open_oracle(task: KernelTask, gpu: Gpu | None) -> Oracle:
    """The reference of a task; it judges whole outputs on the GPU where there is one."""
    from astra_tui.lab.check.oracle import Oracle

    oracle = Oracle(task)
    if gpu is not None:
        oracle.use_gpu(gpu.facts.uuid, gpu.tools.cubin, gpu.tools.symbols)
    return oracle
