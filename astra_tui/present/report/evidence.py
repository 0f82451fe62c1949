"""What was measured, where and with what, what it cost, and how to check it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from astra_tui.model.digest import content_hash, short
from astra_tui.model.events import ExchangeMade
from astra_tui.model.timing import Timing
from astra_tui.present import document as doc
from astra_tui.present import numbers
from astra_tui.present.checks import checks_table, reasons_blocks
from astra_tui.present.counters import cost_blocks
from astra_tui.present.devices import device_facts
from astra_tui.present.numbers import decimal, dimensions, pluralised, seconds
from astra_tui.present.report.plots import counters_figure, roofline_figure
from astra_tui.present.sessions import settings_rows
from astra_tui.present.timing import final_blocks, timing_blocks
from astra_tui.present.tones import Phrase, Tone, words_of
from astra_tui.present.words import timing_verdict
from astra_tui.sessions.facts import Facts
from astra_tui.sessions.journal_lines import LARGEST_JOURNAL
from astra_tui.sessions.journal_reader import journal_path
from astra_tui.sessions.safe_open import read_inside
from astra_tui.sessions.summary import COUNTERS

_PROTOCOLS = (
    "Two protocols. Paired graph replay captures both versions in CUDA graphs and replays them in "
    "turn, in random order over rotated buffers; cold, where every launch finds its data outside "
    "the L2 cache, decides, and warm stands next to it. The Astra paper's protocol (arXiv "
    "2509.07506, section 4.1) is 20 warm-ups and 100 launches from the host with an event pair "
    "around each, and the arithmetic mean; it times the launch path as well and has no interval. A "
    "speedup is the time of the older version over that of the newer one."
)


def times(facts: Facts) -> list[doc.Block] | None:
    """The winner against baseline.cu and tuned.cu, per workload; None where nothing was timed."""
    if not facts.timings:
        return None
    told = ""
    if not facts.finals:
        ended = "the session ended before that"
        why = ended if facts.state.has_better else "the best is the baseline"
        told = f"Nothing was measured again at the end: {why}. Each round has its own."
    finals = final_blocks(facts.state)
    return [*doc.paragraphs(_PROTOCOLS, told), *finals, *roofline_figure(facts)]


def round_timing(timing: Timing) -> doc.Entry:
    """The timing of a candidate that is no final one, folded away."""
    base, candidate = short(timing.base), short(timing.candidate)
    against = "itself" if base == candidate else base
    workloads = pluralised(len(timing.workloads), "workload")
    told = f"{timing_verdict(timing).text}, {workloads}"
    times = timing_blocks(timing, base, candidate)
    return doc.folded(f"Times of {candidate} against {against}: {told}", *times)


def protocol_table(facts: Facts) -> list[doc.Block]:
    """How each workload was measured, from its latest timing."""
    latest = {w.workload: w for t in facts.timings for w in t.workloads}
    rows = [
        (f"{w.workload} {w.dtype.value}", dimensions(w.dims), w.cold.speedup.rounds, w.launches,
         w.buffer_sets, doc.number(w.offset_us, numbers.microseconds),
         doc.number(w.sm_mhz, numbers.decimal, 0) if w.sm_mhz else "not read", w.verified_sets)
        for w in latest.values()
    ]  # fmt: skip
    columns = (
        "workload", "dimensions", "pairs of rounds", "launches a graph", "buffer sets",
        "offset taken off, us", "SM clock, MHz", "buffer sets verified",
    )  # fmt: skip
    caption = "How it was measured: the latest timing of each workload"
    return [doc.table(columns, rows, caption)] if rows else []


_COUNTED = (
    "Counted by the emulator, at fewer rows where a workload has many: memory counters equal the "
    "hardware's, instructions are PTX instructions once a warp and order versions only. Less is "
    "better."
)


def counters(facts: Facts) -> list[doc.Block] | None:
    """Totals of every version, and the best per workload; None where nothing was counted."""
    if not facts.counted:
        return None
    rows: list[doc.Row] = [
        (name, doc.Code(short(hash_)), *(profile.total(n) for n in COUNTERS))
        for name, hash_, profile in facts.counted
    ]
    workloads = pluralised(len(facts.counted[0][2].workloads), "workload")
    columns = ("version", "source", *(n.replace("_", " ") for n in COUNTERS))
    blocks: list[doc.Block] = [
        *doc.paragraphs(_COUNTED + " The emulator gives no time." * facts.on_emulator),
        doc.table(columns, rows, f"All counters, added up over {workloads}"),
        *counters_figure(facts),
    ]
    before, after = facts.baseline.profile, facts.best.profile
    if before is not None and after is not None and after.workloads:
        blocks += cost_blocks(before, after, ("baseline", "best"))
    return blocks


_COMPARED = (
    "Outputs are compared with a float64 reference. The worst error is a fraction of what is "
    "allowed there: above the bound the output is wrong. Fakes are outputs that no honest kernel "
    "would produce; the cases of a check have to reject them."
)


def checks(facts: Facts) -> list[doc.Block]:
    """A row for each version that was checked, under its first name, then what each rests on."""
    if not facts.checked:
        return doc.paragraphs("Nothing was checked.")
    rows = ((name, doc.Code(found.source), found, cases) for name, cases, found in facts.checked)
    table = checks_table("version", rows, "Checks")
    reasons = (
        doc.folded(f"{name}: {words_of(found.verdict)}", *reasons_blocks(found))
        for name, _, found in facts.checked
    )
    return [*doc.paragraphs(_COMPARED), table, *reasons]


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
    sums = [_sums(*of, calls) for of, calls in facts.calls.items()]
    every = _sums("all", None, [call for calls in facts.calls.values() for call in calls])
    measuring = doc.number(facts.state.usage.gpu_seconds, seconds)
    told: doc.Line = ("Measuring on the GPU took ", measuring, ".")
    table = doc.records([*sums, every], "Calls of models")
    return [table, *doc.paragraphs(() if facts.on_emulator else told)]


def _sums(purpose: str, model: str | None, calls: Sequence[ExchangeMade]) -> dict[str, doc.Cell]:
    return {
        "purpose": purpose,
        "model": model,
        "calls": len(calls),
        "failed": sum(bool(c.error) for c in calls),
        "input tokens": sum(c.input_tokens for c in calls),
        "output tokens": sum(c.output_tokens for c in calls),
        "seconds": doc.number(sum(c.seconds for c in calls), decimal),
        "dollars": doc.number(sum(c.dollars or 0.0 for c in calls), decimal, 4),
        "unpriced": sum(c.dollars is None for c in calls),
    }


def digests(facts: Facts) -> list[doc.Block]:
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
    if facts.closing is None:
        return ("none: the journal does not end with a closed session",)
    digest, agrees = facts.closing
    if agrees:
        return doc.Code(digest), " agrees with the events before it"
    altered = Phrase(" is not what this version makes of the events before it", Tone.TITLE)
    return doc.Code(digest), altered, ": they were altered, or another version wrote them"
