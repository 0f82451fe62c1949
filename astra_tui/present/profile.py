"""What a candidate costs against the version it was made from: times, counters, resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astra_tui.model.events import RoundsTimed, TimingFinished
from astra_tui.model.ncu import DURATION, Metric, NcuReport
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import CandidateState, ProposalState, SessionState
from astra_tui.model.verdict import KernelUse, Profile, WorkloadProfile
from astra_tui.present import document as doc
from astra_tui.present.numbers import dimensions, percent, short
from astra_tui.present.timing import measured_blocks, running_blocks, workload_blocks
from astra_tui.present.tones import Phrase, Tone
from astra_tui.present.words import round_verdict

_COUNTERS = (
    "sectors",
    "requests",
    "warp_instructions",
    "shared_requests",
    "bank_conflicts",
    "barriers",
)
_MOST_WASTED = 6
_ON_EMULATOR = (
    "Counted by the emulator. Times, change of roofline and the paper's protocol need a GPU."
)


def profile_blocks(
    state: SessionState,
    proposal: ProposalState | None,
    candidate: CandidateState,
    base: CandidateState | None,
    running: Sequence[RoundsTimed] = (),
) -> list[doc.Block]:
    """The verdict, the times, the totals, each workload, the kernels; or why there is no profile.

    Rows of numbers are named as `doc.place` does. `running` is how far its timing is.
    """
    start = f" from {short(base.hash)}" if base else ""
    head: doc.Line = (doc.Code(short(candidate.hash)), doc.Badge(start, Tone.DIM))
    blocks: list[doc.Block] = [doc.Paragraph(head)]
    if proposal is not None and proposal.verdict is not None:
        told = round_verdict(state, proposal.verdict)
        verdict: doc.Line = (doc.Badge(told.words.upper(), told.tone),)
        blocks += [doc.Entry(verdict, doc.paragraphs(*proposal.verdict.reasons))]
    blocks += _times(state, candidate, base, running)
    profile = candidate.profile
    if profile is None:
        return [*blocks, _dim(_why_no_profile(candidate))]
    before = base.profile if base else None
    blocks += [*_totals(before, profile), *_wasted(profile)]
    for workload in profile.workloads:
        blocks += _workload(workload, _same_workload(before, workload))
    blocks += _kernels(before, profile)
    rest: list[doc.Block] = [
        *doc.paragraphs(*(f"{what}: {why}" for what, why in profile.missing.items()))
    ]
    if candidate.hardware is not None:
        rest += metrics_blocks(candidate.hardware)
    elif state.opened is not None and state.opened.settings.ncu:
        rest.append(_dim("Hardware counters are read of the baseline and of every new best."))
    elif profile.device == EMULATOR:
        rest.append(_dim(_ON_EMULATOR))
    else:
        rest.append(_dim("Hardware counters were not asked for: --ncu reads them."))
    return [*blocks, doc.Section("", "", tuple(rest))]


def _dim(text: str) -> doc.Block:
    return doc.Paragraph((doc.Badge(text, Tone.DIM),))


def _why_no_profile(candidate: CandidateState) -> str:
    if candidate.check is None:
        return "No profile yet: it is taken once all cases have passed."
    if candidate.correct:
        return "The profile is being taken."
    return "No profile: a candidate that is not correct has no cost worth knowing."


def _times(
    state: SessionState,
    candidate: CandidateState,
    base: CandidateState | None,
    running: Sequence[RoundsTimed],
) -> Iterator[doc.Block]:
    """What was timed: what runs now, the pair that decided, the winner's last."""
    if candidate.timed:
        sofar = [block for timed in candidate.timed for block in workload_blocks(timed.timing)]
        yield doc.Section("Time so far", "", tuple(sofar))
    yield from running_blocks([r for r in running if r.candidate == candidate.hash])
    first = base.hash if base else ""
    latest = {f.timing.base: f for f in candidate.timings}.values()
    for finished in sorted(latest, key=lambda f: f.timing.base != first):
        against = _base_words(state, first, finished)
        again = ", measured again at the end" if finished.final else ""
        yield from measured_blocks(finished.timing, f"Time against {against}{again}")


def _base_words(state: SessionState, base: str, finished: TimingFinished) -> str:
    """What a timing is against: the version before it, the baseline, or another source."""
    against = finished.timing.base
    if state.opened is not None and against == state.opened.baseline:
        return "the baseline"
    return "the version before" if against == base else short(against)


# -- counters --------------------------------------------------------------------------------------


def _counted(of: str, before: Sequence[int | None], now: Sequence[int]) -> doc.Block:
    rows = [doc.counter_row(*row) for row in zip(_COUNTERS, before, now, strict=False)]
    anchors = tuple(doc.place((of,), name) for name in _COUNTERS[: len(rows)])
    columns = ("", *(("before", "now", "change") if not of else [""] * 3))
    return doc.table(columns, rows, anchors=anchors).without_empty_columns()


def _totals(before: Profile | None, now: Profile) -> list[doc.Block]:
    old = [before.total(name) if before else None for name in _COUNTERS]
    counted = _counted("", old, [now.total(name) for name in _COUNTERS])
    return [doc.Section("All workloads together", "", (counted,))]


def _wasted(profile: Profile) -> list[doc.Block]:
    """What lines move in vain, on the workload that shows it most."""
    shown = doc.items(*doc.first([w.describe() for w in profile.wasted], _MOST_WASTED))
    return [doc.Section("Moved in vain", "", tuple(shown))] if shown else []


def _same_workload(profile: Profile | None, now: WorkloadProfile) -> WorkloadProfile | None:
    found = profile.workloads if profile else ()
    return next((w for w in found if (w.workload, w.dtype) == (now.workload, now.dtype)), None)


def _workload(now: WorkloadProfile, before: WorkloadProfile | None) -> list[doc.Block]:
    ran = f"{now.dtype.value}, ran {dimensions(now.dims)}"
    launched: doc.Cell = doc.Badge(
        f"{now.blocks:,} blocks of {now.threads} threads, "
        f"sectors used to {percent(now.counters.sector_efficiency)}",
        Tone.DIM,
    )
    at = doc.place((now.workload,), "blocks", "threads", "sector_efficiency")
    names = _COUNTERS[:3]
    old = [int(getattr(before.counters, name)) if before else None for name in names]
    new = [int(getattr(now.counters, name)) for name in names]
    title: doc.Line = (doc.Strong(now.workload), doc.Badge(f"  {ran}", Tone.DIM))
    heading = doc.table(("",), [(launched,)], anchors=(at,))
    return [doc.Section("", "", (doc.Paragraph(title), heading, _counted(now.workload, old, new)))]


def _kernels(before: Profile | None, now: Profile) -> list[doc.Block]:
    known = {k.kernel: k for k in before.kernels} if before else {}
    blocks: list[doc.Block] = []
    for kernel in now.kernels:
        metrics = "registers", "spill_bytes", "shared_bytes", "occupancy"
        use = [(_use(kernel, known.get(kernel.kernel)),)]
        at = doc.place((kernel.kernel,), *metrics)
        blocks.append(doc.Entry((kernel.kernel,), (doc.table(("",), use, anchors=(at,)),)))
    return [doc.Section("Kernels", "", tuple(blocks))] if blocks else []


def _use(now: KernelUse, before: KernelUse | None) -> doc.Line:
    spilled = Phrase(f"{now.spill_bytes} bytes spilled", Tone.CAUTION)
    spills = doc.badge(spilled if now.spill_bytes else Phrase("no spills"))
    was = f" (was {before.registers})" if before and before.registers != now.registers else ""
    rest = f", {now.shared_bytes} B shared, occupancy {percent(now.occupancy)}"
    return f"{now.registers} registers{was}, ", spills, rest


# -- a GPU's own counters --------------------------------------------------------------------------


def metrics_blocks(report: NcuReport) -> list[doc.Block]:
    """Every counter of every launch with its unit, or why there are none; never its durations."""
    by = f", by ncu {report.version}" if report.version else ""
    tone = Tone.PLAIN if report.available else Tone.CAUTION
    blocks: list[doc.Block] = [doc.Paragraph((doc.Badge(report.outcome + by, tone),))]
    blocks += doc.paragraphs(*([f"remedy: {report.remedy}"] if report.remedy else []))
    for launch in report.launches:
        size = (" x ".join(f"{n:,}" for n in each) for each in (launch.grid, launch.block))
        values = {n: m for n, m in launch.metrics.items() if n != DURATION}
        anchors = tuple(doc.place((launch.kernel, report.workload), name) for name in values)
        rows = ((name, metric_words(m)) for name, m in values.items())
        parts = [_dim(" blocks of ".join(size) + " threads")]
        parts.append(doc.table(("", ""), rows, anchors=anchors))
        if launch.excess_shared_wavefronts is not None:
            lost = "passes over shared memory lost to bank conflicts"
            parts += doc.paragraphs(f"{launch.excess_shared_wavefronts:,.0f} {lost}")
        for name, why in launch.missing.items():
            parts.append(doc.Paragraph((doc.Badge(f"not read: {name}: {why}", Tone.CAUTION),)))
        blocks.append(doc.Entry((doc.Strong(launch.kernel),), tuple(parts)))
    return [doc.Section("Hardware counters", "", tuple(blocks))]


def metric_words(metric: Metric) -> str:
    """A value with its unit, as in "1,234,567 byte" or "50.25 %"."""
    digits = ",.0f" if 1000 <= abs(metric.value) < 1e15 else ".4g"
    return f"{metric.value:{digits}} {metric.unit}".rstrip()
