"""Samples a GPU a few times a second, except while something is being timed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from astra_tui.model.gpu import GpuSample

RATE_HZ = 4.0


class GpuSampler:
    """Calls `read` at a rate on a thread of its own and gives what came to `on_sample`.

    `on_sample` runs on that thread. If it raises, sampling ends and `close` raises the same.
    Samples are taken only between `start` and `close`, not while paused, and never closer to each
    other than the rate says: a late one moves those after it.
    """

    def __init__(
        self,
        read: Callable[[], GpuSample],
        on_sample: Callable[[GpuSample], None],
        *,
        rate_hz: float = RATE_HZ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if rate_hz <= 0:
            raise ValueError(f"a rate is above zero, not {rate_hz:g}")
        self._read = read
        self._on_sample = on_sample
        self._period = 1 / rate_hz
        self._clock = clock
        self._changed = threading.Condition()
        self._paused = self._closed = self._busy = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="gpu sampler", daemon=True)

    def start(self) -> Self:
        """Takes the first sample now."""
        self._thread.start()
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def pause(self, within_s: float = 1.0) -> bool:
        """Takes no further sample. False if one is still being read after `within_s` seconds."""
        with self._changed:
            self._paused = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._busy, within_s)

    def resume(self) -> None:
        """Goes on at once."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    @contextlib.contextmanager
    def paused(self, within_s: float = 1.0) -> Iterator[bool]:
        """Paused inside, as for a timed block; gives what `pause` answers."""
        try:
            yield self.pause(within_s)
        finally:
            self.resume()

    def close(self, within_s: float = 1.0) -> bool:
        """Ends the thread. False if a reading hangs; its thread is left behind, as a daemon."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.ident is None:
            return True
        self._thread.join(within_s)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return not self._thread.is_alive()

    def _run(self) -> None:
        due = self._clock()
        while self._wait_until(due):
            due = self._clock() + self._period
            try:
                sample = self._read()
                if not self._abandoned():
                    self._on_sample(sample)
            except Exception as error:
                self._failure = error
                return
            finally:
                self._rest()

    def _wait_until(self, due: float) -> bool:
        """Waits for the time of the next sample and claims it; False when closed."""
        with self._changed:
            while not self._closed:
                if self._paused:
                    self._changed.wait()
                    continue
                left = due - self._clock()
                if left <= 0:
                    self._busy = True
                    return True
                self._changed.wait(left)
        return False

    def _abandoned(self) -> bool:
        """Whether this sample came after close, when nobody expects it any more."""
        with self._changed:
            return self._closed

    def _rest(self) -> None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
