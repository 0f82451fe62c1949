"""A task whose kernels include upstream files: checked, counted, explained, and kept honest."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from astra_tui.cli.devices import fetch_upstream
from astra_tui.emulator.device import Emulator
from astra_tui.engine.lab import Lab, LabFailed
from astra_tui.lab.check.counting import count, workload_case
from astra_tui.lab.check.execution import accepts_of, read_source
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.conditions.coverage import compile_reporting
from astra_tui.lab.explain.sass import disassemble
from astra_tui.lab.requests import NamedSource
from astra_tui.lab.upstream import task_headers
from astra_tui.model.check import CheckReport, CheckVerdict
from astra_tui.model.errors import UserError
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.task import Acceptance, KernelTask, load_task, upstream_files
from tests.packages.wheels import make_wheel, only_index, pin_of
from tests.upstream_task import BASELINE, LIBRARY, OWN, upstream_task, write_upstream_task

pytestmark = pytest.mark.usefixtures("warm_processes")

ACT = "upstream/include/lib/act.cuh"


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> KernelTask:
    return upstream_task(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def checker(task: KernelTask) -> Iterator[Checker]:
    with Compiler(upstream=task_headers(task)) as compiler, Oracle(task) as oracle:
        yield Checker(task, Emulator(), compiler, oracle)


def report_of(checker: Checker, text: str, patterns: tuple[str, ...] = ()) -> CheckReport:
    cases = select_cases(checker.task, patterns) if patterns else None
    *_, report = checker.check(text, "candidate.cu", cases)
    assert isinstance(report, CheckReport)
    return report


def first_finding(report: CheckReport, kind: FindingKind) -> Finding:
    return next(f for r in report.cases for f in r.findings if f.kind is kind)


def test_own_kernels_and_those_of_a_header_pass_and_conditions_are_the_sources_own(checker) -> None:
    for text in (OWN, BASELINE):
        report = report_of(checker, text, ("*typical*",))
        assert report.verdict is CheckVerdict.PASSED, report.message
    reporting = compile_reporting(checker.compiler, OWN, ("act<__half>",))
    assert reporting is not None
    assert reporting.compilation.ok
    assert [(c.line, c.text) for c in reporting.source.conditions] == [(11, "i < count")]
    assert reporting.source.unseen == ()
    assert compile_reporting(checker.compiler, BASELINE, ("lib::silu_and_mul<__half>",)) is None


def test_findings_name_the_header_and_the_line_that_led_there(checker) -> None:
    beyond = OWN.replace("lib::load(input, row + i % d)", "lib::load(input, row + i % d + 99999)")
    found = first_finding(report_of(checker, beyond, ("*",)), FindingKind.GLOBAL_OUT_OF_BOUNDS)
    assert (found.line, found.header) == (13, f"{ACT}:19")
    assert found.describe().startswith(f"line 13: {ACT}:19: global_out_of_bounds: ")


def test_what_a_kernel_of_a_header_does_is_told_at_its_lines(checker, task) -> None:
    beyond = BASELINE.replace("tokens * d, d)", "tokens * d + 9999, d)")
    found = first_finding(report_of(checker, beyond, ("*",)), FindingKind.GLOBAL_OUT_OF_BOUNDS)
    assert (found.line, found.header) == (0, f"{ACT}:14")
    assert found.describe().startswith(f"{ACT}:14: global_out_of_bounds: ")
    case = workload_case(task, task.workloads[0].name, 2)
    source = read_source(task, BASELINE, "baseline.cu")
    counters = count(task, source, case, checker.compiler, Emulator()).counters
    assert {a.line for a in counters.accesses} == {0}
    stores = [a for a in counters.accesses if a.direction == "store"]
    assert {a.header for a in stores} == {f"{ACT}:15"}
    own = count(task, read_source(task, OWN, "own.cu"), case, checker.compiler, Emulator()).counters
    assert not any(a.header for a in own.accesses)
    assert counters.sectors == own.sectors


def test_two_barriers_of_a_header_are_two_barriers(checker, task) -> None:
    """Both have no line of the source, and stay apart by their lines in the header."""
    text = LIBRARY["include/lib/act.cuh"].replace(
        "  const int64_t step",
        "  if (threadIdx.x < 16)\n    __syncthreads();\n  else\n    __syncthreads();\n"
        "  const int64_t step",
    )
    texts = {**LIBRARY, "include/lib/act.cuh": text}
    headers = task_headers(task)
    other = Compiler(upstream=type(headers)("lib", headers.names, texts.__getitem__, ("include",),
                                            headers.defines))  # fmt: skip
    with other:
        parts = task, Emulator(), other, checker.oracle
        report = report_of(Checker(*parts), BASELINE, ("*typical*",))
    found = first_finding(report, FindingKind.DIVERGENT_BARRIER)
    assert f"the barrier of {ACT}:" in found.message


def test_machine_code_names_headers(checker) -> None:
    compiled = checker.compiler.compile(BASELINE, ("lib::silu_and_mul<__half>",))
    (kernel,) = disassemble(compiled).kernels
    places = {(i.line, i.header) for i in kernel.instructions if i.header}
    assert {line for line, _ in places} == {0}
    assert (0, f"{ACT}:15") in places
    (kernel,) = disassemble(checker.compiler.compile(OWN, ("act<__half>",))).kernels
    assert (13, f"{ACT}:19") in {(i.line, i.header) for i in kernel.instructions}


def test_a_recipe_is_fetched_once_and_every_file_is_compared(
    tmp_path, private_cache, monkeypatch, capsys
) -> None:
    index = only_index(monkeypatch, tmp_path / "index")
    made = make_wheel(index, LIBRARY)
    recipe = load_task(write_upstream_task(tmp_path / "kernels", pin_of(made)))
    assert recipe.upstream.contents is None
    headers = fetch_upstream(recipe)
    assert "fetching tiny-kernels 1.2.0 (tiny_kernels-1.2.0" in capsys.readouterr().err
    assert headers.read("LICENSE") == LIBRARY["LICENSE"]
    with Compiler(upstream=headers) as compiler:
        assert compiler.compile(OWN, ("act<__half>",)).ok
    shutil.rmtree(private_cache / "packages")
    made.unlink()
    assert fetch_upstream(recipe).names == headers.names  # From the cache, which needs no package.
    assert capsys.readouterr().err == ""
    shutil.rmtree(private_cache / "upstream")
    with pytest.raises(UserError, match=r"the files of upstream\.toml are not here"):
        fetch_upstream(recipe)
    other = {**LIBRARY, "include/lib/bits.h": "// another"}
    changed = make_wheel(index, other)
    folder = write_upstream_task(tmp_path / "other", pin_of(changed))
    with pytest.raises(UserError, match=r"include/lib/bits\.h: this is not the file that upstream"):
        fetch_upstream(load_task(folder))


def test_a_ruling_about_an_upstream_line_holds_for_that_line_alone(task, checker) -> None:
    text = f"{ACT}:14"
    ruling = Acceptance("it is theirs", FindingKind.GLOBAL_OUT_OF_BOUNDS, text=text)
    accepts = accepts_of(
        replace(task, accepted=(ruling,)), read_source(task, f"// {text}\n{BASELINE}", "b.cu")
    )
    found = Finding(FindingKind.GLOBAL_OUT_OF_BOUNDS, "", header=text, kernel="k")
    assert accepts(found) == "it is theirs"
    assert accepts(Finding(FindingKind.GLOBAL_OUT_OF_BOUNDS, "", line=1, kernel="k")) == ""


def test_a_lab_process_does_not_work_on_another_version_of_the_task(tmp_path) -> None:
    task = upstream_task(tmp_path)
    assert task.hash  # It is the session's from now on.
    changed = {**LIBRARY, "LICENSE": "another text\n"}
    for name, content in upstream_files(
        changed, include=("include",), origin="example.org", licence="MIT"
    ).items():
        (task.folder / name).write_bytes(content)
    lab = Lab(task)
    try:
        with pytest.raises(LabFailed, match="the task has changed while a session works on it"):
            asyncio.run(lab.open(NamedSource(OWN, "candidate.cu")).compile())
    finally:
        lab.close()
    (task.folder / "upstream" / "LICENSE").write_text("altered\n")
    lab = Lab(task)
    try:
        with pytest.raises(LabFailed, match="upstream/LICENSE: this is not the file"):
            asyncio.run(lab.open(NamedSource(OWN, "candidate.cu")).compile())
    finally:
        lab.close()
