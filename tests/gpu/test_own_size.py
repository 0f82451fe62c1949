"""Workloads at their own size over a scripted GPU: real processes, real plan, real reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from astra_tui.gpu.device import CudaDevice
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.own_size import OwnSize
from astra_tui.model.check import FAR, WIDE, CaseOutcome, CaseResult
from astra_tui.model.findings import FindingKind
from astra_tui.model.task import KernelTask
from tests.gpu.script import ILLEGAL_ADDRESS, Scripted
from tests.gpu.versions import TALL, MakeVersion, version_maker

pytestmark = pytest.mark.usefixtures("warm_processes")

MakeCheck = Callable[[Scripted], CaseResult]
"""Checks a scripted kernel on the workload `tall`, 96 x 32."""


@pytest.fixture(scope="module")
def task(tasks: dict[str, KernelTask]) -> KernelTask:
    return tasks["silu_and_mul"]


@pytest.fixture(scope="module")
def oracle(task: KernelTask) -> Iterator[Oracle]:
    with Oracle(task) as opened:
        yield opened


@pytest.fixture(scope="module")
def version(task: KernelTask, compiler: Compiler) -> MakeVersion:
    return version_maker(task, compiler)


@pytest.fixture
def check(task: KernelTask, oracle: Oracle, device: CudaDevice, version: MakeVersion) -> MakeCheck:
    def make(kernel: Scripted) -> CaseResult:
        own = OwnSize.drawn(task, TALL, device, oracle)
        return own.check(version(kernel), dict)

    return make


def test_all_rows_are_judged_and_a_right_kernel_passes(check: MakeCheck) -> None:
    result = check(Scripted("silu"))
    assert result.outcome is CaseOutcome.PASSED, result.message
    assert result.case.name == "own size of workload tall"
    (output,) = result.outputs
    assert 0 < output.error < 1
    assert 0 < output.relative_l2 < 1e-3
    assert not result.findings


@pytest.mark.parametrize("row", [0, 37, 95])
def test_one_row_of_all_that_is_left_out_is_seen(check: MakeCheck, row: int) -> None:
    result = check(Scripted("silu", options={"leaves_out": row}))
    assert result.outcome is CaseOutcome.WRONG
    assert "out: NaN where the reference is a number, at 32 of 3072 elements" in result.message
    assert result.outputs[0].at == (row, 0)


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (Scripted("silu", options={"writes_past": 1}), FindingKind.WROTE_OUTSIDE),
        (Scripted("silu", options={"writes_input": 1}), FindingKind.WROTE_INPUT),
        (Scripted("lazy_silu", options={"diligent": 3}), FindingKind.UNINITIALISED_GLOBAL),
        (Scripted("lazy_silu", options={"diligent": 2}), FindingKind.NOT_DETERMINISTIC),
        (Scripted("silu", error=ILLEGAL_ADDRESS), FindingKind.GLOBAL_OUT_OF_BOUNDS),
    ],
    ids=["outside", "input", "other poison", "not the same", "fault"],
)
def test_what_else_a_kernel_does_wrong_is_a_finding(
    check: MakeCheck, kernel: Scripted, kind: FindingKind
) -> None:
    result = check(kernel)
    assert result.outcome is CaseOutcome.FAULT
    assert kind in [f.kind for f in result.findings]
    assert check(Scripted("silu")).outcome is CaseOutcome.PASSED


def test_sizes_beyond_those_listed_have_their_own_name_and_have_to_fit(
    task: KernelTask, oracle: Oracle, device: CudaDevice, version: MakeVersion
) -> None:
    name = f"{WIDE}96x64"
    wide = OwnSize.drawn(
        task, replace(TALL, name=name, dims={"tokens": 96, "d": 64}), device, oracle
    )
    assert wide.fits
    result = wide.check(version(Scripted("silu")), dict)
    assert (result.case.name, result.outcome) == (name, CaseOutcome.PASSED)
    far = replace(TALL, name=f"{FAR}much", dims={"tokens": 1 << 40, "d": 64})
    assert not OwnSize.drawn(task, far, device, oracle).fits
