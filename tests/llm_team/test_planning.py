"""The planning agent: what it is told, how its answer is read, and the playbook as its tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import structs

from astra_tui.llm.asking.move_facts import OfferedMoves, offered_moves
from astra_tui.llm.roles.planning import planning_prompt
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.citations import check_citations
from astra_tui.model.plan import (
    Citation,
    CodePlace,
    Counter,
    Measurement,
    Observation,
    Risk,
    Selection,
)
from astra_tui.model.state import CandidateState
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import PlanAnswer, Reading
from astra_tui.model.verdict import Outcome
from tests.llm.conftest import MODEL, Scripted
from tests.llm_team.conftest import (
    QUIET,
    Team,
    bench_at,
    brief_of,
    fence,
    notes_of,
    plan_of,
    planning,
    profile_of,
    proposed,
    reply,
    tried_of,
    with_team,
)

NO_MOVES = OfferedMoves("", (), ())


def planned(server: Scripted, brief: object, count: int = 1, log: Team | None = None) -> PlanAnswer:
    log = log or Team()
    return with_team(server, lambda t: t.plan(brief, count, log.on_text), log)  # type: ignore[arg-type]


def test_a_prompt_holds_all_that_was_learnt(task: KernelTask) -> None:
    rejected = tried_of(plan_of("drop the tail"), Outcome.REJECTED, "engineer: tails matter")
    brief = brief_of(
        task,
        profile_of(),
        tried=(rejected,),
        constraints=notes_of("keep the grid capped"),
        reading=Reading(
            "loads are narrow",
            Selection(
                1,
                "16x4096",
                (CodePlace(20, 20),),
                (Observation("6144 requests", (Citation("requests", 6144, "16x4096"),)),),
                (Measurement("measure", "base tokens=1,d=64", "65 requests"),),
            ),
        ),
    )
    prompt = planning_prompt(brief, 2, NO_MOVES)
    for part in (
        "at most 2 plans",
        "20 |     const float gate = (float)input",
        "6144 requests, efficiency 0.50",
        "24 registers, 0 bytes spilled",
        "line 20: 90112 instructions (100 %); global load of 2 bytes a thread",
        "round 1, rejected (do not propose it again): drop the tail",
        "engineer: tails matter",
        "keep the grid capped",
        "bottleneck: loads are narrow",
        "the workload that decides: 16x4096",
        "it is caused by line 20",
        "requests of 16x4096: 6,144, as in the profile",
        "measured for this in round 1, measure base tokens=1,d=64:\n    65 requests",
        "Hopper's warpgroup tensor-core instructions",
    ):
        assert part in prompt, part


def test_an_answer_becomes_plans_of_the_model(task: KernelTask, server: Scripted) -> None:
    server.play(
        *QUIET,
        planning(
            proposed(
                "read  pairs\n",
                speedup_low=1.4,
                speedup_high=1.1,
                places=[{"first": 25, "last": 14}, {"first": 900, "last": 901}],
                move="no such move",
            )
        ),
    )
    log = Team()
    answer = planned(server, brief_of(task, profile_of()), log=log)

    (draft,) = answer.plans
    assert draft.author == Author(AuthorKind.MODEL, MODEL)
    plan = draft.plan
    assert plan.title == "read pairs"
    assert (plan.prediction.speedup_low, plan.prediction.speedup_high) == (1.1, 1.4)
    assert (plan.prediction.counter, plan.risk) == (Counter.REQUESTS, Risk.LOW)
    assert plan.places == (CodePlace(14, 25),)
    assert plan.move == ""
    assert answer.reason == ""
    assert "read  pairs" in "".join(text for role, text, _ in log.shown if role == "planning")


def test_cited_numbers_are_looked_up_and_wrong_ones_kept(
    task: KernelTask, server: Scripted
) -> None:
    numbers = [
        {"metric": "requests", "value": 6144, "of": "16x4096", "line": 20},
        {"metric": "warp  instructions", "value": 5200, "of": "", "line": 0},
        {"metric": "dram throughput", "value": 93.5},
    ]
    evidence = [{"sentence": "6144  requests", "numbers": numbers}, "narrow", {"sentence": "so"}]
    server.play(*QUIET, planning(proposed("read pairs", evidence=evidence)))
    (draft,) = planned(server, brief_of(task, profile_of())).plans

    cited, *plain = draft.plan.evidence
    assert plain == ["narrow", "so"]
    assert isinstance(cited, Observation)
    assert cited.sentence == "6144 requests"
    found = check_citations(cited, CandidateState("b" * 64, profile=profile_of()))
    assert [r.describe() for r in found] == [
        "requests at line 20 of 16x4096: 6,144, as in the profile",
        "warp instructions: says 5,200; the profile has 90,112",
        "dram_throughput: says 93.5; not in the profile",
    ]


def test_a_plan_that_was_tried_on_this_source_is_not_taken_again(
    task: KernelTask, server: Scripted
) -> None:
    old = proposed("read pairs")
    tried = tried_of(plan_of("read pairs", change=old["change"]), Outcome.SAME, "no change")
    server.play(*QUIET, planning(old, proposed("hoist"), reason="that is all"))
    answer = planned(server, brief_of(task, tried=(tried,)), 2)
    assert [d.plan.title for d in answer.plans] == ["hoist"]
    assert answer.reason == "repeats of earlier plans: 1. that is all"

    server.play(*QUIET, planning(old))
    answer = planned(server, brief_of(task, base="c" * 64, tried=(tried,)))
    assert [d.plan.title for d in answer.plans] == ["read pairs"]


def test_a_truncated_answer_is_asked_for_once_more(task: KernelTask, server: Scripted) -> None:
    server.play(*QUIET, planning(finish="length"), planning(proposed("read pairs")))
    log = Team()
    answer = planned(server, brief_of(task), log=log)
    assert [d.plan.title for d in answer.plans] == ["read pairs"]
    first, second = [b for b in log.settled if b.purpose == "plan"]
    assert first.error
    assert first.usage.output_tokens == 30
    assert "could not be used" in second.request

    server.play(*QUIET, planning(finish="length", times=2))
    answer = planned(server, brief_of(task))
    assert answer.plans == ()
    assert answer.reason.startswith("the planning agent gave no plan")


def test_moves_are_tools_and_a_plan_may_name_one(
    tasks: dict[str, KernelTask], server: Scripted, wire: str, tmp_path: Path
) -> None:
    task = tasks["merge_attn_states_lse"]
    bench = bench_at(tmp_path / "run", task)
    brief = brief_of(task, bench=bench)
    name = "hoist_invariants"
    calls = [{"name": "list_moves", "arguments": {}}]
    looks = [{"name": "preview_move", "arguments": {"name": name}}]
    server.play(
        {"when": {"user": "a look around"}, "tool_calls": calls},
        {"when": {"user": f"{name}:"}, "tool_calls": looks},
        {"when": {"user": "--- before"}, "text": "It hoists the weights."},
        planning(proposed("hoist the weights", move=name)),
    )
    log = Team()
    answer = with_team(server, lambda t: t.plan(brief, 1, log.on_text), log, wire=wire)
    (draft,) = answer.plans
    assert draft.plan.move == name
    moves = with_team(server, lambda t: offered_moves(brief))
    rewritten = moves.get(name)
    assert rewritten is not None
    assert draft.plan.change == rewritten.plan.change
    assert [b.purpose for b in log.settled] == ["look", "look", "look", "plan"]
    assert f"preview_move {name}:" in log.settled[-1].request
    assert "It hoists the weights." in log.settled[-1].request
    assert bench.record.state.usage.tools_used == 2
    assert "[calls preview_move" in log.settled[1].reply

    code = with_team(server, lambda t: t.code(brief, draft.plan, None, log.on_text))
    assert code.author == Author(AuthorKind.PLAYBOOK, name)
    assert code.source == rewritten.source != brief.source

    edited = structs.replace(draft.plan, change="hoist the weight of side a only")
    server.play(reply("hoist the weight of side a only", fence(brief.source + "// by hand\n")))
    code = with_team(server, lambda t: t.code(brief, edited, None, log.on_text))
    assert code.author == Author(AuthorKind.MODEL, MODEL)
    assert code.source.endswith("// by hand\n")


def test_a_server_without_tools_is_told_of_the_moves_in_words(
    tasks: dict[str, KernelTask], server: Scripted, tmp_path: Path
) -> None:
    task = tasks["merge_attn_states_lse"]
    brief = brief_of(task, bench=bench_at(tmp_path / "run", task))
    refuse = [{"param": "tools", "message": "this server has no tools", "status": 400}]
    server.play(planning(proposed("hoist"), times=2), refuse=refuse)
    log = Team()

    async def plan_twice(team: object) -> list[PlanAnswer]:
        plan = team.plan  # type: ignore[attr-defined]
        return [await plan(brief, 1, log.on_text), await plan(brief, 1, log.on_text)]

    answers = with_team(server, plan_twice, log)
    assert all(a.plans for a in answers)
    assert [b.purpose for b in log.settled] == ["look", "plan", "plan"]
    assert "hoist_invariants: " in log.settled[-1].request


def test_a_source_that_the_playbook_cannot_read_still_gets_plans(
    task: KernelTask, server: Scripted
) -> None:
    server.play(planning(proposed("read pairs")))
    brief = replace(brief_of(task), source="__global__ void k() {}\n")
    answer = planned(server, brief)
    assert [d.plan.title for d in answer.plans] == ["read pairs"]
    assert "launch" in answer.refused[0]
