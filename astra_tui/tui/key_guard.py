"""Keeps keys that were meant for something else from deciding a question.

People type on while a question appears. So a question is not drawn before typing has paused, and
once it is drawn no key answers it for a moment, nor while someone still types into a field, nor a
key that comes together with others, as from a key that is held or a text that is pasted.
"""

from __future__ import annotations

from collections.abc import Callable

TYPING_PAUSE = 1.0
"""Seconds without a key before a question may be drawn."""

ANSWER_DELAY = 0.5
"""Seconds after a question was drawn in which nothing answers it."""


QUIET = 0.3
"""Seconds without another key before a key that answers."""

CONFIRM = 0.15
"""Seconds without another key after a key that accepts; held keys repeat more quickly."""

FASTEST_TYPING = 0.05
"""Seconds between keys below which no one typed them."""

LETTER_GAP = 0.5
"""Letters that follow each other more quickly than this are one piece of typing."""


class KeyGuard:
    """Knows when keys were pressed and when the question was drawn. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._before = self._key = self._text = float("-inf")
        self._drawn: float | None = None
        self.presses = 0
        """Counts keys, and what else may make a key mean something else."""

    def key_pressed(self, *, into_text: bool) -> None:
        """A key was pressed; `into_text` when a field took it or may have."""
        self._press()
        if into_text:
            self._text = self._key

    def _press(self) -> None:
        self._before, self._key = self._key, self._clock()
        self.presses += 1

    def unknown_letter(self) -> None:
        """A letter that is no key here was pressed: those that follow at once are text as well."""
        self._text = self._clock()

    def stray_letter(self) -> None:
        """A letter was pressed after a field was closed, too soon to be meant for anything else."""
        now = self._clock()
        if now - self._key < LETTER_GAP:
            self._text = now
        self._press()

    def moved(self) -> None:
        """What is on the screen has another place, or the window has only now come to the front."""
        self.presses += 1
        if self._drawn is not None:
            self._drawn = self._clock()

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
        """Whether a key that came now, and alone, would answer what is on the screen."""
        drawn = self._drawn is not None and self._clock() - self._drawn >= ANSWER_DELAY
        return drawn and not self.just_typed

    @property
    def refusal(self) -> str:
        """Why the key that was pressed last is no answer; empty where it is."""
        if self._drawn is None or self._clock() - self._drawn < ANSWER_DELAY:
            return "the question has only just been drawn; press it again"
        if self.just_typed:
            return "it may belong to the text before it; press it again"
        if self._key - self._before < QUIET:
            return "it came together with another key; press it again"
        return ""

    @property
    def is_pasted(self) -> bool:
        """Whether the last key came so soon after the one before it that no one typed it."""
        return self._key - self._before < FASTEST_TYPING

    @property
    def confirmed_in(self) -> float:
        """Seconds until the last key has stood alone for long enough."""
        return self._key + CONFIRM - self._clock()
