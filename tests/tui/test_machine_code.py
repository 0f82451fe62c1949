"""Machine code next to the source: columns, rows that unfold, the listing, why there is none."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from astra_tui.model.sass import (
    Disassembly,
    Instruction,
    InstructionClass,
    SassKernel,
    instructions_by_line,
    unpacked,
)
from astra_tui.sessions.folder import blob_path, read_blob
from astra_tui.sessions.journal_reader import read_journal
from astra_tui.tui.source import open_saved
from astra_tui.tui.widgets.code.annotations import LineColumn
from astra_tui.tui.widgets.source.lines import ColumnsChoice
from astra_tui.tui.widgets.source.sass import Sass, SourceView, sass_of
from astra_tui.tui.widgets.source.source_pane import SourcePane
from tests.tui.diff.screen import opened, run, screen_lines
from tests.tui.harness import Desk, on_a_loop, seated

LOAD = Instruction(0x10, "LDG.E", ("R4", "[R2]"), InstructionClass.GLOBAL_LOAD, "LDG", "@P0", 2, 1)
ADD = Instruction(0x20, "FADD", ("R4", "R4", "1"), InstructionClass.FLOAT32, "FADD", line=2)
CALL = Instruction(0x30, "RET", (), InstructionClass.BRANCH, "RET")
PAD = Instruction(0x40, "NOP", (), InstructionClass.PADDING, "NOP", line=2)


def kernel(name: str, *instructions: Instruction) -> SassKernel:
    return SassKernel(name, name, instructions, ())


def code(*kernels: SassKernel) -> Disassembly:
    return Disassembly(kernels, "sm_90a", "nvdisasm V13")


def test_a_line_counts_what_it_became() -> None:
    sass = sass_of(code(kernel("k", LOAD, ADD, CALL, PAD)))
    assert sass.columns == (
        LineColumn("SASS", {2: "2"}),
        LineColumn("looped", {2: "1"}),
        LineColumn("memory", {2: "1"}),
        LineColumn("float", {2: "1"}),
    )
    assert sass.words == "3 instructions of sm_90a, 1 of no line"
    assert sass.rows == {2: ("0010 ↻   @P0 LDG.E R4, [R2]", "0020     FADD R4, R4, 1")}


def test_instructions_of_several_kernels_stand_under_their_names() -> None:
    sass = sass_of(code(kernel("k<half>", LOAD), kernel("k<float>", ADD)))
    assert [row.split()[0] for row in sass.rows[2]] == ["k<half>", "0010", "k<float>", "0020"]


def test_the_listing_leads_to_the_first_instruction_of_a_line() -> None:
    sass = sass_of(code(kernel("k", CALL, LOAD, ADD)))
    assert "LDG.E" in sass.listing.split("\n")[sass.first_rows[2]]


def test_keys_go_through_columns_and_unfold_a_line() -> None:
    async def test() -> None:
        asked = []

        def read() -> Sass:
            asked.append(1)
            return sass_of(code(kernel("k", LOAD, ADD)))

        pane = SourcePane(id="source")
        pane.show(SourceView("one\ntwo\nthree\n", columns=(LineColumn("sectors", {2: "7"}),)))
        async with opened(pane) as pilot:
            await pilot.press("i", "c", "c")
            assert pane.lines.shown_columns is ColumnsChoice.COUNTERS
            pane.show(SourceView("one\ntwo\nthree\n", columns=(), sass=read))
            assert not asked
            await pilot.press("down", "c")
            assert screen_lines(pilot)[1].split() == ["SASS", "looped", "memory", "float"]
            assert screen_lines(pilot)[3].split() == [">", "2", "2", "1", "1", "1", "two"]
            await pilot.press("i")
            assert "@P0 LDG.E R4, [R2]" in screen_lines(pilot)[4]
            assert pane.lines.line == 2
            await pilot.press("down", "i")
            assert "three" in screen_lines(pilot)[4]
            await pilot.press("down", "i")
            assert "no instruction of its own" in screen_lines(pilot)[5]
            await pilot.press("c")
            assert pane.lines.shown_columns is ColumnsChoice.NOTHING
            assert len(asked) == 1

    run(test())


@on_a_loop
async def test_a_saved_session_shows_the_code_that_was_profiled(saved: Path) -> None:
    best = read_journal(saved).state()
    kernels = unpacked(read_blob(saved, best.candidate(best.best).machine_code)).kernels
    lines = instructions_by_line(kernels)
    line = next(n for n in lines if n)
    async with seated(partial(open_saved, saved)) as desk:
        await _look_at_best(desk, best.best)
        await desk.press("c")
        await desk.until(lambda: "SASS" in desk.session.source_pane.column_titles(), "columns")
        assert "instructions of sm_" in desk.session.source_pane.title()
        desk.session.source_pane.go_to_line(line)
        await desk.press("I")
        dialog = desk.app.screen
        await desk.until(lambda: kernels[0].name in dialog.query_one("LinesView").text, "listing")  # type: ignore[attr-defined]


@on_a_loop
async def test_what_is_missing_is_said_in_words(saved: Path, tmp_path: Path) -> None:
    state = read_journal(saved).state()
    lossy = shutil.copytree(saved, tmp_path / saved.name)
    blob_path(lossy, state.candidate(state.best).machine_code).unlink()
    async with seated(partial(open_saved, lossy)) as desk:
        await _look_at_best(desk, state.best)
        pane = desk.session.source_pane
        await desk.press("c")
        await desk.until(lambda: "is missing" in pane.column_titles(), "the reason")
        assert desk.session.view is not None
        known = state.candidate(state.best)
        assert known.profile is not None
        missing = replace(known.profile, missing={"code": "nvdisasm was not found"})
        lacking = replace(known, machine_code="", profile=missing)
        assert pane._sass(lacking, "silu").problem == "nvdisasm was not found"
        older = replace(known, machine_code="")
        command = f"astra-tui sass silu sources/{state.best[:12]}.cu"
        assert pane._sass(older, "silu").problem == f"this session holds none; see {command}"


async def _look_at_best(desk: Desk, best: str) -> None:
    """The source pane on the best candidate."""
    await desk.until(lambda: desk.session.view, "the session")
    await desk.press("1")
    for _ in range(10):
        view = desk.session.view
        if view is not None and view.candidate is not None and view.candidate.hash == best:
            break
        await desk.press("up")
    await desk.press("4")
