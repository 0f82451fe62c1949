"""Paired timing over a scripted GPU: real processes, real plans, real reference, scripted time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from astra_tui.gpu.gpu_process import GpuProcess, R
from astra_tui.gpu.messages import DeviceFacts, Request, Rounds
from astra_tui.gpu.nvml import EnergyMeter
from astra_tui.gpu.timing.conclusion import Conclusion, conclude
from astra_tui.gpu.timing.pairing import PairedRounds
from astra_tui.gpu.timing.schedule import GraphSize
from astra_tui.gpu.timing.stopping import LOOKS
from astra_tui.gpu.tools import ToolKernels
from astra_tui.gpu.watch import Watch
from astra_tui.lab.cache import ContentCache
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu import bench as bench_module
from astra_tui.lab.on_gpu import measuring
from astra_tui.lab.on_gpu.bench import Bench, WorkloadDone
from astra_tui.lab.on_gpu.floors import Floors, floor_caveats
from astra_tui.lab.on_gpu.measuring import (
    Chain,
    Measured,
    MeasurementFailed,
    Options,
    Timer,
)
from astra_tui.lab.on_gpu.verifying import Judged, WholeOutputs
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.lab.yardsticks import NotBuilt, Shipped
from astra_tui.lab.yardsticks.opening import Opened
from astra_tui.lab.yardsticks.timing import MIN_ROUNDS, TimedVersion, YardstickTimer
from astra_tui.model.dtypes import DType
from astra_tui.model.gpu import GpuCounters
from astra_tui.model.launch.expression import Name
from astra_tui.model.pin import Pin
from astra_tui.model.task import KernelTask
from astra_tui.model.task.yardstick import KERNEL, MachineCode, ParameterType, Variant, Yardstick
from astra_tui.model.timing import WRONG_OUTPUT, Floor, Progress, Timing, TimingVerdict
from astra_tui.model.yardsticks import ChainTimes
from astra_tui.processes.shared_device import DeviceBusy, SharedDevice
from tests.conftest import ROOT
from tests.gpu.kernels import MODULE, scripted_tools
from tests.gpu.script import FACTS, ILLEGAL_ADDRESS, Machine, Scripted
from tests.gpu.versions import TALL, US, WIDE, MakeVersion, version_maker

pytestmark = pytest.mark.usefixtures("warm_processes")

QUICK = Options(warm=False)


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


@pytest.fixture(scope="module")
def floor_cache(tmp_path_factory: pytest.TempPathFactory) -> ContentCache:
    return ContentCache("floors", tmp_path_factory.mktemp("cache"))


class Stand:
    """A timer on one scripted GPU."""

    def __init__(
        self,
        task: KernelTask,
        oracle: Oracle,
        cache: ContentCache,
        tools: ToolKernels,
        options: Options = QUICK,
        facts: DeviceFacts = FACTS,
        module: str = MODULE,
    ):
        self.process = GpuProcess(FACTS.uuid, tools, module)
        self.watch = Watch(FACTS.uuid)
        self.floors = Floors(self.process, facts, tools, cache)
        self.timer = Timer(
            task,
            facts,
            self.process,
            oracle,
            self.floors,
            self.watch,
            options,
            np.random.default_rng(5),
        )
        self.progress: list[Progress] = []

    def time(self, base: Compiled, *candidates: Compiled) -> tuple[Measured, ...]:
        *progress, measured = self.timer.time(WIDE, base, candidates)
        self.progress = [p for p in progress if isinstance(p, Progress)]
        assert isinstance(measured, tuple)
        return measured

    def close(self) -> None:
        self.process.close()
        self.watch.close()


@pytest.fixture
def stand(
    task: KernelTask, oracle: Oracle, floor_cache: ContentCache, tools: ToolKernels
) -> Iterator[Stand]:
    made = Stand(task, oracle, floor_cache, tools)
    yield made
    made.close()


@pytest.fixture
def stand_with(
    task: KernelTask, oracle: Oracle, floor_cache: ContentCache, tools: ToolKernels
) -> Iterator[partial[Stand]]:
    made: list[Stand] = []

    def make(tools: ToolKernels = tools, **rest: object) -> Stand:
        made.append(Stand(task, oracle, floor_cache, tools, **rest))  # type: ignore[arg-type]
        return made[-1]

    yield partial(make)
    for each in made:
        each.close()


def test_the_same_kernel_is_the_same(stand: Stand, version: MakeVersion) -> None:
    (measured,) = stand.time(version(Scripted("silu", US)), version(Scripted("silu", US)))
    timing = measured.timing
    assert timing.verdict is TimingVerdict.SAME
    assert timing.cold.base_us == pytest.approx(US, rel=0.01)
    assert timing.cold.candidate_us == pytest.approx(US, rel=0.01)
    assert timing.offset_us == pytest.approx(5.0, abs=2.0)
    assert timing.sm_mhz == pytest.approx(1755)
    assert timing.threshold >= 0.003
    assert timing.control is not None
    assert timing.control.low <= 1 <= timing.control.high
    assert not timing.invalidated
    assert measured.gpu_seconds > 0
    assert (timing.launches, timing.buffer_sets, timing.verified_sets) == (4, 8, 8)
    assert timing.cold.speedup.rounds == 40


def test_no_other_session_uses_the_gpu_while_a_workload_is_timed(
    stand: Stand, version: MakeVersion, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def device(seconds: float) -> SharedDevice:
        return SharedDevice(FACTS.uuid, tmp_path, seconds)

    def others_may() -> bool:
        with suppress(DeviceBusy), device(0.0).alone():
            return True
        return False

    pair = version(Scripted("silu", US)), [version(Scripted("silu", US))]
    monkeypatch.setattr(stand.process, "device", device(600.0))
    found = [others_may() for _ in stand.timer.time(WIDE, *pair)]
    assert len(found) > 1
    assert not any(found[:-1])
    assert others_may()
    monkeypatch.setattr(stand.process, "device", device(0.0))
    with device(0.0).together(), pytest.raises(MeasurementFailed, match="other sessions of this"):
        next(stand.timer.time(WIDE, *pair))


def test_progress_narrows(stand: Stand, version: MakeVersion) -> None:
    stand.time(version(Scripted("silu", US)), version(Scripted("silu", 1.5 * US)))
    assert [p.rounds for p in stand.progress] == [20, 30, 40]
    assert {p.candidate for p in stand.progress} == {0}
    widths = [p.speedup.half_width for p in stand.progress]
    assert widths[-1] < widths[0]
    assert stand.progress[-1].candidate_us == pytest.approx(1.5 * US, rel=0.01)


def test_three_candidates_are_told_apart(stand: Stand, version: MakeVersion) -> None:
    kernels = [Scripted("silu", share * US) for share in (1.03, 1.0, 0.97)]
    measured = stand.time(version(Scripted("silu", US)), *map(version, kernels))
    assert [m.timing.verdict for m in measured] == [
        TimingVerdict.SLOWER,
        TimingVerdict.SAME,
        TimingVerdict.FASTER,
    ]
    ratios = [m.timing.cold.speedup for m in measured]
    for ratio, share in zip(ratios, (1.03, 1.0, 0.97), strict=True):
        assert ratio.low <= 1 / share * 1.001
        assert ratio.high >= 1 / share * 0.999


def test_a_noisy_machine_is_measured_longer_and_looked_at_as_often_as_planned(
    stand_with: partial[Stand], version: MakeVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def look(rounds: PairedRounds, *rest: int, **named: int) -> Conclusion:
        looks.append(rounds.rounds)
        return conclude(rounds, *rest, **named)

    monkeypatch.setattr(measuring, "conclude", look)
    noisy = scripted_tools(Machine(noise=0.006))
    stand = stand_with(noisy, options=Options(warm=False, round_limit=140))
    (measured,) = stand.time(version(Scripted("silu", US)), version(Scripted("silu", US)))
    assert measured.timing.cold.speedup.rounds > LOOKS[0]
    # More looks would end more measurements by chance than the intervals were made for.
    assert {n for n in looks if n >= LOOKS[0]} <= set(LOOKS)


def test_outputs_of_timed_launches_are_looked_at(stand: Stand, version: MakeVersion) -> None:
    lazy = Scripted("lazy_silu", 0.5 * US, options={"diligent": 50})
    (measured,) = stand.time(version(Scripted("silu", US)), version(lazy))
    timing = measured.timing
    wrong = [d for d in timing.caveats if d.kind == "wrong_output"]
    (caveat,) = wrong
    assert caveat.invalidates
    assert "a timed launch was wrong: it gave other outputs than the launch" in caveat.message
    assert timing.invalidated
    assert timing.verdict is TimingVerdict.INCONCLUSIVE


def test_outputs_that_are_the_base_s_are_judged_with_them(
    stand: Stand, version: MakeVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = []
    judge = WholeOutputs.judge

    def counted(outputs: WholeOutputs, sets: int, *rest: Any) -> Judged:
        judged.append(sets)
        return judge(outputs, sets, *rest)

    monkeypatch.setattr(WholeOutputs, "judge", counted)
    (measured,) = stand.time(version(Scripted("silu", US)), version(Scripted("silu", 0.9 * US)))
    assert judged == [measured.timing.verified_sets]
    assert measured.timing.verdict is TimingVerdict.FASTER
    picky = Scripted("picky_silu", US, options={"of": 4096, "after": 0})
    (measured,) = stand.time(version(Scripted("silu", US)), version(picky))
    assert len(judged) == 3
    assert measured.timing.verdict is TimingVerdict.INCONCLUSIVE


def test_a_kernel_that_leaves_alone_what_is_right_gains_nothing_and_is_void(
    stand: Stand, version: MakeVersion
) -> None:
    (measured,) = stand.time(version(Scripted("silu", US)), version(Scripted("skipping_silu", US)))
    assert measured.timing.cold.speedup.value == pytest.approx(1, abs=0.005)
    (caveat,) = (d for d in measured.timing.caveats if d.kind == "outputs_matter")
    assert caveat.invalidates
    assert "149.9 % between poison and its own outputs" in caveat.message or "150" in caveat.message
    assert measured.timing.verdict is TimingVerdict.INCONCLUSIVE


@pytest.mark.parametrize("after", [0, 60], ids=["from the first", "while it is timed"])
def test_a_row_that_is_wrong_in_some_sets_is_seen(
    stand: Stand, version: MakeVersion, after: int
) -> None:
    picky = Scripted("picky_silu", US, options={"of": 4096, "after": after})
    (measured,) = stand.time(version(Scripted("silu", US)), version(picky))
    wrong = [d for d in measured.timing.caveats if d.kind == "wrong_output"]
    assert wrong
    assert all(d.invalidates for d in wrong)


def test_last_bits_may_vary_where_sums_of_floats_are_atomic(
    stand: Stand, version: MakeVersion
) -> None:
    base, adding = version(Scripted("silu", US)), version(Scripted("adding_silu", US))
    (measured,) = stand.time(base, adding)
    assert [d.kind for d in measured.timing.caveats if d.invalidates] == ["wrong_output"]
    ptx = "atom.global.add.f32 %f1, [%rd1], %f2;"
    atomic = replace_compilation(adding, ptx)
    (measured,) = stand.time(base, atomic)
    assert "float_atomics" in [d.kind for d in measured.timing.caveats]
    assert not measured.timing.invalidated
    assert measured.timing.verdict is TimingVerdict.SAME


def replace_compilation(version: Compiled, ptx: str) -> Compiled:
    return Compiled(version.source, replace(version.compilation, ptx=ptx))


def test_a_time_that_no_kernel_can_reach_is_void() -> None:
    floor = Floor(1.0, 1.0, 1 << 20)
    facts = replace(FACTS, peak_bytes_per_us=1e4)
    size = GraphSize(4, 8, 0, True)
    least = ((1 << 20) - (8 << 10) / 8) / 1e4
    assert not list(floor_caveats(floor, least, size, facts))
    (caveat,) = floor_caveats(floor, 0.9 * least, size, facts)
    assert caveat.invalidates
    assert not list(floor_caveats(floor, 0.95, size, FACTS)), "an unknown peak"
    (caveat,) = floor_caveats(floor, 0.85, size, FACTS)
    assert caveat.invalidates
    assert "less than an empty launch takes" in caveat.message


def test_warm_and_paper_times_are_there_when_asked_for(
    stand_with: partial[Stand], version: MakeVersion
) -> None:
    stand = stand_with(options=Options(warm=True, paper=True))
    (measured,) = stand.time(version(Scripted("silu", US)), version(Scripted("silu", 2 * US)))
    timing = measured.timing
    assert timing.warm is not None
    assert timing.warm.speedup.value == pytest.approx(0.5, rel=0.01)
    assert timing.paper is not None
    assert timing.paper.speedup == pytest.approx(0.5, rel=0.01)
    (plain,) = stand_with().time(version(Scripted("silu", US)), version(Scripted("silu", US)))
    assert (plain.timing.warm, plain.timing.paper) == (None, None)


def test_energy_is_shared_among_the_launches_that_ran(
    stand_with: partial[Stand], version: MakeVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = (GpuCounters(seconds=2.0 * n, energy_mj=600_000 * n) for n in range(10))
    monkeypatch.setattr(measuring, "ENERGY_SECONDS", 0.01)
    monkeypatch.setattr(Watch, "energy_meter", lambda _: EnergyMeter(lambda: next(readings)))
    stand = stand_with(options=Options(warm=False, energy=True))
    (measured,) = stand.time(version(Scripted("silu", US)), version(Scripted("silu", US)))
    energy = measured.timing.energy
    assert energy is not None
    for use in (energy.base, energy.candidate):
        assert (use.joules, use.watts) == (600, 300)
        assert use.joules_per_launch == pytest.approx(600 / use.launches)
        assert use.launches % (2 * measured.timing.launches) == 0


def test_energy_that_nothing_counts_is_missing_with_the_reason(
    stand_with: partial[Stand], version: MakeVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "ENERGY_SECONDS", 0.01)
    stand = stand_with(options=Options(warm=False, energy=True))
    (measured,) = stand.time(version(Scripted("silu", US)), version(Scripted("silu", US)))
    assert measured.timing.energy is not None
    assert measured.timing.energy.base.joules_per_launch is None
    assert measured.timing.energy.base.missing
    (plain,) = stand_with().time(version(Scripted("silu", US)), version(Scripted("silu", US)))
    assert plain.timing.energy is None


def test_where_buffers_lie_makes_no_difference_where_all_share_them(
    stand_with: partial[Stand], version: MakeVersion
) -> None:
    stand = stand_with(scripted_tools(Machine(placement=0.01)))
    (measured,) = stand.time(version(Scripted("silu", US)), version(Scripted("silu", US)))
    assert measured.timing.verdict is TimingVerdict.SAME
    assert measured.timing.cold.speedup.value == pytest.approx(1, abs=0.001)


def test_where_buffers_lie_cancels_where_they_are_swapped(
    stand_with: partial[Stand], version: MakeVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = stand_with(
        scripted_tools(Machine(placement=0.01)), options=Options(warm=False, own_buffers=True)
    )
    asked: list[Rounds] = []
    ask = stand.process.ask

    def listen(request: Request, answer: type[R], seconds: float) -> R:
        if isinstance(request, Rounds):
            asked.append(request)
        return ask(request, answer, seconds)

    monkeypatch.setattr(stand.process, "ask", listen)
    kernels = (Scripted("silu", US), Scripted("silu", 1.03 * US))
    same, slower = stand.time(version(kernels[0]), *map(version, kernels))
    assert same.timing.verdict is TimingVerdict.SAME
    assert same.timing.cold.speedup.value == pytest.approx(1, abs=0.001)
    assert slower.timing.verdict is TimingVerdict.SLOWER
    rows = [row for request in asked for row in request.replicas]
    assert {row[0] for row in rows} == {0, 1}
    for row, mirror in zip(rows[::2], rows[1::2], strict=True):
        base, *others = row
        assert others == [1 - base] * 3
        assert mirror == tuple(1 - replica for replica in row)


def test_too_little_memory_for_cold_launches_is_a_caveat(
    stand_with: partial[Stand],
    version: MakeVersion,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = (
        "from tests.gpu.script import with_memory\nfrom tests.gpu.scripted_process import main\n"
    )
    (tmp_path / "small_gpu.py").write_text(small + "main((with_memory(512 << 10),))\n")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    attributes = {**FACTS.attributes, "l2_cache_bytes": 32 << 10}
    stand = stand_with(facts=replace(FACTS, attributes=attributes), module="small_gpu")
    (measured,) = stand.time(version(Scripted("silu", US)), version(Scripted("silu", US)))
    assert "partly_warm" in [d.kind for d in measured.timing.caveats]
    assert measured.timing.verdict is TimingVerdict.SAME


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Scripted("silu", US, error=ILLEGAL_ADDRESS, spared=300), r"ILLEGAL_ADDRESS \(700\)"),
        (Scripted("silu", US, refused=701), r"OUT_OF_RESOURCES \(701\)"),
        (Scripted("silu", US, trouble="exit", spared=100), "exit code 7: the driver gave up"),
        (Scripted("silu", US, trouble="hang", spared=300), "no answer in 2 s"),
    ],
    ids=["illegal address", "refused", "exit", "hang"],
)
def test_a_fault_fails_the_measurement_and_the_next_is_right(
    stand: Stand,
    version: MakeVersion,
    monkeypatch: pytest.MonkeyPatch,
    kernel: Scripted,
    words: str,
) -> None:
    base = version(Scripted("silu", US))
    with monkeypatch.context() as patch:
        patch.setattr(measuring, "BUILD_SECONDS", 2.0)
        with pytest.raises(MeasurementFailed, match=rf"wide: .*{words}"):
            stand.time(base, version(kernel))
    (measured,) = stand.time(base, version(Scripted("silu", US)))
    assert measured.timing.verdict is TimingVerdict.SAME


def test_floors_are_measured_once(tools: ToolKernels, tmp_path: Path) -> None:
    cache = ContentCache("floors", tmp_path)
    process = GpuProcess(FACTS.uuid, tools, MODULE)
    try:
        floor = Floors(process, FACTS, tools, cache).of(6144)
    finally:
        process.close()
    assert floor.launch_us == pytest.approx(2.0, rel=0.05)
    assert floor.copy_us == pytest.approx(20.0, rel=0.05), "the faster of the two copies"
    assert floor.compulsory_bytes == 6144
    nobody = GpuProcess(FACTS.uuid, tools, "no_such_module")
    assert Floors(nobody, FACTS, tools, cache).of(6144) == floor
    other = replace(FACTS, driver=FACTS.driver + 10)
    for floors, size in (
        (Floors(nobody, other, tools, cache), 6144),
        (Floors(nobody, FACTS, tools, cache), 6145),
    ):
        with pytest.raises(Exception, match="No module named"):
            floors.of(size)


@pytest.fixture
def bench(
    task: KernelTask,
    oracle: Oracle,
    tools: ToolKernels,
    private_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    monkeypatch.setattr(bench_module, "GpuProcess", partial(GpuProcess, module=MODULE))
    with Bench(task, FACTS, tools, oracle, QUICK) as opened:
        yield opened


def test_a_bench_tells_one_timing_a_candidate(bench: Bench, version: MakeVersion) -> None:
    base = version(Scripted("silu", US))
    candidates = [version(Scripted("silu", share * US)) for share in (1.0, 1.03)]
    events = list(bench.time((WIDE, TALL), base, candidates))
    done = [(e.candidate, e.timing.workload) for e in events if isinstance(e, WorkloadDone)]
    assert done == [(0, "wide"), (1, "wide"), (0, "tall"), (1, "tall")]
    timings = [e for e in events if isinstance(e, Timing)]
    assert events[-2:] == timings
    assert [t.verdict for t in timings] == [TimingVerdict.SAME, TimingVerdict.SLOWER]
    for timing in timings:
        assert [w.workload for w in timing.workloads] == ["wide", "tall"]
        assert timing.gpu == FACTS.name
        assert 0 < timing.gpu_seconds <= timing.seconds
    assert timings[1].speedup.value == pytest.approx(1 / 1.03, rel=0.003)


def test_a_voided_workload_makes_a_bench_inconclusive(bench: Bench, version: MakeVersion) -> None:
    lazy = version(Scripted("lazy_silu", 0.5 * US, options={"diligent": 50}))
    *_, timing = bench.time((WIDE,), version(Scripted("silu", US)), (lazy,))
    assert isinstance(timing, Timing)
    assert timing.verdict is TimingVerdict.INCONCLUSIVE
    assert "a timed launch was wrong" in timing.reasons[0]


def test_a_renewed_bench_measures_in_another_process(bench: Bench, version: MakeVersion) -> None:
    base = version(Scripted("silu", US))
    candidate = version(Scripted("silu", US, trouble="exit", spared=100))
    with pytest.raises(MeasurementFailed):
        list(bench.time((WIDE,), base, (candidate,)))
    bench.renew()
    *_, timing = bench.time((WIDE,), base, (base,))
    assert isinstance(timing, Timing)
    assert timing.verdict is TimingVerdict.SAME


# -- launches that may begin early -----------------------------------------------------------------


def dependent(compiled: Compiled) -> Compiled:
    """The same version, its launch with pdl=true."""
    source = compiled.source
    (launch,) = source.plan.launches()
    step = dataclasses.replace(launch, pdl=Name("true"))
    plan = dataclasses.replace(source.plan, steps=(step,))
    return dataclasses.replace(compiled, source=dataclasses.replace(source, plan=plan))


def test_dependent_launches_are_timed_behind_a_producer_and_behind_themselves(
    stand: Stand, version: MakeVersion
) -> None:
    base = version(Scripted("silu", US))
    waits = dependent(version(Scripted("silu", 0.9 * US)))
    (measured,) = stand.time(base, waits)
    timing = measured.timing
    assert (timing.verdict, timing.producer) == (TimingVerdict.FASTER, True)
    assert timing.cold.base_us == pytest.approx(US + 1, rel=0.01)
    assert timing.chained is not None
    assert timing.chained.candidate_us == pytest.approx(0.9 * US, rel=0.01)


def test_a_dependent_launch_that_does_not_wait_is_wrong_in_any_chain(
    stand_with: partial[Stand], version: MakeVersion
) -> None:
    base = version(Scripted("silu", US))
    early = dependent(version(Scripted("silu", 0.9 * US, options={"begins_early": 1})))
    for chain in (Chain.AS_PLANNED, Chain.PRODUCER):
        (measured,) = stand_with(options=Options(warm=False, chain=chain)).time(base, early)
        assert measured.timing.verdict is TimingVerdict.INCONCLUSIVE
        assert WRONG_OUTPUT in {c.kind for c in measured.timing.caveats if c.invalidates}


def test_without_dependent_launches_nothing_precedes_a_launch(
    stand_with: partial[Stand], version: MakeVersion
) -> None:
    pair = version(Scripted("silu", US)), version(Scripted("silu", US))
    (alone,) = stand_with().time(*pair)
    assert (alone.timing.producer, alone.timing.chained) == (False, None)
    options = Options(warm=False, chain=Chain.PRODUCER, least_rounds=30)
    (behind,) = stand_with(options=options).time(*pair)
    assert behind.timing.producer
    assert behind.timing.chained is None
    assert behind.timing.cold.speedup.rounds >= 30


# -- against what others ship ----------------------------------------------------------------------


def shipped(task: KernelTask, made: Compiled, name: str, requires: str = "d >= 1") -> Shipped:
    """A yardstick whose machine code is a version's script."""
    pin = Pin("tiny", "1.0", "tiny-1.0-py3-none-any.whl", "ab" * 32, "MIT", date(2026, 10, 1))
    launch = "grid=tokens block=128 args=(out, input, tokens * d, d)"
    numbers = (ParameterType.POINTER,) * 2 + (ParameterType.INT64,) * 2
    code = MachineCode("tiny/ops.so", {DType.FLOAT16: "k", DType.BFLOAT16: "k"})
    yardstick = Yardstick(name, "", pin, "sm_90a", launch, requires, numbers, False, code)
    kernels = tuple(
        replace(kernel, expression=f"{KERNEL}<{dtype.cuda}>")
        for kernel, dtype in zip(made.compilation.kernels, task.dtypes, strict=False)
    )
    opened = Opened(replace(made.compilation, kernels=kernels), {})
    return Shipped(task, yardstick, {Variant(): opened})


def test_a_source_is_compared_with_the_fastest_shipped_kernel_of_each_shape(
    bench: Bench, task: KernelTask, version: MakeVersion
) -> None:
    bench.options = Options(warm=False, chain=Chain.ITSELF, least_rounds=MIN_ROUNDS)
    base, ours = (version(Scripted("silu", share * US)) for share in (2.0, 1.0))
    slow = shipped(task, version(Scripted("silu", 1.2 * US)), "slow")
    fast = shipped(task, version(Scripted("silu", 0.9 * US)), "fast", "tokens > 20")
    missing = NotBuilt(dataclasses.replace(fast.yardstick, name="missing"), "it is not there")

    def timed(*rivals: Shipped | NotBuilt) -> ChainTimes:
        sources = TimedVersion("base", base), [TimedVersion("ours", ours)]
        timer = YardstickTimer(task, bench, *sources, rivals, FACTS.attributes)
        *_, last = timer.time((WIDE, TALL))
        assert isinstance(last, ChainTimes)
        return last

    found = timed(slow, fast)
    wide, tall = found.shapes
    assert [v.name for v in wide.versions] == ["ours", "slow"]
    assert (wide.fastest["ours"].name, tall.fastest["ours"].name) == ("slow", "fast")
    assert wide.fastest["ours"].speedup.value == pytest.approx(1.2, rel=0.01)
    assert tall.fastest["ours"].speedup.value == pytest.approx(0.9, rel=0.01)
    mean = found.means["ours"]
    assert mean is not None
    assert mean.value == pytest.approx((1.2 * 0.9) ** 0.5, rel=0.01)

    wide, tall = timed(slow, missing).shapes
    assert set(wide.fastest) == {"ours"}
    assert (tall.fastest, tall.not_timed) == ({}, {"missing": "it is not there"})

    wrong = shipped(task, version(Scripted("silu", US, options={"leaves_out": 1})), "wrong")
    found = timed(slow, wrong)
    assert [shape.fastest for shape in found.shapes] == [{}, {}]
    assert found.means == {"ours": None}
