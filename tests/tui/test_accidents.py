"""Generated input through open questions: a decision that no one meant is an accident.

What an accident is, is judged here by the input and by what was seen on the screen, and not by the
app's own guard.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from textual import events
from textual.geometry import Size
from textual.widgets import Input

from astra_tui.model.approval import Answer, ApprovalStatus
from tests.tui.harness import Desk, on_a_loop, seated
from tests.tui.test_typing import Asker

SEQUENCES = int(os.environ.get("ASTRA_TUI_SEQUENCES", "15"))
"""Shared out over the sizes; for more of them: ASTRA_TUI_SEQUENCES=500."""

SIZES = ((80, 24), (120, 36), (160, 48))

READ = 0.5
"""Seconds that a question has been on the screen, as it is now, before a key may answer it."""

APART = 0.3
"""Seconds without another key before one that answers, so that it is no part of a burst."""

ALONE = 0.15
"""Seconds without another key after one that accepts: held keys repeat within them."""

TYPED = 0.05
"""Seconds between two keys that a person has typed."""

TEXTS = (
    "accept all of it please\n",
    "aa",
    "/aa\n",
    "reject that\n",
    "a\n",
    "yes\n",
    "na\n",
    "era\n",
)
WORDS = ("/accesses", "/aa", "/a", "/era")


@dataclass(frozen=True)
class Happening:
    """One thing that happens, `after` seconds after the last one."""

    after: float
    what: str
    """A key, or "resize", "focus" or "ask"."""


def generated(random_: random.Random) -> list[Happening]:
    """What someone may do around a question: keys, held ones, texts, searches, windows."""
    parts = [random_.choice(_PARTS)(random_) for _ in range(random_.randint(2, 5))]
    parts.insert(random_.randrange(len(parts)), [Happening(random_.uniform(0, 2), "ask")])
    return [one for part in parts for one in part]


def _key(random_: random.Random) -> list[Happening]:
    key = random_.choice(["a", "a", "a", "r", "e", "n", "slash", "space", "1", "8", "enter", "z"])
    return [Happening(random_.choice([0.01, 0.2, 0.4, 0.7, 1.2, 3.0]), key)]


def _held(random_: random.Random) -> list[Happening]:
    delay, key = random_.uniform(0.2, 0.7), random_.choice("aar8")
    first = [Happening(random_.uniform(0, 3), key), Happening(delay, key)]
    return [*first, *(Happening(0.03, key) for _ in range(random_.randint(3, 30)))]


def _pasted(random_: random.Random) -> list[Happening]:
    text, gap = random_.choice(TEXTS), random_.choice([0.001, 0.01, 0.03])
    return [
        Happening(gap if n else random_.uniform(0, 3), _name(letter))
        for n, letter in enumerate(text)
    ]


def _searched(random_: random.Random) -> list[Happening]:
    word = [*random_.choice(WORDS), "\n"]
    return [
        Happening(random_.uniform(0.06, 0.45) if n else random_.uniform(0, 3), _name(letter))
        for n, letter in enumerate(word)
    ]


def _window(random_: random.Random) -> list[Happening]:
    moved = Happening(random_.uniform(0, 3), random_.choice(["resize", "focus"]))
    return [moved, Happening(random_.choice([0.02, 0.3, 0.6]), "a")]


def _name(letter: str) -> str:
    return {"\n": "enter", " ": "space", "/": "slash"}.get(letter, letter)


_PARTS = (_key, _key, _held, _pasted, _searched, _window)


@dataclass
class Oracle:
    """Knows when keys were pressed, into what, and since when the question has been readable."""

    presses: list[tuple[float, str, bool]] = field(default_factory=list)
    """Time, key, and whether a field had the focus."""
    shown_since: float | None = None

    def moved(self, now: float) -> None:
        if self.shown_since is not None:
            self.shown_since = now

    def sees(self, desk: Desk) -> None:
        is_there = "?" in desk.text("#approval") and len(desk.app.screen_stack) == 2
        if not is_there:
            self.shown_since = None
        elif self.shown_since is None:
            self.shown_since = desk.clock.now

    def accident(self, answer: Answer, shown_since: float | None) -> str:
        """Why no one can have meant an answer, "" where someone may have."""
        if answer.status is ApprovalStatus.REJECTED:
            ends = [
                n for n, (_, key, typing) in enumerate(self.presses) if key == "enter" and typing
            ]
            if not ends:
                return "rejected without enter in a field"
            at = ends[-1]
            since = self.presses[at][0] - self.presses[at - 1][0]
            return "" if since >= TYPED else f"enter {since:.3f} s after a key"
        at = max((n for n, (_, key, _) in enumerate(self.presses) if key == "a"), default=-1)
        if at < 0:
            return "accepted without a key"
        return "; ".join(self._faults(at, shown_since))

    def _faults(self, at: int, shown_since: float | None) -> Iterator[str]:
        now, _, typing = self.presses[at]
        if typing:
            yield "typed into a field"
        if shown_since is None or now - shown_since < READ:
            yield f"on the screen since {shown_since}, pressed at {now}"
        if at and now - self.presses[at - 1][0] < APART:
            yield f"{now - self.presses[at - 1][0]:.3f} s after another key"
        if at + 1 < len(self.presses) and self.presses[at + 1][0] - now < ALONE:
            yield "another key followed"
        for time, key, _ in reversed(self.presses[:at]):
            if now - time >= 1.0 or (len(key) > 1 and key != "slash"):
                break
            if key == "slash":
                yield "within a search"
            now = time


class Scene:
    """An app with questions, and the oracle beside it."""

    def __init__(self, desk: Desk, asker: Asker):
        self.desk, self.asker, self.oracle = desk, asker, Oracle()
        self._narrow = False

    async def play(self, inputs: list[Happening]) -> list[str]:
        """Does what is generated; the accidents."""
        found = []
        for one in inputs:
            before = len(self.asker.answers), self.oracle.shown_since
            await self._pass(one.after)
            found += self._judge(*before)
            before = len(self.asker.answers), self.oracle.shown_since
            await self._do(one.what)
            await self._pass(0)
            found += self._judge(*before)
        before = len(self.asker.answers), self.oracle.shown_since
        await self._pass(2)
        return [*found, *self._judge(*before)]

    async def _pass(self, seconds: float) -> None:
        """Lets time pass in steps, in each of which the app looks at what it waits for."""
        while True:
            step = min(seconds, 0.25)
            self.desk.clock.advance(step)
            seconds -= step
            self.desk.session._answering.look_again()
            await self.desk.settle()
            self.oracle.sees(self.desk)
            if seconds <= 0:
                return

    async def _do(self, what: str) -> None:
        now = self.desk.clock.now
        if what == "ask":
            if self.asker.open is None:
                self.asker.ask()
        elif what == "resize":
            self._narrow = not self._narrow
            width, height = self.desk.app.size
            size = Size(width, height + (-1 if self._narrow else 1))
            self.desk.app.post_message(events.Resize(size, size))
            self.oracle.moved(now)
        elif what == "focus":
            self.desk.app.post_message(events.AppBlur())
            self.desk.app.post_message(events.AppFocus())
            self.oracle.moved(now)
        else:
            self.oracle.presses.append((now, what, isinstance(self.desk.app.focused, Input)))
            await self.desk.type(what)

    def _judge(self, answers: int, shown_since: float | None) -> list[str]:
        return [
            fault
            for answer in self.asker.answers[answers:]
            if (fault := self.oracle.accident(answer, shown_since))
        ]

    async def meant(self) -> None:
        """Comes back to the session, and one deliberate key decides what is open."""
        while len(self.desk.app.screen_stack) > 2 or isinstance(self.desk.app.focused, Input):
            await self.desk.press("escape")
            await self._pass(0)
        if self.asker.open is None:
            self.asker.ask()
        await self.desk.asked("plan")
        await self.desk.press("2")
        await self.desk.asked("plan")
        await self.desk.press("a")
        await self.desk.until(lambda: self.asker.open is None, "the deliberate answer")
        self.oracle = Oracle()


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_no_generated_sequence_decides_by_accident(tmp_path: Path, size: tuple[int, int]) -> None:
    @on_a_loop
    async def test() -> None:
        asker = Asker(tmp_path)

        async def opened() -> Asker:
            return asker

        async with seated(opened, size) as desk:  # type: ignore[arg-type]
            scene = Scene(desk, asker)
            for seed in range(-(-SEQUENCES // len(SIZES))):
                inputs = generated(random.Random(f"{size} {seed}"))
                accidents = await scene.play(inputs)
                assert not accidents, (seed, accidents, inputs)
                await scene.meant()

    test()
