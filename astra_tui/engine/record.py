"""The one place where events are made to last: journal, state, and clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from astra_tui.model.events import Event, Transient
from astra_tui.model.fold import apply
from astra_tui.model.state import SessionState


class Kept(Protocol):
    """An event as it was kept, which is without secrets."""

    @property
    def event(self) -> Event:
        """What a reader of the journal will see."""
        ...


class Store(Protocol):
    """What the engine needs of a journal."""

    def append(self, event: Event) -> Kept:
        """Keeps a durable event, on the disk where the event has to be."""
        ...

    def put_source(self, text: str) -> str:
        """Keeps a source; returns its hash."""
        ...

    def put(self, text: str) -> str:
        """Keeps a prompt or a reply; returns its hash."""
        ...

    def get(self, hash_: str) -> str:
        """A text by its hash."""
        ...


class Record:
    """The state of the running session; `emit` is the only way to change it."""

    def __init__(self, store: Store, state: SessionState, watch: Callable[[Event], None]):
        self.store = store
        self.state = state
        self._watch = watch

    def emit(self, event: Event) -> None:
        """Journals an event, folds it into the state, and shows it to the clients."""
        if not isinstance(event, Transient):
            apply(self.state, event)  # An impossible event must not reach the journal.
            event = self.store.append(event).event
            self.state = apply(self.state, event)
        self._watch(event)
