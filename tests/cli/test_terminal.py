"""What the outside world does to a command: pipes, interrupts, terminals and locales."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import psutil
import pytest

from astra_tui.cli.exit_codes import ExitCode
from tests.cli.command import COMMAND, SECONDS, Shell, open_terminal, read_terminal
from tests.conftest import ROOT

ONE = ("--case", "float16/d=1")


@pytest.mark.parametrize(
    "arguments",
    [
        ["kernels"],
        ["kernels", "--json"],
        ["check", "silu_and_mul", "--list"],
        ["check", "silu_and_mul", *ONE],
        ["counters", "silu_and_mul", "baseline.cu", "--rows", "1"],
        ["--help"],
    ],
)
def test_a_reader_that_goes_away_is_no_error(shell: Shell, arguments: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=shell.folder,
        env=shell.environment(),
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == ExitCode.PIPE_CLOSED
    assert b"Traceback" not in errors
    assert b"BrokenPipe" not in errors


def test_ctrl_c_ends_a_check_and_its_processes(shell: Shell) -> None:
    ours, theirs = open_terminal(80)
    process = subprocess.Popen(
        [*COMMAND, "check", "merge_attn_states_lse"],
        cwd=shell.folder,
        env=shell.environment(TERM="xterm"),
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = read_terminal(ours, until=" cases")
    helpers = psutil.Process(process.pid).children()
    assert helpers, "the compiler runs in a process of its own"
    os.killpg(process.pid, signal.SIGINT)
    shown += read_terminal(ours)
    assert process.wait(SECONDS) == ExitCode.INTERRUPTED
    assert shown.endswith("astra-tui: interrupted\r\n")
    assert "Traceback" not in shown
    assert not [helper for helper in helpers if helper.is_running()]


def test_progress_is_a_live_line_on_a_terminal_that_can(shell: Shell) -> None:
    able = shell.on_terminal("check", "silu_and_mul", "--case", "float16/d=*")
    assert "\x1b[K" in able.out
    dumb = shell.on_terminal("check", "silu_and_mul", "--case", "float16/d=*", TERM="dumb")
    assert dumb.code == ExitCode.OK
    assert "\x1b" not in dumb.out
    assert "\r" not in dumb.out


def test_no_colour_where_nobody_wants_it(shell: Shell, sources: dict[str, str]) -> None:
    wanted = shell.on_terminal("check", "silu_and_mul", "tail.cu", *ONE)
    assert "\x1b[1;31mFAILED" in wanted.out
    without = shell.on_terminal("check", "silu_and_mul", "tail.cu", *ONE, NO_COLOR="1")
    assert "\x1b[31m" not in without.out
    assert "31m" not in without.out
    assert "\x1b" not in shell.run("check", "silu_and_mul", "tail.cu", *ONE).out


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_fit_a_narrow_terminal(shell: Shell, sources: dict[str, str], columns: int) -> None:
    for arguments in (
        ["counters", "silu_and_mul", "tuned.cu", "--rows", "1"],
        ["check", "silu_and_mul", "good.cu", *ONE],
    ):
        variables = {"TERM": "dumb", "ASTRA_TUI_SEED": "7"}
        outcome = shell.on_terminal(*arguments, columns=columns, **variables)
        assert outcome.code == ExitCode.OK
        assert max(map(len, outcome.out.splitlines())) <= columns


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_of_a_run_are_wrapped_between_words(shell: Shell, columns: int) -> None:
    shutil.copytree(ROOT / "sessions" / "h200-playbook-merge", shell.folder / "merge")
    arguments = "replay", "merge"
    whole = shell.run(*arguments)
    narrow = shell.on_terminal(*arguments, columns=columns, TERM="dumb").out
    assert max(map(len, whole.err.splitlines())) > 2 * columns
    wide = [line for line in narrow.splitlines() if len(line) > columns]
    assert all(str(shell.folder) in line for line in wide), "a path is one word"
    told = whole.err.split("the replay reached")[0].split()
    assert narrow.split()[: len(told)] == told
    assert {"merge_attn_states_lse", "geometric"} <= set(narrow.split())


@pytest.mark.parametrize(
    "locale",
    [{"LANG": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["LANG=C", "ASCII"],
)
def test_any_text_prints_in_any_locale(
    shell: Shell, sources: dict[str, str], locale: dict[str, str]
) -> None:
    name = "café.cu"
    text = sources["good.cu"].replace("// silu_and_mul,", "// größe × π,")
    (shell.folder / name).write_text(text, encoding="utf-8")
    outcome = shell.run("counters", "silu_and_mul", name, "--rows", "1", **locale)
    assert outcome.code == ExitCode.OK
    assert "größe" in outcome.out or r"gr\xf6\xdfe" in outcome.out


def test_text_cannot_act_on_the_terminal(shell: Shell, sources: dict[str, str]) -> None:
    text = sources["tail.cu"].replace("const float gate", "/*\x1b[2J\u202e*/ const float gate")
    (shell.folder / "evil.cu").write_text(text, encoding="utf-8")
    for arguments in (
        ["check", "silu_and_mul", "evil.cu", *ONE],
        ["counters", "silu_and_mul", "evil.cu", "--rows", "1"],
    ):
        outcome = shell.run(*arguments)
        assert "«ESC»[2J«RLO»" in outcome.out
        assert "\x1b" not in outcome.out
        assert "\u202e" not in outcome.out
