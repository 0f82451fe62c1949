"""Packs everything that is recorded on a GPU into one folder: cubins, launches, buffers.

    python -m tests.emulator.golden.build FOLDER
    python -m tests.emulator.golden.build FOLDER hopper

The folder goes to a machine with a GPU, where `run_on_gpu.py` needs only NumPy and cuda-bindings.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from astra_tui.lab.check.binding import bind_launch
from astra_tui.lab.check.counting import workload_case
from astra_tui.lab.check.execution import read_source, resolve_case
from astra_tui.lab.check.inputs import Inputs, scalars_of
from astra_tui.lab.check.layout import device_buffers, layouts_of
from astra_tui.lab.compiler import Compiler
from astra_tui.model.bit_patterns import encode
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation, CompiledKernel
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch
from astra_tui.model.launch import ResolvedPlan
from astra_tui.model.task import KernelTask, ValueKind, find_task
from tests.emulator.golden import hopper_programs, patterns, snippets
from tests.emulator.hopper import BLOCKS, THREADS

Buffers = tuple[DeviceBuffer, ...]

TASKS = ("silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse")
TASK_ROWS = 16
HERE = Path(__file__).parent


class Bundle:
    """Launches to run on a GPU, in groups that are profiled together."""

    def __init__(self) -> None:
        self.cubins: dict[str, bytes] = {}
        self.arrays: dict[str, Any] = {}
        self.cases: list[dict[str, Any]] = []

    def add(
        self,
        group: str,
        name: str,
        cubin: str,
        launches: tuple[PackedLaunch, ...],
        buffers: tuple[DeviceBuffer, ...],
        outputs: tuple[str, ...],
    ) -> None:
        """Adds one case: its launches run in order on fresh buffers."""
        described = {}
        for buffer in buffers:
            key = f"{name}/{buffer.name}"
            self.arrays[key] = np.ascontiguousarray(buffer.content)
            described[buffer.name] = key
        self.cases.append(
            {
                "group": group,
                "name": name,
                "cubin": cubin,
                "buffers": described,
                "outputs": list(outputs),
                "launches": [
                    {
                        "symbol": x.kernel.symbol,
                        "grid": x.grid,
                        "block": x.block,
                        "shared": x.shared_bytes,
                        "cluster": x.cluster,
                        "parameters": x.parameters.hex(),
                        "pointers": x.pointers,
                    }
                    for x in launches
                ],
            }
        )

    def write(self, folder: Path) -> None:
        """Writes the bundle."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.cubins.items():
            (folder / f"{name}.cubin").write_bytes(data)
        np.savez_compressed(folder / "buffers.npz", **self.arrays)
        (folder / "bundle.json").write_text(json.dumps(self.cases))


def simple_launch(
    kernel: CompiledKernel, names: tuple[str, ...], blocks: int, threads: int
) -> PackedLaunch:
    """A launch whose arguments are all pointers."""
    pointers = tuple((p.offset, n) for p, n in zip(kernel.parameters, names, strict=True))
    return PackedLaunch(
        kernel, (blocks, 1, 1), (threads, 1, 1), 0, bytes(kernel.parameter_bytes), pointers, 0
    )


def program_case(
    program: snippets.Program, compilation: Compilation
) -> tuple[PackedLaunch, tuple[DeviceBuffer, ...]]:
    """The launch and buffers of one opcode program."""
    kernel = compilation.kernel(program.name)
    arrays = program.arrays()
    names = ("out", *(f"in{n}" for n in range(len(arrays))))
    launch = simple_launch(kernel, names, snippets.LANES // snippets.BLOCK, snippets.BLOCK)
    out = np.full(snippets.LANES * program.out_size, 0xFF, np.uint8)
    buffers = [DeviceBuffer("out", ArgumentRole.OUT, out)]
    for name, array in zip(names[1:], arrays, strict=True):
        buffers.append(DeviceBuffer(name, ArgumentRole.IN, array.view(np.uint8)))
    return launch, tuple(buffers)


def pattern_case(
    pattern: patterns.Pattern, compilation: Compilation
) -> tuple[PackedLaunch, tuple[DeviceBuffer, ...]]:
    """The launch and buffers of one access pattern."""
    kernel = compilation.kernel(pattern.kernel)
    count = len(pattern.indices)
    at = np.array(pattern.indices, np.int32)
    buffers = [
        DeviceBuffer("out", ArgumentRole.INOUT, np.zeros(4 * max(count, 32), np.uint8)),
        DeviceBuffer("at", ArgumentRole.IN, at.view(np.uint8)),
    ]
    if pattern.kernel.startswith("global"):
        data = np.arange(16 * patterns.WORDS, dtype=np.uint8)
        buffers.append(DeviceBuffer("data", ArgumentRole.INOUT, data))
    names = tuple(b.name for b in buffers)
    return simple_launch(kernel, names, 1, count), tuple(buffers)


def hopper_cases(compiler: Compiler) -> Iterator[tuple[str, Compilation, PackedLaunch, Buffers]]:
    """The programs with clusters, each compiled by itself."""
    for name, source in hopper_programs.programs().items():
        compilation = compiler.compile(source, ("k",))
        assert compilation.ok, (name, compilation.errors)
        given = hopper_programs.inputs(name)
        buffers = (
            DeviceBuffer("out", ArgumentRole.INOUT, np.zeros(given.nbytes, np.uint8)),
            DeviceBuffer("in", ArgumentRole.IN, given.view(np.uint8)),
            DeviceBuffer("work", ArgumentRole.INOUT, np.zeros(given.nbytes, np.uint8)),
        )
        names = tuple(b.name for b in buffers)
        launch = simple_launch(compilation.kernels[0], names, BLOCKS, THREADS)
        yield name, compilation, replace(launch, cluster=hopper_programs.CLUSTER), buffers


def hopper() -> Bundle:
    """What is recorded on a GPU with clusters."""
    bundle = Bundle()
    with Compiler(seconds=300) as compiler:
        for number, (name, compilation, launch, buffers) in enumerate(hopper_cases(compiler)):
            bundle.cubins[f"hopper{number}"] = compilation.cubin
            bundle.add("hopper", name, f"hopper{number}", (launch,), buffers, ("out",))
    return bundle


def recorded_inputs(task: KernelTask, case: Case) -> Inputs:
    """The inputs of a task on the day of the recording, when another generator drew them."""
    tensors = {}
    for argument in task.tensors:
        if argument.is_read:
            assert argument.values.kind is ValueKind.NORMAL
            dtype, low = task.dtype_of(argument, case.dtype), argument.values.low
            text = f"1|{task.name}|{case.id}|{sorted(case.dims.items())}|{argument.name}"
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
            random = np.random.Generator(np.random.Philox(seed))
            shape = task.shape_of(argument, case.dims, case.dtype)
            data = random.normal(low, argument.values.high, shape)
            if argument.limit is not None:
                data = np.clip(data, -argument.limit, argument.limit)
            tensors[argument.name] = encode(data, dtype)
    return Inputs(tensors, scalars_of(task, case))


def task_cases(compiler: Compiler) -> Any:
    """Sources of the bundled tasks as they were when they were recorded, on a few rows."""
    for name in TASKS:
        task = find_task(name)
        for file in sorted((HERE / "kernels" / name).glob("*.cu")):
            source = read_source(task, file.read_text(), str(file))
            case = workload_case(task, None, TASK_ROWS)
            inputs = recorded_inputs(task, case)
            resolved = resolve_case(task, source, case, scalars_of(task, case))
            assert isinstance(resolved, ResolvedPlan)
            compilation = compiler.compile(source.text, tuple(x.kernel for x in resolved.launches))
            layouts = layouts_of(task, case)
            types = {n: x.dtype for n, x in layouts.items()}
            launches = tuple(
                bind_launch(compilation.kernel(x.kernel), x, types) for x in resolved.launches
            )
            buffers = device_buffers(layouts, inputs, resolved.workspaces)
            outputs = tuple(a.name for a in task.outputs)
            yield f"{name}/{file.name}", compilation, launches, buffers, outputs


def build() -> Bundle:
    """Everything that is recorded."""
    bundle = Bundle()
    with Compiler(seconds=300) as compiler:
        programs = snippets.programs()
        compilation = compiler.compile(snippets.source(), tuple(p.name for p in programs))
        assert compilation.ok, compilation.errors
        bundle.cubins["programs"] = compilation.cubin
        for program in programs:
            launch, buffers = program_case(program, compilation)
            bundle.add("programs", program.name, "programs", (launch,), buffers, ("out",))
        kernels = tuple(dict.fromkeys(p.kernel for p in patterns.patterns()))
        compilation = compiler.compile(patterns.source(), kernels)
        assert compilation.ok, compilation.errors
        bundle.cubins["patterns"] = compilation.cubin
        for pattern in patterns.patterns():
            launch, buffers = pattern_case(pattern, compilation)
            bundle.add("patterns", pattern.name, "patterns", (launch,), buffers, ())
        for name, compilation, launches, buffers, outputs in task_cases(compiler):
            cubin = name.replace("/", "_")
            bundle.cubins[cubin] = compilation.cubin
            bundle.add("tasks", name, cubin, launches, buffers, outputs)
    return bundle


if __name__ == "__main__":
    (hopper() if sys.argv[2:] == ["hopper"] else build()).write(Path(sys.argv[1]))
