"""Tries what the lab is made of: nothing is called present because a version number says so."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import astra_tui
from astra_tui.lab.cache import ContentCache, cache_root
from astra_tui.lab.compiler import Compiler, CompilerUnavailable
from astra_tui.lab.compiler.toolchain import wheel_version
from astra_tui.lab.explain.sass.nvdisasm import WHEEL, find_nvdisasm
from astra_tui.lab.requests import TryEscapes
from astra_tui.model.environment import Health, Probe
from astra_tui.model.errors import UserError
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import list_tasks, load_task
from astra_tui.processes.child import Child, ChildDied, ChildTimeout
from astra_tui.processes.containment import probe_containment
from astra_tui.processes.escapes import Targets
from astra_tui.rpc import Call

_START_SECONDS = 120.0

_PROBE_SOURCE = """
#include <cuda_fp16.h>
__global__ void probe(__half* out, const __half* in) { out[threadIdx.x] = in[threadIdx.x]; }
"""


def examine() -> Iterator[Probe]:
    """Runs every probe, the ones that others rest on first."""
    probes: tuple[Callable[[], Probe], ...] = (
        _python, _folders, _compiler, _headers, _emulator, _reference, _disassembler,
        _compiler_contained, _emulator_contained, _reference_contained,
    )  # fmt: skip
    for probe in probes:
        yield probe()
    yield from _gpu()


def _python() -> Probe:
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    fine = sys.platform == "linux"
    return Probe(
        "system",
        Health.OK if fine else Health.MISSING,
        f"astra-tui {astra_tui.__version__}, Python {detail}",
        "everything",
        "" if fine else "kernels compile on Linux only; on Windows use WSL 2",
    )


def _folders() -> Probe:
    cache = ContentCache("probe")
    value = os.urandom(16)
    cache.put("0" * 64, value)
    found, broken = list_tasks(), []
    for task in found:
        try:
            load_task(task.folder)
        except UserError as error:
            broken.append(error.describe())
    if broken:
        return Probe(
            "kernel tasks", Health.BROKEN, broken[0], "kernels by name", "correct the task"
        )
    kept = cache.get("0" * 64) == value
    detail = f"{len(found)} kernel tasks; cache in {cache_root()}"
    return Probe(
        "folders",
        Health.OK if kept and found else Health.BROKEN,
        detail if kept else f"{detail} cannot be written, so nothing is remembered",
        "kernels by name, and answers that are not computed twice",
        "" if kept else "set ASTRA_TUI_CACHE to a folder that can be written",
    )


def _compiler() -> Probe:
    gives = "compiling kernels, with or without a GPU"
    try:
        with Compiler(_no_cache()) as compiler:
            info = compiler.start()
            result = compiler.compile(_PROBE_SOURCE, ("probe",))
    except CompilerUnavailable as error:
        return Probe("compiler", Health.MISSING, _last_line(error), gives, "pip install astra-tui")
    if not result.ok or not result.cubin:
        text = result.errors[0].message if result.errors else "no machine code"
        return Probe("compiler", Health.BROKEN, f"{info}: {text}", gives)
    detail = f"{info}: a kernel compiled to {result.arch} in {result.seconds * 1e3:.0f} ms"
    return Probe("compiler", Health.OK, detail, gives)


def _compiler_contained() -> Probe:
    def outcomes(targets: Targets) -> dict[str, str]:
        with Compiler(_no_cache()) as compiler:
            try:
                return compiler.try_escapes(targets)
            except CompilerUnavailable as error:
                raise ChildDied(str(error)) from None

    gives = "kernel sources that cannot reach your files while they are compiled"
    return probe_containment("compiler", gives, outcomes)


def _emulator_contained() -> Probe:
    """Asks a lab process as the engine starts it: the thread there in which candidates run."""

    def outcomes(targets: Targets) -> dict[str, str]:
        task = load_task(next(iter(list_tasks())).folder)
        arguments = (str(task.folder.resolve()), EMULATOR, task.hash)
        with Child("astra_tui.lab.worker", arguments, "the lab process") as child:
            (escapes,) = Call(child, TryEscapes(targets)).replies()
        return escapes.outcomes

    gives = "candidates that cannot reach your files while the emulator runs them"
    return probe_containment("emulator", gives, outcomes)


def _reference_contained() -> Probe:
    from astra_tui.lab.check.oracle import Oracle

    def outcomes(targets: Targets) -> dict[str, str]:
        with Oracle(load_task(next(iter(list_tasks())).folder), _no_cache()) as oracle:
            return oracle.try_escapes(targets)

    gives = "task folders of others whose reference.py cannot reach your files"
    return probe_containment("reference", gives, outcomes)


def _headers() -> Probe:
    gives = "kernels that use CUB or cooperative groups"
    source = (
        "#include <cub/block/block_reduce.cuh>\n#include <cooperative_groups.h>\n"
        "__global__ void probe(int* out) { out[0] = 1; }\n"
    )
    try:
        with Compiler(_no_cache()) as compiler:
            compiler.start()
            result = compiler.compile(source, ("probe",))
    except CompilerUnavailable as error:
        return Probe("CUDA C++ library", Health.MISSING, _last_line(error), gives)
    version = wheel_version("nvidia-cuda-cccl")
    if result.ok:
        return Probe("CUDA C++ library", Health.OK, f"CCCL {version} compiled", gives, needed=False)
    return Probe(
        "CUDA C++ library",
        Health.MISSING,
        result.errors[0].message,
        gives,
        "pip install nvidia-cuda-cccl nvidia-cuda-crt",
        needed=False,
    )


def _emulator() -> Probe:
    from astra_tui.lab.selftest import run_on_emulator

    gives = "running kernels without a GPU: correctness and memory counters"
    try:
        problem = run_on_emulator()
    except CompilerUnavailable as error:
        return Probe("emulator", Health.MISSING, _last_line(error), gives)
    if problem:
        return Probe("emulator", Health.BROKEN, problem, gives)
    return Probe("emulator", Health.OK, "a reduction ran and was right", gives)


def _reference() -> Probe:
    gives = "float64 references"
    script = "import torch; torch.ones(2, dtype=torch.float64)"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reference.py"
        file.write_text(f"{script}\ndef reference(): return {{}}\n", encoding="utf-8")
        with Child("astra_tui.lab.check.oracle_worker", (str(file),), "torch") as child:
            child.start()
            try:
                hello = child.receive(120)
            except (ChildDied, ChildTimeout) as error:
                hello = {"error": _last_line(error)}
    if "error" in hello:
        return Probe("torch", Health.MISSING, hello["error"], gives, "pip install 'torch>=2.11'")
    return Probe("torch", Health.OK, f"torch {hello['torch']} computed in float64", gives)


def _disassembler() -> Probe:
    gives = "machine code (SASS) next to the source"
    path = find_nvdisasm()
    if path is None:
        remedy = f"pip install {WHEEL}"
        return Probe("nvdisasm", Health.MISSING, "not found", gives, remedy, needed=False)
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    lines = answer.stdout.strip().splitlines()
    if answer.returncode or not lines:
        return Probe("nvdisasm", Health.BROKEN, f"{path} does not run", gives, needed=False)
    release = next((x for x in lines if "release" in x), lines[-1])
    return Probe(
        "nvdisasm", Health.OK, release.removeprefix("Cuda compilation tools, "), gives, needed=False
    )


def _gpu() -> Iterator[Probe]:
    from astra_tui.lab.on_gpu.doctor import examine_gpu

    return examine_gpu()


def _last_line(error: Exception) -> str:
    """What an error comes to: the last line, where a process's own last words stand."""
    return str(error).strip().splitlines()[-1]


def _no_cache() -> ContentCache:
    """A cache that keeps nothing, so that what is reported happened just now."""
    return ContentCache("doctor", root=Path(os.devnull))
