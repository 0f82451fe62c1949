"""What was measured: times of the winner and of the rounds, counters, and the tests."""

from __future__ import annotations

from astra_tui.model.digest import short
from astra_tui.model.timing import Timing
from astra_tui.present import document as doc
from astra_tui.present import numbers
from astra_tui.present.checks import checks_table, reasons_blocks
from astra_tui.present.numbers import dimensions, pluralised
from astra_tui.present.profile import cost_blocks
from astra_tui.present.report.plots import counters_figure, roofline_figure
from astra_tui.present.timing import final_blocks, timing_blocks
from astra_tui.present.tones import words_of
from astra_tui.present.words import timing_verdict
from astra_tui.sessions.facts import Facts
from astra_tui.sessions.summary import COUNTERS, check_of

_PROTOCOLS = (
    "Two protocols. Paired graph replay captures both versions in CUDA graphs and replays them in "
    "turn, in random order over rotated buffers; cold, where every launch finds its data outside "
    "the L2 cache, decides, and warm stands next to it. The Astra paper's protocol (arXiv "
    "2509.07506, section 4.1) is 20 warm-ups and 100 launches from the host with an event pair "
    "around each, and the arithmetic mean; it times the launch path as well and has no interval. A "
    "speedup is the time of the older version over that of the newer one."
)


def times(facts: Facts) -> list[doc.Block] | None:
    """The winner against baseline.cu and tuned.cu, per workload; None where nothing was timed.

    Timings of the rounds are in their rounds.
    """
    if not facts.timings:
        return None
    told = ""
    if not facts.finals:
        ended = "the session ended before that"
        why = ended if facts.state.has_better else "the best is the baseline"
        told = f"Nothing was measured again at the end: {why}. Each round has its own."
    finals = final_blocks(facts.state)
    return [*doc.paragraphs(_PROTOCOLS, told), *finals, *roofline_figure(facts)]


def round_timing(timing: Timing) -> doc.Details:
    """The timing of a candidate that is no final one, folded away."""
    base, candidate = short(timing.base), short(timing.candidate)
    against = "itself" if base == candidate else base
    workloads = pluralised(len(timing.workloads), "workload")
    told = f"{timing_verdict(timing).text}, {workloads}"
    times = timing_blocks(timing, base, candidate)
    return doc.Details(f"Times of {candidate} against {against}: {told}", times)


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


# -- counters --------------------------------------------------------------------------------------

_COUNTED = (
    "Counted by the emulator, at fewer rows where a workload has many: memory counters equal the "
    "hardware's, instructions are PTX instructions once a warp and order versions only. Less is "
    "better."
)


def counters(facts: Facts) -> list[doc.Block] | None:
    """Totals of every version, and the best per workload; None where nothing was counted."""
    named = [("baseline", facts.baseline)]
    named += [(f"round {t.label}", t.candidate) for t in facts.reported if t.candidate]
    counted = [
        (n, c.hash, c.profile) for n, c in named if c.profile is not None and c.profile.workloads
    ]
    if not counted:
        return None
    rows: list[doc.Row] = [
        (name, doc.Code(short(hash_)), *(profile.total(n) for n in COUNTERS))
        for name, hash_, profile in counted
    ]
    workloads = pluralised(len(counted[0][2].workloads), "workload")
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


# -- tests -----------------------------------------------------------------------------------------

_COMPARED = (
    "Outputs are compared with a float64 reference. The worst error is a fraction of what is "
    "allowed there: above the bound the output is wrong. Fakes are outputs that no honest kernel "
    "would produce; the cases of a check have to reject them."
)


def checks(facts: Facts) -> list[doc.Block]:
    """A row for each version that was checked, under its first name, then what each rests on."""
    named = {facts.baseline.hash: "baseline"}
    for entry in facts.reported:
        for attempt in entry.proposal.attempts:
            if hash_ := getattr(attempt, "candidate", ""):
                named.setdefault(hash_, f"round {entry.label}")
    for final in facts.finals:
        named.setdefault(final.timing.base, final.against)
    versions = [(name, facts.state.candidate(hash_)) for hash_, name in named.items()]
    device = facts.state.device_name
    checked = [(n, v.cases, found) for n, v in versions if (found := check_of(v, device))]
    if not checked:
        return doc.paragraphs("Nothing was checked.")
    rows = ((name, doc.Code(found.source), found, cases) for name, cases, found in checked)
    table = checks_table("version", rows, "Checks")
    reasons = (
        doc.Details(f"{name}: {words_of(found.verdict)}", reasons_blocks(found))
        for name, _, found in checked
    )
    return [*doc.paragraphs(_COMPARED), table, *reasons]
