"""What a candidate costs against the version it was made from: times, counters, resources."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tui.model.counters import DURATION, Metric, NcuReport
from astra_tui.model.digest import short
from astra_tui.model.events import RoundsTimed
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import CandidateState, ProposalState, SessionState
from astra_tui.model.timing import WorkloadTiming
from astra_tui.model.verdict import KernelUse, Profile, WorkloadProfile
from astra_tui.present import document as doc
from astra_tui.present.counters import COUNTED, counted_table, totals
from astra_tui.present.numbers import count, dimensions, percent
from astra_tui.present.timing import CaveatMarks, times_table, timing_blocks
from astra_tui.present.tones import Phrase, Tone
from astra_tui.present.words import round_verdict

_MOST_WASTED = 6


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
        blocks.append(doc.Entry(verdict, doc.paragraphs(*proposal.verdict.reasons)))
    blocks += _times(state, candidate, base, running)
    profile = candidate.profile
    if profile is None:
        why = "No profile: a candidate that is not correct has no cost worth knowing."
        if candidate.check is None:
            why = "No profile yet: it is taken once all cases have passed."
        elif candidate.correct:
            why = "The profile is being taken."
        return [*blocks, doc.dim(why)]
    before = base.profile if base else None
    columns = ("", "before", "now", "change")
    counted = counted_table(columns, totals(before) if before else None, totals(profile), "")
    wasted = doc.items(*doc.first([w.describe() for w in profile.wasted], _MOST_WASTED))
    blocks += doc.sections({"All workloads together": [counted], "Moved in vain": wasted})
    earlier = {(w.workload, w.dtype): w for w in (before.workloads if before else ())}
    for workload in profile.workloads:
        blocks.append(_workload(workload, earlier.get((workload.workload, workload.dtype))))
    known = {k.kernel: k for k in before.kernels} if before else {}
    kernels = [_kernel(k, known.get(k.kernel)) for k in profile.kernels]
    rest = doc.paragraphs(*(f"{what}: {why}" for what, why in profile.missing.items()))
    rest += _hardware(state, candidate, profile)
    return [*blocks, *doc.sections({"Kernels": kernels, "": rest})]


def _hardware(state: SessionState, candidate: CandidateState, profile: Profile) -> list[doc.Block]:
    """A GPU's own counters, or why there are none."""
    if candidate.hardware is not None:
        return metrics_blocks(candidate.hardware)
    why = "Hardware counters were not asked for: --ncu reads them."
    if state.opened is not None and state.opened.settings.ncu:
        why = "Hardware counters are read of the baseline and of every new best."
    elif profile.device == EMULATOR:
        why = (
            "Counted by the emulator. Times, change of roofline and the paper's protocol need a "
            "GPU."
        )
    return [doc.dim(why)]


def _times(
    state: SessionState,
    candidate: CandidateState,
    base: CandidateState | None,
    running: Sequence[RoundsTimed],
) -> list[doc.Block]:
    """What was timed: what runs now, the pair that decided, the winner's last."""
    first = base.hash if base else ""
    names = {first: "the version before"}
    if state.opened is not None:
        names[state.opened.baseline] = "the baseline"
    known = [timed.timing for timed in candidate.timed]
    now: list[WorkloadTiming | RoundsTimed] = [*known]
    now += (r for r in running if r.candidate == candidate.hash)
    marks = CaveatMarks.of_timing(known)
    parts: dict[str, Sequence[doc.Block]] = {}
    if now:
        parts["Time so far"] = [times_table(now, marks, cited=True), *marks.items()]
    latest = {f.timing.base: f for f in candidate.timings}
    for hash_, finished in sorted(latest.items(), key=lambda found: found[0] != first):
        again = ", measured again at the end" if finished.final else ""
        against = names.get(hash_, short(hash_))
        times = timing_blocks(finished.timing, against, short(candidate.hash), cited=True)
        parts[f"Time against {against}{again}"] = times
    return doc.sections(parts)


# -- counters --------------------------------------------------------------------------------------


def _workload(now: WorkloadProfile, before: WorkloadProfile | None) -> doc.Block:
    ran = f"{now.dtype.value}, ran {dimensions(now.dims)}"
    used = f"sectors used to {percent(now.counters.sector_efficiency)}"
    launched = doc.Badge(f"{count(now.blocks)} blocks of {now.threads} threads, {used}", Tone.DIM)
    at = doc.place((now.workload,), "blocks", "threads", "sector_efficiency")
    title: doc.Line = (doc.Strong(now.workload), doc.Badge(f"  {ran}", Tone.DIM))
    heading = doc.table(("",), [(launched,)], anchors=(at,))
    was = _counts(before) if before else None
    counted = counted_table([""] * 4, was, _counts(now), now.workload)
    return doc.Section("", "", (doc.Paragraph(title), heading, counted))


def _counts(workload: WorkloadProfile) -> dict[str, int]:
    return {name: int(getattr(workload.counters, name)) for name in COUNTED[:3]}


def _kernel(now: KernelUse, before: KernelUse | None) -> doc.Block:
    spilled = Phrase(f"{now.spill_bytes} bytes spilled", Tone.CAUTION)
    spills = doc.badge(spilled if now.spill_bytes else Phrase("no spills"))
    was = f" (was {before.registers})" if before and before.registers != now.registers else ""
    rest = f", {now.shared_bytes} B shared, occupancy {percent(now.occupancy)}"
    use: doc.Line = (f"{now.registers} registers{was}, ", spills, rest)
    at = doc.place((now.kernel,), "registers", "spill_bytes", "shared_bytes", "occupancy")
    return doc.Entry((now.kernel,), (doc.table(("",), [(use,)], anchors=(at,)),))


# -- a GPU's own counters --------------------------------------------------------------------------


def metrics_blocks(report: NcuReport) -> list[doc.Block]:
    """Every counter of every launch with its unit, or why there are none; never its durations."""
    by = f", by ncu {report.version}" if report.version else ""
    tone = Tone.PLAIN if report.available else Tone.CAUTION
    blocks: list[doc.Block] = [doc.Paragraph((doc.Badge(report.outcome + by, tone),))]
    blocks += doc.paragraphs(*([f"remedy: {report.remedy}"] if report.remedy else []))
    for launch in report.launches:
        size = (" x ".join(count(n) for n in each) for each in (launch.grid, launch.block))
        values = {n: m for n, m in launch.metrics.items() if n != DURATION}
        anchors = tuple(doc.place((launch.kernel, report.workload), name) for name in values)
        rows = ((name, metric_words(m)) for name, m in values.items())
        parts = [doc.dim(" blocks of ".join(size) + " threads")]
        parts.append(doc.table(("", ""), rows, anchors=anchors))
        if launch.excess_shared_wavefronts is not None:
            lost = "passes over shared memory lost to bank conflicts"
            parts += doc.paragraphs(f"{launch.excess_shared_wavefronts:,.0f} {lost}")
        for name, why in launch.missing.items():
            parts.append(doc.Paragraph((doc.Badge(f"not read: {name}: {why}", Tone.CAUTION),)))
        blocks.append(doc.Entry((doc.Strong(launch.kernel),), parts))
    return doc.sections({"Hardware counters": blocks})


def metric_words(metric: Metric) -> str:
    """A value with its unit, as in "1,234,567 byte" or "50.25 %"."""
    digits = ",.0f" if 1000 <= abs(metric.value) < 1e15 else ".4g"
    return f"{metric.value:{digits}} {metric.unit}".rstrip()
