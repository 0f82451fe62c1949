"""`--json`: one object on stdout, with the keys that docs/json.md lists, whatever happens."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from astra_tui.cli import json_answers as answers
from astra_tui.cli.exit_codes import ExitCode
from tests.cli.command import Outcome, Shell

ONE = ("--case", "float16/d=1")


def decoded(outcome: Outcome, shape: type[msgspec.Struct]) -> Any:
    """The object on stdout; its keys have to be those of the shape, and its values of its types."""
    data = msgspec.json.decode(outcome.out)
    assert list(data) == [field.name for field in msgspec.structs.fields(shape)]
    return msgspec.convert(data, shape)


def test_kernels(shell: Shell) -> None:
    answer = decoded(shell.run("kernels", "--json"), answers.KernelsAnswer)
    (silu,) = [task for task in answer.tasks if task.name == "silu_and_mul"]
    assert silu.sources == ("baseline.cu", "tuned.cu")
    assert silu.workloads[0].dims == {"tokens": 16, "d": 4096}
    assert answer.errors == ()


@pytest.mark.usefixtures("sources")
def test_check(shell: Shell) -> None:
    outcome = shell.run("check", "silu_and_mul", "good.cu", "tail.cu", *ONE, "--json")
    answer = decoded(outcome, answers.CheckAnswer)
    assert (outcome.code, answer.exit_code) == (ExitCode.FAILED, ExitCode.FAILED)
    good, tail = answer.reports
    assert (good.verdict, tail.verdict) == ("passed", "failed")
    assert good.counters.sectors == 5  # 16 rows of 2 halves are 2 sectors, read twice; out is 1
    (case,) = tail.cases
    assert (case.findings[0].line, case.findings[0].kind) == (20, "global_out_of_bounds")
    progress = r"silu_and_mul/(good|tail)\.cu: [01]/1 cases, \d+ s"  # What a slow machine says.
    assert [line for line in outcome.err.splitlines() if not re.fullmatch(progress, line)] == []


@pytest.mark.usefixtures("sources")
def test_check_of_sources_that_cannot_be_checked(shell: Shell) -> None:
    files = ("missing.cu", "broken_plan.cu", "no_compile.cu")
    outcome = shell.run("check", "silu_and_mul", *files, *ONE, "--json")
    answer = decoded(outcome, answers.CheckAnswer)
    assert outcome.code == answer.exit_code == ExitCode.COMPILE_ERROR
    assert [(e.file, e.line) for e in answer.errors] == [("missing.cu", 0), ("broken_plan.cu", 9)]
    (report,) = answer.reports
    assert report.diagnostics[0].line == 21


def test_list(shell: Shell) -> None:
    outcome = shell.run("check", "silu_and_mul", "--list", "--json")
    (task,) = decoded(outcome, answers.CasesAnswer).tasks
    assert task.task == "silu_and_mul"
    assert "float16/d=1" in [case.id for case in task.cases]


@pytest.mark.usefixtures("sources")
def test_counters(shell: Shell) -> None:
    names = ("good.cu", "--against", "tuned.cu", "--rows", "1")
    outcome = shell.run("counters", "silu_and_mul", *names, "--json")
    answer = decoded(outcome, answers.CountersAnswer)
    good, tuned = answer.sources
    assert (good.requests, tuned.requests) == (384, 48)
    assert good.sectors == tuned.sectors == answer.compulsory_bytes // 32
    assert good.compiled
    assert good.counters.requests == good.requests


@pytest.mark.usefixtures("sources")
def test_counters_of_a_source_that_does_not_compile(shell: Shell) -> None:
    outcome = shell.run("counters", "silu_and_mul", "no_compile.cu", "--json")
    (source,) = decoded(outcome, answers.CountersAnswer).sources
    assert outcome.code == ExitCode.COMPILE_ERROR
    assert not source.compiled
    assert source.diagnostics[0].line == 21


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "silu_mul"],
        ["check", "silu_and_mul", "--case", "nothing"],
        ["counters", "silu_and_mul", "missing.cu"],
        ["new", "home", "--from", "missing.cu"],
    ],
)
def test_an_error_is_an_object_too(shell: Shell, arguments: list[str]) -> None:
    outcome = shell.run(*arguments, "--json")
    answer = decoded(outcome, answers.ErrorAnswer)
    assert outcome.code == answer.exit_code == ExitCode.BAD_INPUT
    assert answer.error.message in outcome.err
