"""Pause, interrupt and cancel: what an engineer may do at any moment."""

from __future__ import annotations

import asyncio

from astra_tui.engine.record import Record
from astra_tui.engine.stops import Stop
from astra_tui.model.author import Author
from astra_tui.model.events import Paused, RejectionTakenBack, Resumed


class Control:
    """Holds the loop between two steps, or drops the step it is in."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._go = asyncio.Event()
        self._go.set()
        self._step: asyncio.Task[None] | None = None
        self._interrupted: Author | None = None
        self._continued: Author | None = None
        """Who ended the pause of an interrupt before its step was gone."""
        self._taking_back: RejectionTakenBack | None = None
        self._ending: Stop | None = None
        self.cancelled: Author | None = None

    async def checkpoint(self) -> None:
        """Waits here while the session is paused."""
        await self._go.wait()

    def pause(self, by: Author) -> None:
        """Stops before the next step; what runs is finished first."""
        self._continued = None
        if self._go.is_set() and self._interrupted is None:
            self._record.emit(Paused(by))
            self._go.clear()

    def resume(self, by: Author) -> None:
        """Ends a pause, also one that is still to come. An interrupted step begins again."""
        if self._interrupted is not None:
            self._continued = by
        elif not self._go.is_set():
            self._record.emit(Resumed(by))
            self._go.set()

    def interrupt(self, by: Author) -> None:
        """Drops the running step and pauses."""
        self._continued = None
        if self._step is not None and not self._step.done() and self._interrupted is None:
            self._interrupted = by
            self._step.cancel()

    def take_back(self, event: RejectionTakenBack) -> None:
        """Drops the running step, or what would be the first one, and continues at the question as
        if it had not been rejected.
        """
        self._taking_back = event
        if self._step is not None:
            self._step.cancel()

    def cancel(self, by: Author) -> None:
        """Ends the run; the session can be resumed."""
        self.cancelled = self.cancelled or by
        self._go.set()
        if self._step is not None:
            self._step.cancel()

    def end(self, stop: Stop) -> None:
        """Ends the run for a reason that no one gave, such as that no one is there."""
        self._ending = self._ending or stop
        self._go.set()
        if self._step is not None:
            self._step.cancel()

    async def supervise(self, loop: object) -> None:
        """Runs the loop, again after every interrupt: it finds its place from the state."""
        while True:
            self._raise_if_over()
            self._void_rejection()  # Of before the first step, or of a pause.
            self._step = asyncio.ensure_future(loop())  # type: ignore[operator]
            try:
                await self._step
                return
            except asyncio.CancelledError:
                self._raise_if_over()
                if self._interrupted is None and self._taking_back is None:
                    self._step.cancel()
                    raise
                self._void_rejection()
                self._enter_pause()
            await self._go.wait()

    def _void_rejection(self) -> None:
        event, self._taking_back = self._taking_back, None
        revocable = self._record.state.revocable
        # Another decision may have come while the step was being dropped.
        if event is not None and revocable is not None and revocable.question == event.question:
            self._record.emit(event)

    def _enter_pause(self) -> None:
        if self._interrupted is None:
            return
        self._go.clear()
        self._record.emit(Paused(self._interrupted, interrupted=True))
        self._interrupted = None
        if self._continued is not None:
            self.resume(self._continued)
            self._continued = None

    def _raise_if_over(self) -> None:
        if self.cancelled is not None:
            raise asyncio.CancelledError
        if self._ending is not None:
            raise self._ending
