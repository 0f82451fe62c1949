"""`run`: the real command, the playbook, and an engineer at a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.approval import ApprovalGate, ApprovalStatus
from astra_tui.model.fold import fold
from astra_tui.model.state import SessionState
from astra_tui.sessions.journal_reader import read_journal
from tests.cli.command import COMMAND, SECONDS, Outcome, Shell
from tests.cli.engineer import Engineer
from tests.lab_answers import AT_WORK
from tests.quick import SMALL_WORKLOAD, write_quick_task

PLAYBOOK = ("run", "silu_and_mul", "--team", "playbook")
ONE_ROUND = (*PLAYBOOK, "--headless", "--rounds", "1")
SECRET = "sk-planted0123456789abcdef"


@pytest.fixture
def shell(shell: Shell) -> Shell:
    """A folder whose silu_and_mul is a quick one."""
    write_quick_task(shell.folder / "kernels", SMALL_WORKLOAD)
    return shell


def state_of(shell: Shell, session: str) -> SessionState:
    return fold(read_journal(shell.folder / session).events)


def report_of(outcome: Outcome) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(outcome.out)
    return report


def test_the_same_better_kernel_twice_and_no_secret_in_the_sessions(shell: Shell) -> None:
    arguments = (*PLAYBOOK, "--approve", "auto", "--headless", "--rounds", "1", "--json")
    runs = [
        shell.run(*arguments, "--session", name, OPENAI_API_KEY=SECRET, **AT_WORK)
        for name in ("a", "b")
    ]
    assert [run.code for run in runs] == [ExitCode.OK, ExitCode.OK]
    first, second = map(report_of, runs)
    assert {"task", "team", "device", "session", "baseline", "best", "rounds"} <= set(first)
    assert (first["team"], first["device"], len(first["rounds"])) == ("playbook", "emulator", 1)
    before, after = first["baseline"]["counters"], first["best"]["counters"]
    assert after["requests"] < before["requests"]
    assert after["warp_instructions"] < before["warp_instructions"]
    assert first["best"]["candidate"] == second["best"]["candidate"]
    assert (shell.folder / first["best"]["source"]).is_file()
    files = [f for name in ("a", "b") for f in (shell.folder / name).rglob("*") if f.is_file()]
    assert len(files) > 10
    assert not [f for f in files if SECRET.encode() in f.read_bytes()]


def test_an_unattended_question_ends_the_run_and_the_session_goes_on(shell: Shell) -> None:
    waiting = shell.run(*ONE_ROUND, "--candidates", "2", "--session", "s")
    assert waiting.code == ExitCode.NEEDS_DECISION
    assert "astra-tui resume s --approve auto|FILE" in waiting.err
    done = shell.run(
        "run", "silu_and_mul", "--headless", "--session", "s", "--approve", "auto", "--json",
        OPENAI_API_KEY=SECRET,
    )  # fmt: skip
    assert done.code == ExitCode.OK
    report = report_of(done)
    assert (report["team"], len(report["rounds"])) == ("playbook", 1), "as the session began"
    assert "\n  [1] plan accepted by policy auto" in done.err
    assert "\n  [2] plan accepted by policy auto" in done.err


def test_a_file_decides(shell: Shell) -> None:
    text = '[[decision]]\nstatus = "rejected"\nreason = "leave it"\n'
    text += 2 * '[[decision]]\nstatus = "accepted"\n'  # A rejected plan takes no round.
    (shell.folder / "mine.toml").write_text(text, encoding="utf-8")
    done = shell.run(*ONE_ROUND, "--session", "s", "--approve", "mine.toml", "--json")
    assert done.code == ExitCode.OK
    (proposal,) = report_of(done)["rounds"][0]["proposals"]
    (decision,) = proposal["decisions"]
    assert (decision["status"], decision["reason"]) == ("rejected", "leave it")
    assert "mine.toml" in decision["by"]
    assert proposal["outcome"] == "rejected"


@pytest.mark.parametrize(
    ("settings", "flags", "variables", "told"),
    [
        ("ruonds = 3", [], {}, "astra-tui.toml: unknown setting 'ruonds'\n  did you mean 'rounds'"),
        ("rounds = 0", [], {}, "astra-tui.toml: rounds: a whole number of 1 or more is needed"),
        ('rounds = "3"', [], {}, "astra-tui.toml: rounds: a whole number is needed, not a text"),
        ('team = "playbok"', [], {}, "astra-tui.toml: team: Invalid enum value 'playbok'"),
        ('base_url = "http://h/v1"', [], {}, "astra-tui.toml: a file of the current folder"),
        (f'api_key = "{SECRET}"', [], {}, "astra-tui.toml: a key does not belong into a file"),
        ("", ["--rounds", "0"], {}, "argument --rounds: '0' is not a whole number of 1 or more"),
        ("", ["--rounds", "many"], {}, "argument --rounds: 'many' is not a whole number"),
        ("", ["--repairs", "-1"], {}, "--repairs: a whole number of 0 or more is needed"),
        ("", [], {"ASTRA_TUI_ROUNDS": "x"}, "ASTRA_TUI_ROUNDS: a whole number is needed"),
        (
            "",
            ["--device", "emulater"],
            {},
            "there is no device 'emulater'\n  say auto, emulator, cuda",
        ),
        ("", ["--approve", "aut"], {}, "there is no file 'aut'"),
        ("", ["--approve", "typo.toml"], {}, "typo.toml: unknown key 'staus' in decision 1\n  did"),
        ("", ["--config", "none.toml"], {}, "none.toml: there is no such file"),
        ("[roles.coder]", [], {}, "astra-tui.toml: roles: Invalid enum value 'coder'"),
        ("[roles.coding]\nefort = 1", [], {}, "roles: Object contains unknown field `efort`"),
        ("", ["--role", "coding"], {}, "--role: 'coding' is not like coding.effort=high"),
        ("", ["--role", "codng.effort=x"], {}, "there is no role 'codng'\n  did you mean 'coding'"),
        ("", [], {"ASTRA_TUI_ROLES": "coding.efort=x"}, "no setting 'efort'\n  did you mean"),
        ("", ["--role", "coding.temperature=3"], {}, "--role: a number of at most 2 is needed"),
        ('device = "of file"', [], {}, "there is no device 'of file'"),
        ('device = "of file"', [], {"ASTRA_TUI_DEVICE": "of env"}, "there is no device 'of env'"),
        ("", ["--device", "of flag"], {"ASTRA_TUI_DEVICE": "of env"}, "no device 'of flag'"),
    ],
)
def test_a_bad_setting_is_named_and_leaves_no_session(
    shell: Shell, settings: str, flags: list[str], variables: dict[str, str], told: str
) -> None:
    (shell.folder / "astra-tui.toml").write_text(settings, encoding="utf-8")
    (shell.folder / "typo.toml").write_text('[[decision]]\nstaus = "x"', encoding="utf-8")
    outcome = shell.run("run", "silu_and_mul", "--headless", *flags, **variables)
    assert (outcome.code, outcome.out) == (ExitCode.BAD_INPUT, "")
    assert told in outcome.err
    assert SECRET not in outcome.err
    assert not (shell.folder / "sessions").exists()


def test_a_wrong_baseline_ends_the_run_with_its_reason(shell: Shell) -> None:
    baseline = shell.folder / "kernels" / "silu_and_mul" / "baseline.cu"
    text = baseline.read_text(encoding="utf-8")
    baseline.write_text(text.replace("1.0f + expf", "1.5f + expf"), encoding="utf-8")
    outcome = shell.run(*ONE_ROUND, "--session", "s")
    assert outcome.code == ExitCode.FAILED
    assert "stopped  the baseline fails (the baseline fails its own check: " in outcome.out
    assert "cases failed" in outcome.out


def test_ctrl_c_leaves_a_session_that_goes_on(shell: Shell) -> None:
    process = subprocess.Popen(
        [*COMMAND, *ONE_ROUND, "--approve", "auto", "--session", "s"],
        cwd=shell.folder,
        env=shell.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    while b"checking" not in (line := process.stderr.readline()):
        assert line, "the run ended before its first check"
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == ExitCode.INTERRUPTED
    assert b"resume with: astra-tui resume s" in said
    assert b"Traceback" not in said
    again = shell.run("run", "silu_and_mul", "--headless", "--session", "s", "--json")
    assert again.code == ExitCode.OK
    assert report_of(again)["stopped"] == "rounds"


def decisions_of(state: SessionState) -> list[tuple[ApprovalGate, ApprovalStatus, str]]:
    return [(d.gate, d.status, d.reason) for d in state.decisions.values()]


def test_an_engineer_decides_at_the_terminal(shell: Shell) -> None:
    engineer = Engineer(shell, *PLAYBOOK, "--rounds", "3", "--session", "s")
    assert "Plan: " in engineer.answers("r not this one")
    assert "rejected by engineer ada: not this one" in engineer.answers("a")
    assert "(hunk 1)" in engineer.answers("what?")
    assert "'what?' is no answer" in engineer.answers("h 99")
    assert "there is no hunk 99" in engineer.answers("q")
    code, last_words = engineer.leaves()
    assert code == ExitCode.INTERRUPTED, last_words
    assert "resume with: astra-tui resume s" in last_words
    assert decisions_of(state_of(shell, "s")) == [
        (ApprovalGate.PLAN, ApprovalStatus.REJECTED, "not this one"),
        (ApprovalGate.PLAN, ApprovalStatus.ACCEPTED, ""),
    ]


def test_a_part_of_a_diff_makes_a_source_of_its_own(shell: Shell) -> None:
    engineer = Engineer(shell, *PLAYBOOK, "--rounds", "1", "--session", "s")
    engineer.answers("a")
    assert "(hunk 2)" in engineer.answers("h 1")
    assert "needs hunk 2 (silu_and_mul_wide)" in engineer.answers("h 2")
    _, last_words = engineer.ends()
    assert "only hunks 2" in last_words
    state = state_of(shell, "s")
    (partial,) = (d for d in state.decisions.values() if d.partial is not None)
    assert partial.partial == (1,)
    attempts = state.rounds[1].proposals[0].attempts
    assert [a.author.name for a in attempts[:2]] == ["wide_accesses", "ada"]
    assert attempts[1].candidate not in (attempts[0].candidate, state.best)


def test_the_end_of_the_input_stops_the_run(shell: Shell, tmp_path: Path) -> None:
    engineer = Engineer(shell, *PLAYBOOK, "--rounds", "1", "--session", "s")
    engineer.answers("\x04")
    code, last_words = engineer.leaves()
    assert code == ExitCode.INTERRUPTED, last_words
    assert state_of(shell, "s").closed is not None


def test_a_session_does_not_say_where_the_key_goes(shell: Shell) -> None:
    """Its settings may be a stranger's: a user who continues with it names the server again."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:  # It refuses all.
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        model = ("--team", "llm", "--model", "m", "--base-url", url)
        model += ("--budget-calls", "1")  # No second try, which would wait.
        shell.run("run", "silu_and_mul", "--headless", "--session", "s", "--rounds", "1", *model)
        server.shutdown()
    assert (shell.folder / "s" / "journal.jsonl").exists()
    refused = shell.run("run", "silu_and_mul", "--headless", "--session", "s")
    assert refused.code == ExitCode.BAD_INPUT
    assert f"{url}, to which your key would go" in refused.err


def test_a_server_that_is_not_there_is_told_before_anything_is_checked(shell: Shell) -> None:
    model = ("--team", "llm", "--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    answer = shell.run("run", "silu_and_mul", "--headless", "--session", "s", *model)
    assert answer.code == ExitCode.TROUBLE
    assert "no connection to http://127.0.0.1:9/v1" in answer.err
    assert not (shell.folder / "s" / "journal.jsonl").exists()
