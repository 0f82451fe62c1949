"""Copies, and parents that a search draws, with a scripted team and everything else real."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from astra_tui.engine.request_handler import RequestHandler
from astra_tui.model.approval import Answer, ApprovalStatus, Question
from astra_tui.model.events import CheckStarted, CopyFound, ParentChoice, ProfileTaken
from astra_tui.model.settings import SearchKind
from astra_tui.model.team_protocol import PlanAnswer
from astra_tui.model.verdict import Outcome
from astra_tui.present.events import describe
from astra_tui.present.words import stands_on, where_measured
from astra_tui.sessions.branches import find_intact_place, fork_session
from astra_tui.sessions.journal_writer import Redactor
from astra_tui.sessions.wire import ChooseParent, Done, Refused
from tests.engine.scripted import (
    ASK,
    AUTO,
    ENGINEER,
    ScriptedTeam,
    Session,
    Step,
    resume,
    settings_of,
    start,
)

pytestmark = pytest.mark.usefixtures("known_answers")


def run(session: Session) -> Session:
    asyncio.run(session.run())
    return session


def outcomes(session: Session) -> dict[str, tuple[Outcome, tuple[str, ...]]]:
    return {
        p.plan.title: (p.verdict.outcome, p.verdict.reasons)
        for r in session.engine.state.rounds
        for p in r.proposals
        if p.verdict is not None
    }


def test_copies_are_neither_checked_nor_profiled_again(tmp_path, task, sources):
    """With comments that the original lacks, letter for letter the same, and as the baseline."""
    commented = sources.better.replace("__global__", "// as before\n\n__global__", 1)
    assert commented != sources.better
    wrong_too = sources.wrong.replace("__global__", "/* still */ __global__", 1)
    steps = [
        Step("wide", (sources.better,)),
        Step("wide with a comment", (commented,)),
        Step("wide again", (sources.better,)),
        Step("nothing", (sources.baseline.replace("__global__", "/* x */ __global__", 1),)),
        Step("wrong", (sources.wrong,)),
        Step("wrong with a comment", (wrong_too,)),
    ]
    settings = settings_of(AUTO, rounds=1, candidates=6, repairs=0, reflections=0)
    session = run(start(tmp_path / "s", task, ScriptedTeam(steps), settings))
    state = session.engine.state
    written = {p.plan.title: p.attempts[0].candidate for p in state.round(1).proposals}
    originals = {e.candidate: e.original for e in session.of(CopyFound)}
    # Which of equal siblings comes first depends on the lab: one of each kind has the results.
    pairs = [("wide", "wide with a comment"), ("wrong", "wrong with a comment")]
    for one, other in pairs:
        first, second = sorted((written[one], written[other]), key=originals.__contains__)
        assert originals.pop(second) == first
        assert outcomes(session)[one][0] is outcomes(session)[other][0]
    assert originals == {written["nothing"]: state.opened.baseline}
    checked = [e.candidate for e in session.of(CheckStarted)]
    assert len(checked) == len(set(checked)) == 3
    assert len(session.of(ProfileTaken)) == 2
    nothing = outcomes(session)["nothing"]
    assert nothing == (Outcome.SAME, ("the same machine code as that of the baseline",))
    told = [r for o, rs in outcomes(session).values() for r in rs if r.startswith("the same ")]
    assert len(told) == 4
    # The best is what was checked, not its copy.
    assert state.best in checked
    again = resume(tmp_path / "s", task, ScriptedTeam(steps), settings)
    assert again.engine.state == state


def test_winners_of_one_round_are_merged_in_the_next(tmp_path, task, sources):
    """Two plans of a round are better, one becomes the best, and the next round has both."""
    fast = sources.baseline.replace("expf(-gate)", "__expf(-gate)")
    both = sources.better + "// both\n"
    steps = [Step("wide", (sources.better,)), Step("fast", (fast,)), Step("both", (both,))]
    settings = settings_of(
        AUTO, rounds=2, candidates=2, repairs=0, reflections=0, search=SearchKind.ARCHIVE
    )
    team = ScriptedTeam(steps)
    session = run(start(tmp_path / "s", task, team, settings))
    state = session.engine.state
    first, second = state.rounds[1:]
    wide, quick = (p.attempts[0].candidate for p in first.proposals)
    assert [p.verdict.outcome for p in first.proposals] == [Outcome.BETTER, Outcome.BETTER]
    assert first.best == wide
    assert (second.base, second.other, second.why) == (wide, quick, ParentChoice.MERGE)
    told = next(b.second for b in team.briefs if b.second is not None)
    assert (told.source, told.ancestor, told.done) == (fast, sources.baseline, ("fast",))
    assert told.ratios["warp_instructions"] < 1
    assert second.proposals[0].verdict.reasons[0] == (
        "the same machine code as that of plan 1 of round 1"
    )
    log = [told.text for e in session.events if (told := describe(e)) is not None]
    where = f"{wide[:12]} of round 1"
    assert f"round 2, from {where}, to be merged with {quick[:12]} if their changes fit" in log
    assert stands_on(second) == f"{where}, merged with {quick[:12]}"
    # A playbook whose changes do not fit tries another move: that candidate has one parent.
    (proposal,) = second.proposals
    fell_back = replace(proposal, plan=replace(proposal.plan, move="fast_math"))
    changed = replace(second, proposals=(fell_back,))
    assert stands_on(changed) == f"{where}, not merged with {quick[:12]}"
    assert proposal.merges
    assert not fell_back.merges
    # A branch from before the choice makes the same one, whatever came after it.
    timeline, place = find_intact_place(tmp_path / "s", "r1")
    fork_session(tmp_path / "s", timeline, place, tmp_path / "b", Redactor(), ENGINEER)
    branch = run(resume(tmp_path / "b", task, ScriptedTeam(steps), settings))
    assert branch.engine.state.rounds[2].other == quick
    greedy = replace(settings, search=SearchKind.GREEDY)
    fork_session(tmp_path / "s", timeline, place, tmp_path / "g", Redactor(), ENGINEER)
    plain = run(resume(tmp_path / "g", task, ScriptedTeam(steps), greedy))
    assert plain.engine.state.rounds[2].why is ParentChoice.BEST


def test_a_winner_of_another_parent_is_held_against_the_best(tmp_path, task, sources):
    """The team has no plan for the best: the next round stands on another candidate, and what is
    better than that one is no new best.
    """

    class Leaving(ScriptedTeam):
        async def plan(self, brief, count, on_text):
            if "int4" in brief.source or "128-bit" in brief.source:
                return PlanAnswer((), "nothing for wide code")
            return await super().plan(brief, count, on_text)

    fast = sources.baseline.replace("expf(-gate)", "__expf(-gate)")
    team = Leaving([Step("wide", (sources.better,)), Step("fast", (fast,))])
    settings = settings_of(AUTO, rounds=2, repairs=0, reflections=0, search=SearchKind.RESTARTS)
    session = run(start(tmp_path / "s", task, team, settings))
    rounds = session.engine.state.rounds
    why = [(r.why, r.barren, bool(r.best)) for r in rounds[1:]]
    assert why == [
        (ParentChoice.LINE, False, True),
        (ParentChoice.LINE, True, False),
        (ParentChoice.RESTART, False, False),
    ]
    restarted = rounds[3]
    assert restarted.base == session.engine.state.opened.baseline
    verdict = restarted.proposals[0].verdict
    assert verdict.outcome is Outcome.BETTER
    assert session.engine.state.best == rounds[1].best
    assert where_measured(restarted, verdict) == ", but not the best"
    assert session.engine.state.rounds_done == 2


def test_an_engineer_chooses_what_the_next_round_stands_on(tmp_path, task, sources):
    """Also in a greedy search, by a request; a copy means its original, and code that is wrong or
    unknown is refused.
    """
    fast = sources.baseline.replace("expf(-gate)", "__expf(-gate)")
    codes = {"wide": sources.better, "wrong": sources.wrong, "fast": fast, "slow": sources.slow}
    steps = [Step(title, (code,)) for title, code in codes.items()]
    settings = settings_of(ASK, rounds=3, repairs=0, reflections=0)
    session = start(tmp_path / "s", task, ScriptedTeam(steps), settings)
    baseline = session.engine.state.opened.baseline
    replies: list[Done | Refused] = []

    async def answer(session: Session, question: Question) -> None:
        if question.id == "3.0.plan" and not replies:
            handler = RequestHandler(session.engine)
            wrong = session.engine.state.round(2).proposals[0].attempts[0].candidate
            for number, chosen in enumerate((wrong, "f" * 64, baseline)):
                replies.append(await handler.carry_out(ChooseParent(number, chosen), ENGINEER))
            status = ApprovalStatus.REJECTED
        else:
            status = ApprovalStatus.ACCEPTED
        given = Answer(question.id, question.subject, status, ENGINEER)
        await session.engine.desk.answer(given)

    asyncio.run(session.run_with(answer))
    assert [type(r) for r in replies] == [Refused, Refused, Done]
    state = session.engine.state
    assert [(r.base == baseline, r.why) for r in state.rounds[3:]] == [
        (False, ParentChoice.BEST),
        (True, ParentChoice.CHOSEN),
    ]
    assert state.next_parent == ""
    assert stands_on(state.rounds[4]) == "the baseline, chosen by the engineer"
