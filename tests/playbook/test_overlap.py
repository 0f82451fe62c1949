"""Launches that overlap: where kernels come to wait, where they trigger, and who is left alone."""

from __future__ import annotations

import re

import pytest

from astra_tui.cuda_source.syntax import text_of
from astra_tui.lab.check.runner import select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.explain.sass.nvdisasm import find_nvdisasm
from astra_tui.model.sass import SassKernel
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Brief
from astra_tui.model.verdict import Profile
from astra_tui.playbook import Evidence, KernelText, NotApplicable, Proposal
from astra_tui.playbook.accesses import accesses_in, unknown_accesses
from astra_tui.playbook.moves.early_loads import EarlyLoads
from astra_tui.playbook.moves.loads_first import LoadsFirst
from astra_tui.playbook.moves.overlap_launches import OverlapLaunches
from astra_tui.playbook.moves.trigger_early import TriggerEarly
from astra_tui.playbook.space import space_of
from astra_tui.playbook.waiting import TRIGGER, WAIT
from tests.conftest import CheckerOf
from tests.explain.helpers import kernel_from_source
from tests.playbook.path import GPU, require_pass

PLAN = "k<T> grid=tokens block=128 args=(x, residual, weight, d)"
POINTERS = ("T* x", "T* residual", "const T* weight")
ROW = "  for (int i = threadIdx.x; i < d; i += blockDim.x) x[i] = residual[i];"


@pytest.fixture
def evidence(tasks: dict[str, KernelTask]) -> Evidence:
    return Evidence(tasks["fused_add_rmsnorm"], device=GPU)


def source(body: str, plan: str = PLAN, above: str = "") -> KernelText:
    return KernelText.read(
        f"/* @launch\n   {plan}\n*/\n{above}\ntemplate <typename T>\n"
        f"__global__ void k(T* x, T* residual, const T* weight, int d) {{\n{body}\n}}\n"
    )


def overlapped(text: KernelText, evidence: Evidence) -> str:
    answer = OverlapLaunches().propose(text, evidence)
    assert isinstance(answer, Proposal), answer
    assert answer.source.count(f"{WAIT}();") == answer.source.count(f"{TRIGGER}();") == 1
    return answer.source


def line_after_wait(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    return lines[lines.index(f"{WAIT}();") + 1]


STAYS_ABOVE = [
    "const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;",
    "T* row = x + blockIdx.x * d;",
    "using V = float; V kept[4];",
    "__shared__ float held[128]; held[threadIdx.x] = 0.0f; __syncthreads();",
    "const float w = threadIdx.x < d ? (float)weight[threadIdx.x] : 0.0f;",
    "const float w = __ldg(&weight[0]);",
    "const T* scales = weight + 4; float w = 0.0f; for (int i = 0; i < 4; ++i) w += scales[i];",
    "#pragma unroll\n  for (int k = 0; k < N; ++k) kept[k] = 0.0f;",
    "if (threadIdx.x >= d) return;",
    "if (threadIdx.x >= d) { return; }",
]
WAITS_ABOVE = [
    "const float z = x[0];",
    "x[threadIdx.x] = 0;",
    "if (x[0] > d) return;",
    "if (threadIdx.x >= d) { x[0] = 0; return; }",
    "if (threadIdx.x == 0) { atomicAdd(x, 1); }",
    "const float w = *weight;",
    "const float w = weight[0] + residual[0];",
    "const float w = load(weight);",
    "const float w = (scaled)(4);",
    "const float w = SCALED(4);",
    "const float w = ((const View*)weight)->data != 0;",
    "const float w = GATE;",
    "const float w = table[0];",
    "const float w = total;",
    "const float w = __ldg(&x[0]);",
    "View view(x);",
    'asm volatile("ld.global.f32 %0, [%1];" : "=f"(z) : "l"(x));',
    "auto at = [&](int i) { return x[i]; };",
    "const float w = (d > 4 ? x : weight)[0];",
]
ABOVE = """
#define N 4
#define GATE x[0]
#define SCALED(i) (2 * x[i])
__device__ float scaled(int i);
__device__ float scaled(int i) { return table[i]; }
__device__ float table[4], total;
struct View {
  const void* data;
  __device__ View(const void* data) : data(data) {}
};
"""


@pytest.mark.parametrize("statement", STAYS_ABOVE)
def test_what_needs_no_launch_before_stays_above_the_wait(
    statement: str, evidence: Evidence
) -> None:
    text = overlapped(source(f"  float kept[4];\n  {statement}\n{ROW}", above=ABOVE), evidence)
    assert line_after_wait(text) == ROW.strip()
    assert "args=(x, residual, weight, d) pdl=true\n*/" in text


@pytest.mark.parametrize("statement", WAITS_ABOVE)
def test_what_may_meet_a_launch_before_is_waited_for(statement: str, evidence: Evidence) -> None:
    body = f"  const int i = threadIdx.x;\n  {statement}\n{ROW}"
    text = overlapped(source(body, above=ABOVE), evidence)
    assert line_after_wait(text) == statement.replace("__ldg(&x[0])", "(*(&x[0]))")
    assert text.rstrip().endswith(f"  {TRIGGER}();\n}}")


@pytest.mark.parametrize(
    ("body", "inside"),
    [
        ("  if (threadIdx.x < d) {\n    x[0] = 1;\n  }", True),
        ("  if (x[0] < d) {\n    x[0] = 1;\n  }", False),
        ("  if (threadIdx.x < d) {\n    x[0] = 1;\n  }\n  x[1] = 2;", False),
        ("  if (threadIdx.x < d) {\n    x[0] = 1;\n  } else {\n    x[1] = 2;\n  }", False),
    ],
)
def test_threads_that_use_no_memory_need_not_wait(
    body: str, inside: bool, evidence: Evidence
) -> None:
    text = overlapped(source(body), evidence)
    assert (line_after_wait(text) == "x[0] = 1;") is inside
    early = TriggerEarly().propose(KernelText.read(text), evidence)
    assert isinstance(early, Proposal), early
    assert line_after_wait(early.source) == f"{TRIGGER}();"
    assert early.source.count(TRIGGER) == 1


def test_comments_and_pragmas_stay_with_their_loop(evidence: Evidence) -> None:
    loop = f"  // The row.\n#pragma unroll 1\n{ROW}"
    text = overlapped(source(f"  const int n = d;  // Its length.\n{loop}"), evidence)
    assert f"// Its length.\n  {WAIT}();\n{loop}\n  {TRIGGER}();\n}}" in text


def test_a_kernel_on_one_line(evidence: Evidence) -> None:
    text = "/* @launch\n   k grid=1 block=1 args=(x)\n*/\n__global__ void k(float* x) { *x = 0; }\n"
    assert f"{{ {WAIT}(); *x = 0; {TRIGGER}(); }}" in overlapped(KernelText.read(text), evidence)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (source(ROW, f"{PLAN} pdl=tokens < 9"), "line 2: the plan says already"),
        (source(f"  {WAIT}();\n{ROW}"), "line 7: the code says already"),
        (source(f'  asm("griddepcontrol.wait;");\n{ROW}'), "the code says already"),
        (
            source(ROW, f"{PLAN}\n   other grid=1 block=1 args=(x)"),
            "the source has not one",
        ),
        (source("  __syncthreads();"), "uses no memory"),
    ],
)
def test_launches_that_stay_as_they_are(text: KernelText, why: str, evidence: Evidence) -> None:
    answer = OverlapLaunches().propose(text, evidence)
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason


@pytest.mark.parametrize(
    ("arch", "able"), [("sm_80", False), ("sm_89", False), ("sm_90a", True), ("sm_120", True)]
)
def test_a_gpu_that_cannot_overlap_launches_is_named(
    arch: str, able: bool, tasks: dict[str, KernelTask]
) -> None:
    task = tasks["silu_and_mul"]
    text = task.baseline_file.read_text()
    evidence = Evidence.of(Brief(task, 1, "", text, Profile(GPU, (), arch=arch)))
    answer = OverlapLaunches().propose(KernelText.read(text), evidence)
    assert isinstance(answer, Proposal) is able
    assert able or (isinstance(answer, NotApplicable) and arch in answer.reason)


LATE = f"""  __shared__ float s[1];
  const T* row = weight + 4;
  {WAIT}();
  s[0] = d;
  __syncthreads();
#pragma unroll
  for (int turn = 0; turn < 4; ++turn) {{
    const int i = threadIdx.x + turn * blockDim.x;
    if (i < d) {{
      const T w = LOAD;
      if (s[0] > 2.0f) residual[i] = w;
    }}
  }}"""
ABOVE_LATE = """#include <cuda_fp16.h>
template <int N> struct alignas(4 * N) Pack {
  float value[N];
};
"""


def _late(load: str) -> KernelText:
    text = source(LATE.replace("LOAD", load), f"{PLAN} pdl=true", ABOVE_LATE)
    return KernelText.read(text.text.replace("const T* weight", "const T* __restrict__ weight"))


def _loads_before_the_wait(kernel: SassKernel) -> int:
    names = [i.name for i in kernel.instructions]
    before = names[: names.index("ACQBULK")]
    return sum(name.partition(".")[0] in ("LD", "LDG") for name in before)


@pytest.mark.skipif(find_nvdisasm() is None, reason="needs nvdisasm")
@pytest.mark.parametrize(
    ("load", "of", "loads"),
    [
        ("weight[i]", "float", 4),
        ("__ldg(&weight[i])", "float", 4),
        ("row[i]", "__half", 4),
        ("row[i]", "Pack<2>", 4),
        ("row[i]", "Pack<4>", 4),
        ("row[i]", "Pack<16>", 16),
    ],
)
def test_machine_code_asks_for_weights_before_it_waits(
    load: str, of: str, loads: int, evidence: Evidence, compiler: Compiler
) -> None:
    answer = EarlyLoads().propose(_late(load), evidence)
    assert isinstance(answer, Proposal), answer
    kernel = kernel_from_source(answer.source, f"k<{of}>", compiler)
    assert _loads_before_the_wait(kernel) == loads


@pytest.mark.skipif(find_nvdisasm() is None, reason="needs nvdisasm")
def test_machine_code_asks_for_an_element_of_the_block_before_it_waits(
    evidence: Evidence, compiler: Compiler
) -> None:
    """A scale by which all threads multiply; what the launch before writes is asked for after."""
    for element, more in (("weight[0]", 1), ("weight[blockIdx.x]", 1), ("x[0]", 0)):
        text = _late("weight[i]").text.replace("residual[i] = w", f"residual[i] = w * {element}")
        answer = EarlyLoads().propose(KernelText.read(text), evidence)
        assert isinstance(answer, Proposal), answer
        kernel = kernel_from_source(answer.source, "k<float>", compiler)
        assert _loads_before_the_wait(kernel) == 4 + more, element
        assert "_early_2 = " in answer.source or not more


READS_BELOW = f"""  __shared__ float s[32];
  float sum = 0.0f;
  {WAIT}();
  float kept[1];
#pragma unroll
  for (int turn = 0; turn < 1; ++turn) {{
    const int i = threadIdx.x + turn * blockDim.x;
    if (i < d) kept[turn] = residual[blockIdx.x * d + i];
  }}
#pragma unroll
  for (int turn = 0; turn < 1; ++turn) {{
    const int i = threadIdx.x + turn * blockDim.x;
    if (i < d) sum += kept[turn];
  }}
  s[threadIdx.x / 32] = sum;
  __syncthreads();
#pragma unroll
  for (int turn = 0; turn < 1; ++turn) {{
    const int i = threadIdx.x + turn * blockDim.x;
    if (i < d) {{
      const T w = weight[i];
      x[blockIdx.x * d + i] = kept[turn] * w * s[0];
    }}
  }}"""


@pytest.mark.skipif(find_nvdisasm() is None, reason="needs nvdisasm")
def test_machine_code_asks_for_what_others_write_after_it_has_waited(
    evidence: Evidence, compiler: Compiler
) -> None:
    text = source(READS_BELOW, f"{PLAN} pdl=true").text
    for name in POINTERS:
        text = text.replace(name, name.replace("* ", "* __restrict__ "))
    answer = EarlyLoads().propose(KernelText.read(text), evidence)
    assert isinstance(answer, Proposal), answer
    assert "k(T* __restrict__ x, T* residual, const T* __restrict__ weight" in answer.source
    moved, kept = (
        _loads_before_the_wait(kernel_from_source(one, "k<float>", compiler))
        for one in (answer.source.replace("T* residual", "T* __restrict__ residual"), answer.source)
    )
    assert moved >= kept == 1, "some compilers move none of this kernel by themselves"


@pytest.mark.parametrize("element", ["T* residual", "const T* const residual"])
def test_what_launches_before_may_write_is_read_without_restrict(
    element: str, evidence: Evidence, compiler: Compiler
) -> None:
    """Only what the kernel reads: its weights no launch writes, and what it stores is stored."""
    text = source(f"  const T w = __ldg(weight);\n{ROW}").text
    for name in POINTERS:
        text = text.replace(name, name.replace("* ", "* __restrict__ "))
    read = element.replace(" residual", " __restrict__ residual")
    text = text.replace("T* __restrict__ residual", read)
    made = overlapped(KernelText.read(text), evidence)
    assert f"k(T* __restrict__ x, {element}, const T* __restrict__ weight, int d)" in made
    assert "__ldg(weight)" in made
    assert compiler.compile(made, ("k<float>",)).ok


@pytest.mark.skipif(find_nvdisasm() is None, reason="needs nvdisasm")
def test_loads_that_leave_first_stay_below_the_wait(
    tasks: dict[str, KernelTask], compiler: Compiler
) -> None:
    """ptxas 13.0 and 13.5 move a load of merge_attn_states above the wait, with __restrict__."""
    task = tasks["merge_attn_states_lse"]
    base = KernelText.read(task.tuned_file.read_text())
    for move in (OverlapLaunches(), LoadsFirst()):
        answer = move.propose(base, Evidence(task, device=GPU))
        assert isinstance(answer, Proposal), answer
        base = KernelText.read(answer.source)
    assert base.text.count("__restrict__ v_out") == 1
    restricted = re.sub(r"(const \w+\*) ", r"\1 __restrict__ ", base.text)
    below, above = (
        _loads_before_the_wait(kernel_from_source(one, "merge_attn_states<__half, 1>", compiler))
        for one in (base.text, restricted)
    )
    assert (below, above > 0) == (0, True)


def test_loads_that_wait_hold_nothing(evidence: Evidence) -> None:
    """A load of what launches before may write stays below the wait, and so does the rest."""
    text = source(READS_BELOW.replace("weight[i]", "residual[i]"), f"{PLAN} pdl=true").text
    answer = EarlyLoads().propose(KernelText.read(text), evidence)
    assert isinstance(answer, Proposal), answer
    assert "asm(" not in answer.source


def test_moves_still_read_a_kernel_with_early_loads(evidence: Evidence) -> None:
    answer = EarlyLoads().propose(_late("row[i]"), evidence)
    assert isinstance(answer, Proposal), answer
    text = KernelText.read(answer.source)
    (kernel,) = text.kernels
    assert not unknown_accesses(kernel.body, kernel)
    (load,) = (a for a in accesses_in(kernel.body, kernel) if text_of(a.node) == "row_now[i]")
    assert (load.root.name, load.element, load.is_store) == ("weight", "T", False)
    assert isinstance(TriggerEarly().propose(text, evidence), Proposal)


def test_a_sweep_waits_first_so_that_early_loads_stay_above(evidence: Evidence) -> None:
    body = _late("row[i]").text.replace(f"  {WAIT}();\n", "").replace(" pdl=true", "")
    space = space_of(body, evidence)
    assert [d.name for d in space.dimensions][:2] == ["overlap_launches", "early_loads"]
    early = next(s for s in space.settings() if s["overlap_launches"] and s["early_loads"])
    text = space.source(early)
    assert text.index('asm("" : "+l"(row_now));') < text.index(f"{WAIT}();")


def test_the_trigger_moves_behind_the_wait(evidence: Evidence) -> None:
    late = KernelText.read(overlapped(source(f"  const int n = d;\n{ROW}"), evidence))
    answer = TriggerEarly().propose(late, evidence)
    assert isinstance(answer, Proposal)
    assert f"  {WAIT}();\n  {TRIGGER}();\n{ROW}\n}}" in answer.source
    again = TriggerEarly().propose(KernelText.read(answer.source), evidence)
    assert isinstance(again, NotApplicable)
    assert "triggers early already" in again.reason


@pytest.mark.parametrize(
    ("plan", "body", "why"),
    [
        (PLAN, f"  {WAIT}();\n{ROW}", "no pdl="),
        (f"{PLAN} pdl=true", f"  if (d > 4) {WAIT}();\n{ROW}", "one place"),
        (f"{PLAN} pdl=true", f"  {WAIT}();\n  if (d > 4) {TRIGGER}();\n{ROW}", "not all threads"),
        (f"{PLAN} pdl=true", f"  {TRIGGER}();\n  {WAIT}();\n{ROW}", "early already"),
    ],
)
def test_triggers_that_stay(plan: str, body: str, why: str, evidence: Evidence) -> None:
    answer = TriggerEarly().propose(source(body, plan), evidence)
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason


@pytest.mark.parametrize("name", ["fused_add_rmsnorm", "merge_attn_states_lse", "silu_and_mul"])
def test_kernels_as_shipped_may_begin_early(
    name: str, tasks: dict[str, KernelTask], checker_of: CheckerOf
) -> None:
    """What the playbook's own winners become is checked by test_timed.py."""
    task = tasks[name]
    evidence = Evidence(task, device=GPU)
    answer = OverlapLaunches().propose(KernelText.read(task.tuned_file.read_text()), evidence)
    assert isinstance(answer, Proposal)
    require_pass(checker_of(task), answer.source, select_cases(task, ("*",))[::15])
