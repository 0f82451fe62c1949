"""`--search archive|restarts` with a model's team on a scripted server, everything else real."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_tui.model.digest import content_hash
from astra_tui.model.events import ParentChoice, SessionClosed, StopReason
from astra_tui.model.settings import SearchKind
from astra_tui.model.task import KernelTask
from astra_tui.model.verdict import Outcome
from astra_tui.present.events import describe
from astra_tui.present.words import stands_on
from tests.llm.conftest import Scripted
from tests.llm_team.conftest import (
    QUIET,
    Ran,
    coded,
    planned,
    quickened,
    run_engine,
    source,
)

pytestmark = pytest.mark.usefixtures("known_answers")

PAIRS, FAST = "read pairs", "fast exponential"


def prompts(server: Scripted, step: str) -> list[str]:
    """The last message of each request of a step, in order."""
    said = (str(body["messages"][-1]["content"]) for body in server.requests("chat"))
    return [text for text in said if step in text]


def log(ran: Ran) -> str:
    return "\n".join(told.text for e in ran.events if (told := describe(e)) is not None)


def test_winners_of_a_round_are_merged_by_the_coding_agent(
    tmp_path: Path, task: KernelTask, server: Scripted
) -> None:
    baseline = task.baseline_file.read_text(encoding="utf-8")
    pairs, fast = source("better"), quickened(baseline)
    both = quickened(pairs)
    server.play(
        *QUIET, planned(1, PAIRS, FAST), coded(PAIRS, pairs), coded(FAST, fast),
        planned(2, "both"), coded("both", both),
    )  # fmt: skip
    settings = {"rounds": 2, "candidates": 2, "reflections": 0, "search": SearchKind.ARCHIVE}
    ran = run_engine(tmp_path / "s", task, server, **settings)

    (closed,) = ran.of(SessionClosed)
    assert closed.reason is StopReason.ROUNDS
    second = ran.state.rounds[2]
    assert second.why is ParentChoice.MERGE
    assert (second.base, second.other) == (content_hash(pairs), content_hash(fast))
    assert ran.state.best == content_hash(both)
    assert stands_on(second).endswith(f", merged with {content_hash(fast)[:12]}")
    (plan,) = prompts(server, "Step: planning, round 2.")
    (code,) = (text for text in prompts(server, "Step: coding, round 2.") if "title: both" in text)
    for prompt in (plan, code):
        assert "This round merges" in prompt
        assert "__expf(-gate)" in prompt
        assert FAST in prompt


def test_a_line_without_gain_is_left_and_the_next_round_restarts_elsewhere(
    tmp_path: Path, task: KernelTask, server: Scripted
) -> None:
    """Round 1 is better, two rounds on it bring nothing, round 4 stands on the baseline again."""
    baseline = task.baseline_file.read_text(encoding="utf-8")
    pairs = source("better")
    idle = [f"// idle {n}\n{pairs}" for n in (1, 2)]
    server.play(
        *QUIET, planned(1, PAIRS), coded(PAIRS, pairs),
        planned(2, "first idea"), coded("first idea", idle[0]),
        planned(3, "second idea"), coded("second idea", idle[1]),
        planned(4, FAST), coded(FAST, quickened(baseline)),
        planned(5, "both"), coded("both", quickened(pairs)),
    )  # fmt: skip
    settings = {"rounds": 5, "reflections": 0, "repairs": 0, "search": SearchKind.RESTARTS}
    ran = run_engine(tmp_path / "s", task, server, **settings)
    why = [r.why for r in ran.state.rounds[1:]]
    ended = [p.verdict.outcome for r in ran.state.rounds[2:4] for p in r.proposals if p.verdict]
    assert ended == [Outcome.SAME] * 2
    assert why[:4] == [ParentChoice.LINE] * 3 + [ParentChoice.RESTART], log(ran)
    fourth = ran.state.rounds[4]
    assert fourth.base == content_hash(baseline)
    assert "restarted" in stands_on(fourth)
    (plan,) = prompts(server, "Step: planning, round 4.")
    assert "better (the source does not have it): read pairs" in plan
    assert [why[4], ran.state.rounds[5].base] == [ParentChoice.LINE, fourth.winner]
    assert ran.state.best == content_hash(quickened(pairs))
