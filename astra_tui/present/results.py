"""The result of a run: the best by its final timings, and counter by counter."""

from __future__ import annotations

from pathlib import Path

from astra_tui.model.state import CandidateState, SessionState
from astra_tui.present import document as doc
from astra_tui.present.checks import sanitizer_blocks
from astra_tui.present.counters import hardware_blocks
from astra_tui.present.numbers import short
from astra_tui.present.timing import CaveatMarks, Names, shipped_blocks, timing_blocks
from astra_tui.present.words import device_words, team_words
from astra_tui.sessions.summary import final_timings

_COUNTERS = ("sectors", "requests", "warp_instructions", "shared_requests", "barriers")


def result_blocks(state: SessionState, folder: Path) -> list[doc.Block]:
    """What ran where, why it ended, and how good the best is."""
    opened, gpu = state.opened, state.device.gpu if state.device else None
    assert opened is not None
    baseline, best = state.candidate(opened.baseline), state.candidate(state.best)
    measured = baseline.profile is not None or final_timings(state)
    told: doc.Line = ()
    if measured:
        told = ("the baseline: no candidate was correct and better",)
        if best.hash != baseline.hash:
            told = (doc.Code(short(best.hash)), f"  (sources/{short(best.hash)}.cu)")
    closed = state.closed
    blocks: list[doc.Block] = [
        doc.pairs(
            {
                "task": opened.settings.task,
                "team": team_words(opened.settings),
                "device": device_words(state.device_name, gpu),
                "session": str(folder),
                "ended": f"{closed.reason.words} ({closed.message})" if closed else "",
                "best": told,
            }
        )
    ]
    if not measured:
        return blocks
    tools = sanitizer_blocks(best.sanitizer)
    if best.hardware is not None:
        tools += hardware_blocks(best.hardware)
    parts = {"Tools": tools}
    for final in final_timings(state):
        names = Names(final.beside, short(best.hash), candidate_column="best")
        marks = CaveatMarks.of_timing(final.timing.workloads)
        parts[f"Times against {final.beside}"] = timing_blocks(final.timing, names, marks)
    if best.shipped is not None:
        parts["Kernels that others ship"] = shipped_blocks(best.shipped)
    parts["Counters"] = _counted(baseline, best)
    return blocks + [doc.Section(title, "", tuple(part)) for title, part in parts.items() if part]


def _counted(baseline: CandidateState, best: CandidateState) -> list[doc.Block]:
    """Nothing where the emulator could not count one of them."""
    before, after = baseline.profile, best.profile
    if before is None or after is None or not (before.workloads and after.workloads):
        return []
    rows = [doc.counter_row(name, before.total(name), after.total(name)) for name in _COUNTERS]
    columns = ("", "baseline", "best", "change")
    return [
        doc.table(columns, rows),
        *doc.paragraphs("counted by the emulator, which gives no time and no speedup"),
    ]
