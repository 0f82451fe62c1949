"""What the emulator sees next to a GPU: a scripted one, which gives right outputs whatever runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from astra_tui.gpu.device import CudaDevice
from astra_tui.lab.check import emulator_check
from astra_tui.lab.check.emulator_check import EmulatorCheck, EmulatorVerdict
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import MANY_ROWS, CheckReport, CheckVerdict
from astra_tui.model.compilation import Compilation
from astra_tui.model.task import KernelTask
from astra_tui.processes.child import Child
from tests.gpu.script import Script, Scripted
from tests.gpu.versions import BASELINE

pytestmark = pytest.mark.usefixtures("warm_processes")

TYPICAL = ("float16/typical",)


class Scripting(Compiler):
    """The real compiler; what it made runs as a scripted kernel that is right."""

    def compile(
        self, source: str, expressions: tuple[str, ...] = (), arch: str = ""
    ) -> Compilation:
        found = super().compile(source, expressions, arch)
        script = Script({k.symbol: Scripted("silu") for k in found.kernels}, nonce=source)
        return replace(found, cubin=script.cubin())


@pytest.fixture(scope="module")
def checker(tasks: dict[str, KernelTask], device: CudaDevice) -> Iterator[Checker]:
    task = tasks["silu_and_mul"]
    with Scripting() as compiler, Oracle(task) as oracle, EmulatorCheck(task) as emulator_check:
        yield Checker(task, device, compiler, oracle, emulator_check=emulator_check)


def report_of(checker: Checker, text: str) -> CheckReport:
    cases = select_cases(checker.task, TYPICAL)
    *_, report = checker.check(text, str(BASELINE), cases)
    assert isinstance(report, CheckReport)
    return report


def test_what_only_the_emulator_sees_fails_a_source(checker: Checker) -> None:
    text = BASELINE.read_text(encoding="utf-8")
    honest = report_of(checker, text)
    assert honest.verdict is CheckVerdict.PASSED, honest.message
    assert (honest.device, honest.emulated, honest.not_emulated) == ("cuda:0", 1, ())
    reads_its_output = text.replace("  out[", "  if (out[0] != (T)-7.0f) out[", 1)
    assert reads_its_output != text
    report = report_of(checker, reads_its_output)
    assert report.verdict is CheckVerdict.FAILED
    (failed,) = report.failed_cases
    assert failed.case.name == "typical, on the emulator"
    assert "nothing has written them" in failed.message


def test_a_gpu_meets_many_rows_of_every_kind_of_value(
    quick_task: KernelTask, device: CudaDevice
) -> None:
    with Scripting() as compiler, Oracle(quick_task) as oracle:
        checker = Checker(quick_task, device, compiler, oracle)
        *_, report = checker.check(BASELINE.read_text(encoding="utf-8"), str(BASELINE))
    assert isinstance(report, CheckReport)
    assert report.verdict is CheckVerdict.PASSED, report.message
    many = [c.case for c in report.cases if c.case.name.startswith(MANY_ROWS)]
    assert {case.dims["tokens"] for case in many} == {256}
    aligned, shifted = (
        {str(c.values) for c in many if c.values and bool(c.offsets) is moved}
        for moved in (False, True)
    )
    assert aligned == shifted
    assert len(aligned) >= 4


def test_processes_with_a_part_of_the_cases_each_find_what_one_finds(
    quick_task: KernelTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = BASELINE.read_text(encoding="utf-8")
    wrong = text.replace("  out[", "  if (column != 6) out[", 1)
    assert wrong != text
    with EmulatorCheck(quick_task, parts=0) as one, EmulatorCheck(quick_task, parts=2) as several:

        def verdict(emulator_check: EmulatorCheck, text: str) -> EmulatorVerdict:
            emulator_check.begin(read_source(quick_task, text, "k.cu"), (), None, 0)
            *_, found = emulator_check.wait()
            assert found is not None
            return found

        honest = verdict(one, text)
        assert not honest.failed
        assert honest.open == ""
        assert verdict(several, text) == honest
        found, alone = verdict(several, wrong), verdict(one, wrong)
        assert found == alone
        assert len(found.failed) > 10
        # A part whose process dies is run by the first.
        start = Child.start

        def dying(child: Child) -> None:
            start(child)
            if child in several._others:
                child.kill()

        monkeypatch.setattr(Child, "start", dying)
        assert verdict(several, text) == honest


def test_what_is_not_emulated_is_named_and_fails_nothing(checker: Checker) -> None:
    text = BASELINE.read_text(encoding="utf-8")
    unknown = text.replace("  out[", '  asm volatile("bar.arrive 1, 64;");\n  out[', 1)
    report = report_of(checker, unknown)
    assert report.verdict is CheckVerdict.PASSED, report.message
    assert (report.emulated, len(report.not_emulated)) == (0, 1)
    assert "bar.arrive" in report.not_emulated[0]


def test_an_emulator_that_ends_early_leaves_the_check_open(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checker.emulator_check is not None
    begin = checker.emulator_check.begin

    def killed(*rest: object) -> None:
        child = checker.emulator_check._child  # type: ignore[union-attr]
        child.start()
        os.killpg(child.pid, signal.SIGSTOP)  # Else it may have answered before it is killed.
        begin(*rest)  # type: ignore[arg-type]
        child.kill()

    monkeypatch.setattr(checker.emulator_check, "begin", killed)
    text = BASELINE.read_text(encoding="utf-8")
    report = report_of(checker, text)
    assert report.verdict is CheckVerdict.INCONCLUSIVE
    assert "on the emulator: the emulator's check ended with SIGKILL" in report.message
    monkeypatch.undo()
    assert report_of(checker, text).verdict is CheckVerdict.PASSED


def test_one_who_waits_for_the_emulator_says_so_and_not_for_ever(
    quick_task: KernelTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is stopped, and answers nothing until it may continue."""
    monkeypatch.setattr(emulator_check, "WORD_SECONDS", 0.01)
    source = read_source(quick_task, BASELINE.read_text(encoding="utf-8"), "k.cu")
    only = select_cases(quick_task, TYPICAL)
    with EmulatorCheck(quick_task, parts=0) as check:
        check._child.start()
        os.killpg(check._child.pid, signal.SIGSTOP)
        check.begin(source, (), only, 0)
        words = check.wait()
        assert [next(words) for _ in range(3)] == [None] * 3
        os.killpg(check._child.pid, signal.SIGCONT)
        *_, found = words
        assert found is not None
        assert (found.cases, found.open) == (1, "")
        os.killpg(check._child.pid, signal.SIGSTOP)
        check.begin(source, (), only, 0)
        *_, found = check.wait(seconds=0.05)
        assert found is not None
        assert "was not through 0.05 s after the GPU's" in found.open
        check.begin(source, (), only, 0)
        *_, found = check.wait()
        assert found == EmulatorVerdict(1)
