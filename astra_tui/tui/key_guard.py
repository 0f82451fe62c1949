"""Keeps keys that were meant for something else from deciding a question.

People type on while a question appears. So a question is not drawn before typing has paused, and
once it is drawn no key answers it for a moment, nor while someone still types into a field.
"""

from __future__ import annotations

from collections.abc import Callable

TYPING_PAUSE = 1.0
"""Seconds without a key before a question may be drawn."""

ANSWER_DELAY = 0.5
"""Seconds after a question was drawn in which nothing answers it."""


LETTER_GAP = 0.5
"""Letters that follow each other more quickly than this are one piece of typing."""


class KeyGuard:
    """Knows when keys were pressed and when the question was drawn. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._key = self._text = float("-inf")
        self._drawn: float | None = None

    def key_pressed(self, *, into_text: bool) -> None:
        """A key was pressed; `into_text` when a field took it or may have."""
        self._key = self._clock()
        if into_text:
            self._text = self._key

    def stray_letter(self) -> None:
        """A letter was pressed after a field was closed, too soon to be meant for anything else."""
        now = self._clock()
        if now - self._key < LETTER_GAP:
            self._text = now
        self._key = now

    def drawn(self) -> None:
        """The question is on the screen, as it is now, from this moment on."""
        self._drawn = self._clock()

    def hidden(self) -> None:
        """No question is on the screen."""
        self._drawn = None

    @property
    def may_draw(self) -> bool:
        """Whether no one is in the middle of typing."""
        return self._clock() - self._key >= TYPING_PAUSE

    @property
    def just_typed(self) -> bool:
        """Whether someone typed into a field until a moment ago; letters may be meant for it."""
        return self._clock() - self._text < TYPING_PAUSE

    @property
    def may_answer(self) -> bool:
        """Whether a key pressed now is an answer to what is on the screen."""
        drawn = self._drawn is not None and self._clock() - self._drawn >= ANSWER_DELAY
        return drawn and not self.just_typed
