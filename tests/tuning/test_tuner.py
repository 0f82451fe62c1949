"""A sweep on one GPU and on several, by times that follow from settings: nothing is measured."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.lab.requests import CompiledTrial, TrialTimings
from astra_tui.lab.tuning.search import places
from astra_tui.lab.tuning.tuner import Tuned, Tuner
from astra_tui.model.compilation import Compilation
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import (
    Floor,
    PairedTime,
    Ratio,
    Timing,
    TimingVerdict,
    WorkloadTiming,
)
from astra_tui.model.tuning import LaunchWork, ThreadWork, TrialWork
from tests.gpu.script import FACTS

CHOICES = (64, 128, 256, 512), (1, 2, 4)
SETTINGS = [(256, 1), *(s for s in itertools.product(*CHOICES) if s != (256, 1))]
WHERE = places(CHOICES, SETTINGS)
RIVAL = len(SETTINGS)
COMPILED = Compilation((), (), "", b"", "sm_90a", "", 0.0)


def compiled(number: int, workloads: Sequence[Workload]) -> CompiledTrial:
    threads, unroll = SETTINGS[number] if number < RIVAL else (32, 1)
    code = ThreadWork(100 * unroll, 16 * unroll, 16 * unroll, 0)
    launch = LaunchWork(code, 4096 // unroll, threads, 2048 // threads)
    return CompiledTrial(
        "", COMPILED, {w.name: TrialWork(f"{number}", (launch,)) for w in workloads}
    )


class Gpus:
    """Takes a time that depends on the settings and the workload; jobs end in any order."""

    def __init__(self, number: int, workloads: Sequence[Workload], draw: random.Random):
        self.free = asyncio.Semaphore(number)
        self.sizes = {w.name: i for i, w in enumerate(workloads)}
        self.draw, self.busy, self.most = draw, 0, 0

    def us(self, trial: int, workload: str) -> float:
        threads, unroll = SETTINGS[trial] if trial < RIVAL else (32, 1)
        best = 128 << self.sizes.get(workload, 0) % 3
        return 20 + 5 * abs(threads - best) / best + abs(unroll - 2)

    async def measure(
        self, workloads: Sequence[Workload], base: int, trials: Sequence[int], *, final: bool
    ) -> TrialTimings:
        async with self.free:
            self.busy += 1
            self.most = max(self.most, self.busy)
            for _ in range(1 + self.draw.randrange(5)):
                await asyncio.sleep(0)
            self.busy -= 1
            if not final and any(SETTINGS[t] == (64, 4) for t in trials):
                return TrialTimings((), 1.0, "the kernel faults")
            timings = tuple(self.timing(workloads, base, t) for t in trials)
        return TrialTimings(timings, 1.0)

    def timing(self, workloads: Sequence[Workload], base: int, trial: int) -> Timing:
        found = []
        for w in workloads:
            us = [self.us(number, w.name) for number in (base, trial)]
            ratio = Ratio(us[0] / us[1], us[0] / us[1] - 1e-4, us[0] / us[1] + 1e-4, 40)
            one = WorkloadTiming(
                w.name, dict(w.dims), w.dtype, TimingVerdict.SAME, PairedTime(*us, ratio), 0.003,
                floor=Floor(1.0, 10.0, 1 << 20),
            )  # fmt: skip
            found.append(one)
        parts = "", "", tuple(found), ratio, ratio, TimingVerdict.SAME, ()
        return Timing("cuda:0", "H200", *parts, uuid=f"GPU-{self.draw.randrange(3)}")


async def swept(task: KernelTask, gpus: int, draw: random.Random, share: float) -> Tuned:
    workloads = task.workloads[:4]
    device = Gpus(gpus, workloads, draw)
    trials = [compiled(number, workloads) for number in range(RIVAL)]
    tuner = Tuner(
        task, FACTS, workloads, trials, WHERE, device.measure, [compiled(RIVAL, workloads)], gpus
    )
    found = await tuner.tune(share)
    assert min(gpus, len(workloads)) <= device.most <= gpus
    assert device.busy == 0, "nothing is left behind"
    return found


@given(st.randoms(use_true_random=False), st.sampled_from((2, 3, 8)), st.sampled_from((0.1, 0.4)))
def test_the_result_does_not_depend_on_how_many_gpus_there_are(
    tasks: dict[str, KernelTask], draw: random.Random, gpus: int, share: float
) -> None:
    """Nor on the order in which they answer; a faulty trial is measured alone."""
    task = tasks["silu_and_mul"]
    one, many = (asyncio.run(swept(task, n, draw, share)) for n in (1, gpus))
    assert one.searched == many.searched
    assert one.portfolio == many.portfolio
    assert one.portfolio.default or one.portfolio.parts
    assert one.gpu_seconds <= many.gpu_seconds


@given(st.randoms(use_true_random=False), st.integers(0, 60), st.sampled_from((1, 3)))
def test_what_is_measured_when_a_sweep_is_cut_makes_a_winner(
    tasks: dict[str, KernelTask], draw: random.Random, measurements: int, gpus: int
) -> None:
    """Nothing before the first trial; else no trial serves a workload on which it is slower."""
    task = tasks["silu_and_mul"]
    workloads = task.workloads[:4]
    device = Gpus(gpus, workloads, draw)
    trials = [compiled(number, workloads) for number in range(RIVAL)]
    left, sweeping = [measurements], list[asyncio.Task[Tuned]]()

    async def measure(
        workloads: Sequence[Workload], base: int, trials: Sequence[int], *, final: bool
    ) -> TrialTimings:
        if not left[0]:
            sweeping[0].cancel()
            return await asyncio.Future()
        left[0] -= 1
        return await device.measure(workloads, base, trials, final=final)

    async def run() -> Tuned | None:
        tuner = Tuner(task, FACTS, workloads, trials, WHERE, measure, at_once=gpus)
        sweeping.append(asyncio.create_task(tuner.tune(0.4)))
        await asyncio.wait(sweeping)
        return tuner.so_far()

    found = asyncio.run(run())
    if found is None:
        first = 1 + 4  # What faults is measured again, trial by trial.
        most = first if gpus == 1 else first * len(workloads)
        assert measurements < 4 + most, "the source, and a first batch on each workload"
        return
    assert "of at most" in found.cut
    assert found.timed
    serves = {}
    for w in workloads:
        parts = (part.trial for part in found.portfolio.parts if part.serves(w.dims))
        serves[w.name] = next(parts, found.portfolio.default)
    own, us = (
        {w: device.us(t, w) for w, t in of.items()} for of in (dict.fromkeys(serves, 0), serves)
    )
    assert all(us[w] <= own[w] for w in serves) or not found.portfolio.parts
    assert sum(us.values()) <= sum(own.values())
    assert found.finals or sweeping[0].cancelled()


def test_a_failure_ends_all_that_was_begun(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    workloads, left = task.workloads[:4], []

    async def measure(
        workloads: Sequence[Workload], base: int, trials: Sequence[int], *, final: bool
    ) -> TrialTimings:
        if workloads[0].name == task.workloads[1].name:
            raise UserError("the task has changed")
        try:
            return await asyncio.Future()
        finally:
            left.append(workloads)

    async def run() -> None:
        trials = [compiled(number, workloads) for number in range(RIVAL)]
        tuner = Tuner(task, FACTS, workloads, trials, WHERE, measure, at_once=4)
        with pytest.raises(UserError, match="the task has changed"):
            await tuner.tune()
        assert len(left) == len(workloads) - 1
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())
