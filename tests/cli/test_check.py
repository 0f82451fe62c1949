"""`check` and its exit codes: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from astra_tui.cli.exit_codes import ExitCode
from tests.cli.command import Shell
from tests.cli.conftest import SILU

OWN = ("fused_add_rmsnorm", "merge_attn_states_lse", "silu_and_mul")

ONE = ("--case", "float16/d=1")


@pytest.mark.parametrize(
    ("source", "code", "told"),
    [
        ("good.cu", ExitCode.OK, "PASSED silu_and_mul good.cu"),
        ("tail.cu", ExitCode.FAILED, "line 20: global_out_of_bounds: load of 2 bytes"),
        ("wrong.cu", ExitCode.FAILED, "  wrong  float16/d=1  (tokens=16, d=1)"),
        ("no_compile.cu", ExitCode.COMPILE_ERROR, 'line 21: error: identifier "flaot"'),
    ],
)
@pytest.mark.usefixtures("sources")
def test_a_result_is_on_stdout_alone(shell: Shell, source: str, code: ExitCode, told: str) -> None:
    outcome = shell.run("check", "silu_and_mul", source, *ONE)
    progress = re.compile(r"silu_and_mul/\w+\.cu: \d+/\d+ cases, \d+ s\n")  # Of a slow check.
    assert (outcome.code, progress.sub("", outcome.err)) == (code, "")
    assert told in outcome.out


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("no_plan.cu", "no_plan.cu: this source has no launch plan\n  add a block comment"),
        ("broken_plan.cu", "broken_plan.cu:9:29: "),
        ("missing.cu", "missing.cu: there is no such file"),
        ("home", "home: this is a folder; name a .cu file"),
        ("good.cu/inside.cu", "good.cu/inside.cu: cannot be read: Not a directory"),
        ("latin1.cu", "latin1.cu:2: byte 0xe9 is not UTF-8\n  save the file as UTF-8"),
    ],
)
@pytest.mark.usefixtures("sources")
def test_an_unusable_source_is_named_with_its_place(shell: Shell, source: str, told: str) -> None:
    (shell.folder / "latin1.cu").write_bytes(b"// one\n// caf\xe9\n")
    outcome = shell.run("check", "silu_and_mul", source, *ONE)
    assert (outcome.code, outcome.out) == (ExitCode.BAD_INPUT, "")
    assert outcome.err.startswith(f"astra-tui: {told}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_source_that_may_not_be_read(shell: Shell, sources: dict[str, str]) -> None:
    (shell.folder / "good.cu").chmod(0)
    outcome = shell.run("check", "silu_and_mul", "good.cu", *ONE)
    assert outcome.code == ExitCode.BAD_INPUT
    assert outcome.err == "astra-tui: good.cu: cannot be read: Permission denied\n"


@pytest.mark.usefixtures("sources")
def test_one_broken_source_does_not_stop_the_others(shell: Shell) -> None:
    files = ("missing.cu", "broken_plan.cu", "good.cu")
    outcome = shell.run("check", "silu_and_mul", *files, *ONE)
    assert outcome.code == ExitCode.BAD_INPUT
    assert "PASSED silu_and_mul good.cu" in outcome.out
    assert outcome.err.count("astra-tui: ") == 2


@pytest.mark.usefixtures("sources")
def test_a_failed_kernel_outweighs_a_broken_plan(shell: Shell) -> None:
    files = ("broken_plan.cu", "no_compile.cu", "tail.cu", "good.cu")
    assert shell.run("check", "silu_and_mul", *files, *ONE).code == ExitCode.FAILED


@pytest.mark.usefixtures("sources")
def test_the_command_for_one_case_reproduces_it(shell: Shell) -> None:
    outcome = shell.run("check", "silu_and_mul", "wrong.cu", *ONE)
    (again,) = [x for x in outcome.out.splitlines() if x.startswith("    alone: astra-tui ")]
    repeated = shell.run(*again.split()[2:])
    assert repeated.code == ExitCode.FAILED
    assert "wrong  float16/d=1" in repeated.out


@pytest.mark.usefixtures("sources")
def test_failures_of_one_cause_are_shown_once_by_the_smallest_case(shell: Shell) -> None:
    filters = ("--case", "float16/d=*", "--case", "float16/smallest")
    outcome = shell.run("check", "silu_and_mul", "tail.cu", *filters)
    assert outcome.out.count("global_out_of_bounds") == 1
    assert "  fault  float16/smallest  (tokens=1, d=1) and 19 more cases" in outcome.out


def test_without_a_source_every_one_of_the_task_is_checked(shell: Shell) -> None:
    outcome = shell.run("check", "silu_and_mul", *ONE)
    verdicts = [x for x in outcome.out.splitlines() if x.startswith("PASSED")]
    assert verdicts == ["PASSED silu_and_mul baseline.cu", "PASSED silu_and_mul tuned.cu"]


def test_a_source_is_found_in_the_task_s_folder(shell: Shell) -> None:
    outcome = shell.run("check", "silu_and_mul", "tuned.cu", *ONE)
    assert outcome.out.startswith("PASSED silu_and_mul tuned.cu\n")


def test_all_is_a_table_with_a_line_for_each_source(shell: Shell) -> None:
    outcome = shell.run("check", "--all", *ONE)
    assert outcome.code == ExitCode.OK
    head, columns, *rows = outcome.out.splitlines()
    assert head.startswith("on emulator, NVRTC ")
    assert columns.split()[:4] == ["task", "source", "verdict", "cases"]
    found = [row.split()[:4] for row in rows]
    assert [row for row in found if row[0] in OWN] == [
        [task, source, "passed", "1"]
        for task in ("fused_add_rmsnorm", "silu_and_mul")
        for source in ("baseline.cu", "tuned.cu")
    ]
    assert {row[2] for row in found} == {"passed"}


def test_list_names_cases_with_their_reasons(shell: Shell) -> None:
    outcome = shell.run("check", "silu_and_mul", "--list", "--case", "*d=7")
    assert outcome.code == ExitCode.OK
    assert outcome.out.splitlines()[0] == "silu_and_mul: 2 cases"
    assert "float16/d=7   tokens=16, d=7  a prime: " in outcome.out


def test_list_of_all_tasks(shell: Shell) -> None:
    outcome = shell.run("check", "--all", "--list", "--case", "*typical")
    heads = [x for x in outcome.out.splitlines() if x.endswith(" cases")]
    assert [x for x in heads if x.partition(":")[0] in OWN] == [
        "fused_add_rmsnorm: 2 cases",
        "merge_attn_states_lse: 3 cases",
        "silu_and_mul: 2 cases",
    ]
    assert "flashinfer_rmsnorm: 2 cases" in heads


def test_a_bad_task_file_is_named_with_its_line(shell: Shell) -> None:
    task = shell.folder / "kernels" / "mine"
    shutil.copytree(SILU, task)
    text = (task / "task.toml").read_text(encoding="utf-8")
    line = text.splitlines().index('rows = "tokens"') + 1
    (task / "task.toml").write_text(text.replace("\nrows =", "\nrws ="), encoding="utf-8")
    told = f"kernels/mine/task.toml:{line}: rws: unknown key\n  did you mean 'rows'?\n"
    for arguments in (["check", "mine"], ["counters", "mine", "baseline.cu"]):
        outcome = shell.run(*arguments)
        assert (outcome.code, outcome.err) == (ExitCode.BAD_INPUT, f"astra-tui: {told}")
    listed = shell.run("kernels")
    assert (listed.code, listed.err) == (ExitCode.FAILED, f"astra-tui: {told}")
    assert "silu_and_mul" in listed.out


def test_a_reference_that_fails_is_named(shell: Shell) -> None:
    task = shell.folder / "mine"
    shutil.copytree(SILU, task)
    text = "def reference(input):\n    raise ValueError('not written yet')\n"
    (task / "reference.py").write_text(text, encoding="utf-8")
    outcome = shell.run("check", "./mine", *ONE)
    assert outcome.code == ExitCode.BAD_INPUT
    assert outcome.err.startswith("astra-tui: mine/reference.py: ")
    assert "not written yet" in outcome.err
    assert outcome.err.count("not written yet") == 1


def test_without_a_compiler_it_says_so(shell: Shell) -> None:
    missing = str(shell.folder / "libnvrtc.so.13")
    for arguments in (["check", "silu_and_mul", *ONE], ["counters", "silu_and_mul", "baseline.cu"]):
        outcome = shell.run(*arguments, ASTRA_TUI_NVRTC=missing)
        assert outcome.code == ExitCode.UNSUPPORTED
        assert "astra-tui: the compiler does not work here: " in outcome.err
        assert outcome.err.endswith("  see: astra-tui doctor\n")
