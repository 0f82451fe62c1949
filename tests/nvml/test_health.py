from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.gpu.nvml import GpuReader, gpu_health
from astra_tui.gpu.nvml.sampler import SLACK_BYTES, judge_occupants
from astra_tui.model.gpu import GpuOccupants, GpuProcess, Healthy, StillHeld, Unknown
from tests.nvml.conftest import UUIDS, FakeNvml
from tests.nvml.strategies import PROCESSES

PID, FLOOR = 4242, 1 << 30


class Time:
    """A clock that only sleeping moves; `after` runs an action at a time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._actions: list[tuple[float, Callable[[], None]]] = []

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self._actions.append((seconds, action))

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for due, action in [a for a in self._actions if a[0] <= self.now]:
            self._actions.remove((due, action))
            action()


def held(fake: FakeNvml) -> None:
    fake.process(PID, 2 << 30)
    fake.value("nvmlDeviceGetMemoryInfo", FLOOR + (2 << 30))


def test_waits_until_process_and_memory_are_gone(fake: FakeNvml) -> None:
    held(fake)
    time = Time()
    time.after(0.3, fake.no_processes)
    time.after(1.0, lambda: fake.value("nvmlDeviceGetMemoryInfo", FLOOR))
    with GpuReader(UUIDS[0], on_host=True) as reader:
        health = gpu_health(reader.occupants, PID, FLOOR, clock=time.clock, sleep=time.sleep)
    assert health == Healthy("process 4242 is gone and memory is back at 1024 MiB")
    assert 1.0 <= time.now < 1.1


def test_process_that_stays(fake: FakeNvml) -> None:
    held(fake)
    time = Time()
    with GpuReader(UUIDS[0], on_host=True) as reader:
        health = gpu_health(
            reader.occupants, PID, FLOOR, within_s=3, clock=time.clock, sleep=time.sleep
        )
    assert health == StillHeld("process 4242 is still on the GPU")
    assert time.now == pytest.approx(3.0)


def test_memory_that_stays(fake: FakeNvml) -> None:
    held(fake)
    time = Time()
    time.after(0.1, fake.no_processes)
    with GpuReader(UUIDS[0], on_host=True) as reader:
        health = gpu_health(reader.occupants, PID, FLOOR, clock=time.clock, sleep=time.sleep)
    assert health == StillHeld("3072 MiB are in use, 1024 MiB before the process started")


def test_in_a_container_memory_decides(fake: FakeNvml) -> None:
    fake.process(99, 1)
    with GpuReader(UUIDS[0], on_host=False) as reader:
        health = gpu_health(reader.occupants, PID, FLOOR, within_s=0)
    assert isinstance(health, Healthy)
    assert "not visible from this container" in health.evidence


def test_a_lost_gpu_is_unknown(fake: FakeNvml) -> None:
    with GpuReader(UUIDS[0], on_host=True) as reader:
        for function in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses"):
            fake.error(function, 15)
        health = gpu_health(reader.occupants, PID, FLOOR, within_s=0)
    assert health == Unknown("memory in use: the GPU is lost: it no longer answers on the bus")


def test_without_a_floor_nothing_is_decided(fake: FakeNvml) -> None:
    held(fake)
    time = Time()
    time.after(0.5, fake.no_processes)
    with GpuReader(UUIDS[0], on_host=True) as reader:
        health = gpu_health(reader.occupants, PID, None, clock=time.clock, sleep=time.sleep)
    assert health == Unknown("memory in use before the process started was not recorded")
    assert 0.5 <= time.now < 0.6


def test_without_nvml_nobody_waits(fake: FakeNvml) -> None:
    fake.error("nvmlInitWithFlags", 9)
    time = Time()
    with GpuReader(UUIDS[0]) as reader:
        floor = reader.occupants().memory_used_bytes
        health = gpu_health(reader.occupants, PID, floor, clock=time.clock, sleep=time.sleep)
    assert health == Unknown("memory in use: the NVIDIA driver is not loaded")
    assert time.now == 0.0


@given(
    st.none() | PROCESSES,
    st.none() | st.integers(0, 2**37),
    st.integers(1, 9),
    st.none() | st.integers(0, 2**37),
)
def test_healthy_only_on_evidence(
    processes: tuple[GpuProcess, ...] | None, used: int | None, pid: int, floor: int | None
) -> None:
    health = judge_occupants(GpuOccupants(processes, used), pid, floor)
    if isinstance(health, Healthy):
        assert pid not in [p.pid for p in processes or ()]
        assert used is not None
        assert floor is not None
        assert used <= floor + SLACK_BYTES
    if isinstance(health, Unknown):
        assert used is None or floor is None
