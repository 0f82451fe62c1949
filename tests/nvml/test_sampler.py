from __future__ import annotations

import itertools
import queue
import threading
import time

import pytest

from astra_tui.gpu.nvml import GpuReader, GpuSampler
from astra_tui.gpu.nvml.library import CallTimeout, CallWithTimeout
from astra_tui.model.gpu import GpuSample
from tests.nvml.conftest import UUIDS, FakeNvml

PATIENCE = 600.0


def sample() -> GpuSample:
    return GpuSample(time.monotonic())


def test_samples_of_a_gpu_arrive(fake: FakeNvml) -> None:
    samples: queue.SimpleQueue[GpuSample] = queue.SimpleQueue()
    with GpuReader(UUIDS[0]) as reader, GpuSampler(reader.sample, samples.put, rate_hz=500):
        assert samples.get(timeout=PATIENCE).temperature_c == 41
        fake.value("nvmlDeviceGetTemperature", 88)
        while samples.get(timeout=PATIENCE).temperature_c != 88:
            pass


def test_samples_keep_their_distance() -> None:
    ticks = itertools.count()
    now = 0.0

    def clock() -> float:
        nonlocal now
        now = next(ticks) / 1000
        return now

    times: queue.SimpleQueue[float] = queue.SimpleQueue()
    sampler = GpuSampler(
        lambda: GpuSample(now), lambda s: times.put(s.seconds), rate_hz=200, clock=clock
    )
    with sampler:
        taken = [times.get(timeout=PATIENCE) for _ in range(5)]
    assert min(b - a for a, b in itertools.pairwise(taken)) >= 0.005


def test_nothing_is_read_while_paused() -> None:
    timing = threading.Event()
    overlaps: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def read() -> GpuSample:
        begun = timing.is_set()
        taken = sample()
        overlaps.put(begun or timing.is_set())
        return taken

    seen = []
    with GpuSampler(read, lambda _: None, rate_hz=1e5) as sampler:
        for _ in range(50):
            with sampler.paused(PATIENCE) as quiet:
                assert quiet
                timing.set()
                assert sum(range(20_000))
                timing.clear()
            seen.append(overlaps.get(timeout=PATIENCE))
    while not overlaps.empty():
        seen.append(overlaps.get())
    assert not any(seen)


def test_pause_waits_for_the_reading_in_progress() -> None:
    reading, proceed = threading.Event(), threading.Event()

    def read() -> GpuSample:
        reading.set()
        assert proceed.wait(PATIENCE)
        return sample()

    with GpuSampler(read, lambda _: None) as sampler:
        assert reading.wait(PATIENCE)
        assert not sampler.pause(within_s=0.01)
        proceed.set()
        assert sampler.pause(within_s=PATIENCE)


def test_close_does_not_wait_for_a_hung_reading() -> None:
    reading, proceed = threading.Event(), threading.Event()
    samples: queue.SimpleQueue[GpuSample] = queue.SimpleQueue()

    def read() -> GpuSample:
        reading.set()
        assert proceed.wait(PATIENCE)
        return sample()

    sampler = GpuSampler(read, samples.put).start()
    assert reading.wait(PATIENCE)
    assert not sampler.close(within_s=0.01)
    proceed.set()
    assert sampler.close(within_s=PATIENCE)
    assert samples.empty()


def test_close_ends_a_paused_sampler() -> None:
    sampler = GpuSampler(sample, lambda _: None, rate_hz=1000).start()
    assert sampler.pause(PATIENCE)
    assert sampler.close(PATIENCE)
    assert sampler.close(PATIENCE)


def test_close_before_start() -> None:
    assert GpuSampler(sample, lambda _: None).close()


def test_a_callback_that_fails_is_told_by_close() -> None:
    called = threading.Event()

    def broken(_: GpuSample) -> None:
        called.set()
        raise RuntimeError("the pane is gone")

    sampler = GpuSampler(sample, broken, rate_hz=1000).start()
    assert called.wait(PATIENCE)
    with pytest.raises(RuntimeError, match="the pane is gone"):
        sampler.close(PATIENCE)
    assert sampler.close(PATIENCE)


def test_rate_above_zero() -> None:
    with pytest.raises(ValueError, match="above zero"):
        GpuSampler(sample, lambda _: None, rate_hz=0)


@pytest.mark.parametrize("error", [RuntimeError("broken"), TimeoutError("its own")])
def test_patience_passes_on_what_a_call_raises(error: Exception) -> None:
    patience = CallWithTimeout(PATIENCE, "test")

    def work() -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        patience.call(work)
    assert patience.call(lambda: 7) == 7
    assert patience.close()


def test_patience_ends() -> None:
    proceed = threading.Event()
    patience = CallWithTimeout(0.01, "test")

    def wait() -> bool:
        return proceed.wait(PATIENCE)

    with pytest.raises(CallTimeout, match=r"no answer within 0\.01 s"):
        patience.call(wait)
    with pytest.raises(CallTimeout, match="earlier call"):
        patience.call(wait)
    assert not patience.close()
    proceed.set()
