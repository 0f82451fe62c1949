"""Trials of a real space, compiled: what the device model sees in them, and which are the same."""

from __future__ import annotations

import re

import msgspec
import pytest

from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.workload import compile_source
from astra_tui.lab.requests import CompiledTrial
from astra_tui.lab.tuning.device_model import predicted_us
from astra_tui.lab.tuning.trials import candidates_of, compile_trials
from astra_tui.model.errors import UserError
from astra_tui.model.launch import DEVICE_ATTRIBUTES, plan_of
from astra_tui.model.task import KernelTask
from astra_tui.model.timing import Floor
from astra_tui.model.tuning import LaunchWork, ThreadWork, TrialWork
from astra_tui.playbook import Evidence, propose_all
from astra_tui.playbook.space import Space, space_of, unbounded

WIDE_CODE = ThreadWork(instructions=100, moved_bytes=48, flying_bytes=32, barriers=0)
FLOOR = Floor(launch_us=1.3, copy_us=20.0, compulsory_bytes=48 << 20)


def space(task: KernelTask) -> Space:
    text = task.tuned_file.read_text(encoding="utf-8")
    return space_of(text, Evidence(task, device="cuda:0", arch="sm_90a"))


def combined_space(task: KernelTask) -> Space:
    """Of what the playbook makes of a baseline in its first step."""
    evidence = Evidence(task, device="cuda:0", arch="sm_90a")
    (first, *_), _ = propose_all(task.baseline_file.read_text(encoding="utf-8"), evidence)
    assert first.plan.move == "combined"
    return space_of(first.source, evidence)


@pytest.mark.parametrize(
    ("name", "dimensions"),
    [
        ("silu_and_mul", ["overlap_launches", "cache_hints", "unroll", "threads", "pack_bytes"]),
        (
            "fused_add_rmsnorm",
            ["overlap_launches", "cache_hints", "unroll", "threads_2", "pack_bytes"],
        ),
        ("merge_attn_states_lse", ["overlap_launches", "threads", "pack_bytes"]),
    ],
)
def test_numbers_of_a_plan_become_constants_to_sweep(
    tasks: dict[str, KernelTask], name: str, dimensions: list[str]
) -> None:
    found = space(tasks[name])
    assert [d.name for d in found.dimensions] == dimensions
    own, *others = found.settings()
    assert own == {d.name: d.own for d in found.dimensions}
    text = found.source(others[-1])
    values = {tune.name: tune.value for tune in plan_of(text).tunes}
    assert values == {n: v for n, v in others[-1].items() if n in values}
    assert f"#pragma unroll {others[-1]['unroll']}" in text if "unroll" in own else True


def test_declared_constants_are_swept_too(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    text = task.tuned_file.read_text(encoding="utf-8")
    text = text.replace("let width = 16 //", "tune bytes = 16 in 8, 16\n   let width = bytes //")
    found = {d.name: d.choices for d in space_of(text, Evidence(task)).dimensions}
    assert found["bytes"] == (8, 16)
    assert "pack_bytes" not in found


def test_the_block_of_a_flat_grid_is_swept_with_what_its_condition_says_of_it(
    tasks: dict[str, KernelTask],
) -> None:
    task = tasks["merge_attn_states_lse"]
    found = combined_space(task)
    own = found.settings()[0]
    text = found.source({**own, "threads": 64})
    assert "heads * tokens * across + threads <= 134217728" in " ".join(text.split())
    assert text.count("256") == 1, "among the choices alone"


def test_launch_bounds_follow_a_swept_block(
    tasks: dict[str, KernelTask], compiler: Compiler
) -> None:
    """Bounds of 1024 leave a thread 64 registers: 8 packs of two rows would not stay in them."""
    task = tasks["fused_add_rmsnorm"]
    found = combined_space(task)
    own = found.settings()[0]
    (name,) = (n for n in own if n.startswith("threads"))
    bounds = {n: _bounds(found.source({**own, name: n})) for n in (256, 512, 1024)}
    assert bounds == {n: ["1024", str(n), str(n)] for n in bounds}
    text = found.source({**own, name: 256})
    wide = [t.replace("bounds__(256)", "bounds__(1024)") for t in (text, found.source(own))]
    assert _spilled(task, compiler, text) == 0
    assert _spilled(task, compiler, wide[0]) > 0 == _spilled(task, compiler, wide[1])


def test_registers_are_bounded_so_that_more_blocks_run_at_once(
    tasks: dict[str, KernelTask], compiler: Compiler
) -> None:
    """A sweep knows a bound that changes what is resident from one that changes nothing."""
    task = tasks["fused_add_rmsnorm"]
    found = combined_space(task)
    own = found.settings()[0]
    (name,) = (n for n in own if n.startswith("threads"))
    settings = [
        {**own, "early_loads": 1, name: block, "resident_threads": resident}
        for block in (128, 1024) for resident in (0, 1024)
    ]  # fmt: skip
    sources = [found.source(s) for s in settings]
    assert [_bounds(s)[-1] for s in sources] == ["128", "128, 8", "1024", "1024"]
    trials = tuple(compile_trials(task, DEVICE_ATTRIBUTES, sources, lambda: compiler, 1))
    works = [trial.works["1024x4096"] for trial in trials]
    resident = [launch.resident for work in works for launch in work.launches]
    assert resident[0] < 8 == resident[1]
    assert works[0].identity != works[1].identity
    assert works[2].identity == works[3].identity
    few, many = (launch.code for work in works[:2] for launch in work.launches)
    assert few.instructions <= many.instructions < 1.05 * few.instructions, "next to no spills"
    assert unbounded(settings) == {1: 0, 3: 2}
    floors = dict.fromkeys(("1024x4096", "256x4096"), FLOOR)
    many_rows, few_rows = candidates_of(trials, floors, 132, unbounded(settings))
    assert set(many_rows.predicted_us) == {0, 1, 2}
    assert set(few_rows.predicted_us) == {0, 2}, "two rows of a multiprocessor fit without"


def test_launch_bounds_that_add_no_blocks_are_not_tried() -> None:
    """Where all blocks are resident without them, where they give more registers, and not where
    the trial without them cannot be tried.
    """

    def trial(name: str, resident: int, *workloads: str) -> CompiledTrial:
        launch = LaunchWork(WIDE_CODE, 132 * 8, 128, resident)
        return CompiledTrial(works={w: TrialWork(f"{name} {w}", (launch,)) for w in workloads})

    def tried(*residents: int) -> set[int]:
        trials = [trial(str(n), resident, "w") for n, resident in enumerate(residents)]
        (found,) = candidates_of(trials, {"w": FLOOR}, 132, {1: 0})
        return set(found.predicted_us)

    assert tried(7, 8) == {0, 1}
    assert tried(8, 9) == tried(8, 7) == tried(7, 7) == {0}
    assert tried(0, 8) == {1}, "no block fits without"
    alone = [trial("0", 8), trial("1", 8, "w")]
    assert set(candidates_of(alone, {"w": FLOOR}, 132, {1: 0})[0].predicted_us) == {1}


def _bounds(text: str) -> list[str]:
    return re.findall(r"__launch_bounds__\((.*?)\)", text)


def _spilled(task: KernelTask, compiler: Compiler, text: str) -> int:
    made = compile_source(task, compiler, DEVICE_ATTRIBUTES, text, "trial.cu", whole=False)
    return sum(kernel.resources.spill_stores for kernel in made.compilation.kernels)


def test_trials_are_compiled_and_those_that_do_the_same_are_one(
    tasks: dict[str, KernelTask],
) -> None:
    task = tasks["silu_and_mul"]
    found = space(task)
    wanted = [(0, 0, 1, 1024, 16), (0, 0, 1, 512, 16), (0, 0, 1, 64, 8), (0, 0, 4, 1024, 16)]
    names = [d.name for d in found.dimensions]
    settings = [dict(zip(names, values, strict=True)) for values in wanted]
    sources = [found.source(s) for s in settings]
    broken = sources[0].replace("const P g = gate[i];", "const P g = nothing[i];")
    trials = tuple(compile_trials(task, DEVICE_ATTRIBUTES, [*sources, broken], Compiler, 2))
    assert [bool(t.problem) for t in trials] == [False, False, False, False, True]
    assert "nothing" in trials[-1].problem
    assert (
        msgspec.convert(msgspec.to_builtins(trials[0], builtin_types=(bytes,)), CompiledTrial)
        == trials[0]
    )
    # 512 packs a row: no block of more is launched.
    assert trials[0].works["16x4096"].identity == trials[1].works["16x4096"].identity
    assert trials[0].works["16x12288"].identity != trials[1].works["16x12288"].identity
    floors = {
        w.name: Floor(1.3, 5.0, task.compulsory_bytes(w.dims, w.dtype)) for w in task.workloads
    }
    candidates = {c.workload: c for c in candidates_of(trials, floors, 132)}
    assert set(candidates["16x4096"].predicted_us) == {0, 2, 3}
    short = candidates["16x12288"].predicted_us
    assert max(short, key=lambda t: short[t]) == 2, "64 threads a row, 8 bytes each"


def test_the_model_knows_what_keeps_memory_busy() -> None:
    def us(
        code: ThreadWork = WIDE_CODE, blocks: int = 4096, threads: int = 256, resident: int = 8
    ) -> float:
        return predicted_us([LaunchWork(code, blocks, threads, resident)], FLOOR, 132)

    assert FLOOR.copy_us < us() < 1.1 * FLOOR.copy_us
    assert us(blocks=16, threads=64) > 2 * us(), "few threads have few bytes on their way"
    assert us(resident=1) > us(), "as have multiprocessors that hold one block"
    assert us(resident=0) == float("inf")
    assert predicted_us([], FLOOR, 132) == float("inf")
    split = [LaunchWork(WIDE_CODE, 2048, 256, 8)] * 2
    assert us() < predicted_us(split, FLOOR, 132) < us() + 2 * FLOOR.launch_us


def test_switches_that_do_not_go_together_are_refused(tasks: dict[str, KernelTask]) -> None:
    found = space(tasks["silu_and_mul"])
    with pytest.raises(KeyError):
        found.source({"threads": 64})
    again = Space(found.base, found.evidence, found.launched, found.switches * 2)
    with pytest.raises(UserError, match="does not go with"):
        again.source({**found.settings()[0], "overlap_launches": 1})
