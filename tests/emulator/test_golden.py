"""The emulator against an H100: bits of every opcode form, and the memory counters of ncu.

The recording is in golden/h100.npz and golden/h100.json; docs/emulator.md says how to renew it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.compiler import Compiler
from astra_tui.model.compilation import Compilation
from astra_tui.model.counters import Counters
from astra_tui.model.traffic import HALF_LINE, SECTOR, WasteKind
from tests.emulator.golden import half_lines, patterns, snippets
from tests.emulator.golden.build import hopper_cases, pattern_case, program_case, task_cases
from tests.emulator.harness import line_of, run_kernel

HERE = Path(__file__).parent / "golden"
RECORDED = json.loads((HERE / "h100.json").read_text())
HOPPER = HERE / "hopper.npz"
PROGRAMS = snippets.programs()
PATTERNS = patterns.patterns()
MIN_EQUAL_BITS = 0.9999
"""Share of equal elements that a task's half-precision outputs must have."""


@pytest.fixture(scope="module")
def outputs() -> Any:
    """What the H100 computed."""
    return np.load(HERE / "h100.npz")


@pytest.fixture(scope="module")
def emulator() -> Emulator:
    """One emulator, which keeps the parsed programs."""
    return Emulator()


@pytest.fixture(scope="module")
def programs() -> Compilation:
    """All opcode programs, compiled."""
    with Compiler(seconds=300) as patient:
        return patient.compile(snippets.source(), tuple(p.name for p in PROGRAMS))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_results_are_those_of_the_gpu(
    program: snippets.Program, programs: Compilation, outputs: Any, emulator: Emulator
) -> None:
    launch, buffers = program_case(program, programs)
    outcome = emulator.run(programs, (launch,), buffers)
    assert not outcome.findings
    raw = snippets.RAW[program.out_size]
    got, wanted = outcome.contents["out"].view(raw), outputs[f"{program.name}/out"].view(raw)
    if program.floats.endswith("x2"):
        got, wanted = got.view(np.uint16), wanted.view(np.uint16)
    distance = ulp_distance(got, wanted, program.floats.removesuffix("x2"))
    worst = int(distance.argmax())
    assert distance[worst] <= program.ulps, f"{got[worst]:#x}, should be {wanted[worst]:#x}"


def ulp_distance(got: Any, wanted: Any, kind: str) -> Any:
    """How many values lie between, all NaNs being one; for plain bits 0 or a large number."""
    if kind not in ("f16", "bf16", "f32", "f64"):
        return np.where(got == wanted, 0, 1 << 40)
    width = 8 * got.itemsize
    infinity = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F80_0000, "f64": 0x7FF << 52}[kind]
    magnitude = (1 << (width - 1)) - 1
    nans = [(x & got.dtype.type(magnitude)) > infinity for x in (got, wanted)]
    ordered = []
    for bits in (got, wanted):
        size = (bits & bits.dtype.type(magnitude)).astype(np.float64)
        ordered.append(np.where(bits >> bits.dtype.type(width - 1), -size, size))
    away = np.abs(ordered[0] - ordered[1])
    # Zeros of different sign are no distance apart, but they are not equal.
    away = np.where((away == 0) & (got != wanted), 1 << 40, away)
    return np.where(nans[0] & nans[1], 0, np.where(nans[0] | nans[1], 1 << 40, away))


def counted(counters: Counters) -> dict[str, int]:
    """The emulator's counters under the names of the recording."""
    return {
        "load_requests": counters.total("requests", "global", "load"),
        "store_requests": counters.total("requests", "global", "store"),
        "load_sectors": counters.total("sectors", "global", "load"),
        "store_sectors": counters.total("sectors", "global", "store"),
        "conflicts": counters.bank_conflicts,
    }


def recorded(counters: dict[str, int]) -> dict[str, int]:
    """What ncu counted; conflicts are the wavefronts beyond the ideal number."""
    names = ("load_requests", "store_requests", "load_sectors", "store_sectors")
    found = {name: counters[name] for name in names}
    found["conflicts"] = counters["wavefronts"] - counters["ideal_wavefronts"]
    return found


def test_memory_counters_of_every_access_pattern_are_those_of_ncu(
    compiler: Compiler, emulator: Emulator
) -> None:
    kernels = tuple(dict.fromkeys(p.kernel for p in PATTERNS))
    compilation = compiler.compile(patterns.source(), kernels)
    wrong = []
    for pattern in PATTERNS:
        launch, buffers = pattern_case(pattern, compilation)
        outcome = emulator.run(compilation, (launch,), buffers, checked=False)
        assert not outcome.findings
        mine, theirs = counted(outcome.counters), recorded(RECORDED["patterns"][pattern.name])
        if mine != theirs:
            wrong.append((pattern.name, mine, theirs))
    assert not wrong


def test_tasks_have_ncus_counters_and_the_gpus_results(compiler: Compiler, outputs: Any) -> None:
    for name, compilation, launches, buffers, written in task_cases(compiler):
        outcome = Emulator().run(compilation, launches, buffers)
        assert not outcome.findings
        assert counted(outcome.counters) == recorded(RECORDED["tasks"][name]), name
        for output in written:
            kept = outputs[f"{name}/{output}"]
            got = outcome.contents[output][: len(kept)]
            if output == "s_out":  # float32 through logf and expf: close, not equal
                assert np.allclose(got.view(np.float32), kept.view(np.float32), atol=1e-6)
            else:
                equal = (got.view(np.uint16) == kept.view(np.uint16)).mean()
                assert equal >= MIN_EQUAL_BITS, f"{name}/{output}: {equal}"


@pytest.mark.skipif(not HOPPER.exists(), reason="no GPU with clusters has run these programs yet")
def test_programs_with_clusters_give_what_a_gpu_gives(compiler: Compiler) -> None:
    outputs = np.load(HOPPER)
    wrong: list[tuple[object, ...]] = []
    counters = json.loads(HOPPER.with_suffix(".json").read_text())["programs"]
    for name, compilation, launch, buffers in hopper_cases(compiler):
        outcome = Emulator().run(compilation, (launch,), buffers)
        faults = [f.describe() for f in outcome.findings if not f.is_warning]
        if faults or not np.array_equal(outcome.contents["out"], outputs[f"{name}/out"]):
            wrong.append((name, faults))
        mine = {**counted(outcome.counters), **counted_of_clusters(outcome.counters)}
        theirs = {**recorded(counters[name]), **recorded_of_clusters(counters[name])}
        if name == "atomics":  # ptxas makes loops of a load and a compare-and-swap of them.
            del mine["cluster_load"], theirs["cluster_load"]
        if mine != theirs:
            wrong.append((name, mine, theirs))
    assert not wrong


def counted_of_clusters(counters: Counters) -> dict[str, int]:
    """The emulator's counters of what goes past L1: bulk copies and other blocks of a cluster."""
    directions = ("load", "store", "atomic")
    requests = {f"cluster_{d}": counters.total("requests", "cluster", d) for d in directions}
    for direction in ("load", "store"):
        requests[f"bulk_{direction}"] = counters.total("requests", "bulk", direction)
        size = SECTOR * counters.total("sectors", "bulk", direction)
        requests[f"bulk_{direction}_bytes"] = size
    return requests


def recorded_of_clusters(counters: dict[str, int]) -> dict[str, int]:
    """The same as ncu counted it."""
    return {
        "cluster_load": counters["cluster_loads"],
        "cluster_store": counters["cluster_stores"] + counters["cluster_copies"],
        "cluster_atomic": counters["cluster_atomics"] + counters["cluster_reductions"],
        **{f"bulk_{d}": counters[f"bulk_{d}_requests"] for d in ("load", "store")},
        **{f"bulk_{d}_bytes": counters[f"bulk_{d}_bytes"] for d in ("load", "store")},
    }


FEWER = 256
"""The emulator runs this part of the GPU's threads; patterns only repeat."""


@pytest.mark.parametrize("pattern", half_lines.PATTERNS, ids=lambda p: f"{p.kernel} {p.why}")
def test_half_lines_and_parts_of_sectors_are_what_a_gpu_reads(
    pattern: half_lines.Pattern, compiler: Compiler
) -> None:
    threads = half_lines.THREADS // FEWER
    data = np.zeros(pattern.size(threads), np.uint8)
    ran = run_kernel(
        compiler,
        half_lines.SOURCE,
        (data, np.zeros(16, np.float32), pattern.stride, pattern.step, pattern.together),
        kernel=pattern.kernel,
        grid=threads // half_lines.BLOCK,
        block=half_lines.BLOCK,
        traffic=True,
    )
    assert not ran.findings
    traffic = next(t for t in ran.traffic if t.argument == "a0")
    waste = {w.kind: w for w in traffic.waste}
    assert all(w.line == line_of(half_lines.SOURCE, pattern.kernel.upper()) for w in traffic.waste)
    if pattern.kernel == "load":
        assert HALF_LINE * traffic.half_lines * FEWER == pytest.approx(pattern.read, rel=1e-3)
        asked = 4 * threads if pattern.step == 4 else SECTOR * threads
        unused = waste[WasteKind.HALF_LINE].bytes if waste else 0
        assert asked + unused == HALF_LINE * traffic.half_lines
    else:
        # Of what a launch leaves in L2, a part is not read yet when it ends.
        part = waste[WasteKind.PART_OF_SECTOR].bytes if waste else 0
        assert 0.8 * part * FEWER <= pattern.read <= part * FEWER + 2 * half_lines.BLOCK * SECTOR
