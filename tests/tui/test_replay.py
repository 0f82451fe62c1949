"""A saved session on the same screen: it plays, steps and seeks, and decides nothing."""

from __future__ import annotations

import argparse
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from astra_tui import tui
from astra_tui.cli.screen import show_replay
from astra_tui.cli.settings import Choices
from astra_tui.model.errors import UserError
from astra_tui.model.fold import fold
from astra_tui.model.task import bundled
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.tui.app_io import Preferences
from astra_tui.tui.player import SPEEDS, Player
from astra_tui.tui.source import open_saved
from astra_tui.tui.widgets.rounds import RoundsPane
from tests.tui.harness import NARROW, on_a_loop, seated


@on_a_loop
async def test_a_saved_session_shows_its_end_in_every_pane(saved: Path) -> None:
    async with seated(partial(open_saved, saved), (140, 24)) as desk:
        await desk.until(lambda: "finished: 3 of 3 rounds" in desk.text("#status"), "the end")
        listed = desk.session.query_one(RoundsPane)
        await desk.until(lambda: listed.cursor and listed.scroll_offset.y, "the last round")
        assert listed.cursor + 2 <= listed.scroll_offset.y + listed.inner_size.height
        rounds = desk.text("#rounds")
        assert [w in rounds for w in ("better", "wrong", "worse")] == [True] * 3
        assert "more instructions" in desk.text("#plan")
        await desk.press("1", "up")
        await desk.until(lambda: "another scale" in desk.text("#plan"), "the chosen plan")
        await desk.press("5")
        assert "FAILED" in desk.text("#tests")
        assert "cases failed" in desk.text("#tests")
        assert "astra-tui check silu_and_mul sources/" in " ".join(desk.text("#tests").split())
        await desk.press("1", "up", "6")
        await desk.until(lambda: "verdict  better" in desk.text("#profile"), "the profile")
        await desk.press("3")
        await desk.until(lambda: "+" in desk.text("#diff"), "the diff")
        await desk.press("8")
        await desk.until(lambda: "finished: 3 of 3 rounds are done" in desk.text("#log"), "the log")


@on_a_loop
async def test_a_session_that_was_altered_is_shown_and_then_said_to_be(
    saved: Path, tmp_path: Path
) -> None:
    """One with another word, and one from which events were taken out; the top line says so for as
    long as it is open, at 80 columns too.
    """
    lines = (saved / "journal.jsonl").read_bytes().splitlines(keepends=True)
    proposed = next(n for n, line in enumerate(lines) if b'"plan_proposed"' in line)
    for content, told in (
        (b"".join(lines).replace(b"another scale", b"another skale", 1), "this session is altered"),
        (b"".join(lines[:proposed] + lines[proposed + 1 :]), "the replay ends before event"),
    ):
        folder = Path(shutil.copytree(saved, tmp_path / told))
        (folder / "journal.jsonl").write_bytes(content)
        async with seated(partial(open_saved, folder), NARROW) as desk:
            await desk.told(told)
            await desk.until(lambda: "ALTERED" in desk.text("#status"), "the verdict")


@on_a_loop
async def test_nothing_can_be_decided_or_steered(saved: Path) -> None:
    async with seated(partial(open_saved, saved), NARROW) as desk:
        await desk.until(lambda: desk.session.view, "the session")
        keys = {b.binding.id for b in desk.app.screen.active_bindings.values()}
        assert not keys & {"accept", "edit", "reject", "note", "pause", "interrupt", "mode", "end"}
        assert {"play", "step", "round_on", "zoom", "copy", "help", "leave"} <= keys


@on_a_loop
async def test_any_step_shows_the_fold_of_the_events_up_to_there(saved: Path) -> None:
    records = read_journal(saved).records
    async with seated(partial(open_saved, saved)) as desk:
        await desk.until(lambda: desk.session.view, "the session")
        for keys in (["["], ["[", ","], ["]"], ["."] * 3, ["["] * 5, ["]", "]"]):
            await desk.press(*keys)
            player = desk.session.player
            assert player is not None
            expected = fold(r.event for r in records[: player.position])

            def is_shown(state: object = expected) -> bool:
                return desk.session.view is not None and desk.session.view.state == state

            await desk.until(is_shown, "the state at this place")


@on_a_loop
async def test_it_plays_to_the_end(saved: Path) -> None:
    async with seated(partial(open_saved, saved)) as desk:
        await desk.until(lambda: desk.session.view, "the session")
        player = desk.session.player
        assert player is not None
        await desk.press("p")
        await desk.until(lambda: 0 < player.position < player.length, "playing")
        await desk.press(*[">"] * len(SPEEDS))
        assert player.speed == max(SPEEDS)
        await desk.until(lambda: not player.playing, "the end")
        await desk.until(lambda: "finished: " in desk.text("#status"), "the end on the screen")


@on_a_loop
async def test_the_keys_say_whether_p_plays_or_pauses(saved: Path) -> None:
    async with seated(partial(open_saved, saved)) as desk:
        await desk.until(lambda: " p Play " in desk.text("#keys"), "a key that plays")
        await desk.press("less_than_sign", "p")
        await desk.until(lambda: " p Pause " in desk.text("#keys"), "a key that pauses")
        named = {command.title for command in desk.app.get_system_commands(desk.app.screen)}
        assert "Pause" in named
        assert "Play" not in named
        await desk.press("p")
        await desk.until(lambda: " p Play " in desk.text("#keys"), "a key that plays again")
        await desk.press("p")
        await desk.until(lambda: " p Pause " in desk.text("#keys"), "a key that pauses again")
        await desk.press(*["greater_than_sign"] * len(SPEEDS))
        await desk.until(lambda: " p Play " in desk.text("#keys"), "the end")


def test_a_player_stays_within_its_records(saved: Path) -> None:
    player = Player(read_session(saved).timeline)
    player.seek(-5)
    assert player.position == 0
    player.step_round(-1)
    assert player.position == 0
    player.seek(10**6)
    assert player.position == player.length
    player.step_round(1)
    assert player.position == player.length


@on_a_loop
async def test_a_folder_without_a_session_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="journal is missing"):
        await open_saved(tmp_path)


@on_a_loop
async def test_a_branch_begins_at_the_chosen_candidate(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parent = tmp_path / "elsewhere" / saved.name
    shutil.copytree(saved, parent)
    async with seated(partial(open_saved, parent)) as desk:
        await desk.until(lambda: desk.session.view and desk.text("#rounds"), "the session")
        await desk.press("1", "up", "up")
        await desk.until(lambda: "wide loads" in desk.text("#plan"), "the first candidate")
        await desk.press("b", *"other way", "enter")
        await desk.told("branched off: sessions/")
    (made,) = (tmp_path / "sessions").iterdir()
    assert list(parent.parent.iterdir()) == [parent]
    state = read_journal(made).state()
    assert [r.number for r in state.rounds] == [0, 1]
    assert state.best == state.round(1).best
    assert [n.text for n in state.notes] == ["other way"]


def test_branches_come_into_the_folder_that_is_configured(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Preferences] = []
    monkeypatch.setattr(tui, "open_session", lambda _, preferences: shown.append(preferences))
    options = argparse.Namespace(speed=None, to=None)
    show_replay(saved, Choices(sessions="kept"), options)
    show_replay(saved, Choices(), options)
    assert [p.sessions for p in shown] == [Path("kept"), Path("sessions")]


@on_a_loop
async def test_a_session_from_a_gpu_shows_times_floors_and_the_gpu() -> None:
    async with seated(partial(open_saved, bundled("sessions") / "h100-playbook-silu")) as desk:
        await desk.until(lambda: "GPU s" in desk.text("#status"), "the session")
        assert re.search(r"best \d\.\d+x vs tuned\.cu", desk.text("#status"))
        assert re.search(r"better +\d\.\d+x", desk.text("#rounds"))
        await desk.press("1", "up", "up", "up", "6")  # Round 3 made the best.
        await desk.until(lambda: "Time against the baseline" in desk.text("#profile"), "times")
        for word in ("cold", "warm", "paper", "of floor", "pairs", "registers", "occupancy"):
            assert word in desk.text("#profile")
        await desk.press("7")
        await desk.until(lambda: "NVIDIA H100" in desk.text("#gpu"), "the GPU")
        assert "of GPU time" in desk.text("#gpu")
