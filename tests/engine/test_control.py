"""Orders that come faster than the step that they are about can be dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from astra_tui.engine.control import Control
from astra_tui.engine.record import Record
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.events import Event, Paused, Resumed
from astra_tui.model.task import KernelTask
from tests.engine.scripted import ENGINEER, ScriptedTeam, settings_of, start

OTHER = Author(AuthorKind.ENGINEER, "other")
DROPPED = Paused(ENGINEER, interrupted=True)


class Run:
    """A supervised loop whose step only waits, and what was recorded of it."""

    def __init__(self, folder: Path, task: KernelTask):
        session = start(folder, task, ScriptedTeam([]), settings_of())
        self.events: list[Event] = []
        self.record = Record(session.journal, session.engine.state, self.events.append)
        self.control = Control(self.record)
        self.journal = session.journal
        self.steps = 0
        self._finish = asyncio.Event()

    async def _loop(self) -> None:
        self.steps += 1
        await self._finish.wait()

    async def supervised(self, order: Callable[[Control], None]) -> None:
        """Gives the orders of `order` at once while a step runs; returns when all is settled."""
        running = asyncio.ensure_future(self.control.supervise(self._loop))
        await self._until(lambda: self.steps == 1)
        order(self.control)
        await self._until(lambda: self._is_settled)
        self._finish.set()
        if not self.record.state.paused:
            async with asyncio.timeout(600):
                await running
        running.cancel()
        await asyncio.wait([running])
        self.journal.close()

    @property
    def _is_settled(self) -> bool:
        """Whether the interrupt is recorded, and a new step began where nothing holds it."""
        return DROPPED in self.events and (self.record.state.paused or self.steps == 2)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(600):
            while not holds():
                await asyncio.sleep(0)


def supervise(folder: Path, task: KernelTask, order: Callable[[Control], None]) -> Run:
    async def main() -> Run:
        run = Run(folder, task)
        await run.supervised(order)
        return run

    return asyncio.run(main())


def interrupt_and_go_on(control: Control) -> None:
    control.interrupt(ENGINEER)
    control.resume(OTHER)


def pause_interrupt_and_go_on(control: Control) -> None:
    control.pause(ENGINEER)
    interrupt_and_go_on(control)


def interrupt_go_on_and_pause(control: Control) -> None:
    interrupt_and_go_on(control)
    control.pause(OTHER)


def interrupt_go_on_and_interrupt(control: Control) -> None:
    interrupt_and_go_on(control)
    control.interrupt(OTHER)


@pytest.mark.parametrize(
    ("order", "recorded"),
    [
        (interrupt_and_go_on, [DROPPED, Resumed(OTHER)]),
        (pause_interrupt_and_go_on, [Paused(ENGINEER), DROPPED, Resumed(OTHER)]),
    ],
)
def test_going_on_right_after_an_interrupt_begins_the_step_anew(
    tmp_path: Path, quick_task: KernelTask, order: Callable[[Control], None], recorded: list[Event]
) -> None:
    run = supervise(tmp_path / "s", quick_task, order)
    assert run.events == recorded
    assert run.steps == 2


@pytest.mark.parametrize("order", [interrupt_go_on_and_pause, interrupt_go_on_and_interrupt])
def test_the_last_of_several_orders_counts(
    tmp_path: Path, quick_task: KernelTask, order: Callable[[Control], None]
) -> None:
    run = supervise(tmp_path / "s", quick_task, order)
    assert run.events == [DROPPED]
    assert (run.steps, run.record.state.paused) == (1, True)
