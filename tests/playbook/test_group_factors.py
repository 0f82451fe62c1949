"""Products in loops: which factors become one, and which products stay as they are."""

from __future__ import annotations

import re

import pytest

from astra_tui.model.task import KernelTask, find_task
from astra_tui.playbook import Evidence, KernelText, NotApplicable, propose_all
from astra_tui.playbook.moves.group_factors import GroupFactors
from tests.conftest import ROOT
from tests.playbook.path import GPU

HEAD = """\
/* @launch
   k<T> grid=tokens block=256 args=(out, input, scale, d, f)
*/
template <typename T>
__global__ void k(T* out, const T* in, const float* scale, int d, float f) {
  const float g = f + 1.0f;
"""


def propose(product: str, tasks: dict[str, KernelTask], above: str = "") -> str | NotApplicable:
    text = (
        f"{HEAD}  for (int i = threadIdx.x; i < d; i += blockDim.x) {{\n    {above}\n"
        f"    const float x = (float)in[i];\n    out[i] = (T)({product});\n  }}\n}}\n"
    )
    answer = GroupFactors().propose(KernelText.read(text), Evidence(tasks["silu_and_mul"]))
    if isinstance(answer, NotApplicable):
        return answer
    made = re.search(r"out\[i\] = \(T\)\((.*)\);", answer.source)
    assert made is not None
    return made[1]


@pytest.mark.parametrize(
    ("product", "made"),
    [
        ("x * f * g", "x * (f * g)"),
        ("f * x * g", "(f * g) * x"),
        ("x * f * (1.0f + x) * g", "x * (f * g) * (1.0f + x)"),
        ("x * (f * (x * g))", "x * (f * g) * x"),
        ("x * f * (__fdividef(1.0f, scale[0]))", "x * (f * (__fdividef(1.0f, scale[0])))"),
        ("fmaxf(x * f * g, 0.0f)", "fmaxf(x * (f * g), 0.0f)"),
        ("x * f * g + x * x", "x * (f * g) + x * x"),
        ("x * f * h", "x * (f * h)"),
    ],
)
def test_factors_that_stay_become_one(
    product: str, made: str, tasks: dict[str, KernelTask]
) -> None:
    assert propose(product, tasks, above="const float h = rsqrtf(g);") == made


@pytest.mark.parametrize(
    "product",
    ["x * f", "f * g * x", "x * x * f", "x * f * i", "x * f * in[0]", "x * f * out[i]", "f * g"],
    ids=[
        *("one", "first already", "one apart", "an integer", "half precision", "an output"),
        "nothing else",
    ],
)
def test_a_product_stays(product: str, tasks: dict[str, KernelTask]) -> None:
    answer = propose(product, tasks)
    assert isinstance(answer, NotApplicable)
    assert "two factors apart" in answer.reason


def test_a_local_that_changes_is_no_fixed_factor(tasks: dict[str, KernelTask]) -> None:
    for above in ("const float h = scale[i];", "float h = g; h += 1.0f;"):
        assert isinstance(propose("x * f * h", tasks, above), NotApplicable), above


def test_a_norm_of_bytes_is_made_with_one_factor() -> None:
    task = find_task("flashinfer_rmsnorm_quant")
    text = (ROOT / "benchmarks/kernels/rmsnorm_quant.cu").read_text()
    (first, *_), _ = propose_all(text, Evidence(task, device=GPU))
    assert first.source.count("(factor * (__fdividef(1.0f, scale[0]))) * (weight_bias") == 3
