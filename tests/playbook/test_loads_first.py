"""Loads that slow arithmetic stands before, and what keeps them where they are."""

from __future__ import annotations

import re

import pytest

from astra_tui.model.task import KernelTask
from astra_tui.playbook import Evidence, KernelText, NotApplicable, Proposal
from astra_tui.playbook.moves.loads_first import LoadsFirst
from tests.playbook.path import GPU

HEAD = """\
/* @launch
   k<T> grid=tokens block=256 args=(out, input, d)
*/
template <typename T>
__global__ void k(T* out, const T* in, const float* scale, const int* place, int d) {
  const int row = blockIdx.x;
"""
SLOW = "const float s = 1.0f / scale[row];"
LOAD = "const T x = in[i];"
END = "out[row] = (T)((float)x * s);"


def propose(body: str, tasks: dict[str, KernelTask]) -> Proposal | NotApplicable:
    evidence = Evidence(tasks["silu_and_mul"], device=GPU)
    return LoadsFirst().propose(KernelText.read(f"{HEAD}  {body}\n}}\n"), evidence)


@pytest.mark.parametrize(
    ("body", "made"),
    [
        (f"{SLOW} const int i = row * d; {LOAD} {END}", f"const int i = row * d; {LOAD} {SLOW}"),
        (
            f"const int i = row; if (i >= d) return; {SLOW} {LOAD} {END}",
            f"if (i >= d) return; {LOAD} {SLOW}",
        ),
        (
            f"float a = scale[row]; if (isinf(a)) a = 0.0f; const float s = __frcp_rn(a); "
            f"const int i = place[row]; {LOAD} {END}",
            f"const int i = place[row]; {LOAD} float a = scale[row]; if (isinf(a)) a = 0.0f; "
            "const float s = __frcp_rn(a);",
        ),
        (
            f"if (row < d) {{ {SLOW} const int64_t i = row; "
            f"const T x = reinterpret_cast<const T*>(in)[i]; {END} }}",
            "const int64_t i = row; const T x = reinterpret_cast<const T*>(in)[i]; " + SLOW,
        ),
    ],
    ids=["address too", "behind a guard", "one after the other", "in a block"],
)
def test_a_load_leaves_before_what_it_does_not_need(
    body: str, made: str, tasks: dict[str, KernelTask]
) -> None:
    answer = propose(body, tasks)
    assert isinstance(answer, Proposal), answer
    assert made in re.sub(r"\s+", " ", answer.source)


@pytest.mark.parametrize(
    "body",
    [
        f"const float s = scale[row] * 2.0f; const int i = row; {LOAD} {END}",
        f"{SLOW} const int i = (int)s; {LOAD} {END}",
        f"{SLOW} out[row] = (T)s; const int i = row; {LOAD} {END}",
        f"{SLOW} __syncthreads(); const int i = row; {LOAD} {END}",
        f"{SLOW} if (s == 0.0f) return; const int i = row; {LOAD} {END}",
        f"int i = row; {SLOW} if (s == 0.0f) i = 0; {LOAD} {END}",
        f"{SLOW} for (int n = 0; n < 2; ++n) d += n; const int i = row; {LOAD} {END}",
        f"{SLOW} atomicAdd((float*)out, s); const int i = row; {LOAD} {END}",
        f'{SLOW} asm volatile("membar.gl;"); const int i = row; {LOAD} {END}',
        f"{SLOW} Lock lock(place); const int i = row; {LOAD} {END}",
        f"const volatile float* now = scale; {SLOW} const int i = row; {LOAD} {END}",
        f"{SLOW} const int i = row; {LOAD} {{ const float x = s; out[row] = (T)x; }}",
        f"int i = row; int& j = i; {SLOW} j = 5; {LOAD} {END}",
    ],
    ids=[
        *("nothing slow", "its address", "a store", "a barrier", "a return", "a changed address"),
        *("a loop", "an atomic", "asm", "a constructor", "volatile", "a name twice"),
        "a reference",
    ],
)
def test_a_load_stays_behind(body: str, tasks: dict[str, KernelTask]) -> None:
    answer = propose(body, tasks)
    assert isinstance(answer, NotApplicable)
    assert answer.reason == "no load stands behind slow arithmetic in its block"


def test_a_kernel_with_volatile_parameters_stays_as_it_is(tasks: dict[str, KernelTask]) -> None:
    text = f"{HEAD}  {SLOW} const int i = row; {LOAD} {END}\n}}\n"
    evidence = Evidence(tasks["silu_and_mul"], device=GPU)
    assert isinstance(LoadsFirst().propose(KernelText.read(text), evidence), Proposal)
    text = text.replace("const float* scale", "const volatile float* scale")
    assert isinstance(LoadsFirst().propose(KernelText.read(text), evidence), NotApplicable)
