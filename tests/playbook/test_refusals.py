"""Where moves for a GPU keep their hands off: each refusal names the line in the way."""

from __future__ import annotations

import pytest

from astra_tui.model.counters import Counters, LineCount
from astra_tui.model.task import KernelTask
from astra_tui.playbook import Evidence, KernelText, NotApplicable, Proposal
from astra_tui.playbook.guards import guards_as_loops
from astra_tui.playbook.moves.batch_loads import BatchLoads
from astra_tui.playbook.moves.cache_hints import CacheHints
from astra_tui.playbook.moves.cheap_division import CheapDivision
from astra_tui.playbook.moves.early_loads import EarlyLoads
from astra_tui.playbook.moves.flat_grid import FlatGrid
from astra_tui.playbook.moves.full_grid import FullGrid
from astra_tui.playbook.moves.hoist_invariants import HoistInvariants
from astra_tui.playbook.moves.pack_rows import PackRows
from astra_tui.playbook.moves.reciprocal import NEGLIGIBLE, Reciprocal
from astra_tui.playbook.moves.row_grid import RowGrid
from astra_tui.playbook.moves.row_in_registers import RowInRegisters
from astra_tui.playbook.moves.store_early import StoreEarly
from astra_tui.playbook.moves.tune_block import TuneBlock
from astra_tui.playbook.moves.wide_accesses import WideAccesses
from tests.playbook.path import GPU


def source(plan: str, parameters: str, body: str) -> KernelText:
    return KernelText.read(
        f"/* @launch\n   {plan}\n*/\ntemplate <typename T>\n"
        f"__global__ void k({parameters}) {{\n{body}\n}}\n"
    )


@pytest.fixture
def evidence(tasks: dict[str, KernelTask]) -> Evidence:
    return Evidence(tasks["silu_and_mul"], device=GPU)


def packed(body: str, plan: str = "k<T> grid=tokens block=128 args=(out, d)") -> KernelText:
    return source(plan, "T* out, int d", body)


ROW = "for (int i = threadIdx.x; i < d; i += blockDim.x) out[blockIdx.x * d + i] = (T)1.0f;"


def test_what_changes_by_element_begins_in_each_lane(evidence: Evidence) -> None:
    body = (
        "for (int i = threadIdx.x; i < d; i += blockDim.x) {\n  int many = 0, some = 0;\n"
        "  if (in[blockIdx.x * d + i] > (T)0.0f) many = 1;\n  some++;\n"
        "  out[blockIdx.x * d + i] = (T)(float)(many + some);\n}"
    )
    text = source(
        "k<T> grid=tokens block=128 args=(out, input, d)", "T* out, const T* in, int d", body
    )
    answer = WideAccesses().propose(text, evidence)
    assert isinstance(answer, Proposal)
    wide = answer.source[answer.source.index("k_wide(") :]
    assert wide.index("++lane") < wide.index("int many = 0, some = 0;")


def test_short_rows_share_a_block(evidence: Evidence) -> None:
    answer = PackRows().propose(packed(ROW), evidence)
    assert isinstance(answer, Proposal)
    assert "block=(across, 128 // across)" in answer.source
    assert "out[row * d + i]" in answer.source


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f"__shared__ float s[4]; {ROW}", "share memory"),
        (f"{ROW} __syncthreads();", "meet"),
        (f"{ROW} __shfl_xor_sync(~0u, d, 1);", "meet"),
        (f"{ROW} if (threadIdx.x < 4) out[0] = (T)0.0f;", "more than its share"),
        (f"{ROW} out[threadIdx.y] = (T)0.0f;", "has rows already"),
        ("out[blockIdx.x] = (T)0.0f;", "how long a row is"),
    ],
)
def test_rows_whose_threads_know_each_other_keep_their_block(
    body: str, why: str, evidence: Evidence
) -> None:
    answer = PackRows().propose(packed(body), evidence)
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason


FLAT = (
    "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) "
    "out[i] = (T)1.0f;"
)


@pytest.mark.parametrize(
    ("grid", "body", "why"),
    [
        ("ceil_div(tokens * d, 128)", FLAT, "grows with the sizes"),
        ("256", f"{FLAT} out[blockIdx.x] = (T)0.0f;", "means something outside"),
        ("256", "out[threadIdx.x] = (T)0.0f;", "no loop over all elements"),
    ],
)
def test_grids_that_stay(grid: str, body: str, why: str, evidence: Evidence) -> None:
    plan = f"k<T> grid={grid} block=128 args=(out, tokens * d)"
    answer = FullGrid().propose(source(plan, "T* out, int n", body), evidence)
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason


@pytest.mark.parametrize("grid", ["256", "min(ceil_div(tokens * d, 128), 256)", "2 * sm_count"])
def test_capped_grids_are_filled(grid: str, evidence: Evidence) -> None:
    plan = f"k<T> grid={grid} block=128 args=(out, tokens * d)"
    answer = FullGrid().propose(source(plan, "T* out, int n", FLAT), evidence)
    assert isinstance(answer, Proposal)
    assert "grid=ceil_div(tokens * d, 128)" in answer.source


def test_a_grid_that_means_more_than_the_loop_is_no_grid_of_rows(evidence: Evidence) -> None:
    body = FLAT.replace("out[i]", "out[i / d * d + i % d + blockIdx.x]")
    plan = "k<T> grid=256 block=128 args=(out, tokens * d, d)"
    answer = RowGrid().propose(source(plan, "T* out, int n, int d", body), evidence)
    assert isinstance(answer, NotApplicable)
    assert "means something outside" in answer.reason


TURNS = (
    "#pragma unroll\nfor (int t = 0; t < 4; ++t) {\n  const int i = threadIdx.x + t * blockDim.x;"
)


def two_loops(first: str, between: str, second: str) -> KernelText:
    body = (
        f"float kept[4];\nfloat sum = 0.0f;\n{TURNS}\n  {first}\n}}\n{between}\n__syncthreads();\n"
        f"{TURNS}\n  {second}\n}}"
    )
    plan = "k<T> grid=tokens block=128 args=(out, input, d)"
    return source(plan, "T* out, const T* input, int d", body)


LOADED = "kept[t] = (float)input[i]; sum += kept[t];"


def test_a_result_that_is_known_early_is_stored_early(evidence: Evidence) -> None:
    answer = StoreEarly().propose(
        two_loops(LOADED, "", "const float z = kept[t]; out[i] = (T)z;"), evidence
    )
    assert isinstance(answer, Proposal)
    before, after = answer.source.split("__syncthreads();")
    assert "out[i] = (T)z;" in before
    assert "out[i]" not in after


@pytest.mark.parametrize(
    ("first", "between", "second", "why"),
    [
        (LOADED, "", "out[i] = (T)(kept[t] * sum);", "sum is not known any earlier"),
        (LOADED, "", "out[i] = (T)((float)input[i] * kept[t]);", "is in memory"),
        (f"{LOADED} sum += (float)out[d];", "", "out[i] = (T)kept[t];", "used in between"),
        (LOADED, "sum += (float)out[threadIdx.x];", "out[i] = (T)kept[t];", "used in between"),
        (LOADED, "", "out[t] = (T)kept[t];", "other threads may have"),
        (LOADED, "", "out[i] += (T)kept[t];", "no plain store"),
        (LOADED, "kept[0] = 1.0f;", "out[i] = (T)kept[t];", "does not have it"),
        (LOADED, "", "if (sum > 0.0f) out[i] = (T)kept[t];", "sum is not known any earlier"),
        (LOADED, "", "out[i] = (T)kept[3 - t];", "does not have it"),
    ],
)
def test_stores_that_stay_where_they_are(
    first: str, between: str, second: str, why: str, evidence: Evidence
) -> None:
    answer = StoreEarly().propose(two_loops(first, between, second), evidence)
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason


def test_a_store_that_waits_for_no_other_thread_stays(evidence: Evidence) -> None:
    loops = two_loops(LOADED, "", "out[i] = (T)kept[t];").text.replace("__syncthreads();", "")
    answer = StoreEarly().propose(KernelText.read(loops), evidence)
    assert isinstance(answer, NotApplicable)
    assert "barrier in between" in answer.reason


IN_PLACE = """  if (i < d) {
    const T a = out[i];
    const T b = input[i];
    const T z = a + b;
    sum += (float)z;
    out[i] = z;
  }"""


def test_all_turns_load_before_the_first_stores(evidence: Evidence) -> None:
    answer = BatchLoads().propose(two_loops(IN_PLACE, "", "sum += kept[t];"), evidence)
    assert isinstance(answer, Proposal)
    loads, rest = answer.source.split("const T a = out_turns[t];")
    assert loads.count("#pragma unroll") == 2, "one loop has the loads of both"
    assert (
        "  if (i < d) {\n    out_turns[t] = out[i];\n    input_turns[t] = input[i];\n  }" in loads
    )
    assert "const T b = input_turns[t];" in rest
    again = BatchLoads().propose(KernelText.read(answer.source), evidence)
    assert isinstance(again, NotApplicable)
    assert "does nothing but load" in again.reason


@pytest.mark.parametrize(
    ("turn", "why"),
    [
        (IN_PLACE.replace("out[i] = z", "out[i + 1] = z"), "another turn may store"),
        (
            IN_PLACE.replace("out[i] = z", "out[t] = z").replace("out[i];", "out[t];"),
            "another turn",
        ),
        (IN_PLACE.replace("const T a", "out[i] = b; const T a"), "the turn itself stores"),
        (IN_PLACE.replace("input[i]", "input[(int)out[i]]"), "in memory itself"),
        (
            IN_PLACE.replace("input[i]", "input[(int)sum]").replace("a = out[i]", "a = z"),
            "sum changes",
        ),
        (f"for (int k = 0; k < 4; ++k) {{ {IN_PLACE.replace('[i]', '[i * 4 + k]')} }}", "no load"),
        (
            IN_PLACE.replace("const T b = input[i]", "const T b = *(input + i)"),
            "cannot be followed",
        ),
        ("sum += (float)input[i];", "no load that a statement is all about"),
        (f"while (input[t] == (T)0.0f) {{ }} {IN_PLACE}", "wait for other threads (while)"),
        (IN_PLACE.replace("out[i] = z", "__syncthreads(); out[i] = z"), "(__syncthreads)"),
        (IN_PLACE.replace("out[i] = z", "atomicAdd(&sum, 1.0f); out[i] = z"), "(atomicAdd)"),
    ],
)
def test_turns_whose_loads_stay(turn: str, why: str, evidence: Evidence) -> None:
    answer = BatchLoads().propose(two_loops(turn, "", "sum += kept[t];"), evidence)
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason, answer.reason


@pytest.mark.parametrize("there", [19, 20])
def test_divisions_that_hardly_run_are_left_alone(there: int, tasks: dict[str, KernelTask]) -> None:
    kernel = source(
        "k<T> grid=1 block=32 args=(out, d)",
        "T* out, float d",
        "for (int i = threadIdx.x; i < 64; i += 32)\nout[i] = (T)(i / d);",
    )
    line = kernel.text.splitlines().index("out[i] = (T)(i / d);") + 1
    counts = (LineCount(line, there, 0, 0, 0), LineCount(1, 1000 - there, 0, 0, 0))
    counted = Evidence(tasks["silu_and_mul"], Counters(lines=counts), GPU)
    answer = Reciprocal().propose(kernel, counted)
    if there / 1000 < NEGLIGIBLE:
        assert isinstance(answer, NotApplicable)
        assert answer.reason == f"line {line}: 1.9% of all warp instructions, too few"
    else:
        assert isinstance(answer, Proposal)


@pytest.mark.parametrize("runs", [0, 8])
def test_work_that_no_workload_does_stays_where_it_is(
    runs: int, tasks: dict[str, KernelTask]
) -> None:
    repeated = "const float root = rsqrtf(x / d);"
    kernel = source(
        "k<T> grid=1 block=32 args=(out, x, d)",
        "T* out, float x, float d",
        f"for (int i = threadIdx.x; i < 64; i += 32) {{\n{repeated}\nout[i] = (T)root;\n}}",
    )
    line = kernel.text.splitlines().index(repeated) + 1
    counts = (LineCount(line, runs, 0, 0, 0), LineCount(1, 100, 0, 0, 0))
    counted = Evidence(tasks["silu_and_mul"], Counters(lines=counts), GPU)
    answer = HoistInvariants().propose(kernel, counted)
    if runs:
        assert isinstance(answer, Proposal)
    else:
        assert isinstance(answer, NotApplicable)
        assert answer.reason == f"line {line}: no workload runs there"


WIDE_ROW = """for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const int4 v = *reinterpret_cast<const int4*>(&in[blockIdx.x * d + i * 8]);
    *reinterpret_cast<int4*>(&out[blockIdx.x * d + i * 8]) = v;
  }"""


def flattened(
    body: str, plan: str = "k<T> grid=tokens block=128 args=(out, input, d)"
) -> KernelText:
    return source(plan, "T* out, const T* in, int d", body)


def test_rows_without_barriers_become_a_flat_grid(evidence: Evidence) -> None:
    answer = FlatGrid().propose(flattened(WIDE_ROW), evidence)
    assert isinstance(answer, Proposal)
    assert "grid=ceil_div(max(tokens * across, 1), 256) block=256" in answer.source
    assert "in[flat_row * d + i * 8]" in answer.source
    assert "(unsigned)(flat * magic >> shift)" in answer.source


@pytest.mark.parametrize(
    ("blocks", "idle"),
    [("ceil_div(d, 1024)", 4), ("ceil_div(d, 1024) + 1", None), ("ceil_div(d, 2048)", None)],
    ids=["few idle threads", "many", "several turns"],
)
def test_blocks_that_share_out_rows_with_few_idle_threads_stay(
    blocks: str, idle: int | None, evidence: Evidence
) -> None:
    body = WIDE_ROW.replace("blockIdx.x * d", "blockIdx.y * d")
    body = body.replace("= threadIdx.x", "= blockIdx.x * blockDim.x + threadIdx.x")
    text = flattened(
        body.replace("+= blockDim.x", "+= gridDim.x * blockDim.x"),
        f"k<T> grid=({blocks}, tokens) block=1024 args=(out, input, d)",
    )
    answer = FlatGrid().propose(text, evidence)
    if idle is None:
        assert isinstance(answer, Proposal)
    else:
        assert isinstance(answer, NotApplicable)
        assert f"at most {idle} % of their threads have nothing to do" in answer.reason


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f"{WIDE_ROW} __syncthreads();", "meet"),
        (f"__shared__ float s[4]; {WIDE_ROW}", "share memory"),
        (f"{WIDE_ROW} out[blockIdx.x] = (T)0.0f;", "outside of the loop"),
        (f"if (blockIdx.x > 3) return; {WIDE_ROW}", "return before the end"),
        (WIDE_ROW.replace("d + i", "d + gridDim.x + i"), "means more than a row"),
        ("const int i = threadIdx.x; out[i] = (T)1.0f;", "no loop in which"),
        (f"{WIDE_ROW} for (int i = threadIdx.x; i < 8; i += blockDim.x) {{ }}", "how long a row"),
    ],
)
def test_rows_that_need_their_block_stay(body: str, why: str, evidence: Evidence) -> None:
    answer = FlatGrid().propose(flattened(body), evidence)
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason


def test_what_can_become_wide_is_not_flattened_before(evidence: Evidence) -> None:
    answer = FlatGrid().propose(packed(ROW), evidence)
    assert isinstance(answer, NotApplicable)
    assert "wide first" in answer.reason


def test_a_step_that_is_the_number_of_threads_may_be_a_constant(evidence: Evidence) -> None:
    plan = "k<T> grid=tokens block=128 args=(out, input, d)"
    stepping = flattened(WIDE_ROW.replace("blockDim.x", "128"), plan)
    assert isinstance(FlatGrid().propose(stepping, evidence), Proposal)
    other = flattened(WIDE_ROW.replace("blockDim.x", "64"), plan)
    answer = FlatGrid().propose(other, evidence)
    assert isinstance(answer, NotApplicable)
    assert "no loop in which" in answer.reason


@pytest.mark.parametrize("number", [1, 2, 3, 7, 40, 640, 1023, 1024, 1025, 1792, 65537, 1048575])
def test_a_product_and_a_shift_divide_exactly(number: int) -> None:
    shift = 37 if number < 1024 else 47
    magic = -(-(1 << shift) // number)
    most = 1 << 27
    edges = {k * number + o for k in (0, 1, 2, most // number) for o in (-1, 0, 1)}
    for n in {*edges, most - 1, most // 2, most // 3}:
        if 0 <= n < most:
            assert n * magic < 1 << 64
            assert n * magic >> shift == n // number


def late(after: str, before: str = "") -> KernelText:
    body = f"""  __shared__ float s[32];
  float sum = 0.0f;
{before}  for (int i = threadIdx.x; i < d; i += blockDim.x) sum += (float)in[i];
  s[threadIdx.x % 32] = sum;
  __syncthreads();
{after}
"""
    plan = "k<T> grid=tokens block=128 args=(out, input, d)"
    return source(plan, "T* out, const T* in, int d", body)


LATER = """  for (int turn = 0; turn < 4; ++turn) {
    const int i = threadIdx.x + turn * blockDim.x;
    if (i < d) {
      const T w = in[i];
      out[i] = w * (T)s[0];
    }
  }"""


def test_loads_behind_a_barrier_leave_first(evidence: Evidence) -> None:
    answer = EarlyLoads().propose(late(LATER), evidence)
    assert isinstance(answer, Proposal)
    code = answer.source
    assert code.index("in_early[turn] = in[i];") < code.index("sum += (float)in[i]")
    assert "const T w = in_early[turn];" in code


@pytest.mark.parametrize(
    ("element", "early"),
    [
        ("in[0]", True),
        ("in[blockIdx.x]", True),
        ("in[threadIdx.x]", False),
        ("in[lane / 4]", False),
        ("in[(int)s[0]]", False),
    ],
)
def test_an_element_of_the_whole_block_is_loaded_once_and_first(
    element: str, early: bool, evidence: Evidence
) -> None:
    after = LATER.replace("w * (T)s[0]", f"w * (T)s[0] / {element} + {element}")
    answer = EarlyLoads().propose(late(after, "  const int lane = threadIdx.x % 32;\n"), evidence)
    assert isinstance(answer, Proposal)
    code = answer.source
    if early:
        assert code.index(f"const T in_early_2 = {element};") < code.index("sum += (float)in[i]")
        assert "w * (T)s[0] / in_early_2 + in_early_2;" in code
    else:
        assert f"w * (T)s[0] / {element} + {element};" in code


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (LATER.replace("in[i]", "out[i]"), "stores to that buffer"),
        (
            LATER.replace("const T w", "for (int k = 0; k < 2; ++k) { const T w").replace(
                "(T)s[0];", "(T)s[0]; }"
            ),
            "no load behind a barrier",
        ),
        (LATER.replace("turn < 4", "turn < d"), "fixed number of iterations"),
        (LATER.replace("in[i]", "in[(int)s[i]]"), "in memory itself"),
        (f"const int n = (int)s[0];{LATER.replace('i < d', 'i < n')}", "not known any earlier"),
        (LATER.replace("out[i] = w", "break; out[i] = w"), "fixed number of iterations"),
    ],
)
def test_loads_that_depend_on_the_block_stay(after: str, why: str, evidence: Evidence) -> None:
    answer = EarlyLoads().propose(late(after), evidence)
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason, answer.reason


DIVIDED = """  const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t row = index / d;
  const int column = (int)(index % d);
  if (row < d) out[row * d + column] = in[index];"""
DIVIDED_PLAN = "k<T> grid=ceil_div(tokens * d, 128) block=128 args=(out, input, d)"


def test_a_flat_index_is_divided_by_a_product_and_a_shift(evidence: Evidence) -> None:
    answer = CheapDivision().propose(flattened(DIVIDED, DIVIDED_PLAN), evidence)
    assert isinstance(answer, Proposal)
    assert "const int64_t row = quotient;" in answer.source
    assert "(int)((flat - quotient * across))" in answer.source
    assert "tokens * d <= 134217728" in answer.source


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (DIVIDED.replace("index / d", "index / 8").replace("index % d", "0"), "no division"),
        (DIVIDED.replace("index % d", "index % (d + 1)"), "what it divides by"),
        (DIVIDED.replace("index / d", "(index + 1) / d").replace("index % d", "0"), "no division"),
    ],
)
def test_other_divisions_stay(body: str, why: str, evidence: Evidence) -> None:
    answer = CheapDivision().propose(flattened(body, DIVIDED_PLAN), evidence)
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason


STAGED = """  extern __shared__ float row[];
  for (int i = threadIdx.x; i < d; i += blockDim.x) row[i] = (float)in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < d; i += blockDim.x) out[i] = (T)row[i];"""
STAGED_PLAN = "k<T> grid=tokens block=128 shared=d * sizeof(float32) args=(out, input, d)"


def test_a_row_that_each_thread_keeps_for_itself_goes_to_registers(evidence: Evidence) -> None:
    answer = RowInRegisters().propose(flattened(STAGED, STAGED_PLAN), evidence)
    assert isinstance(answer, Proposal)
    kept = answer.source.partition("k_kept(")[2]
    assert "row_kept[turn] = (float)in[i];" in kept
    assert "out[i] = (T)row_kept[turn];" in kept
    assert "extern" not in kept
    first = KernelText.read(answer.source).plan.launches()
    assert [e.shared_bytes is None for e in first] == [True, False]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (STAGED.replace("(T)row[i]", "(T)row[d - 1 - i]"), "other threads may have"),
        (f"{STAGED} out[0] = (T)row[0];", "outside of loops"),
        (
            STAGED.replace("i < d; i += blockDim.x) out", "i < d / 2; i += blockDim.x) out"),
            "same part",
        ),
        (STAGED.replace("out[i] = (T)row[i]", "out[i] = *(T*)(row + i)"), "more than an element"),
        (STAGED.replace("row[i] =", "row[i * 2 + 1] ="), "differ in width"),
        (STAGED.replace("row[i]", "row[i * d + 1]"), "no constant says"),
        (
            STAGED.replace("extern __shared__ float row[]", "__shared__ float row[64]"),
            "no row in shared",
        ),
    ],
)
def test_a_row_that_others_may_read_stays_shared(body: str, why: str, evidence: Evidence) -> None:
    answer = RowInRegisters().propose(flattened(body, STAGED_PLAN), evidence)
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason, answer.reason


PLACE = "const int i = blockIdx.x * blockDim.x + threadIdx.x;"


@pytest.mark.parametrize(
    "body",
    [
        f"{PLACE}\n  if (i >= d) return;\n  out[i] = in[i];",
        f"{PLACE}\n  if (d <= i) {{ return; }}\n  out[i] = in[i];",
        f"{PLACE}\n  if (i < d) {{\n    out[i] = in[i];\n  }}",
        f"{PLACE}\n  const int two = 2;\n  if (i < d) out[i] = in[i];",
    ],
)
def test_a_guard_becomes_a_loop_on_the_same_lines(body: str) -> None:
    before = flattened(body, DIVIDED_PLAN)
    after = guards_as_loops(before, {})
    assert "i < d; i += (int)gridDim.x * blockDim.x)" in after.text
    assert "return" not in after.text
    assert after.text.count("\n") == before.text.count("\n")
    lines = [text.splitlines() for text in (before.text, after.text)]
    assert all("out[i] = in[i];" in b for a, b in zip(*lines, strict=True) if "out[i]" in a)


@pytest.mark.parametrize(
    "body",
    [
        f"{PLACE} if (i >= d) return; __syncthreads(); out[i] = in[i];",
        f"{PLACE} out[i] = in[0]; if (i >= d) return; out[i] = in[i];",
        f"{PLACE} if (i >= d) {{ out[0] = in[0]; return; }} out[i] = in[i];",
        f"{PLACE} if (i < d) out[i] = in[i]; else out[0] = in[0];",
        f"{PLACE} if (i < d) out[i] = in[i]; out[0] = in[0];",
        f"{PLACE} if (i >= d) return; if (i == 3) return; out[i] = in[i];",
        "const int i = blockIdx.x; if (i >= d) return; out[i] = in[i];",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= d) return; out[i++] = in[i];",
    ],
)
def test_a_guard_that_does_more_stays(body: str) -> None:
    before = flattened(body, DIVIDED_PLAN)
    assert guards_as_loops(before, {}).text == before.text


def test_fewer_elements_than_a_pack_has_keep_a_block(evidence: Evidence) -> None:
    body = f"{PLACE}\n  if (i < d) out[i] = in[i];"
    plan = "k<T> grid=ceil_div(d, 128) block=128 args=(out, input, d)"
    answer = WideAccesses().propose(flattened(body, plan), evidence)
    assert isinstance(answer, Proposal)
    assert "grid=ceil_div(max(d // width, 1), 128)" in answer.source


def test_threads_that_meet_in_a_function_keep_their_rows(evidence: Evidence) -> None:
    text = flattened(f"{WIDE_ROW}\n  sum_of(1.0f);").text
    helper = "__device__ float sum_of(float v) {\n  __syncthreads();\n  return v;\n}\n"
    source_ = KernelText.read(
        text.replace("template <typename T>", f"{helper}template <typename T>")
    )
    for move in (FlatGrid(), PackRows()):
        answer = move.propose(source_, evidence)
        assert isinstance(answer, NotApplicable)
        assert "meet" in answer.reason


@pytest.mark.parametrize(
    ("kernel", "plan", "why"),
    [
        ("__launch_bounds__(ROOM) k", "k<T> grid=tokens block=128", "no number says"),
        ("k", "k<T> grid=tokens block=128 shared=128 * 4", "counts on 128 elsewhere"),
        ("k", "k<T, 128> grid=tokens block=128", "counts on 128 elsewhere"),
    ],
)
def test_blocks_that_something_else_counts_on_are_not_swept(
    kernel: str, plan: str, why: str, evidence: Evidence
) -> None:
    text = packed(ROW, f"{plan} args=(out, d)").text.replace(" k(", f" {kernel}(")
    answer = TuneBlock().propose(KernelText.read(text), evidence)
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason


def test_blocks_grow_within_their_launch_bounds(evidence: Evidence) -> None:
    few = KernelText.read(packed(ROW).text.replace(" k(", " __launch_bounds__(256, 2) k("))
    answer = TuneBlock().propose(few, evidence)
    assert isinstance(answer, Proposal)
    assert "tune threads = 256 in 64, 128, 256\n" in answer.source


@pytest.mark.parametrize(("given", "hinted"), [("T", True), ('"others::Half"', False)])
def test_types_of_others_have_no_streaming_accesses(
    given: str, hinted: bool, evidence: Evidence
) -> None:
    plan = f"k<{given}> grid=tokens block=128 args=(out, d)"
    answer = CacheHints().propose(packed(ROW, plan), evidence)
    assert isinstance(answer, Proposal) is hinted


@pytest.mark.parametrize(("size", "ok"), [("d", True), ("threadIdx.y", False)])
def test_a_row_of_a_pack_is_one_row_only_where_its_length_is_whole_packs(
    size: str, ok: bool, evidence: Evidence
) -> None:
    """What says the row may be read by a function alone, where no access asks for the length."""
    body = FLAT.replace("out[i] = (T)1.0f;", f"{{ int r = i / {size}; out[i] = (T)f(r); }}")
    plan = "k<T> grid=256 block=128 args=(out, tokens * d, d)"
    answer = WideAccesses().propose(source(plan, "T* out, int n, int d", body), evidence)
    assert isinstance(answer, Proposal)
    assert ("when d % width == 0" in answer.source) is ok
    assert (f"int r = (i + lane) / {size}" in answer.source) is not ok
