"""Exports as the command makes them: written, checked with what is here, and said so."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from astra_tui.cli.commands.export import export_best
from astra_tui.cli.commands.export import run as export_command
from astra_tui.export import ExportStep, Format, StepOutcome, Subject, export_files
from astra_tui.export.checks import ExportChecks, Tools, host_code_mark
from astra_tui.export.exporting import Exporter, export_text, open_exporter
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import Case, CaseResult
from astra_tui.model.digest import content_hash
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask
from tests.cli.command import Shell
from tests.conftest import ROOT
from tests.export.sessions import (
    compiled_subject,
    made_up,
    tuned,
    waiting,
    write_files,
    write_session,
)

pytestmark = pytest.mark.usefixtures("warm_processes")

BARE = Tools(gpu="", git="", nvcc="", host_compiler="", tvm_ffi=False, trust=False)


@pytest.fixture(scope="module")
def exporter(quick_task: KernelTask, compiler: Compiler) -> Iterator[Exporter]:
    """Of silu_and_mul, on the emulator."""
    with open_exporter(quick_task, "emulator", compiler) as opened:
        yield opened


@pytest.fixture(scope="module")
def subject(quick_task: KernelTask, compiler: Compiler) -> Subject:
    """Its tuned kernel as a winner, compiled."""
    return compiled_subject(made_up(quick_task, tuned(quick_task)), quick_task, compiler)


def outcomes(steps: tuple[ExportStep, ...]) -> dict[str, StepOutcome]:
    return {step.name: step.outcome for step in steps}


@pytest.mark.parametrize("to", list(Format))
def test_an_export_says_what_was_checked(exporter: Exporter, to: Format, tmp_path: Path) -> None:
    """In C++ and for PyTorch with `pdl=`, whose host code has all that others have, and more."""
    task = exporter.checker.task
    winner = made_up(task, waiting(task) if to in (Format.CPP, Format.TORCH) else tuned(task))
    if to is Format.TORCH:
        no_gpu_of_torch = replace(exporter.tools, gpu="GPU-00000000-0000-0000-0000-000000000000")
        exporter = replace(exporter, tools=no_gpu_of_torch)
    report = exporter.export(winner, to, tmp_path / "out")
    assert not report.failed, report.steps
    assert sorted(report.files) == sorted(
        str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
    found = outcomes(report.steps)
    assert found["kernels"] is StepOutcome.PASSED
    assert found.get("run on the GPU", StepOutcome.NOT_CHECKED) is StepOutcome.NOT_CHECKED
    if to is Format.TORCH:
        assert "sees no GPU" in report.steps[-1].detail
        assert found["launches of the host code"] is StepOutcome.PASSED
        assert found["fake kernel"] is StepOutcome.PASSED
        archs = {Path(f).stem for f in report.files if f.endswith(".cubin")}
        assert archs == {"sm_90a", "sm_80", "sm_100", "sm_120"}, "sm_80 is without the wait"
    if to in (Format.CPP, Format.TVM_FFI) and exporter.tools.host_compiler:
        assert found["launches of the host code"] is StepOutcome.PASSED
    if to is Format.CPP and exporter.tools.nvcc:
        assert found["compiled by nvcc"] is StepOutcome.PASSED
    if to is Format.PATCH and exporter.tools.git:
        assert found["patch applies with git"] is StepOutcome.PASSED


def test_cases_of_the_session_are_checked_too(
    exporter: Exporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, checked = exporter.checker.task, exporter.checker.check
    added = Case("mine", "the engineer's", DType.FLOAT16, {"tokens": 5, "d": 72})
    winner = replace(made_up(task, tuned(task)), cases=(added,))
    told: list[object] = []

    def check(*parts: object, **options: object) -> Iterator[object]:
        for event in checked(*parts, **options):
            told.append(event)
            yield event

    monkeypatch.setattr(exporter.checker, "check", check)
    exporter.export(winner, Format.CU, tmp_path / "out")
    assert "mine" in {e.case.name for e in told if isinstance(e, CaseResult)}


def test_what_is_missing_is_said(exporter: Exporter, tmp_path: Path) -> None:
    task = exporter.checker.task
    winner = made_up(task, tuned(task))
    poor = replace(exporter, tools=BARE)
    for to, names in {
        Format.PATCH: {"patch applies with git"},
        Format.CPP: {"launches of the host code", "compiled by nvcc", "run on the GPU"},
        Format.TVM_FFI: {"launches of the host code", "compiled by nvcc", "run on the GPU"},
    }.items():
        found = outcomes(poor.export(winner, to, tmp_path / to.value).steps)
        missing = {name for name, outcome in found.items() if outcome is StepOutcome.NOT_CHECKED}
        assert missing == names


def test_a_kernel_that_is_wrong_here_leaves_nothing(exporter: Exporter, tmp_path: Path) -> None:
    task = exporter.checker.task
    wrong = tuned(task).replace("silu((float)g.value[k])", "(float)g.value[k]")
    report = exporter.export(made_up(task, wrong), Format.CU, tmp_path / "out")
    assert report.failed
    assert report.folder == ""
    assert list(tmp_path.iterdir()) == []
    assert "cases failed" in report.steps[0].detail


def test_a_package_that_differs_from_plan_and_contract_fails(
    exporter: Exporter, subject: Subject, tmp_path: Path
) -> None:
    draft = write_files(tmp_path / "draft", export_files(subject, Format.TORCH))
    for file, old, new in (
        ("_plan.py", "16 // sizeof(T)", "32 // sizeof(T)"),
        ("_contract.py", "'out': (tokens, d,)", "'out': (d, tokens,)"),
    ):
        path = draft / "astra_silu_and_mul" / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
    steps = list(ExportChecks(subject, exporter.checker, BARE, draft, tmp_path).run(Format.TORCH))
    failed = {s.name: s.detail for s in steps if s.outcome is StepOutcome.FAILED}
    assert list(failed) == ["launches of the host code", "fake kernel"]
    assert "differ from the plan" in failed["launches of the host code"]


@pytest.mark.skipif(shutil.which("git") is None, reason="no git on this machine")
def test_a_patch_that_does_not_apply_fails(
    exporter: Exporter, subject: Subject, tmp_path: Path
) -> None:
    other = replace(subject, winner=replace(subject.winner, baseline="// another\n"))
    draft = write_files(tmp_path / "draft", export_files(subject, Format.PATCH))
    tools = replace(BARE, git=exporter.tools.git)
    steps = list(ExportChecks(other, exporter.checker, tools, draft, tmp_path).run(Format.PATCH))
    assert steps[-1].outcome is StepOutcome.FAILED
    assert "patch does not apply" in steps[-1].detail


@pytest.mark.parametrize("name", ["../../evil", "/evil"])
def test_nothing_is_written_outside_of_the_folder(
    tasks: dict[str, KernelTask], tmp_path: Path, name: str
) -> None:
    task = replace(tasks["silu_and_mul"], name=f"{tmp_path}{name}" if name[0] == "/" else name)
    out = tmp_path / "deep" / "er" / "out"
    with pytest.raises(UserError, match="outside of its folder"):
        export_text(made_up(task, tuned(task)), task, Format.CU, out)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_another_task_is_refused(exporter: Exporter, tmp_path: Path) -> None:
    task = exporter.checker.task
    winner = replace(made_up(task, tuned(task)), task_hash="0" * 64)
    with pytest.raises(UserError, match="not the one of session s"):
        exporter.export(winner, Format.CPP, tmp_path / "out")
    with pytest.raises(UserError, match="not the one of session s"):
        export_text(winner, task, Format.CU, tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("#pragma unroll\n#include <stdint.h>\n#define N 4\n__align__(16) float x;", ""),
        ("#  if A", "# if"),
        ("#\\\nifdef A", "#ifdef"),
        ("as\\\r\nm(1)", "asm"),
        ("__attribute__((constructor)) void f();", "__attribute__"),
        ("[[gnu::constructor]] void f();", "[["),
        ("int x = __CUDACC_RTC__;", "__CUDACC_RTC__"),
        ("#define A(x) x##m", "##"),
    ],
)
def test_what_may_be_host_code_to_nvcc(text: str, mark: str) -> None:
    assert host_code_mark(text) == mark


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path: Path, tasks: dict[str, KernelTask]) -> Shell:
    """A folder with one session, whose winner is silu_and_mul's tuned kernel."""
    task = tasks["silu_and_mul"]
    write_session(tmp_path / "sessions" / "s", task, tuned(task))
    return Shell(tmp_path)


def test_the_command(shell: Shell, tasks: dict[str, KernelTask]) -> None:
    done = shell.run("export", "s", "--to", "cu", "--device", "emulator")
    assert done.code == 0
    assert done.err.startswith("the session is cut at sessions/s/journal.jsonl:")
    assert " cases passed on emulator" in done.out
    assert "written to silu_and_mul-cu:" in done.out
    text = (shell.folder / "silu_and_mul-cu" / "silu_and_mul.cu").read_text(encoding="utf-8")
    assert text.endswith(tuned(tasks["silu_and_mul"]))
    again = shell.run("export", "s", "--to", "cu", "--device", "emulator")
    assert again.code == 2
    assert "silu_and_mul-cu: already exists" in again.err


def test_the_screen_exports_in_a_process_of_its_own(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shell.folder)
    report = asyncio.run(export_best(Path("sessions/s"), Format.PATCH))
    assert report.folder == "silu_and_mul-patch"
    assert outcomes(report.steps)["kernels"] is StepOutcome.PASSED
    assert (shell.folder / report.folder / "silu_and_mul.patch").is_file()
    with pytest.raises(UserError, match="already exists"):
        asyncio.run(export_best(Path("sessions/s"), Format.PATCH))


def test_the_command_without_checks(shell: Shell, tasks: dict[str, KernelTask]) -> None:
    done = shell.run("export", "s", "--to", "patch", "--no-check", "--out", "x", "--json")
    assert done.code == 0
    answer = json.loads(done.out)
    assert answer["files"] == ["README.md", "silu_and_mul.patch"]
    assert answer["candidate"] == content_hash(tuned(tasks["silu_and_mul"]))
    assert [step["outcome"] for step in answer["steps"]] == ["not_checked"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("none", "--to", "cu"), "there is no session 'none'"),
        (("s", "--to", "cu", "--candidate", "ff0"), "there is no candidate 'ff0'"),
        (("s", "--to", "cu", "--task", "fused_add_rmsnorm"), "is not the one of this session"),
        (("s", "--to", "exe"), "there is no format 'exe'"),
    ],
)
def test_what_the_command_refuses(shell: Shell, arguments: tuple[str, ...], problem: str) -> None:
    done = shell.run("export", *arguments)
    assert done.code == 2
    assert problem in done.err


def test_the_page_names_every_form() -> None:
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    assert [one for one in Format if f"\n| `{one}` | {one.about}" not in page] == []


def test_the_commands_of_the_page_parse() -> None:
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    commands = [line.split()[1:] for line in page.splitlines() if line.startswith("    astra-tui")]
    assert len(commands) >= 2
    for words in commands:
        assert words[0] == "export"
        assert export_command.make_context("export", words[1:]).params["format"] in list(Format)
