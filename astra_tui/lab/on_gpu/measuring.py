"""Times versions of a kernel on one workload: paired, cold and warm, verified, with its caveats."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from msgspec.structs import replace

from astra_tui.gpu.gpu_process import GpuFailure, GpuProcess
from astra_tui.gpu.messages import (
    LATE_CYCLES,
    Block,
    Build,
    Built,
    DeviceFacts,
    Node,
    PaperRun,
    PaperTimes,
    Poison,
    Prepare,
    Prepared,
    Rounds,
    Spin,
    Spun,
)
from astra_tui.gpu.process.producer import TIMED_BYTES
from astra_tui.gpu.timing.conclusion import Conclusion, conclude
from astra_tui.gpu.timing.intervals import Floats
from astra_tui.gpu.timing.pairing import MIN_ROUNDS, BadSamples, PairedRounds, paper_time
from astra_tui.gpu.timing.schedule import (
    GraphSize,
    cold_size,
    mirrored_orders,
    takes_single,
    takes_stale,
    warm_size,
)
from astra_tui.gpu.timing.stability import outputs_caveat, poisons_caveat
from astra_tui.gpu.watch import Watch
from astra_tui.lab.check.judge import Allowance
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.on_gpu.floors import Floors, floor_caveats
from astra_tui.lab.on_gpu.verifying import Judged, WholeOutputs
from astra_tui.lab.on_gpu.workload import Compiled, WorkloadBuffers
from astra_tui.model.check import OutputError
from astra_tui.model.device import ArgumentRole, has_float_atomics
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import (
    WRONG_OUTPUT,
    Caveat,
    PairedEnergy,
    PairedTime,
    PaperTime,
    Progress,
    TimingVerdict,
    WorkloadTiming,
)
from astra_tui.processes.shared_device import DeviceBusy

BLOCK = 10
WARM_ROUNDS = 20
CHAINED_ROUNDS = 20
WARM_UP_SECONDS = 0.1
"""Before the first workload of a timing; an idle GPU takes that long to reach its clocks."""
NEXT_WARM_UP_SECONDS = 0.02
"""Before the others, after the pause in which their buffers were made."""
BUILD_SECONDS = 60.0
ENERGY_SECONDS = 1.5

_CYCLES_A_US = 2000

BASE = 0

JUDGED_AGAIN = 4
"""Replays of which all outputs are judged where digests cannot stand for them."""

_SINGLES = [i for i in range(BLOCK) if takes_single(i)]

NAN_BYTE = 0xFF
FINITE_BYTES = (0x21, 0x7C)
"""From the first to before the second: bytes of which finite numbers of every type consist."""


class Chain(StrEnum):
    """What a timed launch follows."""

    AS_PLANNED = "as planned"
    """A producer, and in a second column itself, where any plan says `pdl=`; else itself."""
    PRODUCER = "producer"
    ITSELF = "itself"


@dataclass(frozen=True)
class Options:
    """What is measured in addition to the cold launches, which always are."""

    warm: bool = True
    paper: bool = False
    energy: bool = False
    """Whether every version also runs for a while without a pause, for its energy a launch."""
    own_buffers: bool = False
    """Whether base and candidate never use the same buffers in a round; they swap in the next.

    Where buffers lie in memory makes up to 0.4 % on an H100: swapping cancels it in mirror pairs.
    Without this, all versions share their buffers, and it is the same for all.
    """
    chain: Chain = Chain.AS_PLANNED
    """What each timed launch follows."""
    least_rounds: int = BLOCK
    round_limit: int = 400
    judged_parts: int | None = None
    """Parts of the outputs of all sets that are compared with the reference at most; None: all."""


@dataclass(frozen=True)
class Measured:
    """One candidate against the base on one workload."""

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
        """Times candidates against a base; the last that it yields has one entry a candidate.

        All of them must have passed their check. No other session of this user uses the GPU
        while they are measured. Raises UserError when a launch plan refuses the
        workload, MeasurementFailed when the GPU does not do it.
        """
        warm_up = WARM_UP_SECONDS if is_first else NEXT_WARM_UP_SECONDS
        run = _Run(self, workload, base, tuple(candidates), warm_up)
        try:
            yield from run.steps()
        except (GpuFailure, BadSamples, DeviceBusy) as error:
            raise MeasurementFailed(f"{workload.name}: {error}") from error


def late_cycles(slowest_us: float) -> int:
    """By how much a late producer is late: a call that does not wait is over by then."""
    return max(LATE_CYCLES, int(1.5 * slowest_us * _CYCLES_A_US))


class _Seen:
    """What replays gave besides their times: digests of outputs, and times on old outputs."""

    def __init__(self, versions: int):
        self.key = secrets.randbits(63) + 1
        self.expected: dict[int, bytes] = {}
        self.early: set[int] = set()
        """Versions that stored before they waited for a late producer."""
        self.unsteady: dict[int, int] = {}
        """Versions of which a replay gave other outputs, with the set."""
        self._long: list[tuple[float, ...]] = []
        self._stale: list[tuple[float, ...]] = []
        self._all: list[tuple[float, ...]] = []
        self._is_nan: list[bool] = []
        self._versions = versions

    def expect(self, version: int, digests: bytes) -> None:
        """The digests of outputs that were judged, a set each."""
        self.expected[version] = digests

    def compare(self, block: Block) -> None:
        """Compares the digests of a block's replays with those of what was judged."""
        self.early.update(block.early)
        for version, digests in block.digests:
            wanted = self.expected[version][: len(digests)]
            if digests != wanted and version not in self.unsteady:
                pairs = zip(_words(digests), _words(wanted), strict=True)
                self.unsteady[version] = next(i for i, (a, b) in enumerate(pairs) if a != b)

    def add(self, block: Block, poisons: tuple[Poison, ...]) -> None:
        """Keeps the times by what outputs held before, those on own outputs with their pairs."""
        rows = [i for i in range(len(block.long)) if takes_stale(i)]
        self._long += [block.long[i] for i in rows]
        self._stale += block.stale
        self._all += block.long
        self._is_nan += [poison.byte == NAN_BYTE for poison in poisons]

    def caveats(self, version: int, offset_us: float) -> Iterator[Caveat]:
        """What it did too early, and whether its time depends on what its outputs held before."""
        if version in self.early:
            text = (
                "a timed launch stored before it had waited for the launch before, which was late"
            )
            yield Caveat(WRONG_OUTPUT, text, invalidates=True)
        if not self._stale:
            return
        poisoned, stale = (np.array(rows) - offset_us for rows in (self._long, self._stale))
        ratios = np.log(poisoned[:, version]) - np.log(stale[:, version])
        of_base = np.array(self._all) - offset_us
        log_ratios = np.log(of_base[:, BASE]) - np.log(of_base[:, version])
        is_nan = np.array(self._is_nan)
        found = (outputs_caveat(ratios), poisons_caveat(log_ratios[is_nan], log_ratios[~is_nan]))
        yield from (caveat for caveat in found if caveat is not None)


def _words(digests: bytes) -> list[bytes]:
    return [digests[i : i + 8] for i in range(0, len(digests), 8)]


def _wrong(judged: Judged, version: int) -> Iterator[Caveat]:
    """Caveats about a version whose outputs are not those of the reference; all of them void."""
    for error in judged.errors:
        if version == BASE and not np.isfinite(error.error):
            text = f"a timed launch of the base was wrong: {_where(error)}"
            yield Caveat("wrong_base", text, invalidates=True)
        elif version != BASE and not error.ok:
            text = f"a timed launch was wrong: {_where(error)}"
            yield Caveat(WRONG_OUTPUT, text, invalidates=True)
    if judged.note:
        yield Caveat("oracle", f"{judged.note}: {judged.sets} buffer sets were judged")


def _where(error: OutputError) -> str:
    place = ", ".join(map(str, error.at))
    return f"{error.argument}: {error.problem} (the first or worst at [{place}])"


def _changed(version: int, number: int) -> Caveat:
    if version == BASE:
        text = f"timed launches of the base gave different outputs (first seen in set {number})"
        return Caveat("wrong_base", text, invalidates=True)
    text = (
        "a timed launch was wrong: it gave other outputs than the launch that was judged "
        f"(first seen in set {number})"
    )
    return Caveat(WRONG_OUTPUT, text, invalidates=True)


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
        self.may_vary = tuple(
            not timer.task.deterministic and has_float_atomics(v.compilation.ptx) for v in versions
        )
        chain = timer.options.chain
        self.behind_producer = chain is Chain.PRODUCER or (
            chain is Chain.AS_PLANNED
            and any(kernel.pdl for version in self.versions for kernel in version.kernels)
        )
        self.has_producers = False
        self.late_cycles = LATE_CYCLES
        self.sets = 1
        self.verified_sets = 0
        self.candidates = range(1, 1 + len(candidates))
        self.control = len(versions) - 1
        self.gpu_seconds = 0.0
        self.clocks: list[float] = []
        self.seen = _Seen(len(versions))
        self.began = time.perf_counter()

    def steps(self) -> Iterator[Progress | tuple[Measured, ...]]:
        """Prepares, verifies, measures, concludes; other sessions wait but for the verification,
        which takes longest.
        """
        device = self.timer.process.device
        with device.alone():
            floor = self.timer.floors.of(
                self.timer.task.compulsory_bytes(self.workload.dims, self.workload.dtype)
            )
            prepared = self._prepare()
            fastest = min(prepared.estimates_us)
            size = self._cold_size(prepared, fastest)
            self.late_cycles = late_cycles(max(prepared.estimates_us))
            self._build(size, producer=self.behind_producer)
        with device.together():
            wrong = self._verify(size)
        with device.alone():
            self._warm_up(fastest * 2 * size.launches * len(self.versions))
            self.timer.watch.begin()
            cold = PairedRounds.start(size.launches, len(self.versions))
            while more := self._rounds_to_add(cold):
                for _ in range(-(-more // BLOCK)):
                    cold = self._add_block(cold)
                    if cold.rounds >= MIN_ROUNDS:
                        yield from self._progress(cold)
            for index, more_caveats in self._verify_again(size).items():
                wrong[index] = (*wrong.get(index, ()), *more_caveats)
            paper = self._paper()
            energy = self._energy()
            cold_only = set(self.seen.unsteady)
            chained = self._chained(size)
            warm = self._warm(fastest)
            for index in set(self.seen.unsteady) - cold_only:
                if not self.may_vary[index]:
                    changed = _changed(index, self.seen.unsteady[index])
                    wrong[index] = (*wrong.get(index, ()), changed)
            caveats = self.timer.watch.end(self._sm_mhz())
        if not size.is_cold:
            text = "the buffers fit in the L2 cache: partly warm"
            caveats = (*caveats, Caveat("partly_warm", text))
        measured = []
        for index in self.candidates:
            found = conclude(cold, index, self.control, limit=self.timer.options.round_limit)
            reasons = (
                *found.caveats,
                *caveats,
                *wrong.get(BASE, ()),
                *wrong.get(index, ()),
                *self.seen.caveats(index, cold.offset_us),
                *floor_caveats(
                    floor,
                    cold.launch_us(index),
                    size,
                    self.timer.facts,
                    produced_bytes=TIMED_BYTES * self.behind_producer,
                ),
            )
            invalidated = any(d.invalidates for d in reasons)
            timing = replace(
                self._timing(cold, index, found, size),
                verdict=TimingVerdict.INCONCLUSIVE if invalidated else found.verdict,
                producer=self.behind_producer,
                chained=chained.get(index),
                warm=warm.get(index),
                paper=paper.get(index),
                energy=energy.get(index),
                floor=floor,
                caveats=reasons,
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

    def _build(self, size: GraphSize, *, producer: bool = False) -> None:
        request = Build(size.launches, size.sets, size.flush_bytes, producer)
        built = self.timer.process.ask(request, Built, BUILD_SECONDS)
        self.has_producers = producer
        for version, (nodes, calls) in zip(self.versions, built.calls, strict=True):
            planned = tuple(
                Node(k.symbol, k.grid, k.block, k.shared_bytes, k.pdl, k.cluster)
                for k in version.kernels
            )
            if producer:
                first, nodes = nodes[:1], nodes[1:]
                if [node.symbol for node in first] != [self.timer.floors.tools.symbols["produce"]]:
                    raise MeasurementFailed(f"{self.workload.name}: no producer comes first")
            if nodes != planned or calls != 2 * size.launches:
                raise MeasurementFailed(
                    f"{self.workload.name}: the graph holds {calls} calls of {nodes}, planned "
                    f"were {2 * size.launches} of {planned}"
                )

    def _warm_up(self, round_us: float) -> None:
        """Keeps the GPU busy until its clocks are up."""
        rounds = max(2, min(200, int(self.warm_up_seconds * 1e6 / round_us)))
        self._block(rounds + rounds % 2, key=0)

    def _rounds_to_add(self, rounds: PairedRounds) -> int:
        """0 once every candidate is decided, or never will be."""
        least = self.timer.options.least_rounds
        if rounds.rounds < least:
            return least - rounds.rounds
        limit = self.timer.options.round_limit
        found = (conclude(rounds, i, self.control, limit=limit) for i in self.candidates)
        return max(conclusion.rounds_to_add for conclusion in found)

    def _add_block(self, rounds: PairedRounds) -> PairedRounds:
        poisons = self._poisons(BLOCK)
        block = self._block(BLOCK, self.seen.key, poisons, stale=True)
        self.seen.compare(block)
        self.seen.add(block, poisons)
        return rounds.add(block.long, block.short, _SINGLES)

    def _block(
        self, rounds: int, key: int, poisons: tuple[Poison, ...] = (), *, stale: bool = False
    ) -> Block:
        orders = mirrored_orders(len(self.versions), rounds, self.timer.random)
        request = Rounds(
            orders=tuple(tuple(int(v) for v in order) for order in orders),
            replicas=self._replicas(rounds),
            short=tuple(i for i in range(rounds) if takes_single(i)),
            stale=tuple(i for i in range(rounds) if takes_stale(i)) if stale else (),
            late=self._late_rounds(rounds) if stale else (),
            late_cycles=self.late_cycles,
            poisons=poisons or self._poisons(rounds),
            key=key,
        )
        block = self.timer.process.ask(request, Block, BUILD_SECONDS)
        self.gpu_seconds += block.seconds
        self.clocks.append(block.sm_mhz)
        return block

    def _late_rounds(self, rounds: int) -> tuple[int, ...]:
        """One round a block, which no kernel can foresee, in which the producers are late."""
        return (int(self.timer.random.integers(rounds)),) if self.has_producers else ()

    def _poisons(self, rounds: int) -> tuple[Poison, ...]:
        """NaN or a finite number, the other one in some sets; the same for both of a mirror pair.

        Nothing that a kernel can see says what it will find in the next round.
        """
        found: list[Poison] = []
        for _ in range(rounds // 2):
            finite = int(self.timer.random.integers(*FINITE_BYTES))
            first, last = sorted(self.timer.random.integers(0, self.sets + 1, 2).tolist())
            kinds = (NAN_BYTE, finite) if self.timer.random.random() < 0.5 else (finite, NAN_BYTE)
            found += [Poison(*kinds, first, last)] * 2
        return tuple(found)

    def _verify(self, size: GraphSize) -> dict[int, tuple[Caveat, ...]]:
        """Replays every version's long graph once and judges all outputs of all its sets.

        From then on the digests of these outputs stand for them; those of a candidate with the
        base's digests are the base's outputs, and judged with them.
        """
        self.sets = size.sets
        whole = self._whole()
        found: dict[int, tuple[Caveat, ...]] = {}
        allowed: dict[str, Allowance] = {}
        for version in (BASE, *self.candidates):
            digests = self._replay_once(version)
            self.seen.expect(version, digests)
            if version != BASE and digests == self.seen.expected[BASE]:
                found[version] = ()  # The outputs that were judged; all sets of them.
                continue
            judged = self._judged(whole, size, allowed)
            if version == BASE:
                allowed = judged.allowances
            found[version] = tuple(_wrong(judged, version))
            self.verified_sets = judged.sets
        # A copy of the base: the same machine code on the same inputs.
        self.seen.expect(self.control, self.seen.expected[BASE])
        return found

    def _verify_again(self, size: GraphSize) -> dict[int, tuple[Caveat, ...]]:
        """Judges versions again whose outputs were not the same in every replay.

        A wrong digest invalidates, unless the order of float atomics may change the last bits.
        """
        whole = self._whole()
        found: dict[int, tuple[Caveat, ...]] = {}
        for version in sorted(self.seen.unsteady):
            if version == self.control:
                continue
            if not self.may_vary[version]:
                found[version] = (_changed(version, self.seen.unsteady[version]),)
                continue
            text = "float atomics: its outputs vary in the last bits, judged by tolerance"
            found[version] = (Caveat("float_atomics", text),)
            for _ in range(JUDGED_AGAIN):
                self._replay_once(version)
                judged = self._judged(whole, size, {})
                found[version] += tuple(_wrong(judged, version))
                if judged.problem:
                    break
        return found

    def _whole(self) -> WholeOutputs:
        timer = self.timer
        return WholeOutputs(self.buffers, timer.process, timer.oracle)

    def _judged(
        self, whole: WholeOutputs, size: GraphSize, allowed: Mapping[str, Allowance]
    ) -> Judged:
        start = int(self.timer.random.integers(size.sets))
        return whole.judge(size.sets, allowed, start, self.timer.options.judged_parts)

    def _replay_once(self, version: int) -> bytes:
        """Replays a long graph as when it is timed, leaves its outputs; their digests."""
        request = Rounds(((version,),), poisons=self._poisons(2)[:1], key=self.seen.key)
        if self.has_producers:
            request = replace(request, late=(0,), late_cycles=self.late_cycles)
        block = self.timer.process.ask(request, Block, BUILD_SECONDS)
        self.seen.early.update(block.early)
        return block.digests[-1][1]

    def _replicas(self, rounds: int) -> tuple[tuple[int, ...], ...]:
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

    def _chained(self, size: GraphSize) -> dict[int, PairedTime]:
        """Each version after itself alone, where it was timed after a producer."""
        if not self.behind_producer or self.timer.options.chain is not Chain.AS_PLANNED:
            return {}
        self._build(size)
        rounds = PairedRounds.start(size.launches, len(self.versions))
        for _ in range(CHAINED_ROUNDS // BLOCK):
            block = self._block(BLOCK, self.seen.key)
            self.seen.compare(block)
            rounds = rounds.add(block.long, block.short, _SINGLES)
        found = {i: rounds.paired_time(i) for i in self.candidates}
        return {i: paired for i, paired in found.items() if paired is not None}

    def _warm(self, fastest: float) -> dict[int, PairedTime]:
        if not self.timer.options.warm:
            return {}
        size = warm_size(fastest)
        self._build(size)
        rounds = PairedRounds.start(size.launches, len(self.versions))
        for _ in range(WARM_ROUNDS // BLOCK):
            block = self._block(BLOCK, key=self.seen.key if self._repeats_itself() else 0)
            self.seen.compare(block)
            rounds = rounds.add(block.long, block.short, _SINGLES)
        found = {i: rounds.paired_time(i) for i in self.candidates}
        return {i: paired for i, paired in found.items() if paired is not None}

    def _repeats_itself(self) -> bool:
        """Whether launches on one set give the same again: nothing is changed in place."""
        return all(b.use is not ArgumentRole.INOUT for b in self.buffers.buffers)

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
            verified_sets=self.verified_sets,
            seconds=time.perf_counter() - self.began,
            weight=self.workload.weight,
        )
