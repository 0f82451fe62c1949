"""The skeleton of a launch stores what the launch stores, and says what it cannot know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.emulator import skeleton
from astra_tui.emulator.device import Emulator
from astra_tui.emulator.memory import GlobalMemory
from astra_tui.emulator.stores import StoreMap, first_missing
from astra_tui.emulator.tiles import Tile, joined
from astra_tui.emulator.whole import GridSkeleton, WholePlan
from astra_tui.lab.check.binding import bind_launch
from astra_tui.lab.check.execution import read_source, resolve_case
from astra_tui.lab.check.inputs import draw_inputs
from astra_tui.lab.check.layout import device_buffers, layouts_of
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import Case
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch
from astra_tui.model.dtypes import DType
from astra_tui.model.findings import FindingKind
from astra_tui.model.launch import ResolvedPlan
from astra_tui.model.task import KernelTask
from tests.emulator.harness import line_of
from tests.emulator.hopper import PRELUDE

BUDGET = 10_000_000
SIZES = st.fixed_dictionaries(
    {"tokens": st.integers(1, 40), "d": st.integers(1, 600), "heads": st.integers(1, 5)}
)


def plan_of_case(
    compiler: Compiler, emulator: Emulator, task: KernelTask, file: Path, case: Case
) -> WholePlan | None:
    source = read_source(task, file.read_text(encoding="utf-8"), str(file))
    inputs = draw_inputs(task, case)
    resolved = resolve_case(task, source, case, inputs.scalars)
    if not isinstance(resolved, ResolvedPlan):
        return None
    compilation = compiler.compile(source.text, tuple(ln.kernel for ln in resolved.launches))
    layouts = layouts_of(task, case)
    types = {name: layout.dtype for name, layout in layouts.items()}
    launches = tuple(
        bind_launch(compilation.kernel(ln.kernel), ln, types) for ln in resolved.launches
    )
    buffers = device_buffers(layouts, inputs, resolved.workspaces)
    return WholePlan(emulator, compilation.ptx, launches, buffers, frozenset({"setp"}))


@pytest.mark.parametrize("name", ["silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse"])
@pytest.mark.parametrize("file", ["baseline.cu", "tuned.cu"])
def test_the_skeleton_stores_what_a_full_run_stores(
    compiler: Compiler, tasks: dict[str, KernelTask], name: str, file: str
) -> None:
    task, emulator = tasks[name], Emulator()

    @settings(max_examples=8, deadline=None)
    @given(SIZES)
    def same(sizes: dict[str, int]) -> None:
        dims = {"tokens": sizes["tokens"], "d": sizes["d"]}
        if name == "merge_attn_states_lse":
            dims = {**sizes, "head_dim": 8 * (1 + sizes["d"] % 9)}
            del dims["d"]
        case = Case("drawn", "", DType.FLOAT16, dims)
        plan = plan_of_case(compiler, emulator, task, task.folder / file, case)
        assert plan is not None
        every = [np.arange(int(np.prod(ln.grid))) for ln in plan.launches]
        sampled, _ = plan.run(every, BUDGET)
        assert sampled.fault is None
        (grid,) = (plan.skeleton(n, {}, BUDGET) for n in range(len(plan.launches)))
        assert grid.skeleton.finding is None
        assert grid.part.exact
        step = np.arange(1 << grid.stores.granule_bits)
        for argument in task.outputs:
            buffer = plan.tracked(argument.name)
            found = (grid.stores.offsets(argument.name)[:, None] + step).reshape(-1)
            wide = np.arange(plan.granule)
            stored = sampled.memory.granules(buffer, sampled.memory.stored)
            assert set(found.tolist()) == set((stored[:, None] + wide).reshape(-1).tolist())
            assert first_missing([grid.stores], buffer) is None

    same()


def skeleton_of(
    compiler: Compiler,
    source: str,
    *,
    elements: int = 4096,
    grid: tuple[int, int, int] = (16, 1, 1),
    block: int = 128,
    wanted: tuple[int, ...] = (),
    misalignment: int = 0,
) -> tuple[GridSkeleton, WholePlan]:
    """The skeleton of `k(float* out, const float* in)`, both of `elements`.

    `misalignment` is how many bytes off its alignment `out` begins.
    """
    compilation = compiler.compile(source, ("k",))
    assert compilation.ok, compilation.errors
    kernel = compilation.kernels[0]
    pointers = tuple(
        (p.offset, name) for p, name in zip(kernel.parameters, ("out", "in"), strict=True)
    )
    launch = PackedLaunch(
        kernel, grid, (block, 1, 1), 0, bytes(kernel.parameter_bytes), pointers, 1
    )
    nothing = np.zeros(4 * elements, np.uint8)
    buffers = (
        DeviceBuffer("out", ArgumentRole.OUT, nothing, misalignment),
        DeviceBuffer("in", ArgumentRole.IN, nothing),
    )
    plan = WholePlan(Emulator(), compilation.ptx, (launch,), buffers, frozenset({"setp"}))
    offsets = {"out": 4 * np.array(wanted)} if wanted else {}
    return plan.skeleton(0, offsets, BUDGET), plan


def stored_elements(grid: GridSkeleton) -> set[int]:
    return set((grid.stores.offsets("out") // 4).tolist())


HEAD = """
__global__ void k(float* out, const float* in) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
"""


def test_skipped_places_of_single_threads_and_blocks_show(compiler: Compiler) -> None:
    body = """
  if (blockIdx.x == 11) return;   // one block
  if (i % 7 == 3) return;         // threads here and there
  for (int n = i; n < 4096; n += 2048) out[n] = in[n];
}"""
    grid, plan = skeleton_of(compiler, HEAD + body, wanted=(5, 2053))
    assert not grid.part.data
    kept = {i for i in range(2048) if i // 128 != 11 and i % 7 != 3}
    assert stored_elements(grid) == kept | {i + 2048 for i in kept}
    assert grid.writers("out", np.array([20, 8212])) == [{0}, {0}]
    missing = first_missing([grid.stores], plan.tracked("out"))
    assert missing == (12, 4 * (4096 - 2 * len(kept)))
    line = line_of(HEAD + body, "// one block")
    took = {
        (outcome, side.first.block, side.last.block)
        for (index, outcome), side in grid.skeleton.sides.items()
        if grid.part.program.steps[index].location.line == line
    }
    assert any({first, last} == {11} for _, first, last in took)


def test_wide_stores_from_a_shifted_base_are_noted_where_they_go(compiler: Compiler) -> None:
    source = HEAD + "if (i < 1023) ((float4*)(out + 3))[i] = make_float4(1, 2, 3, 4); }"
    grid, _ = skeleton_of(compiler, source, wanted=(3, 4094), misalignment=4)
    assert stored_elements(grid) == set(range(3, 4095))
    assert grid.writers("out", np.array([12, 4 * 4094])) == [{0}, {7}]


def test_bulk_copies_are_stored_piece_by_piece(compiler: Compiler) -> None:
    body = """
  __shared__ __align__(16) float s[128];
  s[threadIdx.x] = in[i];
  if (threadIdx.x == 0) store(out + blockIdx.x * 128, s, blockIdx.x == 3 ? 256 : 512);
}"""
    grid, _ = skeleton_of(compiler, PRELUDE + HEAD + body, wanted=(5, 520))
    assert not grid.part.data
    assert stored_elements(grid) == set(range(0, 2048, 4)) - set(range(3 * 128 + 64, 4 * 128))
    assert grid.writers("out", np.array([20, 2080])) == [{0}, {4}]


def test_a_choice_of_values_by_an_index_is_seen(compiler: Compiler) -> None:
    source = HEAD + "out[i] = in[i] * (i == 1234 ? 3.0f : 1.0f); }"
    grid, _ = skeleton_of(compiler, source)
    rare = [s for s in grid.skeleton.sides.values() if s.lanes == 1]
    assert [(s.first.block, s.first.thread, s.first.offset) for s in rare] == [(9, 82, 4 * 1234)]


@pytest.mark.parametrize(
    ("body", "exact", "what"),
    [
        ("if (in[i] > 0) out[i] = 1; else out[i] = 2;", True, ""),
        ("if (in[i] > 0) return; out[i] = in[i];", True, "a branch"),
        ("for (int n = i; n < 4096; n += 2048) { if (in[n] > 0) continue; out[n] = 1; }", True, ""),
        ("int n = i; while (in[n] > 0) { out[n] = 1; n += 1; }", False, "a branch"),
        ("out[(int)in[i]] = 1;", False, "an address"),
        ("if (in[i] > 0) __syncthreads(); out[i] = 1;", True, ""),
    ],
)
def test_what_data_decides_is_named(compiler: Compiler, body: str, exact: bool, what: str) -> None:
    source = HEAD + body + "\n}"
    grid, _ = skeleton_of(compiler, source)
    assert grid.part.exact == exact
    assert grid.skeleton.finding is None
    if what:
        line = line_of(source, body)
        assert [(d.line, d.what) for d in grid.part.data][:1] == [(line, what)]
    if exact:
        reached = 4096 if "continue" in body else 2048
        assert stored_elements(grid) == set(range(reached))


def test_a_store_out_of_bounds_in_one_far_block_is_a_fault(compiler: Compiler) -> None:
    source = HEAD + "out[blockIdx.x == 1000000 && threadIdx.x == 3 ? -1 : i & 4095] = 1; }"
    grid, _ = skeleton_of(compiler, source, grid=(1_000_001, 1, 1), block=32)
    finding = grid.skeleton.finding
    assert finding is not None
    assert finding.kind is FindingKind.GLOBAL_OUT_OF_BOUNDS
    assert (finding.block, finding.thread) == ((1_000_000, 0, 0), (3, 0, 0))


def test_an_endless_loop_ends_by_its_budget(compiler: Compiler) -> None:
    source = HEAD + "for (int n = 1; n; n |= 1) out[i + (n & 2)] = 1; }"
    grid, _ = skeleton_of(compiler, source, grid=(1, 1, 1))
    assert grid.skeleton.finding is not None
    assert grid.skeleton.finding.kind is FindingKind.BUDGET


def test_threads_of_a_loop_do_not_pile_up_where_data_decides(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that take the other side of `continue` run in the turn of the loop that they left."""
    waiting = []

    def counted(tiles: list[Tile], live: frozenset[int]) -> list[Tile]:
        waiting.append(len(tiles))
        return joined(tiles, live)

    monkeypatch.setattr(skeleton, "joined", counted)
    body = """
  for (int n = i; n < 4096; n += 32) {
    if (in[n] == 0.0f && in[4095 - n] != in[n]) continue;
    out[n] = in[n];
  }
}"""
    grid, _ = skeleton_of(compiler, HEAD + body, grid=(1, 1, 1), block=32)
    assert grid.skeleton.finding is None
    assert stored_elements(grid) == set(range(4096))
    assert max(waiting, default=1) <= 2


@given(st.data())
def test_stores_at_even_distances_are_marked_as_any_others(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from((1, 2, 4, 8, 16)))
    granule = data.draw(st.sampled_from([g for g in (1, 2, 4) if g <= size]))
    begin, step, n = (data.draw(st.integers(*limits)) for limits in ((0, 9), (1, 5), (2, 40)))
    offsets = (begin + step * np.arange(n)) * size
    wanted = data.draw(st.lists(st.sampled_from(offsets.tolist()), max_size=3))
    room = DeviceBuffer("a", ArgumentRole.OUT, np.zeros(4096, np.uint8), 0)
    memory = GlobalMemory((room,), (), 1)
    buffer = memory.buffers[0]
    apart, even = StoreMap(memory, granule), StoreMap(memory, granule)
    for at_once, marks in ((1, apart), (n, even)):
        marks.want("a", np.array([*wanted, 4000]))
        for k in range(0, n, at_once):
            blocks = 7 + np.arange(k, k + at_once)
            part = offsets[k : k + at_once].copy()
            marks.mark(buffer, part, size, lambda blocks=blocks: blocks)
    assert np.array_equal(apart.marks["a"], even.marks["a"])
    assert apart.writers == even.writers
    assert set(even.offsets("a")) >= set(offsets.tolist())
    without = StoreMap(memory, granule)
    without.mark(buffer, offsets.copy(), size, None)
    assert np.array_equal(without.offsets("a"), even.offsets("a"))
