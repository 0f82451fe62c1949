"""The device: right results, and whatever a candidate does is a finding; the next case is right.

The processes are real, with a scripted driver inside.
"""

from __future__ import annotations

import os
import signal

import numpy as np
import psutil
import pytest

from astra_tui.gpu.device import REPEATED_BYTES, CudaDevice
from astra_tui.gpu.messages import Drop, Dropped
from astra_tui.gpu.tools import ToolKernels
from astra_tui.lab.compiler import Compiler
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import RunOutcome
from astra_tui.model.findings import FindingKind
from tests.conftest import is_alive
from tests.gpu.kernels import COUNT, LONG, MODULE, buffers, candidate, launch, source_values
from tests.gpu.script import (
    FACTS,
    ILLEGAL_ADDRESS,
    LARGEST_SHARED,
    LAUNCH_FAILED,
    MISALIGNED,
    OUT_OF_RESOURCES,
    TIMEOUT,
    Scripted,
)

GOOD = candidate(Scripted("copy"))


def run(device: CudaDevice, compilation: Compilation, misalignment: int = 0) -> RunOutcome:
    return device.run(compilation, (launch(compilation),), buffers(misalignment=misalignment))


def output(outcome: RunOutcome) -> np.ndarray:
    assert not outcome.findings, outcome.findings
    return np.asarray(outcome.contents["out"].view(np.float32))


def assert_right(outcome: RunOutcome) -> None:
    np.testing.assert_array_equal(output(outcome), source_values())


def children() -> set[int]:
    """The processes that this one started and that live."""
    started = psutil.Process().children()
    return {child.pid for child in started if is_alive(child)}


def test_outputs_come_back(device: CudaDevice) -> None:
    outcome = run(device, GOOD)
    assert_right(outcome)
    np.testing.assert_array_equal(outcome.contents["source"].view(np.float32), source_values())


@pytest.mark.parametrize("misalignment", [4, 12, 36])
def test_a_base_lies_where_the_case_wants_it(device: CudaDevice, misalignment: int) -> None:
    assert_right(run(device, GOOD, misalignment))


def test_an_element_across_a_boundary_is_misaligned(device: CudaDevice) -> None:
    outcome = run(device, GOOD, misalignment=2)
    assert [f.kind for f in outcome.findings] == [FindingKind.MISALIGNED]
    assert_right(run(device, GOOD))


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (4 * COUNT, "1 bytes past the end of out"),
        (4 * COUNT + 99, "100 bytes past the end of out"),
        (-1, "1 bytes before out"),
        (-4096, "4096 bytes before out"),
        (4096 + 4 * COUNT - 1, "1 bytes before source"),
    ],
)
def test_a_write_outside_every_buffer(device: CudaDevice, at: int, words: str) -> None:
    outcome = run(device, candidate(Scripted("poke", options={"at": at})))
    assert [f.kind for f in outcome.findings] == [FindingKind.WROTE_OUTSIDE]
    assert outcome.findings[0].message.endswith(words)


def test_different_bytes_in_another_run(device: CudaDevice) -> None:
    outcome = run(device, candidate(Scripted("unsteady")))
    assert [f.kind for f in outcome.findings] == [FindingKind.NOT_DETERMINISTIC]
    assert outcome.findings[0].message.startswith("out: ")


def test_unchecked_runs_and_large_cases_run_once(device: CudaDevice) -> None:
    unsteady = candidate(Scripted("unsteady"), "fresh")
    once = device.run(unsteady, (launch(unsteady),), buffers(), checked=False)
    assert output(once)[0] == 0
    count = REPEATED_BYTES // 8 + 1
    large = device.run(unsteady, (launch(unsteady, count),), buffers(count))
    assert output(large)[0] == 1, "the second launch of the kernel"


def test_an_empty_grid_launches_nothing(device: CudaDevice) -> None:
    outcome = device.run(GOOD, (launch(GOOD, grid=0),), buffers())
    assert np.isnan(output(outcome)).all()


@pytest.mark.parametrize(
    ("kernel", "kind", "words"),
    [
        (
            Scripted("copy", error=ILLEGAL_ADDRESS),
            FindingKind.GLOBAL_OUT_OF_BOUNDS,
            "ILLEGAL_ADDRESS (700)",
        ),
        (
            Scripted("poke", options={"at": -(1 << 30)}),
            FindingKind.GLOBAL_OUT_OF_BOUNDS,
            "ILLEGAL_ADDRESS (700)",
        ),
        (Scripted("copy", error=MISALIGNED), FindingKind.MISALIGNED, "(716)"),
        (Scripted("copy", error=LAUNCH_FAILED), FindingKind.TRAP, "(719)"),
        (Scripted("copy", error=TIMEOUT), FindingKind.HANG, "(702)"),
        (Scripted("copy", refused=OUT_OF_RESOURCES), FindingKind.OUT_OF_RESOURCES, "(701)"),
        (Scripted("copy", trouble="exit"), FindingKind.LAUNCH_FAILED, "gave up"),
        (Scripted("copy", trouble="killed"), FindingKind.LAUNCH_FAILED, "SIGKILL"),
        (Scripted("copy", trouble="garbage"), FindingKind.LAUNCH_FAILED, "damaged message"),
        (Scripted("copy", trouble="unknown"), FindingKind.LAUNCH_FAILED, "no known form"),
        (Scripted("copy", trouble="stray"), FindingKind.LAUNCH_FAILED, "answered Dropped"),
        (Scripted("copy", trouble="oversized"), FindingKind.LAUNCH_FAILED, "too large"),
    ],
    ids=lambda v: v.trouble or f"{v.does}{v.error or v.refused}" if isinstance(v, Scripted) else "",
)
def test_a_fault_is_a_finding_and_the_next_case_is_right(
    device: CudaDevice, kernel: Scripted, kind: FindingKind, words: str
) -> None:
    outcome = run(device, candidate(kernel))
    assert [f.kind for f in outcome.findings] == [kind]
    assert words in outcome.findings[0].message
    assert set(outcome.contents) == {"out", "source"}
    assert_right(run(device, GOOD))


def test_a_fault_after_good_cases_is_a_finding(device: CudaDevice) -> None:
    late = candidate(Scripted("copy", error=ILLEGAL_ADDRESS, spared=15))
    assert_right(run(device, late))
    faults = run(device, late).faults
    assert [f.kind for f in faults] == [FindingKind.GLOBAL_OUT_OF_BOUNDS]
    assert_right(run(device, late))


@pytest.mark.parametrize("trouble", ["hang", "trickle"])
def test_no_answer_in_time_is_a_hang(
    tools: ToolKernels, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    with CudaDevice(FACTS, tools, LONG, MODULE) as device:
        assert_right(run(device, GOOD))
        before = children()
        with monkeypatch.context() as hurry:
            hurry.setattr(device, "seconds", 1.0)  # Only what never answers meets it.
            outcome = run(device, candidate(Scripted("copy", trouble=trouble)))
        assert [f.kind for f in outcome.findings] == [FindingKind.HANG]
        assert outcome.findings[0].message == "the GPU process gave no answer in 1 s"
        assert len(children()) <= len(before), "the process that hung is gone"
        assert_right(run(device, GOOD))


def test_out_of_memory_is_a_finding_and_smaller_cases_still_run(device: CudaDevice) -> None:
    count = device.facts.memory // 8
    outcome = device.run(GOOD, (launch(GOOD, count),), buffers(count))
    assert [f.kind for f in outcome.findings] == [FindingKind.OUT_OF_RESOURCES]
    assert "OUT_OF_MEMORY (2)" in outcome.findings[0].message
    assert_right(run(device, GOOD))


def test_more_shared_memory_than_a_block_may_have(device: CudaDevice) -> None:
    wanted = launch(GOOD, shared_bytes=LARGEST_SHARED + 1)
    outcome = device.run(GOOD, (wanted,), buffers())
    assert [f.kind for f in outcome.findings] == [FindingKind.OUT_OF_RESOURCES]
    assert_right(run(device, GOOD))


def test_a_flood_of_output_drowns_nothing(device: CudaDevice) -> None:
    assert_right(run(device, candidate(Scripted("copy", trouble="flood"))))
    faults = run(device, candidate(Scripted("copy", trouble="flood_and_exit"))).faults
    assert [f.kind for f in faults] == [FindingKind.LAUNCH_FAILED]
    assert faults[0].message.endswith("the driver gave up")
    assert len(faults[0].message) < 5_000


def test_two_candidates_never_share_a_process(device: CudaDevice) -> None:
    mine, other = (candidate(Scripted("process_id"), nonce) for nonce in ("a", "b"))
    ids = [
        int(run(device, compilation).contents["out"].view(np.uint64)[0])
        for compilation in (mine, other, mine, other)
    ]
    assert ids[0] != ids[1]
    assert ids[:2] == ids[2:], "but one keeps its own"
    assert os.getpid() not in ids


def test_a_process_that_died_meanwhile_is_replaced(device: CudaDevice) -> None:
    who = candidate(Scripted("process_id"))
    first = int(run(device, who).contents["out"].view(np.uint64)[0])
    os.kill(first, 9)
    run(device, who)
    assert int(run(device, who).contents["out"].view(np.uint64)[0]) != first


def test_no_process_outlives_the_device(tools: ToolKernels) -> None:
    before = children()
    with CudaDevice(FACTS, tools, LONG, MODULE) as device:
        for nonce in "abc":
            assert_right(run(device, candidate(Scripted("copy"), nonce)))
        assert len(children() - before) == 3, "two candidates and the spare"
    assert children() <= before


GLOBAL = """
/* @launch
   counting<T> grid=tokens block=32 args=(out, input, d)
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>
__device__ int calls;
template <typename T>
__global__ void counting(T* out, const T* input, int d) {
    if (threadIdx.x == 0 && ++calls > 3) out[0] = input[0];
}
"""


def test_a_source_that_could_remember_launches_is_not_run() -> None:
    with Compiler() as compiler:
        compilation = compiler.compile(GLOBAL, ("counting<__half>",))
    assert compilation.ok
    with CudaDevice(FACTS, ToolKernels(b"", {}), module="no.such.module") as device:
        outcome = device.run(compilation, (), ())
    (finding,) = outcome.faults
    assert finding.kind is FindingKind.HIDDEN_STATE
    assert "calls" in finding.message
    assert "4 bytes" in finding.message


def test_the_next_candidate_finds_a_process_that_holds_the_gpu(tools: ToolKernels) -> None:
    with CudaDevice(FACTS, tools, LONG, MODULE) as device:
        assert device.gpu_processes == ()
        assert_right(run(device, GOOD))
        device.settle()
        before = device.gpu_processes
        assert len(before) == 2
        assert set(before) <= children()
        assert_right(run(device, candidate(Scripted("copy"), "another")))
        assert before[1] in device.gpu_processes


def test_who_asks_for_a_process_that_is_being_asked_gets_another(tools: ToolKernels) -> None:
    """Else what was prepared there would be gone: a baseline is judged against itself as well."""
    with CudaDevice(FACTS, tools, LONG, MODULE) as device:
        assert_right(run(device, GOOD))
        with device.process_of(GOOD.cubin) as first:
            with device.process_of(GOOD.cubin) as second:
                assert second is not first
                assert second.ask(Drop(), Dropped, LONG) == Dropped()
            assert not second.is_running
            assert first.is_running
        with device.process_of(GOOD.cubin) as again:
            assert again is first


def test_a_process_that_dies_while_it_idles_holds_the_gpu_no_more(tools: ToolKernels) -> None:
    with CudaDevice(FACTS, tools, LONG, MODULE) as device:
        assert_right(run(device, GOOD))
        device.settle()
        first, spare = device.gpu_processes
        os.kill(spare, signal.SIGKILL)
        os.waitid(os.P_PID, spare, os.WEXITED | os.WNOWAIT)
        assert device.gpu_processes == (first,)
        assert_right(run(device, candidate(Scripted("copy"), "another")))
