"""The loop, with a scripted team and everything else real."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from astra_tui.engine.host import resume_session
from astra_tui.engine.opening import check_same_device
from astra_tui.lab.devices import DeviceChoice
from astra_tui.model.approval import (
    Answer,
    AnswerRefused,
    ApprovalGate,
    ApprovalStatus,
    AutoMode,
    Decision,
    Question,
)
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.check import Case
from astra_tui.model.compilation import Diagnostic
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.events import (
    AutoApprovalSet,
    BestChanged,
    CaseAdded,
    CaseChecked,
    CheckStarted,
    CodeWritten,
    CompileFinished,
    DecisionTaken,
    DeviceOpened,
    Event,
    Paused,
    ProfileTaken,
    RejectionTakenBack,
    SessionClosed,
    SessionOpened,
    StageBegan,
    StopReason,
    Transient,
    VerdictReached,
)
from astra_tui.model.fold import fold
from astra_tui.model.plan import Risk
from astra_tui.model.settings import Approval, Budget, GatePolicy
from astra_tui.model.task import KernelTask, load_task
from astra_tui.model.verdict import Outcome
from astra_tui.present.words import best_of, where_measured
from astra_tui.sessions.branches import find_intact_place, fork_session
from astra_tui.sessions.journal_reader import journal_path, read_journal
from astra_tui.sessions.journal_writer import Journal, Redactor
from tests.engine.scripted import (
    ASK,
    AUTO,
    ENGINEER,
    ScriptedTeam,
    Session,
    Sources,
    Step,
    fill_disk,
    kept,
    resume,
    settings_of,
    start,
)

pytestmark = pytest.mark.usefixtures("known_answers")

SECONDS = 600
"""After which a run that should have ended hangs."""


def run(session: Session) -> Session:
    asyncio.run(session.run())
    return session


def cases_in(folder: Path) -> list[Event]:
    return [e for e in kept(folder) if isinstance(e, CheckStarted | CaseChecked)]


def outcomes(session: Session) -> list[Outcome]:
    return [e.verdict.outcome for e in session.of(VerdictReached)]  # type: ignore[attr-defined]


def answer(
    session: Session, question: Question, status: ApprovalStatus, **more: object
) -> Awaitable[Decision]:
    made = Answer(question.id, question.subject, status, ENGINEER, **more)  # type: ignore[arg-type]
    return session.engine.desk.answer(made)


def accept(session: Session, question: Question) -> Awaitable[Decision]:
    return answer(session, question, ApprovalStatus.ACCEPTED)


def test_ends_on_the_better_of_broken_wrong_and_slow_candidates_and_the_journal_says_so(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    inside = "    out[i] = (T)(silu * up);"
    assert inside in sources.baseline
    wrong_at_a_workload_s_size = sources.baseline.replace(
        inside, "    out[i] = count == 16 * 4096 ? (T)1.0f : (T)(silu * up);"
    )
    steps = [
        Step("broken", (sources.broken,)),
        Step("wrong", (sources.wrong,)),
        Step("wrong at one size", (wrong_at_a_workload_s_size,)),
        Step("better", (sources.better,)),
        Step("slow", (sources.slow,)),
    ]
    session = run(start(tmp_path / "s", task, ScriptedTeam(steps), settings_of(rounds=6)))
    assert outcomes(session) == [
        Outcome.NOT_COMPILED, Outcome.WRONG, Outcome.WRONG, Outcome.BETTER, Outcome.WORSE,
    ]  # fmt: skip
    state = session.engine.state
    at_one_size = state.round(3).proposals[0].verdict
    assert at_one_size is not None
    assert "workload 16x4096 at its own size" in at_one_size.reasons[0]
    assert session.journal.get(state.best) == sources.better
    assert state.closed is not None
    assert state.closed.reason is StopReason.NO_PLAN
    last_brief = session.team.briefs[-1]
    assert last_brief.source == sources.better
    assert [t.outcome for t in last_brief.tried] == outcomes(session)
    in_base = [t.code for t in last_brief.tried if t.in_base]
    assert in_base == [last_brief.source], "it was made from the baseline at once"
    assert all(t.profile for t in last_brief.tried if t.outcome is Outcome.BETTER)
    assert last_brief.reading is not None
    assert last_brief.reading.text == "loads are narrow"

    events = kept(tmp_path / "s")
    assert not [e for e in events if isinstance(e, Transient)]
    assert fold(events) == state
    closed = events[-1]
    assert isinstance(closed, SessionClosed)
    assert closed.digest == fold(events[:-1]).digest()


def test_failed_code_goes_back_with_the_error_a_bounded_number_of_times(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    steps = [Step("mended", (sources.broken, sources.wrong, sources.better))]
    team = ScriptedTeam(steps)
    session = run(start(tmp_path / "a", task, team, settings_of(rounds=1)))
    assert outcomes(session) == [Outcome.BETTER]
    assert [f.stage for f in team.failures] == ["compile", "check"]
    assert "expected" in team.failures[0].message
    assert "the scale is off" in team.failures[1].message
    once = run(start(tmp_path / "b", task, ScriptedTeam(steps), settings_of(rounds=1, repairs=1)))
    assert outcomes(once) == [Outcome.WRONG]


def test_nothing_is_compiled_or_launched_before_it_is_decided(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    steps = [Step("wrong", (sources.wrong, sources.better)), Step("slow", (sources.slow,))]
    session = start(tmp_path / "s", task, ScriptedTeam(steps), settings_of(ASK))
    asyncio.run(session.run_with(accept))
    baseline = session.engine.state.opened.baseline  # type: ignore[union-attr]
    plans_decided: set[tuple[int, int]] = set()
    approved = {baseline}
    place: dict[str, tuple[int, int]] = {}
    compiled = launched = 0
    for event in session.events:
        if isinstance(event, DecisionTaken):
            question = session.engine.state.questions[event.decision.question]
            if event.decision.gate is ApprovalGate.PLAN:
                plans_decided.add((question.round, question.proposal))
            else:
                approved.add(event.decision.result)
        elif isinstance(event, CodeWritten):
            place[event.candidate] = (event.round, event.proposal)
            assert place[event.candidate] in plans_decided
        elif isinstance(event, CompileFinished) and event.candidate != baseline:
            assert place[event.candidate] in plans_decided
            compiled += 1
        elif isinstance(event, CheckStarted):
            assert event.candidate in approved
            launched += 1
    assert compiled == 3
    assert launched == 4


def test_behind_an_open_gate_nothing_goes_on_and_its_answer_is_in_the_journal_once_taken(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    session = start(
        tmp_path / "s", task, ScriptedTeam([Step("better", (sources.better,))]), settings_of(ASK)
    )
    seen: list[tuple[str, set[str]]] = []
    decided: list[str] = []

    async def look(session: Session, question: Question) -> None:
        stages = {
            e.stage
            for e in session.events
            if isinstance(e, StageBegan) and e.round == question.round
        }
        seen.append((question.gate.value, stages))
        await accept(session, question)
        decided.append(question.id)
        assert list(read_journal(tmp_path / "s").state().decisions) == decided

    asyncio.run(session.run_with(look))
    assert seen == [("plan", {"plan"}), ("diff", {"plan", "code", "compile"})]
    assert decided == ["1.0.plan", "1.0.diff.0"]


@pytest.mark.parametrize("paused", [False, True])
def test_a_rejection_can_be_taken_back_costs_no_round_and_its_reason_reaches_the_team(
    tmp_path: Path, task: KernelTask, sources: Sources, paused: bool
) -> None:
    steps = [Step("one", (sources.better,)), Step("two", (sources.better,))]
    session = start(tmp_path / "s", task, ScriptedTeam(steps), settings_of(ASK, rounds=1))
    asked: list[str] = []
    reasons = ["a slip", "too large a step"]

    async def decide(session: Session, question: Question) -> None:
        engine = session.engine
        asked.append(question.id)
        if question.round == 1:
            reason = reasons.pop(0)
            await answer(session, question, ApprovalStatus.REJECTED, reason=reason)
        elif reasons:
            if paused:
                engine.control.interrupt(ENGINEER)
                while not engine.state.paused:
                    await asyncio.sleep(0)
            engine.take_back(RejectionTakenBack("1.0.plan", ENGINEER))
            engine.control.resume(ENGINEER)
        else:
            await accept(session, question)
            with pytest.raises(UserError, match="cannot be taken back any more"):
                engine.take_back(RejectionTakenBack("1.0.plan", ENGINEER))

    asyncio.run(session.run_with(decide))
    assert asked == ["1.0.plan", "2.0.plan", "1.0.plan", "2.0.plan", "2.0.diff.0"]
    state = session.engine.state
    assert [r.number for r in state.rounds] == [0, 1, 2]
    assert [p.verdict.outcome for r in state.rounds for p in r.proposals if p.verdict] == [
        Outcome.REJECTED, Outcome.BETTER,
    ]  # fmt: skip
    assert (state.rounds_free, state.rounds_done) == (1, 1)
    (tried,) = session.team.briefs[-1].tried
    assert tried.describe_outcome() == 'you rejected it in round 1: "too large a step"'
    assert not tried.edited
    assert read_journal(tmp_path / "s").state() == state, "a reader makes the same of it"


def test_accepted_hunks_are_applied_and_shown_again(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    two = sources.baseline.replace("// silu_and_mul, the", "// silu_and_mul, a").replace(
        "out[i] = (T)(silu * up);", "out[i] = (T)(up * silu);"
    )
    session = start(
        tmp_path / "s", task, ScriptedTeam([Step("two", (two,))]), settings_of(ASK, rounds=1)
    )
    shown: list[str] = []

    async def decide(session: Session, question: Question) -> None:
        if question.gate is ApprovalGate.PLAN:
            await accept(session, question)
            return
        shown.append(session.journal.get(question.subject))
        if len(shown) == 1:
            assert question.hunks == 2
            await answer(
                session, question, ApprovalStatus.ACCEPTED, left_out=(0,), reason="keep the words"
            )
        else:
            await accept(session, question)

    asyncio.run(session.run_with(decide))
    assert len(shown) == 2
    assert "silu_and_mul, the" in shown[1]
    assert "up * silu" in shown[1]
    assert outcomes(session) == [Outcome.SAME]
    written = session.of(CodeWritten)
    assert [e.author.kind.value for e in written] == ["model", "engineer"]  # type: ignore[attr-defined]


def test_code_of_an_engineer_that_does_not_compile_leaves_the_question_open(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    helper = "__device__ float times(float a, float b) { return a * b; }\n\ntemplate <typename T>"
    two = sources.baseline.replace("template <typename T>", helper).replace(
        "(T)(silu * up);", "(T)times(silu, up);"
    )
    session = start(
        tmp_path / "s", task, ScriptedTeam([Step("two", (two,))]), settings_of(ASK, rounds=1)
    )
    told: list[str] = []
    hints: list[str] = []
    errors: list[tuple[Diagnostic, ...]] = []

    async def decide(session: Session, question: Question) -> None:
        slips: list[tuple[ApprovalStatus, dict[str, object]]] = []
        if question.gate is ApprovalGate.DIFF:
            assert question.hunks == 2
            slips = [
                (ApprovalStatus.EDITED, {"source": sources.broken}),
                (ApprovalStatus.EDITED, {"source": sources.baseline}),
                (ApprovalStatus.ACCEPTED, {"hunks": (1,)}),
            ]
        for status, more in slips:
            with pytest.raises(AnswerRefused) as refused:
                await answer(session, question, status, **more)
            told.append(refused.value.message)
            hints.append(refused.value.hint)
            errors.append(refused.value.errors)
        await accept(session, question)

    asyncio.run(session.run_with(decide))
    assert told[0].startswith("your code does not compile: line ")
    assert told[1] == "your code is the source that the round starts from"
    assert told[2].startswith("what you chose does not compile: line ")
    assert 'identifier "times" is undefined' in told[2]
    assert [len(e) for e in errors] == [1, 0, 1]
    assert hints[2] == "hunk 2 needs hunk 1 (times)"
    assert outcomes(session) == [Outcome.SAME]
    assert len(session.of(CodeWritten)) == 1


def test_refused_hunks_are_told_to_the_team(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    two = sources.wrong.replace("// silu_and_mul, the", "// silu_and_mul, a")
    steps = [Step("two", (two, sources.better))]
    session = start(tmp_path / "s", task, ScriptedTeam(steps), settings_of(ASK, rounds=2))

    async def decide(session: Session, question: Question) -> None:
        first = question.gate is ApprovalGate.DIFF and question.attempt == 0
        more = {"hunks": (1,), "reason": "no"} if first else {}
        await answer(session, question, ApprovalStatus.ACCEPTED, **more)

    asyncio.run(session.run_with(decide))
    said = [c.describe() for c in session.team.briefs[-1].constraints]
    assert any("refused this part of the diff" in text for text in said)
    assert any("silu_and_mul, a simple way" in text for text in said)
    assert 'rejected "two" in round 1: no' in "\n".join(said), said


def test_an_edited_plan_and_an_edited_source_go_on_as_edited_but_for_secrets(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    key = "sk-proj-0123456789abcdef0123456789abcdef"
    step = Step("plan", (sources.wrong,))
    session = start(tmp_path / "s", task, ScriptedTeam([step]), settings_of(ASK, rounds=1))
    edited_plan = step.plan.__class__(
        step.title, "latency", ("a number",), "another change", step.plan.prediction, Risk.LOW
    )

    async def decide(session: Session, question: Question) -> None:
        if question.gate is ApprovalGate.PLAN:
            await answer(session, question, ApprovalStatus.EDITED, plan=edited_plan)
        else:
            source = f"// {key}\n{sources.better}"
            await answer(session, question, ApprovalStatus.EDITED, source=source)

    asyncio.run(session.run_with(decide))
    assert outcomes(session) == [Outcome.BETTER]
    first, rest = session.journal.get(session.engine.state.best).split("\n", 1)
    assert first.startswith("// ")
    assert rest == sources.better
    (tested,) = session.team.tested
    assert tested.split("\n", 1)[1] == sources.better, "cases are asked for the engineer's code"
    files = [f for f in (tmp_path / "s").rglob("*") if f.is_file()]
    assert not [f for f in files if key.encode() in f.read_bytes()]
    assert session.engine.state.plan_of(1, 0) == edited_plan
    checked = {e.candidate for e in session.of(CheckStarted)}  # type: ignore[attr-defined]
    wrong = session.of(CodeWritten)[0].candidate  # type: ignore[attr-defined]
    assert wrong not in checked


def test_auto_asks_about_plans_above_its_risk(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    policy = Approval(GatePolicy.AUTO, GatePolicy.AUTO, max_risk=Risk.LOW)
    steps = [Step("risky", (sources.better,), Risk.HIGH)]
    session = run(start(tmp_path / "s", task, ScriptedTeam(steps), settings_of(policy)))
    assert session.engine.state.closed.reason is StopReason.UNATTENDED  # type: ignore[union-attr]
    assert [q.id for q in session.engine.state.pending] == ["1.0.plan"]


def test_an_unattended_session_goes_on_where_it_stopped(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    steps = [Step("better", (sources.better,))]
    folder = tmp_path / "s"
    run(start(folder, task, ScriptedTeam(steps), settings_of(ASK)))
    again = run(resume(folder, task, ScriptedTeam(steps), settings_of(AUTO)))
    assert outcomes(again) == [Outcome.BETTER]
    assert not [
        e for e in again.of(CaseChecked) if e.candidate == again.engine.state.opened.baseline
    ]  # type: ignore


def test_a_mode_that_is_dropped_leaves_the_policy_of_the_run_that_goes_on(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    steps = [Step("better", (sources.better,))]
    folder = tmp_path / "s"
    stranger = Author(AuthorKind.ENGINEER, "a stranger")
    begun = start(folder, task, ScriptedTeam(steps), settings_of(ASK))
    begun.engine.record.emit(AutoApprovalSet(AutoMode.ALL, stranger))
    begun.journal.close()
    again = run(resume(folder, task, ScriptedTeam(steps), settings_of(AUTO)))
    assert outcomes(again) == [Outcome.BETTER]
    assert again.engine.state.auto.mode is AutoMode.ASK
    assert {d.by.name for d in again.engine.state.decisions.values()} == {"auto"}


def test_decisions_come_from_a_file(tmp_path: Path, task: KernelTask, sources: Sources) -> None:
    (tmp_path / "better.cu").write_text(sources.better)
    file = tmp_path / "decisions.toml"
    file.write_text(
        '[[decision]]\ngate = "plan"\nround = 1\nstatus = "rejected"\nreason = "later"\n'
        '[[decision]]\ngate = "plan"\nstatus = "edited"\nplan = {change = "as I say"}\n'
        '[[decision]]\ngate = "diff"\nstatus = "edited"\nsource = "better.cu"\n'
    )
    steps = [Step("one", (sources.slow,)), Step("two", (sources.wrong,))]
    policy = Approval(decisions=str(file))
    session = run(start(tmp_path / "s", task, ScriptedTeam(steps), settings_of(policy)))
    assert outcomes(session) == [Outcome.REJECTED, Outcome.BETTER]
    assert session.engine.state.plan_of(2, 0).change == "as I say"
    by = {d.by.name for d in session.engine.state.decisions.values()}
    assert by == {"decisions.toml"}


def test_several_candidates_of_a_round_are_tried_and_the_best_wins(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    steps = [
        Step("slow", (sources.slow,)),
        Step("better", (sources.better,)),
        Step("wrong", (sources.wrong,)),
    ]
    settings = settings_of(candidates=3, rounds=1)
    session = run(start(tmp_path / "s", task, ScriptedTeam(steps), settings))
    proposals = session.engine.state.round(1).proposals
    found = [p.verdict.outcome for p in proposals if p.verdict]
    assert found == [Outcome.WORSE, Outcome.BETTER, Outcome.WRONG]
    assert len(session.of(BestChanged)) == 1


@pytest.mark.usefixtures("lab_at_work")
def test_an_interrupt_drops_the_step_at_once_and_the_loop_goes_on_after_it(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    steps = [Step("better", (sources.better,))]
    session = start(tmp_path / "s", task, ScriptedTeam(steps), settings_of(rounds=1))
    checked: list[bool] = []

    async def drive() -> None:
        interrupted = ""
        async for event in session.engine.run():
            session.events.append(event)
            if (
                isinstance(event, CaseChecked)
                and not interrupted
                and event.candidate
                != (
                    session.engine.state.opened.baseline  # type: ignore[union-attr]
                )
            ):
                interrupted = event.candidate
                session.engine.control.interrupt(ENGINEER)
            elif isinstance(event, Paused):
                known = session.engine.state.candidate(interrupted)
                checked.append(known.check is not None)
                session.engine.control.resume(ENGINEER)
        session.journal.close()

    asyncio.run(drive())
    assert checked == [False]
    assert outcomes(session) == [Outcome.BETTER]
    cases = session.engine.state.candidate(session.engine.state.best)
    assert len(cases.results) == cases.cases


@pytest.mark.usefixtures("lab_at_work")
def test_a_cancelled_run_resumes_to_the_same_end(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    steps = [Step("slow", (sources.slow,)), Step("better", (sources.better,))]
    folder = tmp_path / "s"

    def run_until(session: Session, last: Callable[[Event], bool]) -> None:
        async def drive() -> None:
            async for event in session.engine.run():
                if last(event):
                    session.engine.control.cancel(ENGINEER)
            session.journal.close()

        asyncio.run(drive())
        closed = session.engine.state.closed
        assert closed is not None
        assert closed.reason is StopReason.CANCELLED

    begun = start(folder, task, ScriptedTeam(steps), settings_of())
    checked = itertools.count(1)
    run_until(begun, lambda e: isinstance(e, CaseChecked) and next(checked) == 20)
    resumed = resume(folder, task, ScriptedTeam(steps), settings_of())
    run_until(resumed, lambda e: isinstance(e, CodeWritten))
    again = run(resume(folder, task, ScriptedTeam(steps), settings_of()))
    whole = run(start(tmp_path / "whole", task, ScriptedTeam(steps), settings_of()))
    assert outcomes(again) == outcomes(whole)
    assert again.engine.state.best == whole.engine.state.best
    assert cases_in(folder) == cases_in(tmp_path / "whole"), "each once, in the same order"


def test_a_branch_on_another_kind_of_device_measures_again_what_it_builds_on(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    steps = [Step("better", (sources.better,)), Step("slow", (sources.slow,))]
    run(start(tmp_path / "s", task, ScriptedTeam(steps), settings_of(rounds=1)))
    gpu, branch = tmp_path / "gpu", tmp_path / "branch"
    with Journal.create(gpu, Redactor()) as journal:
        for part in ("sources", "blobs"):
            shutil.copytree(tmp_path / "s" / part, gpu / part, dirs_exist_ok=True)
        for event in kept(tmp_path / "s"):
            if not isinstance(event, SessionClosed):
                journal.append(on_gpu(event))
    timeline, place = find_intact_place(gpu, "r1")
    fork_session(gpu, timeline, place, branch, Redactor(), ENGINEER)
    resumed = resume(branch, task, ScriptedTeam(steps), settings_of(rounds=2))
    check_same_device(resumed.opened, DeviceChoice())
    state = run(resumed).engine.state
    assert [r.elsewhere for r in state.rounds] == ["cuda:0", "cuda:0", ""]
    assert where_measured(state.rounds[1]) == " on cuda:0"
    profiles = [c.profile for c in state.candidates.values()]
    assert [p.device for p in profiles if p is not None] == ["emulator"] * 3
    assert state.device_name == "emulator"
    assert best_of(state).text.endswith("fewer requests")
    opened = resume_session(branch, task, Redactor())
    with opened.journal, pytest.raises(UserError, match="not comparable") as caught:
        check_same_device(opened, DeviceChoice("cuda:0"))
    assert "astra-tui fork branch" in caught.value.hint
    opened = resume_session(gpu, task, Redactor())
    with opened.journal, pytest.raises(UserError, match="not comparable"):
        check_same_device(opened, DeviceChoice())


def on_gpu(event: Event) -> Event:
    """An event as a session on a GPU has it."""
    match event:
        case SessionOpened():
            return replace(event, settings=replace(event.settings, device="cuda:0"))
        case DeviceOpened():
            return replace(event, device="cuda:0")
        case ProfileTaken():
            return replace(event, profile=replace(event.profile, device="cuda:0"))
    return event


def test_a_baseline_that_fails_ends_the_run_with_its_reason(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    folder = tmp_path / "wrong_task"
    folder.mkdir()
    for file in task.folder.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    (folder / "baseline.cu").write_text(sources.wrong)
    wrong = load_task(folder)
    steps = [Step("wide", (sources.better,))]
    team = ScriptedTeam(steps, Author(AuthorKind.PLAYBOOK))  # Whose plans come first.
    session = run(start(tmp_path / "s", wrong, team, settings_of()))
    state = session.engine.state
    assert state.closed is not None
    assert state.closed.reason is StopReason.BASELINE
    assert not state.questions
    assert "cases failed" in state.closed.message


@pytest.mark.parametrize("room", [0, 4])
def test_a_full_disk_ends_the_run_with_what_could_not_be_written(
    tmp_path: Path, task: KernelTask, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    folder = tmp_path / "s"
    session = start(folder, task, ScriptedTeam([]), settings_of())

    async def drive() -> None:
        async with asyncio.timeout(SECONDS):
            await session.run()

    with monkeypatch.context() as patched:
        fill_disk(patched, room)
        with pytest.raises(UserError, match="cannot be written: No space left") as full:
            asyncio.run(drive())
    assert full.value.file == str(journal_path(folder))
    session.journal.close()
    again = resume(folder, task, ScriptedTeam([]), settings_of())
    assert len(again.journal.found.records) == room + 1
    again.journal.close()


def test_a_case_that_the_team_adds_is_run_and_kept_and_a_note_reaches_the_next_prompt(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    case = Case("by hand", "three rows", DType.FLOAT16, {"tokens": 3, "d": 40})
    steps = [Step("better", (sources.better,)), Step("slow", (sources.slow,))]
    session = start(tmp_path / "s", task, ScriptedTeam(steps, added=(case,)), settings_of())
    session.engine.add_note("mind the tail", ENGINEER)
    run(session)
    assert [c.text for c in session.team.briefs[0].constraints] == ["mind the tail"]
    assert session.engine.state.cases == (case,)
    ids = [r.case.id for r in session.engine.state.candidate(session.engine.state.best).results]
    assert case.id in ids


def test_a_case_that_the_reference_cannot_do_ends_no_session(
    tmp_path: Path, task: KernelTask, sources: Sources
) -> None:
    folder = tmp_path / task.folder.name
    shutil.copytree(task.folder, folder)
    file = folder / "reference.py"
    split = "    gate, up ="
    text = file.read_text(encoding="utf-8")
    assert split in text
    file.write_text(text.replace(split, f"    assert d != 77\n{split}"), encoding="utf-8")
    case = Case("by hand", "one that fails", DType.FLOAT16, {"tokens": 3, "d": 77})
    team = ScriptedTeam([Step("better", (sources.better,))], added=(case,))
    settings = settings_of(rounds=1, repairs=0)
    session = run(start(tmp_path / "s", load_task(folder), team, settings))
    state = session.engine.state
    assert state.closed is not None
    assert state.closed.reason is StopReason.ROUNDS
    verdict = state.rounds[-1].proposals[0].verdict
    assert verdict is not None
    assert verdict.outcome is Outcome.WRONG
    assert "reference.py" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        (Case("c", "", DType.FLOAT64, {"tokens": 1, "d": 8}), "no type float64"),
        (Case("c", "", DType.FLOAT16, {"tokens": 1}), "d is missing"),
        (Case("c", "", DType.FLOAT16, {"tokens": 1, "d": 8, "e": 1}), "e is no dimension"),
        (Case("c", "", DType.FLOAT16, {"tokens": 1, "d": 0}), "breaks the contract"),
        (Case("c", "", DType.FLOAT16, {"tokens": 1024, "d": 5120}), "case c: its largest"),
        (
            Case("typical", "", DType.FLOAT16, {"tokens": 1, "d": 8}),
            "there is a case float16/typical already",
        ),
    ],
)
def test_a_case_that_is_none_of_the_task_is_refused(
    tmp_path: Path, task: KernelTask, case: Case, problem: str
) -> None:
    session = start(tmp_path / "s", task, ScriptedTeam([]), settings_of())
    with pytest.raises(UserError, match=problem):
        session.engine.add_case(CaseAdded(case, ENGINEER))
    assert session.engine.state.cases == ()
    session.journal.close()


def test_a_used_budget_ends_the_run(tmp_path: Path, task: KernelTask, sources: Sources) -> None:
    team = ScriptedTeam([Step("better", (sources.better,))])
    settings = settings_of(budget=Budget(tokens=0))
    session = run(start(tmp_path / "s", task, team, settings))
    assert session.engine.state.closed.reason is StopReason.BUDGET  # type: ignore[union-attr]
    assert not team.briefs
