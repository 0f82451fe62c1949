"""Values that loops compute again from inputs that registers keep, and what is no such value."""

from __future__ import annotations

import pytest

from astra_tui.model.task import KernelTask
from astra_tui.playbook import Evidence, KernelText, NotApplicable, Proposal
from astra_tui.playbook.moves.keep_values import KeepValues
from tests.playbook.path import GPU

SOURCE = """\
/* @launch
   k<T, 8, 2> grid=tokens block=256 args=(out, input, d)
*/
template <typename T, int WIDTH, int TURNS>
__global__ void k(Pack<T, WIDTH>* out, const Pack<T, WIDTH>* in, int d) {
  Pack<T, WIDTH> a_kept[TURNS];
  Pack<T, WIDTH> b_kept[TURNS];
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const int i = threadIdx.x + turn * blockDim.x;
    if (i < d) {
      a_kept[turn] = in[i];
      b_kept[turn] = in[i + d];
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const int i = threadIdx.x + turn * blockDim.x;
    if (i < d) {
      const Pack<T, WIDTH> a = a_kept[turn];
      const Pack<T, WIDTH> b = b_kept[turn];
#pragma unroll
      for (int lane = 0; lane < WIDTH; ++lane) {
        const float z = (float)a.value[lane] + (float)b.value[lane];
        sum += z * z;
      }
    }
  }
  sum = block_sum(sum);
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const int j = threadIdx.x + turn * blockDim.x;
    if (j < d) {
      const Pack<T, WIDTH> a_2 = a_kept[turn];
      const Pack<T, WIDTH> b_2 = b_kept[turn];
      Pack<T, WIDTH> result;
#pragma unroll
      for (int lane = 0; lane < WIDTH; ++lane) {
        const float z = (float)a_2.value[lane] + (float)b_2.value[lane];
        result.value[lane] = (T)(z * sum);
      }
      out[j] = result;
    }
  }
}
"""


LANES = """\
for (int lane = 0; lane < WIDTH; ++lane) {
        const float z = (float)a_2"""


def propose(text: str, tasks: dict[str, KernelTask]) -> Proposal | NotApplicable:
    return KeepValues().propose(KernelText.read(text), Evidence(tasks["silu_and_mul"], device=GPU))


def test_a_value_of_two_inputs_is_kept_in_their_place(tasks: dict[str, KernelTask]) -> None:
    answer = propose(SOURCE, tasks)
    assert isinstance(answer, Proposal), answer
    made = answer.source
    assert made.index("  float z_kept[TURNS][WIDTH];\n#pragma unroll") < made.index("z_kept[turn]")
    assert "        z_kept[turn][lane] = z;\n" in made
    assert "        const float z = z_kept[turn][lane];\n" in made
    assert made.count("(float)") == 2
    assert "a_2" not in made
    assert "b_2" not in made
    assert isinstance(propose(made, tasks), NotApplicable)


@pytest.mark.parametrize(
    ("declared", "factor"),
    [
        ("__shared__ float shared[8];", "shared[lane]"),
        ("", "(float)in[i].value[lane]"),
        ("", "at_large"),
        ("auto& other = a_kept[0];", "1.0f"),
    ],
    ids=["shared memory", "global memory", "a global variable", "a reference to an input"],
)
def test_what_others_may_change_in_between_is_computed_again(
    declared: str, factor: str, tasks: dict[str, KernelTask]
) -> None:
    text = (
        SOURCE.replace("int j = ", "int i = ").replace("(j < d)", "(i < d)").replace("[j]", "[i]")
    )
    assert isinstance(propose(text, tasks), Proposal)
    text = text.replace("  float sum", f"  {declared}\n  float sum")
    for term in ("(float)a.value[lane]", "(float)a_2.value[lane]"):
        text = text.replace(f"z = {term}", f"z = {factor} * {term}")
    assert isinstance(propose(text, tasks), NotApplicable)


def test_it_is_declared_where_all_loops_see_it(tasks: dict[str, KernelTask]) -> None:
    begin, end = SOURCE.index("#pragma unroll", SOURCE.index("sum = 0.0f")), "  sum = block_sum"
    inside = f"{SOURCE[:begin]}  {{\n{SOURCE[begin:]}".replace(end, f"  }}\n{end}")
    answer = propose(inside, tasks)
    assert isinstance(answer, Proposal), answer
    assert "  float z_kept[TURNS][WIDTH];\n  {\n" in answer.source


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ (float)b_2.value[lane]", "- (float)b_2.value[lane]"),
        (" + (float)b.value[lane]", ""),
        ("j < d)", "j < 2 * d)"),
        ("int j = threadIdx.x + turn", "int j = 1 + turn"),
        ("  sum = block_sum(sum);\n", "  a_kept[0] = b_kept[0];\n"),
        ("  sum = block_sum(sum);\n", "  change(a_kept);\n"),
        ("  sum = block_sum(sum);\n", "  memcpy(&a_kept[0].value[0], in, 2);\n"),
        ("  sum = block_sum(sum);\n", '  asm("" : "+r"(a_kept[0]));\n'),
        ("a_2 = a_kept[turn]", "a_2 = a_kept[TURNS - 1 - turn]"),
        (LANES, LANES.replace("WIDTH", "4")),
        (f"#pragma unroll\n      {LANES}", f"      {LANES}"),
        ("if (j < d) {", "if (j < d) {} else {"),
        ("if (j < d) {", "while (j < d) {"),
        ("const float z = (float)a.value[lane] +", "const float z = sum + (float)a.value[lane] +"),
    ],
    ids=[
        *("another value", "one input", "another guard", "other rows", "a changed input"),
        *("an array that is handed on", "an element that is", "asm", "another turn"),
        *("fewer lanes", "not unrolled", "the other side of a guard", "a loop in between", "a sum"),
    ],
)  # fmt: skip
def test_what_may_differ_is_computed_again(
    old: str, new: str, tasks: dict[str, KernelTask]
) -> None:
    assert SOURCE.count(old) == 1
    answer = propose(SOURCE.replace(old, new), tasks)
    assert isinstance(answer, NotApplicable), answer.source
    assert answer.reason == "no value of several kept inputs is computed again"
