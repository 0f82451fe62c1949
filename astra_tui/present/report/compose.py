"""Puts a report together, says first what it comes to, and writes it to files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.settings import TeamKind
from astra_tui.present import document as doc
from astra_tui.present.html import as_html
from astra_tui.present.markdown import as_markdown
from astra_tui.present.numbers import change_between, count, minute, pluralised
from astra_tui.present.report import environment, measured, story
from astra_tui.present.report.facts import Facts
from astra_tui.present.timing import portfolio_blocks
from astra_tui.present.words import PORTFOLIO, shipped_words, timing_verdict
from astra_tui.sessions.integrity import Session, Trust, read_session
from astra_tui.sessions.safe_open import write_inside
from astra_tui.sessions.store import place_for

_SECTIONS: tuple[tuple[str, str, Callable[[Facts], Sequence[doc.Block] | None]], ...] = (
    ("Portfolio by device", "portfolio", lambda facts: portfolio_blocks(facts.state) or None),
    ("Times per workload", "times", measured.times),
    ("Caveats", "caveats", measured.caveats),
    ("Rounds", "rounds", story.rounds),
    ("Counters", "counters", measured.counters),
    ("Sources", "sources", story.sources),
    ("Tests", "tests", measured.checks),
    ("Predictions", "ledger", story.predictions),
    ("Cost", "cost", environment.cost),
    ("Environment", "environment", environment.environment),
    ("How to verify", "verify", environment.evidence),
)
"""Titles, anchors and parts of a report; None where a session has nothing of the kind."""

_TEAMS = {
    TeamKind.LLM: "a model in four roles",
    TeamKind.LLM_SINGLE: "one model in all roles",
    TeamKind.PLAYBOOK: "the playbook, which needs no model",
}


def compose(session: Session) -> doc.Document:
    """The report of a session; texts that its folder lacks are named as missing.

    Raises UserError when the session was never opened, or its journal is none that an engine could
    have written.
    """
    facts, state = Facts(session), session.state
    where = f"on {state.gpu_name or state.device_name}"
    if facts.on_emulator:
        where = "on the emulator"
    records = session.contents.records
    start, end = minute(records[0].time), minute(records[-1].time)
    return doc.Document(
        title=f"{facts.opened.settings.task} {where}",
        subtitle=f"Session {session.folder.resolve().name}, {start} to {end} UTC",
        opening=_opening(facts),
        sections=[
            doc.Section(title, anchor, blocks)
            for title, anchor, made in _SECTIONS
            if (blocks := made(facts)) is not None
        ],
    )


def _opening(facts: Facts) -> list[doc.Block]:
    """The summary: who worked where, its result, and how much of it may be believed."""
    trust, damage = facts.session.trust, facts.session.contents.damage
    lines = [] if trust.whole else [_distrust(trust)]
    lines += [_who(facts), _result(facts)]
    if any(known.winner for known in facts.state.kinds.values()):
        lines.append((f"This is of {facts.state.gpu_name}. ", PORTFOLIO))
    if facts.timings:
        lines.append((_caveats(facts),))
    if damage:
        lost = pluralised(len(damage), "part")
        text = f"{lost} of the journal cannot be read, so this report is not complete: "
        found = "; ".join(f"line {d.line}: {d.message}" for d in damage[:5])
        lines.append((doc.Strong(text), found))
    return doc.paragraphs(*lines)


def _distrust(trust: Trust) -> doc.Line:
    where = f"line {trust.line}: {trust.message}" if trust.line else trust.message
    text = "This session is cut off, so that its end may be missing: "
    if trust.altered:
        text = "This session was altered, so that nothing in this report can be relied on: "
    elif trust.writer:
        text = f"This session is still being written, by {trust.writer}: "
        where = f"the report shows it up to line {trust.line}."
    return doc.Strong(text), where


def _who(facts: Facts) -> doc.Line:
    settings = facts.opened.settings
    rounds = [r for r in facts.state.rounds if r.number > 0]
    model = (" ", doc.Code(settings.model)) if settings.model else ()
    gpu = f" ({facts.state.gpu_name})" if facts.state.gpu_name else ""
    closed = facts.state.closed
    unfinished = " It is still running." if facts.session.trust.writer else " It has no end."
    end = f" It {closed.reason.words} ({closed.message})." if closed else unfinished
    return (
        doc.Code(settings.task), f" was worked on by {_TEAMS[settings.team]}", *model, ", on ",
        doc.Code(facts.state.device_name), f"{gpu}, in {pluralised(len(rounds), 'round')}.",
        end.replace("..", "."),
    )  # fmt: skip


def _result(facts: Facts) -> doc.Line:
    """How good the best is: by its last timings, by that of its round, or by counters."""
    if not facts.state.has_better:
        return (doc.Strong("No candidate was correct and better"), ": the best is the baseline.")
    best = doc.Code(short(facts.best.hash))
    if facts.timings and not facts.finals:
        return _of_its_round(facts, best)
    if not facts.timings:
        return _by_counters(facts, best)
    told: doc.Line = ("The best candidate ", best, ", measured again at the end, is ")
    for index, final in enumerate(facts.finals):
        verdict = doc.badge(timing_verdict(final.timing))
        against = (verdict, " against ", doc.Code(final.beside), ": ")
        told += (" and " if index else "", *against, *doc.speedup_line(final.timing.speedup))
    told += (". These are geometric means over the workloads with their 95 % intervals, cold.",)
    shipped = facts.best.shipped
    return (*told, " It is ", doc.badge(shipped_words(shipped)), ".") if shipped else told


def _of_its_round(facts: Facts, best: doc.Code) -> doc.Line:
    timing = facts.best.timings[-1].timing if facts.best.timings else None
    if timing is None:
        return ("The best candidate ", best, " was not timed; see its round for why it was kept.")
    return (
        "The best candidate ", best, " was not measured again at the end. In its round it was ",
        doc.badge(timing_verdict(timing)), " against the version it started from: ",
        *doc.speedup_line(timing.speedup), " (95 % interval, cold).",
    )  # fmt: skip


def _by_counters(facts: Facts, best: doc.Code) -> doc.Line:
    before, after = facts.baseline.profile, facts.best.profile
    if before is None or after is None:
        return ("The best candidate is ", best, "; nothing was measured.")
    told: doc.Line = ("The best candidate ", best, " against the baseline: ")
    for index, name in enumerate(("sectors", "requests", "warp_instructions")):
        old, new = (doc.number(profile.total(name), count) for profile in (before, after))
        change = change_between(old.value, new.value) or "unchanged"
        told += (", " if index else "", name.replace("_", " "), " ", old, " to ", new)
        told += (f" ({change})" if old.value else "",)
    why = "the emulator counts, and tells nothing of how long a kernel takes"
    if not facts.on_emulator:
        why = "nothing was timed"
    return (*told, f". These are counters: {why}.")


def _caveats(facts: Facts) -> str:
    shown = [f.timing for f in facts.finals] or list(facts.timings)
    workloads = [w for t in shown for w in t.workloads]
    doubted = sum(bool(w.caveats) for w in workloads)
    invalidated = sum(w.invalidated for w in workloads)
    if not doubted:
        return "No caveat was raised about these measurements."
    text = f"Caveats were raised about {doubted} of {pluralised(len(workloads), 'measurement')}"
    text += f", and {invalidated} of them decide nothing" if invalidated else ""
    return text + "; each is marked in its table and explained under Caveats."


@dataclass(frozen=True)
class WrittenReport:
    """The files of a report, None where one was not asked for, and what the journal has lost.

    `damage` also names the first place that was altered.
    """

    html: Path | None
    markdown: Path | None
    data: Path | None
    damage: tuple[str, ...]
    trust: Trust


def write_report(
    folder: Path, out: Path, *, html: bool = True, markdown: bool = True, data: bool = False
) -> WrittenReport:
    """Writes `out/NAME.html`, `out/NAME.md` and, as data, `out/NAME.json`, as far as asked for.

    NAME is that of the session's folder.

    The session is only read. Files of these names are replaced, and a link is replaced rather
    than followed. Raises UserError when the session cannot be read or the files not written.
    """
    session = read_session(folder)
    document = compose(session)
    name = folder.resolve().name
    return WrittenReport(
        html=_written(out / f"{name}.html", as_html(document)) if html else None,
        markdown=_written(out / f"{name}.md", as_markdown(document)) if markdown else None,
        data=_written(out / f"{name}.json", doc.as_json(document)) if data else None,
        damage=session.damage_words(),
        trust=session.trust,
    )


def _written(path: Path, text: str) -> Path:
    try:
        write_inside(*place_for(path), text.encode())
    except UserError as error:
        error.hint = error.hint or "choose a folder with --out"
        raise
    return path
