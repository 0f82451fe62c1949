"""Bundled tasks that start from kernels of pinned packages, and what is known to be right or wrong.

Their packages have some 150 MB, so that nothing is fetched here unless `ASTRA_TUI_FETCH=1` asks for
it: the tests run where they are cached.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import platformdirs
import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.audit.zoo import Entry, Zoo, read_zoo
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.upstream import must_fetch, task_headers
from astra_tui.model.check import Case, CheckReport, CheckVerdict
from astra_tui.model.task import KernelTask, load_task
from astra_tui.packages import Packages
from tests.conftest import ROOT

USERS = Packages(Path(platformdirs.user_cache_dir("astra-tui")) / "packages")
NAMES = sorted(f.parent.name for f in ROOT.glob("kernels/*/upstream.toml"))


@cache
def zoo() -> Zoo:
    return read_zoo(Path(__file__).parent / "zoo")


@cache
def task_of(name: str) -> KernelTask:
    return load_task(ROOT / "kernels" / name)


@pytest.fixture(scope="module", params=NAMES)
def checker(request: pytest.FixtureRequest) -> Iterator[Checker]:
    """Of one task, whose files are in the cache."""
    task = task_of(request.param)
    missing = must_fetch(task, USERS)
    if missing is not None and not os.environ.get("ASTRA_TUI_FETCH"):
        pytest.skip(f"{missing} is not in the cache; to fetch it: ASTRA_TUI_FETCH=1")
    headers = task_headers(task, USERS)
    with Compiler(upstream=headers) as compiler, Oracle(task) as oracle:
        yield Checker(task, Emulator(), compiler, oracle)


def small_cases(task: KernelTask) -> tuple[Case, ...]:
    """A few small cases of the suite in each element type."""
    inside = [c for c in build_suite(task) if not c.outside_contract]
    return tuple(c for dtype in task.dtypes for c in [c for c in inside if c.dtype is dtype][:3])


def verdict(checker: Checker, text: str, cases: tuple[Case, ...]) -> CheckReport:
    *_, report = checker.check(text, "source", cases)
    assert isinstance(report, CheckReport)
    return report


def test_what_is_shipped_and_an_honest_rewrite_pass_and_planted_kernels_fail(
    checker: Checker,
) -> None:
    task = checker.task
    cases = small_cases(task)
    baseline = task.baseline_file.read_text(encoding="utf-8")
    honest = [e for e in zoo().honest if e.task == task.name]
    for text in (baseline, *(e.text for e in honest)):
        report = verdict(checker, text, cases)
        assert report.verdict is CheckVerdict.PASSED, report.failed_cases[:1]
    for entry in planted(task.name):
        assert entry.witness is not None
        witness = (entry.witness.case(task),)
        assert verdict(checker, entry.text, witness).verdict is CheckVerdict.FAILED, entry.id


def planted(name: str) -> list[Entry]:
    return [e for e in zoo().planted if e.task == name]


def test_every_task_has_an_honest_rewrite_and_two_planted_kernels() -> None:
    honest, wrong = (Counter(e.task for e in group) for group in (zoo().honest, zoo().planted))
    assert len(NAMES) >= 20
    assert {name for name in NAMES if honest[name] < 1 or wrong[name] < 2} == set()


def test_nothing_of_the_package_is_kept_here() -> None:
    for name in NAMES:
        assert not (ROOT / "kernels" / name / "upstream").exists()
        assert "__global__" not in task_of(name).baseline_file.read_text(encoding="utf-8")
