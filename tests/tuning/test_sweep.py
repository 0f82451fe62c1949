"""A sweep over a scripted GPU: real processes, plans and statistics; its times are the script's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.gpu_process import GpuProcess
from astra_tui.gpu.tools import ToolKernels
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu import bench as bench_module
from astra_tui.lab.on_gpu.bench import Bench
from astra_tui.lab.requests import TrialTimings
from astra_tui.lab.tuning.search import Candidates, Searched, search
from astra_tui.lab.tuning.sweep import (
    FINALISTS,
    NEAR,
    SCREENING,
    RecordedTimes,
    Times,
    finalists,
    time_batch,
    time_trials,
)
from astra_tui.model.task import KernelTask, Workload
from tests.gpu.kernels import MODULE, scripted_tools
from tests.gpu.script import FACTS, ILLEGAL_ADDRESS, Scripted
from tests.gpu.versions import US, WIDE, version_maker

pytestmark = pytest.mark.usefixtures("warm_processes")

SHARES = (1.0, 0.97, 0.9, 1.2, 1.05, 0.905)
FAULTY = len(SHARES)


@pytest.fixture
def tools() -> ToolKernels:
    return scripted_tools()


@pytest.fixture
def bench(
    tasks: dict[str, KernelTask],
    tools: ToolKernels,
    private_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    task = tasks["silu_and_mul"]
    monkeypatch.setattr(bench_module, "GpuProcess", partial(GpuProcess, module=MODULE))
    with Oracle(task) as oracle, Bench(task, FACTS, tools, oracle, SCREENING) as opened:
        yield opened


def test_a_sweep_finds_the_fastest_and_goes_on_after_a_fault(
    bench: Bench, tasks: dict[str, KernelTask], compiler: Compiler
) -> None:
    """Trials that take a share of US each, and one that faults."""
    make = version_maker(tasks["silu_and_mul"], compiler)
    scripts = [Scripted("silu", share * US) for share in SHARES]
    compiled = [make(s) for s in (*scripts, Scripted("silu", US, error=ILLEGAL_ADDRESS))]

    async def measure(
        workloads: Sequence[Workload], base: int, trials: Sequence[int], *, final: bool
    ) -> TrialTimings:
        return time_trials(bench, workloads, compiled[base], [compiled[t] for t in trials])

    times = Times()
    for some in (range(4), range(4, FAULTY + 1)):
        times.keep("wide", asyncio.run(time_batch(measure, WIDE, 0, list(some))))
    found = times.found["wide"]
    assert sorted(found) == list(range(len(SHARES) + 1))
    assert "ILLEGAL_ADDRESS" in found[FAULTY].problem
    assert not found[FAULTY].valid
    for number, share in enumerate(SHARES):
        assert found[number].us == pytest.approx(share * US, rel=0.01)
        assert found[number].low <= found[number].speedup <= found[number].high
    one = Candidates("wide", dict.fromkeys(range(len(SHARES) + 1), US))
    recorded = RecordedTimes({"wide": {t: x.us for t, x in found.items() if x.valid}})
    where = [(i / 6,) for i in range(len(SHARES) + 1)]
    replayed = search([one], where, recorded, share=1.0)
    assert replayed[0].best == 2
    again = time_trials(bench, [WIDE], compiled[0], [compiled[t] for t in finalists(replayed)])
    speedup = again.timings[0].workloads[0].cold.speedup
    assert speedup.value == pytest.approx(1 / 0.9, rel=0.005)


def test_finalists_are_few_that_seem_as_good_as_the_best_of_each_workload() -> None:
    first = Searched("a", {0: 10.0, 1: 10.05, 2: 9.99, 3: 12.0}, 4, 40, 0.0)
    other = Searched("b", {3: 1.0, 0: 2.0}, 2, 40, 0.0)
    assert finalists([first, other, Searched("c", {}, 3, 40, 0.0)]) == (2, 3, 0)
    shared = Searched("d", {1: 1.0, 0: 1.005, 2: 1.009}, 3, 40, 0.0)
    assert finalists([first, shared]) == (0, 1)
    assert finalists([]) == ()


@given(
    st.lists(
        st.dictionaries(st.integers(0, 30), st.floats(1.0, 1.03), max_size=12).map(
            lambda us: Searched("w", us, len(us), 40, 0.0)
        ),
        max_size=8,
    )
)
def test_every_workload_has_finalists_of_its_own(searched: list[Searched]) -> None:
    found = finalists(searched)
    assert len(set(found)) == len(found) <= FINALISTS * len(searched)
    for one in searched:
        if one.us:
            near = [t for t, us in one.us.items() if us <= min(one.us.values()) * (1 + NEAR)]
            assert len({*near} & {*found}) >= min(FINALISTS, len(near))
