"""Counters: every metric asked for is a value or a reason. ncu is a stand-in, the rest is real."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.launcher import tools
from astra_tui.gpu.ncu import METRICS, may_read_counters
from astra_tui.gpu.ncu.permission import Permission
from astra_tui.gpu.ncu.table import NoTable, Row, read_table, unknown_metrics
from astra_tui.lab.on_gpu import hardware_counters as counters
from astra_tui.lab.on_gpu.hardware_counters import read_counters
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.model.counters import (
    SHARED_WAVEFRONTS,
    SHARED_WAVEFRONTS_IDEAL,
    LaunchCounters,
    Metric,
    NcuReport,
)
from astra_tui.model.task import KernelTask
from tests.gpu.script import FACTS, ILLEGAL_ADDRESS, Scripted
from tests.gpu_tools.conftest import Install, with_script
from tests.gpu_tools.stand_in import Behaviour, calls

FIXED = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", "CC")


REMARKS = """\
==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, profiling \
results may be inconsistent.
==PROF== Connected to process 77 (/usr/bin/python3.12)
==PROF== Disconnected from process 77
"""
"""As ncu 2025.3.1 writes them on an H100."""


def table(metrics: dict[str, tuple[str, str]], launches: int = 1) -> str:
    """What ncu writes: units and values by metric, between its own remarks."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow([*FIXED, *metrics])
    writer.writerow([*[""] * len(FIXED), *(unit for unit, _ in metrics.values())])
    for number in range(launches):
        fixed = [str(number), "77", "python3.11", "127.0.0.1", "k(int, float *)", "(128, 1, 1)"]
        writer.writerow([*fixed, "9.0", *(value for _, value in metrics.values())])
    return f"{REMARKS}{text.getvalue()}"


ALL = dict.fromkeys(METRICS, ("%", "1.5")) | {
    "dram__bytes_read.sum": ("byte", "1,234,567"),
    SHARED_WAVEFRONTS: ("", "32,800"),
    SHARED_WAVEFRONTS_IDEAL: ("", "32"),
}


def read(task: KernelTask, compiled: Compiled, seconds: float = 30.0) -> NcuReport:
    return read_counters(task, compiled, FACTS, task.workloads[0], seconds=seconds)


@pytest.fixture(autouse=True)
def _anybody_may(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = Permission(True, "the driver lets every user read counters")
    monkeypatch.setattr(counters, "may_read_counters", lambda: allowed)


def test_all_metrics_are_read_for_the_launch_after_the_warm_up(
    install: Install, silu: KernelTask, baseline: Compiled
) -> None:
    program = install("ncu", Behaviour(clean=table(ALL), version="2025.3.1.0"))
    report = read(silu, baseline)
    assert report.available, report.problem
    assert report.version == "2025.3.1.0"
    (launch,) = report.launches
    assert launch.kernel == "silu_and_mul<__half>"
    assert (launch.grid, launch.block) == ((256, 1, 1), (128, 1, 1))
    assert set(launch.metrics) == set(METRICS)
    assert not launch.missing
    assert launch.metrics["dram__bytes_read.sum"] == Metric(1234567.0, "byte")
    assert launch.excess_shared_wavefronts == 32768
    (given_,) = calls(program)
    assert given_[given_.index("--launch-skip") + 1] == "1"
    assert given_[given_.index("--launch-count") + 1] == "1"
    assert given_[given_.index("--clock-control") + 1] == "none"
    assert given_[given_.index("--metrics") + 1].split(",") == list(METRICS)


def test_a_metric_that_did_not_come_back_is_missing_with_its_reason(
    install: Install, silu: KernelTask, baseline: Compiled
) -> None:
    some = {k: v for k, v in ALL.items() if k != SHARED_WAVEFRONTS}
    some["lts__t_sector_hit_rate.pct"] = ("%", "n/a")
    some["l1tex__t_sector_hit_rate.pct"] = ("%", "nan")
    some["launch__registers_per_thread"] = ("register/thread", "")
    install("ncu", Behaviour(clean=table(some)))
    (launch,) = read(silu, baseline).launches
    assert launch.missing == {
        SHARED_WAVEFRONTS: "not in ncu's table",
        "lts__t_sector_hit_rate.pct": "ncu wrote 'n/a'",
        "l1tex__t_sector_hit_rate.pct": "ncu wrote 'nan'",
        "launch__registers_per_thread": "ncu left it empty",
    }
    assert set(launch.metrics) | set(launch.missing) == set(METRICS)
    assert launch.excess_shared_wavefronts is None


def test_a_name_that_ncu_does_not_know_is_left_out_of_a_second_run(
    install: Install, silu: KernelTask, baseline: Compiled
) -> None:
    known = {k: v for k, v in ALL.items() if k != SHARED_WAVEFRONTS}
    program = install("ncu", Behaviour(clean=table(known), unknown=(SHARED_WAVEFRONTS,)))
    (launch,) = read(silu, baseline).launches
    assert launch.missing == {SHARED_WAVEFRONTS: "this ncu knows no such metric for this GPU"}
    assert set(launch.metrics) == set(known)
    first, second = calls(program)
    assert SHARED_WAVEFRONTS in first[first.index("--metrics") + 1].split(",")
    assert SHARED_WAVEFRONTS not in second[second.index("--metrics") + 1].split(",")


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (Behaviour(trouble="hang"), "ncu was not done after 3 s"),
        (Behaviour(trouble="die"), "ncu was ended by a signal: Segmentation fault"),
        (Behaviour(trouble="nothing"), "the launcher gave no answer"),
        (Behaviour(), "ncu wrote no table"),
        (Behaviour(clean=table(ALL, launches=3)), "ncu watched 3 launches, not 1"),
        (
            Behaviour(clean="==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n"),
            "may not read counters: ERR_NVGPUCTRPERM",
        ),
        (Behaviour(clean=REMARKS + "==ERROR== Out of paper\n"), "no table: Out of paper"),
        (Behaviour(clean="==WARNING== No kernels were profiled.\n"), "No kernels were profiled"),
    ],
)
def test_no_counters_come_with_the_reason(
    install: Install, silu: KernelTask, baseline: Compiled, behaviour: Behaviour, said: str
) -> None:
    install("ncu", behaviour)
    report = read(silu, baseline, seconds=3.0)
    assert not report.available
    assert said in report.problem
    assert not report.launches
    assert ("administrator" in report.remedy) == ("ERR_NVGPUCTRPERM" in said)


def test_launches_that_fail_give_no_counters(
    install: Install, silu: KernelTask, baseline: Compiled
) -> None:
    install("ncu", Behaviour(clean=table(ALL)))
    report = read(silu, with_script(baseline, Scripted(error=ILLEGAL_ADDRESS)))
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in report.problem


def test_a_machine_without_ncu_says_how_to_get_it(
    silu: KernelTask, baseline: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "TOOLKITS", ())
    monkeypatch.setattr(counters, "INSTALLED", tmp_path / "none")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    report = read(silu, baseline)
    assert report.problem == "ncu was not found"
    assert "Nsight Compute" in report.remedy


def test_without_permission_nothing_is_run(
    install: Install, silu: KernelTask, baseline: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = install("ncu", Behaviour(clean=table(ALL)))
    denied = Permission(False, "the driver lets only administrators read counters")
    monkeypatch.setattr(counters, "may_read_counters", lambda: denied)
    report = read(silu, baseline)
    assert report.problem == denied.reason
    assert "NVreg_RestrictProfilingToAdminUsers=0" in report.remedy
    assert not calls(program)


@pytest.mark.parametrize(
    ("parameters", "capabilities", "user", "allowed"),
    [
        ("RmProfilingAdminOnly: 0\n", "0000000000000000", 1000, True),
        ("Mobile: 4294967295\nRmProfilingAdminOnly: 1\n", "0000000000000000", 1000, False),
        ("RmProfilingAdminOnly: 1\n", "0000000000200000", 1000, None),
        ("RmProfilingAdminOnly: 1\n", "0000000000000000", 0, None),
        ("", "000001ffffffffff", 0, None),
    ],
)
def test_permission_follows_from_the_driver_and_the_process(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    parameters: str,
    capabilities: str,
    user: int,
    allowed: bool | None,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    (tmp_path / "params").write_text(parameters)
    (tmp_path / "status").write_text(f"Name:\tpython\nCapEff:\t{capabilities}\n")
    found = may_read_counters(tmp_path / "params", tmp_path / "status")
    assert found.allowed is allowed
    assert found.reason
    assert may_read_counters(tmp_path / "none").allowed is None


NAMES = st.lists(
    st.from_regex(r"\A[a-z]{1,5}__[a-z_]{1,8}(\.[a-z]{3})?\Z"), min_size=1, max_size=6, unique=True
)
VALUES = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(NAMES, st.data())
def test_a_table_gives_back_every_value_or_says_what_it_lacks(
    names: list[str], data: st.DataObject
) -> None:
    values = {name: data.draw(VALUES | st.none()) for name in names}
    absent = data.draw(st.sampled_from([None, *names]))
    cells = {
        name: ("byte", "n/a" if value is None else f"{value:,.6f}")
        for name, value in values.items()
        if name != absent
    }
    (row,) = read_table(table(cells), names)
    assert row.kernel == "k(int, float *)"
    assert set(row.metrics) | set(row.missing) == set(names)
    assert not set(row.metrics) & set(row.missing)
    for name, value in values.items():
        if value is None or name == absent:
            assert name in row.missing
        else:
            assert math.isclose(row.metrics[name].value, value, rel_tol=1e-6, abs_tol=1e-6)


@given(
    st.text()
    | st.lists(st.sampled_from(['"ID"', '"Kernel Name"', ",", "\n", '"', "9"])).map("".join)
)
def test_any_text_is_a_table_or_has_none(text: str) -> None:
    rows: tuple[Row, ...] = ()
    with contextlib.suppress(NoTable):
        rows = read_table(text, ["x"])
    assert all(("x" in row.metrics) != ("x" in row.missing) for row in rows)


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        ("a__b.sum", "a__b.sum"),
        ("regex:^a__b\\.sum$", "a__b.sum"),
        ("regex:^a_b\\.(sum|min|max|avg|pct|ratio|max_rate)$", "a_b"),
        ("regex:^a_b.(sum|min)$", "a_b"),
    ],
)
def test_the_forms_of_unknown_metrics_are_understood(shown: str, name: str) -> None:
    assert unknown_metrics(f"==ERROR== Failed to find metric {shown}\n") == [name]


def test_excess_wavefronts_need_both_counts() -> None:
    launch = LaunchCounters("k", (1, 1, 1), (1, 1, 1), {SHARED_WAVEFRONTS: Metric(5.0)}, {})
    assert launch.excess_shared_wavefronts is None
