from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.nvml import NvmlRefusal
from astra_tui.gpu.nvml.reader import (
    named_processes,
    other_processes,
    sees_host_processes,
    unexpected_processes,
)
from astra_tui.model.gpu import GpuProcess
from tests.nvml.strategies import PROCESSES


@pytest.mark.parametrize(
    ("target", "on_host"), [("pid:[4026531836]", True), ("pid:[4026532201]", False), (None, False)]
)
def test_the_first_namespace_is_the_hosts(
    tmp_path: Path, target: str | None, on_host: bool
) -> None:
    link = tmp_path / "pid"
    if target:
        link.symlink_to(target)
    assert sees_host_processes(link) is on_host


def test_a_container_hides_who_is_there() -> None:
    with pytest.raises(NvmlRefusal, match="not visible from this container: NVML lists no process"):
        other_processes((), (), on_host=False)
    with pytest.raises(NvmlRefusal, match="NVML lists 2 process ids of the host"):
        other_processes((GpuProcess(7001), GpuProcess(7002)), (12,), on_host=False)
    with pytest.raises(NvmlRefusal, match="not visible from this container"):
        named_processes((GpuProcess(7001),), on_host=False)


def test_without_own_processes_whoever_is_listed_is_somebody_else() -> None:
    listed = (GpuProcess(7001),)
    assert other_processes(listed, (), on_host=False) == listed


def test_a_list_without_our_own_process_is_not_believed() -> None:
    with pytest.raises(NvmlRefusal, match="does not list the session's own process"):
        other_processes((GpuProcess(1),), (2,), on_host=True)


@given(PROCESSES, st.sets(st.integers(1, 9)), st.booleans())
def test_others_are_listed_and_not_ours(
    listed: tuple[GpuProcess, ...], own: set[int], on_host: bool
) -> None:
    try:
        others = other_processes(listed, own, on_host)
    except NvmlRefusal:
        assert not on_host or not own <= {p.pid for p in listed}
    else:
        assert set(others) == {p for p in listed if p.pid not in own}


@given(PROCESSES, st.sets(st.integers(1, 9)))
def test_strangers_are_whoever_is_listed_and_not_of_the_family(
    listed: tuple[GpuProcess, ...], family: set[int]
) -> None:
    found = unexpected_processes(listed, family, on_host=True)
    assert set(found) == {p for p in listed if p.pid not in family}


@pytest.mark.parametrize("listed", [(), (GpuProcess(7001),)])
def test_a_container_hides_strangers(listed: tuple[GpuProcess, ...]) -> None:
    with pytest.raises(NvmlRefusal, match="not visible from this container"):
        unexpected_processes(listed, (7001,), on_host=False)
