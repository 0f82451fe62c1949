"""A loop that does again what an earlier loop has done goes, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.explain.profile import profile_source
from astra_tui.model.counters import AccessCount, Counters, LineCount
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.team_protocol import Brief
from astra_tui.model.traffic import Waste, WastedTraffic, WasteKind, WorkloadShare
from astra_tui.model.verdict import Profile
from astra_tui.playbook import Evidence, KernelText, NotApplicable, Proposal, propose
from astra_tui.playbook.moves.drop_tail import DropTail
from tests.conftest import CheckerOf
from tests.emulator.harness import line_of
from tests.playbook.path import require_pass

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "double_tail"
STORED = 128

PLAN = (
    "when d % 8 == 0:\n     k<T, 8> grid=tokens block=128 args=(out, input, d)\n"
    '   otherwise:\n     refuse "no packs"'
)
PACKS = """for (int i = threadIdx.x; i < d / N; i += blockDim.x)
    store<N>(&out[row + i * N], &input[row + i * N]);  // FIRST"""
REST = """const int rest = d % (blockDim.x * N);
  const int done = d - rest;
  for (int i = threadIdx.x; i < rest; i += blockDim.x)
    out[row + done + i] = twice(input[row + done + i]);  // AGAIN"""


def source(plan: str = PLAN, packs: str = PACKS, rest: str = REST) -> KernelText:
    return KernelText.read(f"""/* @launch
   {plan}
*/
template <typename T> __device__ T twice(T x) {{ return x + x; }}
template <typename T> __device__ T noted(T x) {{ atomicAdd(&seen, 1); return x; }}

template <typename T, int N>
__global__ void k(T* out, const T* input, int d) {{
  const int row = blockIdx.x * d;
  {packs}
  {rest}
}}
""")


def evidence(task: KernelTask, text: str, stored: int = STORED) -> Evidence:
    """As counted: the second line stores so many bytes, of which 128 are there already."""
    first, again = line_of(text, "// FIRST"), line_of(text, "// AGAIN")
    waste = Waste(WasteKind.STORED_AGAIN, again, first, STORED)
    wasted = WastedTraffic("out", waste, (WorkloadShare("a", STORED, 0.2),), 1)
    accesses = tuple(
        AccessCount(line, "global", "store", 2, 2, size // 32, size, 0)
        for line, size in ((first, 640), (again, stored))
    )
    counters = Counters(accesses, (LineCount(first, 9, 9, 0, 0),))
    return Evidence(task, counters, wasted=(wasted,))


@pytest.fixture
def task(tasks: dict[str, KernelTask]) -> KernelTask:
    return tasks["silu_and_mul"]


@pytest.mark.parametrize(
    ("packs", "rest"),
    [
        (PACKS, REST),
        (
            PACKS.replace("d / N", "d").replace("= threadIdx.x;", "= threadIdx.x * N;")
            .replace("i += blockDim.x", "i += blockDim.x * N").replace("i * N", "i"),
            "for (int i = d / (blockDim.x * N) * (blockDim.x * N) + threadIdx.x; i < d; "
            "i += blockDim.x) out[row + i] = twice(input[row + i]);  // AGAIN",
        ),
        (PACKS, REST.replace("rest; i +=", "d % (N * blockDim.x); i +=")),
    ],
)  # fmt: skip
def test_a_tail_that_leaves_nothing_goes(packs: str, rest: str, task: KernelTask) -> None:
    text = source(packs=packs, rest=rest)
    answer = propose(DropTail(), text, evidence(task, text.text))
    assert isinstance(answer, Proposal), answer
    gone = set(text.text.splitlines()) - set(answer.source.splitlines())
    assert {line.strip() for line in gone} == {line.strip() for line in rest.splitlines()}
    assert answer.plan.prediction.counter_ratio == round(1 - STORED / (640 + STORED), 3)


STORE = "out[row + done + i] ="


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"plan": PLAN.replace("d % 8 == 0", "d > 8")}, "rows of other lengths need it"),
        ({"plan": PLAN.replace("% 8", "% 4")}, "rows of other lengths need it"),
        ({"rest": REST.replace("twice(", "noted(")}, "noted may do more than compute"),
        ({"rest": REST.replace("i < rest", "i <= rest")}, "which elements the loop takes"),
        ({"rest": REST.replace("i += blockDim.x", "i += 32")}, "which elements the loop takes"),
        ({"rest": REST.replace(STORE, "out[row + rest + i] =")}, "outside of the row"),
        ({"rest": REST.replace(STORE, "out[row + done + 2 * i] =")}, "outside of the row"),
        ({"rest": REST.replace("= d - rest", "= d - rest - 8")}, "outside of the row"),
        ({"packs": PACKS.replace("i += blockDim.x", "i += 64")}, "how far the loop"),
        ({"packs": PACKS.replace("i < d / N", "i < d / N - 1")}, "outside of the row"),
    ],
)
def test_a_tail_that_may_be_needed_stays(
    changed: dict[str, str], why: str, task: KernelTask
) -> None:
    text = source(**changed)
    answer = DropTail().propose(text, evidence(task, text.text))
    assert isinstance(answer, NotApplicable)
    assert why in answer.reason


def test_what_was_not_counted_to_be_there_already_stays(task: KernelTask) -> None:
    text = source()
    more = DropTail().propose(text, evidence(task, text.text, stored=STORED + 2))
    assert isinstance(more, NotApplicable)
    assert "stores more than the loop" in more.reason
    blind = DropTail().propose(text, Evidence(task))
    assert isinstance(blind, NotApplicable)
    assert "needs counters" in blind.reason


def test_the_example_is_mended(compiler: Compiler, checker_of: CheckerOf) -> None:
    task = load_task(EXAMPLE)
    text = task.baseline_file.read_text(encoding="utf-8")
    before = _profile(task, text, compiler)
    told = Brief(task, 1, "", text, before, ())
    answer = propose(DropTail(), KernelText.read(text), Evidence.of(told))
    assert isinstance(answer, Proposal)
    after = _profile(task, answer.source, compiler)
    assert before.wasted
    assert not after.wasted
    ratio = after.total("sectors") / before.total("sectors")
    assert ratio == pytest.approx(answer.plan.prediction.counter_ratio, abs=0.001)
    require_pass(checker_of(task), answer.source, build_suite(task)[::9])


def _profile(task: KernelTask, text: str, compiler: Compiler) -> Profile:
    return profile_source(task, read_source(task, text, "k.cu"), compiler).profile
