"""The engine process and its front ends: hang-ups, two engineers, and everyone's way out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.approval import ApprovalGate, ApprovalStatus
from astra_tui.model.events import EngineStarted, SessionClosed, StopReason
from astra_tui.model.fold import fold
from astra_tui.sessions.engines import LOG_NAME
from astra_tui.sessions.folder import writer_of
from astra_tui.sessions.journal_reader import JournalContents, read_journal
from tests.cli.command import COMMAND, SECONDS, Shell
from tests.cli.engineer import PROMPT, Engineer, EngineProcess, wait_for
from tests.lab_answers import AT_WORK
from tests.quick import SMALL_WORKLOAD, write_quick_task

SECRET = "sk-planted0123456789abcdef"
RUN = ("run", "silu_and_mul", "--team", "playbook", "--session", "s", "--rounds", "1")


@pytest.fixture
def shell(shell: Shell) -> Shell:
    """A folder whose silu_and_mul is a quick one."""
    write_quick_task(shell.folder / "kernels", SMALL_WORKLOAD)
    return shell


def journal_of(shell: Shell, session: str = "s") -> JournalContents:
    return read_journal(shell.folder / session)


def assert_whole(shell: Shell, engines: int) -> SessionClosed:
    """Nothing is lost, twice or out of order; returns the end."""
    contents = journal_of(shell)
    assert [r.seq for r in contents.records] == list(range(len(contents.records)))
    assert contents.damage == ()
    assert len([e for e in contents.events if isinstance(e, EngineStarted)]) == engines
    *before, closed = contents.events
    assert isinstance(closed, SessionClosed)
    assert fold(before).digest() == closed.digest
    return closed


def test_whoever_comes_back_finds_the_run_where_it_is(shell: Shell) -> None:
    first = Engineer(shell, *RUN, OPENAI_API_KEY=SECRET, **AT_WORK)
    first.sees("checking")
    engine = EngineProcess.of(shell.folder / "s")
    first.hangs_up()
    first.process.wait(SECONDS)
    for number in (signal.SIGTERM, signal.SIGKILL):
        next_one = Engineer(shell, "attach", name="eve")
        next_one.sees("Plan: ")
        next_one.dies(number)
    back = Engineer(shell, "attach", name="bob")
    assert "round 0: the baseline" in back.answers("a")
    assert "(hunk 1)" in back.answers("a")
    code, last_words = back.leaves()
    assert code == ExitCode.OK, last_words
    assert "finished  " in last_words
    engine.ends()
    assert assert_whole(shell, engines=1).reason is StopReason.ROUNDS
    decisions = journal_of(shell).state().decisions.values()
    assert [(d.gate, d.by.name) for d in decisions] == [
        (ApprovalGate.PLAN, "bob"),
        (ApprovalGate.DIFF, "bob"),
    ]
    assert (shell.folder / "s" / LOG_NAME).read_text(encoding="utf-8") == ""
    files = [f for f in (shell.folder / "s").rglob("*") if f.is_file()]
    assert not [f for f in files if SECRET.encode() in f.read_bytes()]


def test_the_first_decision_wins_and_all_who_look_on_are_told(shell: Shell) -> None:
    ada = Engineer(shell, *RUN)
    ada.sees(PROMPT)
    without_terminal = subprocess.Popen(
        [*COMMAND, "attach"],
        cwd=shell.folder,
        env=shell.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert without_terminal.stderr is not None
    while "plan 1" not in (line := without_terminal.stderr.readline()):
        assert line, "it ended before"
    bob = Engineer(shell, "attach", "s", name="bob")
    bob.answers("r too bold")
    assert "plan rejected by engineer bob: too bold" in ada.sees("too bold")
    bob.answers("a")
    bob.answers("a")
    for engineer in (ada, bob):
        code, last_words = engineer.leaves()
        assert code == ExitCode.OK, last_words
        assert "finished  " in last_words
    out, told = without_terminal.communicate(timeout=SECONDS)
    assert without_terminal.returncode == ExitCode.OK
    assert PROMPT not in told
    assert "plan rejected by engineer bob: too bold" in told
    assert "finished  " in out
    first, *others = journal_of(shell).state().decisions.values()
    assert (first.status, first.by.name) == (ApprovalStatus.REJECTED, "bob")
    assert {d.by.name for d in others} == {"bob"}


def test_a_rejection_that_ended_the_run_is_taken_back_by_resume(shell: Shell) -> None:
    ada = Engineer(shell, *RUN)
    ada.answers("a")
    ada.answers("r a slip")
    code, last_words = ada.leaves()
    assert (code, "finished  " in last_words) == (ExitCode.OK, True), last_words
    again = Engineer(shell, "resume", "s", "--take-back")
    assert "rejection taken back by engineer ada" in again.sees("taken back by engineer ada")
    assert "(hunk 1)" in again.answers("a")
    code, last_words = again.leaves()
    assert (code, "finished  " in last_words) == (ExitCode.OK, True), last_words
    state = journal_of(shell).state()
    assert [d.status for d in state.decisions.values()] == [ApprovalStatus.ACCEPTED] * 2
    assert (state.round_limit, state.rounds_done) == (1, 1)
    nothing = shell.run("resume", "s", "--take-back", "--headless")
    assert nothing.code == ExitCode.BAD_INPUT
    assert "there is no rejection that can be taken back" in nothing.err


def test_an_edit_that_comes_too_late_is_refused_and_kept(shell: Shell) -> None:
    gate = shell.folder / "gate"
    os.mkfifo(gate)
    editor = shell.folder / "editor"
    editor.write_text(
        f'#!/bin/sh\necho EDITING\nread line < "{gate}"\n'
        'sed -i \'s/"title": "/&my own: /\' "$1"\necho EDITED\n',
        encoding="utf-8",
    )
    editor.chmod(0o700)
    ada = Engineer(shell, *RUN, EDITOR=str(editor))
    ada.answers("e")
    ada.sees("EDITING")
    bob = Engineer(shell, "attach", name="bob")
    bob.answers("r no")
    bob.answers("a")
    bob.answers("a")
    code, _ = bob.leaves()
    assert code == ExitCode.OK
    gate.write_text("done\n", encoding="utf-8")
    code, last_words = ada.leaves()
    assert code == ExitCode.OK, last_words
    said = last_words.partition("EDITED")[2]
    assert "plan rejected by engineer bob: no" in said, "nothing else is shown while one edits"
    (kept,) = (shell.folder / "home").rglob("edit.json")
    assert "my own: " in kept.read_text(encoding="utf-8")
    assert "what you wrote is in " in said
    assert "finished  " in said


def test_an_edited_plan_goes_on_and_later_questions_are_accepted_where_one_says_so(
    shell: Shell,
) -> None:
    editor = shell.folder / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/"value": 16/"value": 8/\' "$1"\n', "utf-8")
    editor.chmod(0o700)
    ada = Engineer(shell, *RUN, EDITOR=str(editor))
    ada.answers("auto all")
    ada.answers("e")
    code, last_words = ada.leaves()
    assert code == ExitCode.OK, last_words
    assert "auto: everything, set by engineer ada" in last_words
    assert "plan edited by engineer ada" in last_words
    plan, *others = journal_of(shell).state().decisions.values()
    assert plan.by.describe() == "engineer ada"
    assert plan.plan is not None
    assert plan.plan.parameters[0].value == 8
    assert {decision.by.describe() for decision in others} == {"policy auto, set by ada"}
    assert not list((shell.folder / "home").rglob("edit.json")), "the engine has it"


def test_an_engine_that_nobody_comes_back_to_ends_by_itself(shell: Shell) -> None:
    ada = Engineer(shell, *RUN, "--linger-seconds", "0.2")
    ada.sees("Plan: ")
    engine = EngineProcess.of(shell.folder / "s")
    ada.dies(signal.SIGKILL)
    engine.ends()
    closed = assert_whole(shell, engines=1)
    assert closed.reason is StopReason.UNATTENDED
    assert closed.message == "no one was there for 0.2 s to decide 1.0.plan"
    again = Engineer(shell, *RUN)
    shown = again.answers("a")
    again.answers("a")
    assert "round 0" not in shown, "what an earlier run did is not told again"
    assert again.leaves()[0] == ExitCode.OK
    assert_whole(shell, engines=2)


def test_a_killed_engine_is_said_and_the_session_goes_on(shell: Shell) -> None:
    ada = Engineer(shell, *RUN)
    ada.sees("Plan: ")
    engine = EngineProcess.of(shell.folder / "s")
    os.kill(engine.pid, signal.SIGKILL)
    code, last_words = ada.leaves()
    assert code == ExitCode.TROUBLE, last_words
    assert f"the engine of s (process {engine.pid}) is gone" in last_words
    assert writer_of(shell.folder / "s") is None
    again = Engineer(shell, *RUN)
    again.answers("a")
    again.answers("a")
    assert again.leaves()[0] == ExitCode.OK
    assert_whole(shell, engines=2)


BROKEN = "[task]\nname = 3\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("kernels/broken",), "kernels/broken/task.toml:"),
        (("silu_and_mull",), "there is no kernel task 'silu_and_mull'"),
        (("silu_and_mul", "--team", "llm"), "needs a model, and there is neither a key nor"),
        (("silu_and_mul", "--session", "file"), "file"),
    ],
)
def test_what_the_engine_cannot_open_is_said_as_if_there_were_no_engine(
    shell: Shell, arguments: tuple[str, ...], told: str
) -> None:
    (shell.folder / "kernels" / "broken").mkdir()
    (shell.folder / "kernels" / "broken" / "task.toml").write_text(BROKEN, encoding="utf-8")
    (shell.folder / "file").touch()
    ada = Engineer(shell, "run", *arguments)
    code, shown = ada.leaves()
    hosted = shell.run("run", *arguments, "--headless")
    assert told in shown
    assert (code, shown.replace("\r\n", "\n")) == (hosted.code, hosted.err)
    assert code == ExitCode.BAD_INPUT
    assert not (shell.folder / "sessions").exists()


def test_ctrl_c_while_the_engine_starts_leaves_no_engine(shell: Shell) -> None:
    ada = Engineer.running(shell, (*COMMAND, *RUN))
    starter = psutil.Process(ada.process.pid)
    wait_for(starter.children, ada.process)
    (child,) = starter.children()
    engine = EngineProcess(child.pid)
    ada.types("\x03")
    code, shown = ada.leaves()
    assert code == ExitCode.INTERRUPTED, shown
    assert "Traceback" not in shown
    assert not list(shell.runtime.glob("*.sock"))
    engine.ends()
    again = Engineer(shell, *RUN)
    again.answers("a")
    again.answers("a")
    assert again.leaves()[0] == ExitCode.OK
    assert_whole(shell, engines=1)


def test_ctrl_c_cancels_the_run(shell: Shell) -> None:
    ada = Engineer(shell, *RUN, **AT_WORK)
    ada.sees("session s")
    ada.types("\x03")
    code, last_words = ada.leaves()
    assert code == ExitCode.INTERRUPTED, last_words
    assert "resume with: astra-tui resume s" in last_words
    closed = assert_whole(shell, engines=1)
    assert (closed.reason, closed.message) == (StopReason.CANCELLED, "cancelled by engineer ada")


def test_a_signal_ends_the_engine_cleanly_and_a_second_ctrl_c_does_not_wait_for_it(
    shell: Shell,
) -> None:
    ada = Engineer(shell, *RUN)
    ada.sees(PROMPT)
    os.kill(EngineProcess.of(shell.folder / "s").pid, signal.SIGTERM)
    code, last_words = ada.leaves()
    assert code == ExitCode.INTERRUPTED, last_words
    assert assert_whole(shell, engines=1).reason is StopReason.CANCELLED
    ada = Engineer(shell, *RUN)
    ada.sees(PROMPT)
    engine = EngineProcess.of(shell.folder / "s")
    os.kill(engine.pid, signal.SIGSTOP)
    ada.types("\x03")
    ada.sees("Ctrl-C again leaves at once")
    ada.types("\x03")
    code, last_words = ada.leaves()
    assert code == ExitCode.INTERRUPTED, last_words
    assert "reattach with: astra-tui attach s" in last_words
    os.kill(engine.pid, signal.SIGCONT)
    engine.ends()
    assert assert_whole(shell, engines=2).reason is StopReason.CANCELLED


def test_detached_engines_go_on_and_which_one_is_meant_has_to_be_clear(shell: Shell) -> None:
    none = shell.run("attach")
    assert (none.code, none.out) == (ExitCode.FAILED, "")
    assert none.err.startswith("astra-tui: no engine runs\n")
    runs = [Engineer(shell, *RUN, "--session", name) for name in ("one", "two")]
    for run, name in zip(runs, ("one", "two"), strict=True):
        run.answers("d")
        code, last_words = run.leaves()
        assert code == ExitCode.OK, last_words
        assert f"reattach with: astra-tui attach {name}" in last_words
    rows = shell.run("ps").out.splitlines()[1:]
    assert {tuple(row.split()[:3]) for row in rows} == {
        (name, "silu_and_mul", "waiting") for name in ("one", "two")
    }
    refused = shell.run("run", "silu_and_mul", "--session", "one", "--headless")
    assert refused.code == ExitCode.BAD_INPUT
    assert "writes this session" in refused.err
    assert "come to it: astra-tui attach one" in refused.err
    several = shell.run("attach")
    assert several.code == ExitCode.BAD_INPUT
    assert several.err == "astra-tui: 2 engines run\n  name one: one, two\n"
    unknown = shell.run("attach", "tow")
    assert unknown.code == ExitCode.FAILED
    assert "no engine runs session 'tow'\n  did you mean 'two'?" in unknown.err
    by_folder = Engineer(shell, "attach", "./two")
    by_folder.answers("a")
    by_folder.answers("a")
    assert by_folder.leaves()[0] == ExitCode.OK
    assert journal_of(shell, "two").state().closed is not None
    assert journal_of(shell, "one").state().closed is None
    ended = shell.run("attach", "./two")
    assert ended.code == ExitCode.FAILED
    assert "two: no engine works on session './two'" in ended.err
    assert "astra-tui replay ./two, or resume it: astra-tui resume ./two" in ended.err


def test_the_process_of_the_front_end_stays_light(shell: Shell) -> None:
    file = shell.folder / "modules"
    script = (
        "import sys; from pathlib import Path; from astra_tui.cli import main; "
        f"code = main({list(RUN)!r}); "
        f"Path({str(file)!r}).write_text(chr(10).join(sys.modules)); sys.exit(code)"
    )
    ada = Engineer.running(shell, [sys.executable, "-c", script])
    ada.answers("a")
    ada.answers("r no")
    assert ada.leaves()[0] == ExitCode.OK
    loaded = {name.partition(".")[0] for name in file.read_text(encoding="utf-8").split()}
    assert not loaded & {"torch", "numpy", "cuda", "openai", "tree_sitter", "textual"}
    ours = {name for name in file.read_text(encoding="utf-8").split() if "astra_tui." in name}
    light = {"astra_tui.lab", "astra_tui.processes.exit_with_parent"}
    heavy = {m for m in ours if m.startswith(("astra_tui.lab", "astra_tui.agents"))} - light
    assert not heavy
