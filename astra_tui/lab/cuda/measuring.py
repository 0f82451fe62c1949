"""Times versions of a kernel on one workload: paired, cold and warm, verified, with its doubts."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.cuda.floors import Floors
from astra_tui.lab.cuda.gpu_process import GpuFailure, GpuProcess
from astra_tui.lab.cuda.messages import (
    Block,
    Build,
    Built,
    DeviceFacts,
    PaperRun,
    PaperTimes,
    Prepare,
    Prepared,
    Rounds,
    Spin,
    Spun,
)
from astra_tui.lab.cuda.verifying import VERIFIED_SETS, Verifier
from astra_tui.lab.cuda.watch import Watch
from astra_tui.lab.cuda.workload import Compiled, WorkloadBuffers
from astra_tui.lab.timing.conclusion import Conclusion, conclude
from astra_tui.lab.timing.intervals import Floats
from astra_tui.lab.timing.pairing import LEAST_ROUNDS, BadSamples, PairedRounds
from astra_tui.lab.timing.paper import paper_time
from astra_tui.lab.timing.schedule import mirrored_orders, takes_single
from astra_tui.lab.timing.sizes import GraphSize, cold_size, warm_size
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import (
    Doubt,
    PairedEnergy,
    PairedTime,
    PaperTime,
    Ratio,
    TimingVerdict,
    WorkloadTiming,
)

BLOCK = 10
WARM_ROUNDS = 20
WARM_UP_SECONDS = 0.1
"""Before the first workload of a timing; an idle GPU takes that long to reach its clocks."""
NEXT_WARM_UP_SECONDS = 0.02
"""Before the others, after the pause in which their buffers were made."""
BUILD_SECONDS = 60.0
ENERGY_SECONDS = 1.5

BASE = 0

_SINGLES = [i for i in range(BLOCK) if takes_single(i)]


@dataclass(frozen=True)
class Options:
    """What is measured beside the cold launches, which always are."""

    warm: bool = True
    paper: bool = False
    energy: bool = False
    """Whether every version also runs for a while without a pause, for its energy a launch."""
    own_buffers: bool = False
    """Whether base and candidate never use the same buffers in a round; they swap in the next.

    Where buffers lie in memory makes up to 0.4 % on an H100: swapping cancels it in mirror pairs.
    Without this, all versions share their buffers, and it is the same for all.
    """
    round_limit: int = 400


@dataclass(frozen=True)
class Progress:
    """The state of one candidate's measurement after a block of rounds."""

    workload: str
    candidate: int
    """From 0, in the order in which the candidates were given."""
    base_us: float
    candidate_us: float
    speedup: Ratio
    rounds: int


@dataclass(frozen=True)
class Measured:
    """One candidate beside the base on one workload."""

    timing: WorkloadTiming
    log_ratios: Floats
    """One a mirror pair; of the cold launches."""
    control_ratios: Floats
    rounds_us: Floats
    """Shape (rounds, 2): microseconds a launch of base and candidate, in the order taken."""
    gpu_seconds: float
    """Seconds in which the GPU was measuring, all candidates of the call together."""


class MeasurementFailed(Exception):
    """The GPU process could not do it; what was measured before is void as well."""


@dataclass(frozen=True)
class Timer:
    """Times versions of one task in one GPU process."""

    task: KernelTask
    facts: DeviceFacts
    process: GpuProcess
    oracle: Oracle
    floors: Floors
    watch: Watch
    options: Options = field(default_factory=Options)
    random: np.random.Generator = field(default_factory=np.random.default_rng)

    def time(
        self,
        workload: Workload,
        base: Compiled,
        candidates: Sequence[Compiled],
        *,
        is_first: bool = True,
    ) -> Iterator[Progress | tuple[Measured, ...]]:
        """Times candidates beside a base; the last that it yields has one entry a candidate.

        All of them must have passed their check. Raises UserError when a launch plan refuses the
        workload, MeasurementFailed when the GPU does not do it.
        """
        warm_up = WARM_UP_SECONDS if is_first else NEXT_WARM_UP_SECONDS
        run = _Run(self, workload, base, tuple(candidates), warm_up)
        try:
            yield from run.steps()
        except (GpuFailure, BadSamples) as error:
            raise MeasurementFailed(f"{workload.name}: {error}") from error


class _Run:
    """One workload: base, candidates, and a copy of the base as the control."""

    def __init__(
        self,
        timer: Timer,
        workload: Workload,
        base: Compiled,
        candidates: tuple[Compiled, ...],
        warm_up_seconds: float,
    ):
        self.timer = timer
        self.warm_up_seconds = warm_up_seconds
        self.workload = workload
        self.buffers = WorkloadBuffers(timer.task, workload, secrets.randbits(63))
        versions = (base, *candidates, base)
        self.versions = tuple(self.buffers.bind(v, timer.facts.attributes) for v in versions)
        self.candidates = range(1, 1 + len(candidates))
        self.control = len(versions) - 1
        self.gpu_seconds = 0.0
        self.clocks: list[float] = []
        self.began = time.perf_counter()

    def steps(self) -> Iterator[Progress | tuple[Measured, ...]]:
        """Prepares, measures, verifies, concludes."""
        floor = self.timer.floors.of(
            self.timer.task.compulsory_bytes(self.workload.dims, self.workload.dtype)
        )
        prepared = self._prepare()
        fastest = min(prepared.estimates_us)
        size = self._cold_size(prepared, fastest)
        self._build(size)
        self._warm_up(fastest * 2 * size.launches * len(self.versions))
        self.timer.watch.begin()
        cold = PairedRounds.start(size.launches, len(self.versions))
        while more := self._rounds_to_add(cold):
            for _ in range(-(-more // BLOCK)):
                cold = self._add_block(cold)
                if cold.rounds >= LEAST_ROUNDS:
                    yield from self._progress(cold)
        wrong = self._verifier(size).doubts((BASE, *self.candidates))
        paper = self._paper()
        energy = self._energy()
        warm = self._warm(fastest)
        doubts = self.timer.watch.end(self._sm_mhz())
        if not size.is_cold:
            text = "the buffers fit in the L2 cache: partly warm"
            doubts = (*doubts, Doubt("partly_warm", text))
        measured = []
        for index in self.candidates:
            found = conclude(cold, index, self.control, limit=self.timer.options.round_limit)
            reasons = (*found.doubts, *doubts, *wrong.get(index, ()))
            voided = any(d.voids for d in reasons)
            timing = replace(
                self._timing(cold, index, found, size),
                verdict=TimingVerdict.INCONCLUSIVE if voided else found.verdict,
                warm=warm.get(index),
                paper=paper.get(index),
                energy=energy.get(index),
                floor=floor,
                doubts=reasons,
            )
            ratios = cold.log_ratios(index), cold.log_ratios(self.control)
            rounds_us = cold.launches_us((BASE, index))
            measured.append(Measured(timing, *ratios, rounds_us, self.gpu_seconds))
        yield tuple(measured)

    def _prepare(self) -> Prepared:
        request = Prepare(
            self.buffers.buffers,
            self.versions,
            self.buffers.seed,
            1 + self.timer.options.own_buffers,
        )
        return self.timer.process.ask(request, Prepared, BUILD_SECONDS)

    def _cold_size(self, prepared: Prepared, fastest: float) -> GraphSize:
        copies = 1 + self.timer.options.own_buffers
        l2 = self.timer.facts.attributes["l2_cache_bytes"]
        return cold_size(fastest, self.buffers.set_bytes, l2, prepared.free_bytes, copies)

    def _build(self, size: GraphSize) -> None:
        request = Build(size.launches, size.sets, size.flush_bytes)
        self.timer.process.ask(request, Built, BUILD_SECONDS)

    def _warm_up(self, round_us: float) -> None:
        """Keeps the GPU busy until its clocks are up."""
        rounds = max(2, min(200, int(self.warm_up_seconds * 1e6 / round_us)))
        self._block(rounds + rounds % 2)

    def _rounds_to_add(self, rounds: PairedRounds) -> int:
        """0 once every candidate is decided, or never will be."""
        if rounds.rounds < BLOCK:
            return BLOCK
        limit = self.timer.options.round_limit
        found = (conclude(rounds, i, self.control, limit=limit) for i in self.candidates)
        return max(conclusion.rounds_to_add for conclusion in found)

    def _add_block(self, rounds: PairedRounds) -> PairedRounds:
        block = self._block(BLOCK)
        return rounds.add(block.long, block.short, _SINGLES)

    def _block(self, rounds: int) -> Block:
        orders = mirrored_orders(len(self.versions), rounds, self.timer.random)
        request = Rounds(
            orders=tuple(tuple(int(v) for v in order) for order in orders),
            families=self._families(rounds),
            short=tuple(i for i in range(rounds) if takes_single(i)),
        )
        block = self.timer.process.ask(request, Block, BUILD_SECONDS)
        self.gpu_seconds += block.seconds
        self.clocks.append(block.sm_mhz)
        return block

    def _families(self, rounds: int) -> tuple[tuple[int, ...], ...]:
        """In every round all versions use other buffers than the base, in its mirror the base's."""
        if not self.timer.options.own_buffers:
            return ()
        others = len(self.versions) - 1
        first = self.timer.random.integers(0, 2, rounds // 2).repeat(2).tolist()
        bases = [f ^ (i % 2) for i, f in enumerate(first)]
        return tuple((base, *[1 - base] * others) for base in bases)

    def _progress(self, rounds: PairedRounds) -> Iterator[Progress]:
        for index in self.candidates:
            yield Progress(
                self.workload.name,
                index - 1,
                rounds.launch_us(BASE),
                rounds.launch_us(index),
                rounds.ratio(index),
                rounds.rounds,
            )

    def _warm(self, fastest: float) -> dict[int, PairedTime]:
        if not self.timer.options.warm:
            return {}
        size = warm_size(fastest)
        self._build(size)
        rounds = PairedRounds.start(size.launches, len(self.versions))
        for _ in range(WARM_ROUNDS // BLOCK):
            rounds = self._add_block(rounds)
        found = {i: rounds.paired_time(i) for i in self.candidates}
        return {i: paired for i, paired in found.items() if paired is not None}

    def _paper(self) -> dict[int, PaperTime]:
        """One version after the other, as the paper does."""
        if not self.timer.options.paper:
            return {}
        times = {
            index: self.timer.process.ask(PaperRun(index), PaperTimes, BUILD_SECONDS).times_us
            for index in (BASE, *self.candidates)
        }
        return {i: paper_time(times[BASE], times[i]) for i in self.candidates}

    def _energy(self) -> dict[int, PairedEnergy]:
        """Of cold launches; NVML's counter needs a second or more of them."""
        if not self.timer.options.energy:
            return {}
        meter, used = self.timer.watch.energy_meter(), {}
        for index in (BASE, *self.candidates):
            meter.start()
            spun = self.timer.process.ask(Spin(index, ENERGY_SECONDS), Spun, BUILD_SECONDS)
            used[index] = meter.stop(spun.launches)
            self.gpu_seconds += spun.seconds
        return {i: PairedEnergy(used[BASE], used[i]) for i in self.candidates}

    def _verifier(self, size: GraphSize) -> Verifier:
        timer = self.timer
        return Verifier(self.buffers, timer.process, timer.oracle, timer.random, size.sets)

    def _sm_mhz(self) -> float | None:
        return float(np.median(self.clocks)) if self.clocks else None

    def _timing(
        self,
        rounds: PairedRounds,
        index: int,
        found: Conclusion,
        size: GraphSize,
    ) -> WorkloadTiming:
        return WorkloadTiming(
            workload=self.workload.name,
            dims=dict(self.workload.dims),
            dtype=self.workload.dtype,
            verdict=found.verdict,
            cold=PairedTime(rounds.launch_us(BASE), rounds.launch_us(index), found.speedup),
            threshold=found.threshold,
            control=found.control,
            launches=size.launches,
            buffer_sets=size.sets,
            offset_us=rounds.offset_us,
            sm_mhz=self._sm_mhz() or 0.0,
            verified_sets=min(VERIFIED_SETS, size.sets),
            seconds=time.perf_counter() - self.began,
        )
