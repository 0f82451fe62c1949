"""Exports of a source that includes upstream files: they carry what it needs, and build alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from astra_tui.export import ExportStep, Format, StepOutcome, Subject, export_files
from astra_tui.export.checks import ExportChecks, Tools
from astra_tui.export.exporting import Exporter, export_text, open_exporter
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.upstream import task_headers
from astra_tui.model.task import KernelTask
from astra_tui.model.task.upstream import load_upstream
from tests.export.sessions import made_up, write_files
from tests.upstream_task import LIBRARY, OWN, upstream_task

CARRIED = {
    "upstream.toml",
    *(f"upstream/{p}" for p in LIBRARY if not p.endswith("unused.cuh")),
}


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> KernelTask:
    return upstream_task(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def exporter(task: KernelTask) -> Iterator[Exporter]:
    with (
        Compiler(upstream=task_headers(task)) as compiler,
        open_exporter(task, "emulator", compiler) as opened,
    ):
        yield opened


def alone(exporter: Exporter, subject: Subject, to: Format, draft: Path) -> ExportStep:
    """The step that compiles the exported source with what lies next to it."""
    checks = ExportChecks(subject, exporter.checker, exporter.tools, draft, draft)
    ((name, step),) = checks._alone(to)
    try:
        return ExportStep(name, StepOutcome.PASSED, step())
    except Exception as failure:
        return ExportStep(name, StepOutcome.FAILED, str(failure))


def test_every_format_carries_what_the_source_includes_and_builds_alone(
    exporter: Exporter, task: KernelTask, tmp_path: Path
) -> None:
    subject = exporter.subject(made_up(task, OWN))
    for to in Format:
        files = export_files(subject, to)
        names = {name.removeprefix(f"astra_{task.name}/") for name in files}
        if to is Format.PATCH:  # It changes the baseline of the task, where the files are.
            assert not names & CARRIED
            continue
        assert names >= CARRIED
        assert not any("unused" in name for name in names)
        draft = write_files(tmp_path / to.value, files)
        step = alone(exporter, subject, to, draft)
        assert step.outcome is StepOutcome.PASSED, step.detail
    listed = (tmp_path / "cpp" / "upstream.toml").read_text()
    assert listed.startswith("# What the exported source includes. Build it with: nvcc -Iupstream/")
    upstream = load_upstream(tmp_path / "cpp")
    assert (upstream.origin, upstream.licence) == ("example.org/lib at 1.0, src", "MIT")
    header = (tmp_path / "cpp" / f"{task.name}.h").read_text()
    flags = "-Iupstream/include -DLIB_ONE=1.0f --extended-lambda"
    assert f"Build: nvcc -std=c++20 -O3 -arch=native {flags} -c" in header
    if exporter.tools.nvcc:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        parts = subject, exporter.checker, exporter.tools, tmp_path / "cpp", scratch
        built = ExportChecks(*parts)._build([f"{task.name}.cu"])
        assert built.startswith("for sm_90a by nvcc")
    missing = tmp_path / "cpp" / "upstream" / "include" / "lib" / "bits.h"
    missing.write_text("// another\n")
    found = alone(exporter, subject, Format.CPP, tmp_path / "cpp")
    assert "bits.h: this is not the file" in found.detail


def test_a_source_alone_carries_its_headers_too(task: KernelTask, tmp_path: Path) -> None:
    report = export_text(made_up(task, OWN), task, Format.CU, tmp_path / "out")
    assert set(report.files) == {"README.md", f"{task.name}.cu", *CARRIED}
    without = OWN.replace("#include <lib/act.cuh>\n", "").replace("lib::", "")
    report = export_text(made_up(task, without), task, Format.CU, tmp_path / "other")
    assert report.files == ("README.md", f"{task.name}.cu")


def test_host_code_of_upstream_files_is_only_run_where_it_is_trusted(
    exporter: Exporter, task: KernelTask, tmp_path: Path
) -> None:
    subject = exporter.subject(made_up(task, OWN))
    tools = Tools("GPU-1", "", "nvcc", "g++", False, False)
    checks = ExportChecks(subject, exporter.checker, tools, tmp_path, tmp_path)
    (tmp_path / f"{task.name}.so").write_bytes(b"")
    with pytest.raises(Exception, match="host code no check has seen"):
        checks._built()
    assert replace(checks, tools=replace(tools, trust=True))._built()
