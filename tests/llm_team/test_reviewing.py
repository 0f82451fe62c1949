"""A model's reading of a diff: what rules leave open, marked as a reading."""

from __future__ import annotations

from astra_tui.llm.asking.diff_review import review_prompt
from astra_tui.model.constraints import Compliance, Constraint, Judge, Origin, Ruling
from astra_tui.model.task import KernelTask
from tests.llm.conftest import Scripted
from tests.llm_team.conftest import brief_of, plan_of, reply, with_team

READABLE = Ruling(Constraint(Origin.NOTE, "readable"), "readable", Compliance.UNDECIDED)
WHOLE = Constraint(Origin.REJECTION, "no asm. keep the order", "pairs", 2)
ORDER = Ruling(WHOLE, "keep the order", Compliance.UNDECIDED)
PLAN = Ruling(
    Constraint(Origin.PLAN, "fewer loads", "pairs", 3), "fewer loads", Compliance.UNDECIDED
)


def read(number: int, compliance: str, line: int = 0) -> dict[str, object]:
    return {"number": number, "compliance": compliance, "why": "it is\nso", "line": line}


def test_a_reading_is_marked_and_what_it_leaves_open_stays_so(
    task: KernelTask, server: Scripted
) -> None:
    brief = brief_of(task)
    source = brief.source.replace("expf(", "exp2f(1.4427f * ")
    answer = [read(2, "broken", 9), read(3, "kept", 90_000), read(1, "undecided"), read(7, "kept")]
    server.play(reply("Step: testing, round 1. Read a diff", {"constraints": answer}))
    asked = (READABLE, ORDER, PLAN)
    found = with_team(server, lambda team: team.review(brief, plan_of(), source, asked))
    assert [(r.text, r.compliance.value, r.judge, r.why, r.line) for r in found] == [
        ("keep the order", "broken", Judge.MODEL, "it is so", 9),
        ("fewer loads", "kept", Judge.MODEL, "it is so", 0),
    ]
    prompt = review_prompt(brief, plan_of(), source, asked)
    assert '2. keep the order (of: rejected "pairs" in round 2: no asm. keep the order)' in prompt
    assert "+    const float silu = gate / (1.0f + exp2f(1.4427f * -gate));" in prompt


def test_an_answer_that_cannot_be_used_decides_nothing(task: KernelTask, server: Scripted) -> None:
    server.play(reply("Step: testing", "no idea"))
    brief = brief_of(task)
    asked = (READABLE,)
    assert with_team(server, lambda team: team.review(brief, plan_of(), "x", asked)) == ()
