"""The device on a real GPU: the five faults, the job after each, the twins, and a real check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pytest

from astra_tui.gpu import drawing
from astra_tui.gpu.device import CudaDevice
from astra_tui.gpu.gpu_process import CudaFailed, GpuProcess, find_devices
from astra_tui.gpu.messages import Fill, Prepare, Prepared, SetBuffer, Version
from astra_tui.gpu.tools import tools_source
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.opening import Gpu, open_gpu
from astra_tui.model.check import CaseOutcome, CheckReport
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch, RunOutcome
from astra_tui.model.dtypes import DType
from astra_tui.model.findings import FindingKind
from astra_tui.model.task import KernelTask
from tests.gpu.kernels import COUNT, LONG, buffers, launch, source_values
from tests.gpu.texts import COPY, ENDLESS, ILLEGAL, LARGE_STACK, MISALIGNED, SHARED

pytestmark = pytest.mark.gpu

HANG_SECONDS = 3.0
CASES = 12


@dataclass(frozen=True)
class Stand:
    """A GPU with a compiler for it."""

    gpu: Gpu
    compiler: Compiler
    device: CudaDevice

    def compile(self, text: str) -> Compilation:
        compilation = self.compiler.compile(text, ("k",))
        assert compilation.ok, compilation.errors
        return compilation

    def run(self, text: str, shared_bytes: int = 0) -> RunOutcome:
        compilation = self.compile(text)
        packed = launch(compilation, shared_bytes=shared_bytes)
        return self.device.run(compilation, (packed,), buffers())

    def assert_next_job_right(self) -> None:
        outcome = self.run(COPY)
        assert not outcome.findings, outcome.findings
        np.testing.assert_array_equal(outcome.contents["out"].view(np.float32), source_values())


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    found = find_devices()
    if not found.devices:
        pytest.skip(found.problem)
    with ExitStack() as stack:
        compiler = stack.enter_context(Compiler())
        gpu = open_gpu(found.devices[0], compiler)
        device = stack.enter_context(CudaDevice(gpu.facts, gpu.tools, HANG_SECONDS))
        yield Stand(gpu, compiler, device)


def test_a_copy_is_right_at_any_base(stand: Stand) -> None:
    stand.assert_next_job_right()
    compilation = stand.compile(COPY)
    for misalignment in (4, 36):
        outcome = stand.device.run(
            compilation, (launch(compilation),), buffers(misalignment=misalignment)
        )
        assert not outcome.findings
        np.testing.assert_array_equal(outcome.contents["out"].view(np.float32), source_values())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (ENDLESS, FindingKind.HANG),
        (ILLEGAL, FindingKind.GLOBAL_OUT_OF_BOUNDS),
        (MISALIGNED, FindingKind.MISALIGNED),
    ],
    ids=["endless loop", "illegal address", "misaligned"],
)
def test_a_fault_is_a_finding_and_the_next_job_is_right(
    stand: Stand, text: str, kind: FindingKind
) -> None:
    outcome = stand.run(text)
    assert [f.kind for f in outcome.findings] == [kind], outcome.findings
    stand.assert_next_job_right()


def test_out_of_memory_is_a_finding_and_the_next_job_is_right(stand: Stand) -> None:
    facts = stand.gpu.facts
    threads = facts.attributes["sm_count"] * facts.attributes["max_threads_per_sm"]
    if stand.compile(LARGE_STACK).kernels[0].resources.stack * threads < facts.memory:
        pytest.skip(f"{facts.name} has memory for the largest stack that a thread may have")
    findings = stand.run(LARGE_STACK).findings
    assert [f.kind for f in findings] == [FindingKind.OUT_OF_RESOURCES], findings
    stand.assert_next_job_right()


def test_too_much_shared_memory_is_a_finding_and_the_next_job_is_right(stand: Stand) -> None:
    most = stand.gpu.facts.attributes["max_shared_memory_per_block"]
    assert not stand.run(SHARED, most).findings
    findings = stand.run(SHARED, most + 16).findings
    assert [f.kind for f in findings] == [FindingKind.OUT_OF_RESOURCES], findings
    stand.assert_next_job_right()


def test_a_workspace_that_does_not_fit_leaves_the_process_alive(stand: Stand) -> None:
    process = GpuProcess(stand.gpu.facts.uuid, stand.gpu.tools)
    cubin = stand.compile(COPY).cubin
    noise = Fill("float32", "normal", 0.0, 1.0, 0.0, ())
    tensors = (SetBuffer("source", ArgumentRole.IN, 4 * COUNT, COUNT, noise),)
    try:
        too_large = Prepare(tensors, (Version(cubin, (), (("work", 1 << 42),)),), 1)
        with pytest.raises(CudaFailed, match=r"CUDA_ERROR_OUT_OF_MEMORY \(2\)") as caught:
            process.ask(too_large, Prepared, LONG)
        assert not caught.value.is_fatal
        fitting = Prepare(tensors, (Version(cubin, (), (("work", 1 << 20),)),), 1)
        prepared = process.ask(fitting, Prepared, LONG)
        assert prepared.free_bytes > 1 << 30
    finally:
        process.close()


@pytest.mark.parametrize("dtype", DType, ids=lambda d: d.value)
def test_the_gpu_draws_what_the_twin_draws(stand: Stand, dtype: DType) -> None:
    for fill in fills(dtype):
        found = drawn_by_gpu(stand, fill, elements=3000, sets=3)
        for number, bits in enumerate(found):
            twin = drawing.draw(fill, 42, number, np.arange(3000 // dtype.per_item))
            np.testing.assert_array_equal(bits, twin)


def fills(dtype: DType) -> tuple[Fill, ...]:
    name = dtype.value
    if not dtype.is_float:
        low, high = dtype.integer_range
        return (
            Fill(name, "integers", low, high, 0.0, ()),
            Fill(name, "integers", 0, min(high, 5000), 0.0, (), 1 + min(high, 900)),
            Fill(name, "arange", 0, min(high, 100), 0.0, ()),
        )
    special = (float("nan"), float("inf"), float("-inf"), -0.0)
    return (
        Fill(name, "normal", 0.1, 1.7, 2.5, special),
        Fill(name, "normal", 0.0, 1e30, 1e300, (1e300,)),
        Fill(name, "uniform", -3.3, 0.7, 3.0, ()),
        Fill(name, "constant", 0.3, 0.0, 0.0, ()),
    )


def drawn_by_gpu(stand: Stand, fill: Fill, elements: int, sets: int) -> np.ndarray:
    """Bit patterns of every set, by `draw` of tools.cu as a candidate of its own."""
    dtype = DType(fill.dtype)
    size = dtype.bytes_of(elements)
    stride = -(-size // 256) * 256
    parameters = bytes(8) + drawing.draw_parameters(fill, 42, elements, stride)
    compilation = stand.compiler.compile(tools_source(), ("draw",))
    kernel = compilation.kernel("draw")
    packed = PackedLaunch(kernel, (4, sets, 1), (256, 1, 1), 0, parameters, ((0, "out"),), 1)
    poison = DeviceBuffer("out", ArgumentRole.OUT, np.full(stride * sets, 0xFF, np.uint8))
    outcome = stand.device.run(compilation, (packed,), (poison,))
    assert not outcome.findings, outcome.findings
    rows = outcome.contents["out"].reshape(sets, stride)[:, :size]
    return np.ascontiguousarray(rows).view(f"u{dtype.size}")


def test_tuned_passes_a_real_check(stand: Stand, tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    file = task.tuned_file
    cases = build_suite(task)[:CASES]
    with Oracle(task) as oracle:
        checker = Checker(task, stand.device, stand.compiler, oracle)
        *_, report = checker.check(file.read_text(encoding="utf-8"), str(file), cases)
    assert isinstance(report, CheckReport)
    failed = [c for c in report.cases if c.outcome is not CaseOutcome.PASSED]
    assert not failed
    assert len(report.cases) == CASES
