"""Where and with what it was measured, what it cost, and how to check it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from astra_tui.model.digest import content_hash
from astra_tui.model.events import ExchangeMade, SessionClosed
from astra_tui.model.fold import fold
from astra_tui.present import document as doc
from astra_tui.present.devices import device_facts
from astra_tui.present.numbers import decimal, seconds
from astra_tui.present.report.measured import protocol_table
from astra_tui.present.settings import settings_rows
from astra_tui.present.tones import Phrase, Tone
from astra_tui.sessions.facts import Facts
from astra_tui.sessions.journal_lines import LARGEST_JOURNAL
from astra_tui.sessions.journal_reader import journal_path
from astra_tui.sessions.safe_open import read_inside


def environment(facts: Facts) -> list[doc.Block]:
    """Versions, GPU, driver, clocks and protocol."""
    known, missing = device_facts(facts.state)
    rows = (*known.items(), *_environment(facts))
    troubles = (f"{t.where}: {t.message}" for t in facts.state.troubles)
    return [
        doc.table(("what", "value"), rows, "Environment"),
        *doc.items(*missing),
        *protocol_table(facts),
        *doc.sections({"What went wrong outside of the kernels": doc.items(*troubles)}),
    ]


def _environment(facts: Facts) -> Iterator[tuple[str, doc.Cell]]:
    state = facts.state
    clocks = [w.sm_mhz for t in facts.timings for w in t.workloads if w.sm_mhz]
    if clocks:
        yield "SM clock while measured", f"{min(clocks):,.0f} to {max(clocks):,.0f} MHz"
    yield from facts.opened.versions.items()
    compilations = (c.compilation for c in state.candidates.values())
    compilers = dict.fromkeys(c.compiler for c in compilations if c and c.compiler)
    yield "compiler", ", ".join(compilers) or "unknown"
    yield from settings_rows(facts.opened.settings, state.round_limit)
    if state.seed:
        yield "seed of drawn cases", str(state.seed)
    yield "hash of the task", doc.Code(facts.opened.task_hash)


def cost(facts: Facts) -> list[doc.Block]:
    """What models and the GPU took, by what the models were asked for."""
    groups: dict[tuple[str, str], list[ExchangeMade]] = {}
    for event in facts.session.contents.events:
        if isinstance(event, ExchangeMade):
            groups.setdefault((event.purpose, event.model), []).append(event)
    every = [call for calls in groups.values() for call in calls]
    rows = [(*of, *_sums(calls)) for of, calls in groups.items()]
    columns = (
        "purpose", "model", "calls", "failed", "input tokens", "output tokens", "seconds",
        "dollars", "unpriced",
    )  # fmt: skip
    blocks = [doc.table(columns, [*rows, ("all", None, *_sums(every))], "Calls of models")]
    measuring = doc.number(facts.state.usage.gpu_seconds, seconds)
    told: doc.Line = ("Measuring on the GPU took ", measuring, ".")
    return [*blocks, *doc.paragraphs(() if facts.on_emulator else told)]


def _sums(calls: Sequence[ExchangeMade]) -> doc.Row:
    return (
        len(calls),
        sum(bool(c.error) for c in calls),
        sum(c.input_tokens for c in calls),
        sum(c.output_tokens for c in calls),
        doc.number(sum(c.seconds for c in calls), decimal),
        doc.number(sum(c.dollars or 0.0 for c in calls), decimal, 4),
        sum(c.dollars is None for c in calls),
    )


def evidence(facts: Facts) -> list[doc.Block]:
    """The digests by which this report can be tied to its journal."""
    folder = facts.session.folder
    journal = read_inside(folder, journal_path(folder).name, LARGEST_JOURNAL)
    rows: list[tuple[str, doc.Cell]] = [
        ("session", doc.Code(facts.opened.session)),
        ("events in the journal", len(facts.session.contents.records)),
        ("SHA-256 of journal.jsonl", doc.Code(content_hash(journal))),
        ("digest of the state", doc.Code(facts.state.digest())),
        ("digest when it was closed", _closing(facts)),
        ("baseline", doc.Code(facts.baseline.hash)),
        ("best", doc.Code(facts.best.hash)),
    ]
    origin = facts.opened.forked_from
    if origin is not None:
        where: doc.Line = (doc.Code(origin.session), f", after event {origin.seq}, at the state ")
        rows.append(("forked from", (*where, doc.Code(origin.digest))))
    command = f"astra-tui verify {shlex.quote(folder.resolve().name)}"
    text: doc.Line = (
        "Everything above was read from the session's journal and sources, and nothing else. ",
        doc.Code(command), " rebuilds the accepted candidates from them and checks and measures "
        "again; ", doc.Code("sha256sum journal.jsonl"), " tells whether the journal is still the "
        "one that this report was made from.",
    )  # fmt: skip
    return [*doc.paragraphs(text), doc.table(("what", "value"), rows, "Digests")]


def _closing(facts: Facts) -> doc.Line:
    events = facts.session.contents.events
    last = events[-1]
    if not isinstance(last, SessionClosed) or not last.digest:
        return ("none: the journal does not end with a closed session",)
    if last.digest == fold(events[:-1]).digest():
        return doc.Code(last.digest), " agrees with the events before it"
    return (
        doc.Code(last.digest),
        Phrase(" is not what this version makes of the events before it", Tone.TITLE),
        ": they were altered, or another version wrote them",
    )
