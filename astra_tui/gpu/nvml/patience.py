"""Calls that may never return, made on a thread that can be left behind."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, TypeVar

T = TypeVar("T")


class Unanswered(Exception):
    """A call did not return in time, and may still be running."""


class Patience:
    """Makes calls one after another on a daemon thread, and waits so long for each.

    While a call hangs (a driver can hold one in the kernel, where no signal reaches it), every
    further call fails at once; when it returns after all, calls work again.
    """

    def __init__(self, seconds: float, name: str) -> None:
        self.seconds = seconds
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]
        self._work = queue.SimpleQueue()
        self._hung: Future[Any] | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises. Raises Unanswered."""
        if self._hung is not None and not self._hung.done():
            raise Unanswered("an earlier call has not returned")
        future: Future[T] = Future()
        self._work.put((work, future))
        try:
            return future.result(self.seconds)
        except NotInTime:
            if future.done():  # `work` itself raised a TimeoutError
                raise
            self._hung = future
            raise Unanswered(f"no answer within {self.seconds:g} s") from None

    def close(self) -> bool:
        """Ends the thread; False if it hangs in a call and was left behind."""
        self._work.put(None)
        self._thread.join(0 if self._hung and not self._hung.done() else self.seconds)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            work, future = item
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
