"""The timeline of a replay: its line, its keys, the mouse on it; what a seek shows and costs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.errors import UserError
from astra_tui.model.events import DecisionTaken, VerdictReached
from astra_tui.present.numbers import rough_duration
from astra_tui.sessions.journal_lines import Record
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.sessions.timeline import (
    LONGEST_WAIT,
    MAX_SNAPSHOTS,
    MomentKind,
    Timeline,
)
from astra_tui.tui.player import Player, ReplayState, TimelineBar
from astra_tui.tui.presenter import LOG_LENGTH, Presenter
from astra_tui.tui.source import Item, SavedSource, open_saved
from astra_tui.tui.view import View, entry_of
from astra_tui.tui.widgets.line_view import LinesView
from astra_tui.tui.widgets.pane_layout import PANES
from astra_tui.tui.widgets.replay_line import (
    HEAD,
    STATUS_WIDTH,
    ReplayLine,
    status_words,
)
from tests.sessions.samples import whole_session
from tests.sessions.synthetic import write_session
from tests.sessions.test_timeline import events_folded
from tests.tui.harness import NARROW, Clock, Desk, on_a_loop, seated

BROAD = (200, 60)


def timeline_of(gaps: Sequence[float]) -> Timeline:
    """A session whose events follow each other after these seconds, over and over."""
    seconds, records = 0.0, []
    for number, event in enumerate(whole_session()):
        seconds += gaps[number % len(gaps)]
        minutes, rest = divmod(seconds, 60)
        hours, minutes = divmod(int(minutes), 60)
        stamp = f"2026-11-21T{hours:02}:{minutes:02}:{rest:06.3f}Z"
        records.append(Record(number, stamp, 0.0, event))  # type: ignore[arg-type]
    return Timeline(records)


@given(st.lists(st.floats(0, 600), min_size=1, max_size=8), st.integers(2, 300))
def test_places_on_the_line_are_in_order_and_found_again(gaps: list[float], width: int) -> None:
    timeline = timeline_of(gaps)
    track = TimelineBar(timeline)
    cells = [track.cell(p, width) for p in range(len(timeline) + 1)]
    assert cells == sorted(cells)
    assert (cells[0], cells[-1]) == (0, width - 1)
    positions = [track.position(c, width) for c in range(width)]
    assert positions == sorted(positions)
    assert (positions[0], positions[-1]) == (0, len(timeline))
    for cell, moment in track.marks(width).items():
        assert track.cell(moment.position, width) == cell


def test_a_line_that_is_wide_enough_shows_every_turning_point() -> None:
    timeline = timeline_of([0.0])
    track = TimelineBar(timeline)
    assert set(track.marks(80).values()) == set(timeline.moments)
    assert track.idle(80) == frozenset()
    assert TimelineBar(timeline_of([31.0])).idle(80)


@on_a_loop
async def test_a_session_without_an_event_can_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b"")
    async with seated(partial(open_saved, tmp_path), NARROW) as desk:
        await desk.until(lambda: "nothing has happened yet" in desk.text("#status"), "the replay")
        await desk.press("p", ".", ",", "]", "[", "d", "D", "}", "{", ">")
        player = desk.session.player
        assert player is not None
        assert (player.position, player.playing) == (0, False)


def test_an_idle_stretch_is_shortened_and_said_to_be() -> None:
    player = Player(timeline_of([42.0]), Clock())
    player.play(1.0, player.length)
    assert player._until_due() == 0
    player._advance()
    assert player.position == 1
    assert player._until_due() == LONGEST_WAIT
    assert status_words(player) == "idle 42 s shortened"
    player.change_speed(1)
    assert player._until_due() == LONGEST_WAIT
    for _ in range(5):
        player.change_speed(1)
    assert player._until_due() == pytest.approx(0.42)
    assert status_words(player) == "playing 100x"
    player.toggle()
    assert player._until_due() is None
    assert status_words(player) == "stopped 100x"


def test_a_machine_that_slept_does_not_play_what_it_slept_through() -> None:
    clock = Clock()
    player = Player(timeline_of([1.0]), clock)
    player.play(1.0, player.length)
    player._until_due()
    player._advance()
    assert player.position == 1
    clock.advance(3600.0)
    player._advance()
    assert player.position <= 1 + 3


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"),
        (42.0, "42 s"),
        (119.9, "120 s"),
        (120.0, "2 min"),
        (7200.0, "2 h"),
        (3e5, "3 d"),
    ],
)
def test_idle_times_are_told_in_one_unit(seconds: float, words: str) -> None:
    assert rough_duration(seconds) == words


@on_a_loop
async def test_the_line_is_there_in_a_replay_and_its_keys_go_from_mark_to_mark(
    saved: Path,
) -> None:
    events = read_journal(saved).events
    async with seated(partial(open_saved, saved), NARROW) as desk:
        await desk.until(lambda: HEAD in desk.text("#timeline"), "the line")
        player = desk.session.player
        assert player is not None
        await desk.until(lambda: "d Decision" in desk.text("#keys"), "its keys")
        await desk.press("{")
        assert player.position == 0
        await desk.press("d", ",")
        await desk.until(lambda: "plan to decide" in desk.text("#status"), "what was asked")
        await desk.press("1")
        await desk.until(lambda: "plan to decide" in desk.text("#rounds"), "the open question")
        await desk.press("{")
        for key, kind in (("d", DecisionTaken), ("v", VerdictReached)):
            await desk.press(key)
            assert isinstance(events[player.position - 1], kind)
            later = player.position
            await desk.press(key, key.upper())
            assert player.position == later
        await desk.press("e")
        found = player.timeline.preceding(player.position + 1, {MomentKind.ERROR})
        assert found is not None
        assert found.position == player.position
        await desk.press("E")
        await desk.told("no error before")
        await desk.press("}", "question_mark")
        assert player.position == player.length
        await desk.until(lambda: desk.app.screen is not desk.session, "the help")
        help_text = desk.app.screen.query_one(LinesView)
        await desk.until(lambda: "| a round begins" in " ".join(help_text.text.split()), "marks")


@on_a_loop
async def test_the_mouse_clicks_and_drags(saved: Path) -> None:
    async with seated(partial(open_saved, saved)) as desk:
        await desk.until(lambda: HEAD in desk.text("#timeline"), "the line")
        player, line = desk.session.player, desk.session.query_one(ReplayLine)
        await desk.until(lambda: line.region.width, "the line in its place")
        assert player is not None
        cell, moment = sorted(player.track.marks(line.track_width).items())[2]
        await desk.pilot.click("#timeline", offset=(STATUS_WIDTH + cell, 0))
        assert player.position == moment.position
        for beside in (2, line.size.width - 2):
            await desk.pilot.click("#timeline", offset=(beside, 0))
            assert player.position == moment.position
        await desk.pilot.mouse_down("#timeline", offset=(STATUS_WIDTH, 0))
        assert player.position == 0
        await desk.pilot.hover("#board", offset=(STATUS_WIDTH + cell, 5))
        assert player.position == moment.position
        await desk.pilot.mouse_up("#timeline", offset=(STATUS_WIDTH + cell, 0))
        await desk.pilot.hover("#timeline", offset=(STATUS_WIDTH + 1, 0))
        assert player.position == moment.position
        await desk.pilot.resize_terminal(40, 12)
        await desk.until(lambda: desk.text("#timeline").strip() == "stopped 1x", "a short line")


class Told:
    """A source that tells records one by one, as an engine does."""

    engine = None
    player = None

    def __init__(self, folder: Path, records: Sequence[Record]):
        self.folder = folder
        self._records = records

    async def items(self) -> AsyncIterator[Item]:
        for record in self._records:
            yield record
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


def says(desk: Desk, selector: str, words: str) -> bool:
    return words in desk.text(selector)


async def texts(desk: Desk) -> dict[str, str]:
    """What every pane says, once each has been looked at."""
    await desk.press(*map(str, range(1, len(PANES) + 1)))
    await desk.pilot.pause()
    return {pane: desk.text(f"#{pane}") for pane in PANES}


@on_a_loop
async def test_every_pane_shows_what_it_showed_live(saved: Path) -> None:
    records = read_journal(saved).records
    verdict = next(n for n, r in enumerate(records, 1) if isinstance(r.event, VerdictReached))
    source = SavedSource.read(saved)

    async def again() -> SavedSource:
        return source

    for position in (len(records) - 1, verdict, 6):
        told = Told(saved, records[:position])

        async def live(told: Told = told) -> Told:
            return told

        async with seated(live, BROAD) as desk:
            await desk.until(lambda: desk.session.view, "the session")
            expected = await texts(desk)
        source.player.seek(position // 2)
        async with seated(again, BROAD) as desk:
            await desk.until(lambda: desk.session.view, "the replay")
            source.player.seek(position)
            place = f"event {position} of"
            await desk.until(partial(says, desk, "#status", place), place)
            assert await texts(desk) == expected


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> SavedSource:
    folder = tmp_path_factory.mktemp("long") / "session"
    write_session(folder, rounds=1000)
    return asyncio.run(open_saved(folder))


def test_of_many_rounds_some_have_marks_with_room_between(thousand: SavedSource) -> None:
    marks = TimelineBar(thousand.player.timeline).marks(80)
    kinds = {mark.kind for mark in marks.values()}
    assert kinds >= {MomentKind.ROUND, MomentKind.DECISION, MomentKind.BEST}
    assert len(marks) <= 40
    rounds = {mark.round for mark in marks.values() if mark.kind is MomentKind.ROUND}
    assert rounds <= set(range(0, 1001, 100))


def test_a_seek_in_a_thousand_rounds_is_one_picture(
    thousand: SavedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    player, shown = thousand.player, list[View]()
    draw, folded = random.Random(2), events_folded(monkeypatch)

    async def seek() -> None:
        bridge = Presenter(thousand, shown.append, tick=0.0)
        scenes = player.items()
        for _ in range(30):
            position = draw.randrange(player.length)
            folded.clear()
            pictures = len(shown)
            player.seek(position)
            bridge._take(await anext(scenes))
            bridge.refresh()
            assert len(shown) == pictures + 1
            assert len(folded) <= -(-player.length // MAX_SNAPSHOTS)
            assert shown[-1].state is player.timeline.state(position)
        past = filter(None, map(entry_of, player.timeline.records[:position]))
        assert shown[-1].log == tuple(past)[-LOG_LENGTH:]

    asyncio.run(seek())


@on_a_loop
async def test_a_speed_plays_from_the_beginning_until_an_event(saved: Path) -> None:
    source = await open_saved(saved, speed=float("inf"), to=7)
    positions = [scene.position async for scene in first_two(source.player)]
    assert positions == [0, source.player.timeline.position_of(7)]
    assert not source.player.playing
    with pytest.raises(UserError, match="has no event 1000000"):
        await open_saved(saved, to=10**6)


async def first_two(player: Player) -> AsyncIterator[ReplayState]:
    scenes = player.items()
    yield await anext(scenes)
    yield await anext(scenes)


@on_a_loop
async def test_what_is_damaged_is_said(saved: Path, tmp_path: Path) -> None:
    journal = (saved / "journal.jsonl").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(journal[:-30])
    async with seated(partial(open_saved, tmp_path)) as desk:
        await desk.told("1 parts")
