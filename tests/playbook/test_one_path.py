"""Branches that choose what is stored, and those that keep threads from more than that."""

from __future__ import annotations

import re

import pytest

from astra_tui.model.task import KernelTask
from astra_tui.playbook import Evidence, KernelText, NotApplicable, Proposal
from astra_tui.playbook.moves.one_path import OnePath
from tests.playbook.path import GPU

HEAD = """\
/* @launch
   k<T> grid=tokens block=256 args=(out, input, d)
*/
template <typename T>
__global__ void k(T* out, const T* in, const float* scale, const int* place, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float s = scale[blockIdx.x];
"""
LONG = "const float x = (float)in[i]; out[i] = (T)(x * s);"


def propose(body: str, tasks: dict[str, KernelTask]) -> Proposal | NotApplicable:
    evidence = Evidence(tasks["silu_and_mul"], device=GPU)
    return OnePath().propose(KernelText.read(f"{HEAD}  {body}\n}}\n"), evidence)


@pytest.mark.parametrize(
    ("body", "made"),
    [
        (
            f"if (s == 0.0f) {{ out[i] = (T)0.0f; }} else {{ {LONG} }}",
            "const float x = (float)in[i]; out[i] = s == 0.0f ? (T)0.0f : (T)(x * s);",
        ),
        (
            f"if (s != 0.0f && !isinf(s)) {{ {LONG} }} else out[i] = (T)0.0f;",
            "const float x = (float)in[i]; out[i] = s != 0.0f && !isinf(s) ? (T)(x * s) : (T)0.0f;",
        ),
        (
            f"if (s == 0.0f) {{ out[i] = (T)0.0f; return; }} {LONG}",
            "const float x = (float)in[i]; out[i] = s == 0.0f ? (T)0.0f : (T)(x * s);",
        ),
        (
            "if (s == 0.0f) out[i] = 0; else out[i] = in[i];",
            "out[i] = s == 0.0f ? (T)(0) : (T)(in[i]);",
        ),
    ],
)
def test_a_condition_chooses_between_two_values(
    body: str, made: str, tasks: dict[str, KernelTask]
) -> None:
    answer = propose(body, tasks)
    assert isinstance(answer, Proposal), answer
    assert "if (" not in answer.source
    assert made in re.sub(r"\s+", " ", answer.source)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (LONG, "no branch whose sides store"),
        (f"if (i >= d) return; {LONG}", "no branch whose sides store"),
        (f"if (i >= d) {{ out[i] = (T)0.0f; return; }} {LONG}", "not on floats alone"),
        (f"if (in[i] == s) out[i] = (T)0.0f; else {{ {LONG} }}", "not on floats alone"),
        (f"if (s == 0.0f) out[0] = (T)0.0f; else {{ {LONG} }}", "to the same elements"),
        (
            "if (s == 0.0f) out[i] = (T)0.0f; else out[i] = in[place[i]];",
            "in[place[i]] may not be there",
        ),
        ("if (s == 0.0f) out[i] = (T)0.0f; else out[i] = in[i + d];", "may not be there"),
        ("if (s == 0.0f) out[i] = (T)0.0f; else out[i] = (T)s;", "no load waits behind it"),
        (f"if (s == 0.0f) {{ out[i] = in[i]; }} else {{ {LONG} }}", "both sides load"),
        (f"if (s == 0.0f) out[i] = (T)0.0f; else {{ __syncwarp(); {LONG} }}", "more than declare"),
        (f"if (s == 0.0f) out[i] = (T)roll(); else {{ {LONG} }}", "calls or changes something"),
        (f"float x = s; if (s == x) out[i] = (T)0.0f; else {{ {LONG} }}", "x is the name of"),
        (
            f"if (s == 0.0f) {{ const T zero = (T)0.0f; out[i] = zero; return; }} {LONG}",
            "declare variables",
        ),
        (f"if (s == 0.0f) out[i] = (T)0.0f; else if (s > 1.0f) {{ {LONG} }}", "more than declare"),
    ],
)
def test_branches_that_stay(body: str, why: str, tasks: dict[str, KernelTask]) -> None:
    answer = propose(body, tasks)
    assert isinstance(answer, NotApplicable), answer
    assert why in answer.reason
