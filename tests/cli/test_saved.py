"""`replay`, `resume`, `fork`, `compare`, `verify` and `bisect` over one session that really ran."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from astra_tui.cli import json_answers as answers
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.digest import content_hash
from astra_tui.model.events import CodeWritten, DecisionTaken, NoteAdded, SessionClosed
from astra_tui.model.fold import fold
from astra_tui.sessions.journal_reader import journal_path, read_journal
from astra_tui.sessions.journal_writer import Journal, Redactor
from tests.cli.command import Shell
from tests.cli.test_json import decoded
from tests.conftest import MadeOnce
from tests.lab_answers import AT_WORK, VARIABLE, LabAnswers
from tests.quick import SMALL_WORKLOAD, write_quick_task

PLAYBOOK = ("--headless", "--team", "playbook", "--device", "emulator", "--approve", "auto")
SESSION = Path("sessions") / "one"


@pytest.fixture(scope="module")
def recorded(
    made_once: MadeOnce, tmp_path_factory: pytest.TempPathFactory, lab_answers: LabAnswers
) -> Path:
    """A folder with a task in kernels/ and a session of two rounds in sessions/one."""

    def record(place: Path) -> None:
        (place / "home").mkdir()
        write_quick_task(place / "kernels", SMALL_WORKLOAD)
        runtime = {"XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("run"))}
        ran = Shell(place, {**runtime, VARIABLE: str(lab_answers.folder)}).run(
            "run", "silu_and_mul", *PLAYBOOK, "--rounds", "2", "--session", str(SESSION)
        )
        assert ran.code == ExitCode.OK, ran.err

    return made_once("recorded", record)


@pytest.fixture
def saved(shell: Shell, recorded: Path) -> Path:
    """The session in a folder of the test's own."""
    shutil.copytree(recorded / "kernels", shell.folder / "kernels")
    shutil.copytree(recorded / "sessions", shell.folder / "sessions")
    return shell.folder / SESSION


def contents(folder: Path) -> dict[str, str]:
    files = (f for f in folder.rglob("*") if f.is_file())
    return {str(f.relative_to(folder)): content_hash(f.read_bytes()) for f in files}


def alter(folder: Path, old: str, new: str) -> None:
    """Changes the first place of a text in the journal."""
    text = journal_path(folder).read_text(encoding="utf-8")
    assert old in text
    journal_path(folder).write_text(text.replace(old, new, 1), encoding="utf-8")


def forge(folder: Path, old: str, new: str) -> None:
    """Changes a number as someone who computes every seal and digest again."""
    alter(folder, old, new)
    records = read_journal(folder).records
    shutil.move(journal_path(folder), folder / "before")
    journal_path(folder).touch()
    with Journal.reopen(folder, Redactor(environment={})) as journal:
        for number, record in enumerate(records):
            if isinstance(record.event, SessionClosed):
                digest = fold(read_journal(folder).events).digest()
                closed = SessionClosed(record.event.reason, record.event.message, digest)
                journal.append(closed)
            else:
                assert journal.copy(record).seq == number
    (folder / "before").unlink()


@pytest.mark.usefixtures("saved")
def test_a_replay_prints_the_run_and_reaches_its_digest(shell: Shell) -> None:
    replayed = shell.run("replay", "one", "--headless")
    assert replayed.code == ExitCode.OK
    assert "round 2, from" in replayed.err
    assert "the replay reached the state that the engine had" in replayed.err
    assert "best" in replayed.out
    answer = decoded(shell.run("replay", "one", "--json"), answers.ReplayAnswer)
    assert answer.recorded_digest == answer.digest != ""
    part = decoded(shell.run("replay", "one", "--to", "9", "--json"), answers.ReplayAnswer)
    assert (part.events, part.recorded_digest, part.rounds) == (10, "", 0)
    late = shell.run("replay", "one", "--headless", "--to", "99999")
    assert (late.code, "has no event 99999" in late.err) == (ExitCode.BAD_INPUT, True)
    listed = decoded(shell.run("replay", "--json"), answers.SessionsAnswer)
    assert "one" in [s.name for s in listed.sessions]


def test_a_replay_of_an_altered_number_does_not_reach_the_digest(shell: Shell, saved: Path) -> None:
    alter(saved, '"attempt":0', '"attempt":7')
    replayed = shell.run("replay", "one", "--headless")
    assert replayed.code == ExitCode.FAILED
    assert "and the engine wrote" in replayed.err


@pytest.mark.usefixtures("saved")
def test_verify_finds_everything_again(shell: Shell) -> None:
    outcome = shell.run("verify", "one", "--device", "emulator", "--json", **AT_WORK)
    answer = decoded(outcome, answers.VerifyAnswer)
    assert outcome.code == ExitCode.OK, outcome.out
    assert (answer.integrity.flaws, answer.differences) == ((), ())
    assert [c.round for c in answer.candidates] == [0, 1, 2]
    for candidate in answer.candidates:
        assert candidate.problems == ()
        assert candidate.cases > 40
        assert all(c.recorded == c.measured for c in candidate.counters)
        assert max(c.measured for c in candidate.counters) > 100


def test_what_was_altered_is_named_and_not_run(shell: Shell, saved: Path) -> None:
    alter(saved, '"sectors":', '"sectors":1')
    outcome = shell.run("verify", "one")
    assert outcome.code == ExitCode.FAILED
    assert "this line, or one that stood before it, was altered" in outcome.err
    assert "nothing of it was run" in outcome.err
    assert "agrees" not in outcome.out
    refused = shell.run("resume", "one", *PLAYBOOK)
    assert (refused.code, "cannot be resumed" in refused.err) == (ExitCode.BAD_INPUT, True)


def test_a_session_does_not_go_on_behind_damage(shell: Shell, saved: Path) -> None:
    """The hint's own words begin again before it."""
    text = journal_path(saved).read_text(encoding="utf-8")
    place = text.index('"round":2')
    journal_path(saved).write_text(f"{text[:place]}\0{text[place + 1 :]}", encoding="utf-8")
    damaged = f"{SESSION}/journal.jsonl:{text.count(chr(10), 0, place) + 1}: this line cannot"
    for command in (("resume", str(SESSION)), ("run", "silu_and_mul", "--session", str(SESSION))):
        refused = shell.run(*command, *PLAYBOOK)
        assert (refused.code, damaged in refused.err) == (ExitCode.BAD_INPUT, True), refused.err
        assert f"astra-tui verify {SESSION}" in refused.err
    (hint,) = re.findall(r"astra-tui (fork .*)", refused.err)
    begun = shell.run(*hint.split(), "--session", "sessions/two", "--no-run")
    assert begun.code == ExitCode.OK, begun.err
    assert [r.number for r in read_journal(saved.parent / "two").state().rounds] == [0, 1]


def test_one_byte_of_a_source_is_seen(shell: Shell, saved: Path) -> None:
    source = next(iter(sorted(saved.glob("sources/*.cu"))))
    source.write_bytes(source.read_bytes() + b" ")
    outcome = shell.run("verify", "one")
    assert (outcome.code, str(source.name) in outcome.err) == (ExitCode.FAILED, True)


def test_a_forged_count_is_found_by_counting_again(shell: Shell, saved: Path) -> None:
    profile = next(e for e in read_journal(saved).events if type(e).__name__ == "ProfileTaken")
    count = profile.profile.workloads[0].counters.accesses[0].sectors
    forge(saved, f'"sectors":{count}', f'"sectors":{count + 1}')
    outcome = shell.run("verify", "one", "--device", "emulator", "--json", **AT_WORK)
    answer = decoded(outcome, answers.VerifyAnswer)
    assert answer.integrity.flaws == ()
    assert outcome.code == ExitCode.FAILED
    assert "counters of workload" in answer.candidates[0].problems[0]


def test_only_the_local_task_of_the_same_hash_is_run(shell: Shell, saved: Path) -> None:
    task = shell.folder / "kernels" / "silu_and_mul"
    reference = task / "reference.py"
    reference.write_text(reference.read_text() + "\n# another version\n", encoding="utf-8")
    for command in ("verify", "resume"):
        outcome = shell.run(command, "one")
        assert outcome.code == ExitCode.BAD_INPUT
        assert "is not the one of this session: its hash is" in outcome.err
        assert "--task FOLDER" in outcome.err
    shutil.rmtree(shell.folder / "kernels")
    assert shell.run("resume", "one").code == ExitCode.BAD_INPUT


def test_a_log_that_is_no_plain_file_is_refused_at_a_terminal(shell: Shell, saved: Path) -> None:
    log = saved / "engine.log"
    for make, told in (
        (lambda: os.mkfifo(log), "this is not a plain file"),
        (lambda: log.symlink_to(shell.folder / "elsewhere"), "a session's folder holds no links"),
    ):
        log.unlink(missing_ok=True)
        make()
        outcome = shell.on_terminal("resume", str(SESSION), "--plain", "--rounds", "3")
        assert outcome.code == ExitCode.BAD_INPUT
        assert f"engine.log: {told}" in outcome.out
    assert not (shell.folder / "elsewhere").exists()


def test_a_reference_that_only_a_session_names_is_not_run_without_trust(
    shell: Shell, recorded: Path
) -> None:
    gift = shell.folder / "gift"
    mine = write_quick_task(gift, SMALL_WORKLOAD).rename(gift / "kernel")
    evil = mine / "reference.py"
    mark = shell.folder / "it-was-run"
    harmful = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n"
    evil.write_text(harmful + evil.read_text(encoding="utf-8"), encoding="utf-8")
    shutil.copytree(recorded / SESSION, shell.folder / SESSION)
    task_hash = read_journal(shell.folder / SESSION).events[0].task_hash
    forge(shell.folder / SESSION, '"task":"silu_and_mul"', '"task":"gift/kernel"')
    new_hash = json.loads(shell.run("kernels", "--json", ASTRA_TUI_KERNELS="gift").out)
    (found,) = [t["hash"] for t in new_hash["tasks"] if t["folder"].endswith("gift/kernel")]
    forge(shell.folder / SESSION, task_hash, found)
    outcome = shell.run("verify", "one")
    assert outcome.code == ExitCode.BAD_INPUT
    assert "whose reference.py would be run" in outcome.err
    assert not mark.exists()


def test_a_killed_session_is_resumed_with_what_differs(shell: Shell, saved: Path) -> None:
    whole = read_journal(saved).state()
    content = journal_path(saved).read_bytes()
    lines = content.splitlines(keepends=True)
    second = next(n for n, line in enumerate(lines) if b'"round_opened","round":2' in line)
    journal_path(saved).write_bytes(b"".join(lines[: second + 2]) + b'{"seq":')
    unfinished = shell.run("verify", "one")
    assert (unfinished.code, "has no end" in unfinished.err) == (ExitCode.FAILED, True)
    resumed = shell.run("resume", "--headless", "--rounds", "3", "--json")
    assert resumed.code == ExitCode.OK, resumed.err
    assert "setting rounds: was 2, is 3" in resumed.err
    assert json.loads(resumed.out)["best"]["candidate"] == whole.best
    assert len(json.loads(resumed.out)["rounds"]) == 3


def test_a_key_does_not_go_to_a_server_that_only_the_session_names(
    shell: Shell, saved: Path
) -> None:
    forge(saved, '"base_url":""', '"base_url":"http://elsewhere.example/v1"')
    outcome = shell.run("resume", "one", "--headless", "--team", "llm", OPENAI_API_KEY="k" * 20)
    assert outcome.code == ExitCode.BAD_INPUT
    assert "to which your key would go" in outcome.err


def test_a_branch_holds_the_past_and_goes_its_own_way(shell: Shell, saved: Path) -> None:
    before = contents(saved)
    plan = shell.folder / "plan.toml"
    fork = (
        "fork", "one", "--at", "1.0.plan", "--plan", str(plan), "--note", "mind the tail",
        "--session", "sessions/two", "--rounds", "1", *PLAYBOOK, "--json",
    )  # fmt: skip
    plan.write_text('change = "with more care"\n', encoding="utf-8")
    refused = shell.run(*fork)
    assert refused.code == ExitCode.BAD_INPUT
    assert "would not follow an edit of change" in refused.err
    assert not (shell.folder / "sessions" / "two").exists()
    plan.write_text("parameters = { pack_bytes = 8 }\n", encoding="utf-8")
    forked = shell.run(*fork)
    assert forked.code == ExitCode.OK, forked.err
    assert contents(saved) == before
    events = read_journal(shell.folder / "sessions" / "two").events
    origin = events[0].forked_from
    parent = read_journal(saved)
    assert origin.session == "one"
    assert origin.digest == fold(parent.events[: origin.seq + 1]).digest()
    assert [e.text for e in events if isinstance(e, NoteAdded)] == ["mind the tail"]
    decisions = {e.decision.question: e.decision for e in events if isinstance(e, DecisionTaken)}
    edited = decisions["1.0.plan"]
    assert (edited.status, edited.plan.settings["pack_bytes"]) == ("edited", 8)
    assert edited.by.kind == "engineer"
    (written,) = (e.candidate for e in events if isinstance(e, CodeWritten) and e.round == 1)
    source = shell.folder / "sessions" / "two" / "sources" / f"{written[:12]}.cu"
    assert "let width = 8 // sizeof(T)" in source.read_text(encoding="utf-8")
    compared = decoded(shell.run("compare", "two:r1", "one:r1", "--json"), answers.CompareAnswer)
    assert [", plan edited by engineer" in s.author for s in compared.sides] == [True, False]
    listed = decoded(shell.run("sessions", "--json"), answers.SessionsAnswer)
    assert {s.name: s.parent for s in listed.sessions} == {"one": "", "two": "one"}
    assert f"  two (from event {origin.seq})" in shell.run("sessions").out
    assert shell.run("replay", "two", "--json").code == ExitCode.OK


def test_branches_from_rounds_and_candidates(shell: Shell, saved: Path) -> None:
    state = read_journal(saved).state()
    first = state.round(1).best
    made = shell.run(
        "fork", "one", "--at", first[:8], "--session", "sessions/three", "--no-run", *PLAYBOOK,
        "--json",
    )  # fmt: skip
    assert made.code == ExitCode.OK, made.err
    answer = decoded(made, answers.ForkAnswer)
    assert (answer.session, answer.folder) == ("three", "sessions/three")
    assert (answer.parent, answer.fork_seq > 0) == ("one", True)
    branch = read_journal(shell.folder / "sessions" / "three").state()
    assert (branch.best, [r.number for r in branch.rounds]) == (first, [0, 1])
    for at, told in (
        ("r9", "no round 9 that ended"),
        ("1.0.plam", "did you mean '1.0.plan'"),
        ("ffffffff", "no round, decision or candidate"),
    ):
        refused = shell.run("fork", "one", "--at", at, "--session", "sessions/four")
        assert (refused.code, told in refused.err) == (ExitCode.BAD_INPUT, True), refused.err
    refused = shell.run(
        "fork", "one", "--at", "r1", "--session", "sessions/four", "--device", "cuda:99"
    )
    assert refused.code != ExitCode.OK
    assert "cuda:99" in refused.err
    assert not (shell.folder / "sessions" / "four").exists()


@pytest.mark.usefixtures("saved")
def test_two_candidates_beside_each_other(shell: Shell) -> None:
    outcome = shell.run("compare", "one:r1", "one", "--device", "emulator", "--json")
    answer = decoded(outcome, answers.CompareAnswer)
    assert outcome.code == ExitCode.OK
    assert [s.round for s in answer.sides] == [1, 2]
    assert answer.sides[0].plan.title != answer.sides[1].plan.title
    assert "@@" in answer.diff
    assert "the emulator gives no times" in answer.not_timed
    shown = shell.run("compare", "one:r1", "one", "--device", "emulator")
    assert answer.sides[1].plan.title in shown.out
    assert "not timed here" in shown.err
    unknown = shell.run("compare", "one:r7", "one")
    assert (unknown.code, "no round 7" in unknown.err) == (ExitCode.BAD_INPUT, True)


@pytest.mark.usefixtures("saved")
def test_bisect_asks_the_ends_first(shell: Shell) -> None:
    flags = ("--slower", "8x128", "--counter", "requests", "--device", "emulator")
    outcome = shell.run("bisect", "one", *flags, "--json")
    answer = decoded(outcome, answers.BisectAnswer)
    assert (outcome.code, answer.round, len(answer.steps)) == (ExitCode.FAILED, None, 1)
    assert "has no such regression; 1 of 3 candidates" in answer.message
    for flags, told in (
        ((), "say --error BOUND, or --slower"),
        (("--slower", "8x12"), "did you mean '8x128'"),
        (("--error", "1", "--good", "r7"), "in r7 nothing was accepted"),
    ):
        refused = shell.run("bisect", "one", *flags)
        assert (refused.code, told in refused.err) == (ExitCode.BAD_INPUT, True), refused.err
    timed = shell.run("bisect", "one", "--slower", "8x128", "--device", "emulator")
    assert (timed.code, "--counter" in timed.err) == (ExitCode.UNSUPPORTED, True)
