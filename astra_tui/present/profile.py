"""What a candidate costs against the version it was made from: times, counters, resources."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from astra_tui.model.digest import short
from astra_tui.model.events import RoundsTimed
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import CandidateState, ProposalState, SessionState
from astra_tui.model.timing import WorkloadTiming
from astra_tui.model.verdict import KernelUse, Profile, WorkloadProfile
from astra_tui.present import document as doc
from astra_tui.present.counters import counted_table, hardware_blocks, wasted_entry
from astra_tui.present.numbers import count, dimensions, percent
from astra_tui.present.plans import verdict_fields
from astra_tui.present.timing import times_blocks, timing_blocks
from astra_tui.present.tones import Phrase, Tone
from astra_tui.sessions.summary import counter_totals


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
    head: doc.Line = (doc.Code(short(candidate.hash)), Phrase(start, Tone.DIM))
    blocks: list[doc.Block] = [doc.Paragraph(head)]
    if proposal is not None and proposal.verdict is not None:
        blocks.append(verdict_fields(state, proposal.verdict))
    blocks += _times(state, candidate, base, running)
    profile = candidate.profile
    if profile is None:
        why = "No profile: a candidate that is not correct has no cost worth knowing."
        if candidate.check is None:
            why = "No profile yet: it is taken once all cases have passed."
        elif candidate.correct:
            why = "The profile is being taken."
        return [*blocks, *doc.paragraphs(Phrase(why, Tone.DIM))]
    before = base.profile if base else None
    hardware = _hardware(state, candidate, profile)
    return [*blocks, *cost_blocks(before, profile), *doc.sections({"": hardware})]


def _hardware(state: SessionState, candidate: CandidateState, profile: Profile) -> list[doc.Block]:
    """A GPU's own counters, or why there are none."""
    if candidate.hardware is not None:
        return hardware_blocks(candidate.hardware)
    why = "Hardware counters were not asked for: --ncu reads them."
    if state.opened is not None and state.opened.settings.ncu:
        why = "Hardware counters are read of the baseline and of every new best."
    elif profile.device == EMULATOR:
        why = (
            "Counted by the emulator. Times, change of roofline and the paper's protocol need a "
            "GPU."
        )
    return doc.paragraphs(Phrase(why, Tone.DIM))


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
    parts: dict[str, Sequence[doc.Block]] = {}
    if now:
        parts["Time so far"] = times_blocks(now)
    latest = {f.timing.base: f for f in candidate.timings}
    for hash_, finished in sorted(latest.items(), key=lambda found: found[0] != first):
        again = ", measured again at the end" if finished.final else ""
        against = names.get(hash_, short(hash_))
        times = timing_blocks(finished.timing, against, short(candidate.hash))
        parts[f"Time against {against}{again}"] = times
    return doc.sections(parts)


# -- counters --------------------------------------------------------------------------------------


def cost_blocks(
    before: Profile | None, now: Profile, names: tuple[str, str] = ("before", "now")
) -> list[doc.Block]:
    """Counters of all workloads together and of each, what is moved in vain, launches, kernels."""
    was = counter_totals(before) if before else None
    earlier = {(w.workload, w.dtype): w for w in (before.workloads if before else ())}
    each = [
        ((w.workload, w.dtype.value), _counts(old) if old else None, _counts(w))
        for w in now.workloads
        for old in [earlier.get((w.workload, w.dtype))]
    ]
    versions = zip(names, (before, now), strict=True)
    counted = [(n, p) for n, p in versions if p and any(w.traffic for w in p.workloads)]
    known = {k.kernel: k for k in before.kernels} if before else {}
    kernels = [_kernel(k, known.get(k.kernel)) for k in now.kernels]
    columns = ("kernel", "registers", "spilled bytes", "shared bytes", "occupancy")
    used = tuple(doc.place((k.kernel,), *_KERNEL_METRICS) for k in now.kernels)
    return [
        counted_table(names, [((), was, counter_totals(now))], "All workloads together"),
        *(wasted_entry(name, profile.wasted) for name, profile in counted),
        *([counted_table(names, each, "Each workload")] if each else []),
        *([_launches(now)] if now.workloads else []),
        *([doc.table(columns, kernels, "Kernels", places=used)] if kernels else []),
        *doc.paragraphs(*(f"{what}: {why}" for what, why in now.missing.items())),
    ]


_KERNEL_METRICS = ("registers", "spill_bytes", "shared_bytes", "occupancy")


def _counts(workload: WorkloadProfile) -> dict[str, int]:
    names = ("sectors", "requests", "warp_instructions")
    return {name: int(getattr(workload.counters, name)) for name in names}


def _launches(profile: Profile) -> doc.Table:
    rows: list[doc.Row] = []
    for w in profile.workloads:
        efficiency = doc.number(w.counters.sector_efficiency, percent)
        ran, kernels = dimensions(w.dims), ", ".join(w.kernels)
        rows.append((w.workload, w.dtype.value, ran, kernels, w.blocks, w.threads, efficiency))
    metrics = ("blocks", "threads", "sector_efficiency")
    places = tuple(doc.place((w.workload,), *metrics) for w in profile.workloads)
    columns = (
        "workload", "type", "counted at", "kernels", "blocks", "threads a block",
        "asked for of moved bytes",
    )  # fmt: skip
    return doc.table(columns, rows, "Launches", places=places)


def _kernel(now: KernelUse, before: KernelUse | None) -> doc.Row:
    spills = doc.Number(now.spill_bytes, count(now.spill_bytes))
    if now.spill_bytes:
        spills = replace(spills, tone=Tone.CAUTION)
    registers: doc.Line = (doc.number(now.registers, count),)
    if before and before.registers != now.registers:
        registers += (" (was ", doc.number(before.registers, count), ")")
    return (
        doc.Code(now.kernel), registers, spills, now.shared_bytes,
        doc.number(now.occupancy, percent),
    )  # fmt: skip
