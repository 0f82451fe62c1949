"""What the emulator counted: totals of every version, and the best per workload."""

from __future__ import annotations

from astra_tui.model.state import CandidateState
from astra_tui.model.verdict import Profile
from astra_tui.present import document as doc
from astra_tui.present.numbers import (
    dimensions,
    percent,
    pluralised,
    short,
)
from astra_tui.present.report.facts import Facts
from astra_tui.present.report.plots import counters_figure
from astra_tui.sessions.summary import COUNTERS

_TEXT = (
    "Counted by the emulator, at fewer rows where a workload has many: memory counters equal the "
    "hardware's, instructions are PTX instructions once a warp and order versions only. Less is "
    "better."
)
_MOST_WASTED = 8
_NO_TIME = " The emulator gives no time."


def counters_section(facts: Facts) -> doc.Section | None:
    """None where nothing was counted."""
    versions = _versions(facts)
    if not versions:
        return None
    blocks: list[doc.Block] = [doc.Paragraph((_TEXT + (_NO_TIME if facts.on_emulator else ""),))]
    blocks.append(_totals(versions))
    figure = counters_figure(facts)
    if figure is not None:
        blocks.append(figure)
    before, after = facts.baseline.profile, facts.best.profile
    if before is not None and after is not None and after.workloads:
        blocks.append(_workloads(before, after))
        blocks += _wasted(before, "baseline") + _wasted(after, "best")
        blocks += _resources(after)
    return doc.Section("Counters", "counters", tuple(blocks))


def _versions(facts: Facts) -> list[tuple[str, CandidateState, Profile]]:
    """Name, version and profile of the baseline and of every candidate that was counted."""
    named = [("baseline", facts.baseline)]
    named += [(f"round {t.label}", t.candidate) for t in facts.reported if t.candidate]
    return [(n, c, c.profile) for n, c in named if c.profile is not None and c.profile.workloads]


def _totals(versions: list[tuple[str, CandidateState, Profile]]) -> doc.Table:
    rows: list[tuple[doc.Cell, ...]] = []
    for name, version, profile in versions:
        rows.append((name, doc.Code(short(version.hash)), *(profile.total(n) for n in COUNTERS)))
    columns = ("version", "source", *(n.replace("_", " ") for n in COUNTERS))
    caption = f"All counters, added up over {pluralised(len(versions[0][2].workloads), 'workload')}"
    return doc.table(columns, rows, caption)


def _workloads(before: Profile, after: Profile) -> doc.Table:
    old = {w.workload: w for w in before.workloads}
    rows: list[list[doc.Cell]] = []
    for new in after.workloads:
        was = old.get(new.workload)
        cells: list[doc.Cell] = [new.workload, dimensions(new.dims)]
        for name in ("sectors", "requests", "warp_instructions"):
            value = int(getattr(new.counters, name))
            first = int(getattr(was.counters, name)) if was else 0
            cells += [first if was else None, value, doc.changed(first, value)]
        rows.append(cells)
    columns = (
        "workload", "counted at", "sectors before", "after", "change", "requests before", "after",
        "change", "instructions before", "after", "change",
    )  # fmt: skip
    caption = "Baseline (before) and best (after), per workload"
    return doc.table(columns, rows, caption)


def _wasted(profile: Profile, name: str) -> list[doc.Block]:
    """What one version moves in vain."""
    if not any(w.traffic for w in profile.workloads):
        return []
    found = profile.wasted
    if not found:
        return [doc.Paragraph((f"The {name} moves nothing in vain.",))]
    listed = doc.first([r.describe() for r in found], _MOST_WASTED)
    return [*doc.paragraphs(f"What the {name} moves in vain:"), *doc.items(*listed)]


def _launches(profile: Profile) -> doc.Table:
    rows = (
        (w.workload, ", ".join(w.kernels), w.blocks, w.threads,
         doc.number(w.counters.sector_efficiency, percent))
        for w in profile.workloads
    )  # fmt: skip
    columns = ("workload", "kernels", "blocks", "threads a block", "asked for of moved bytes")
    return doc.table(columns, rows, "Launches of the best")


def _resources(profile: Profile) -> list[doc.Block]:
    blocks: list[doc.Block] = [_launches(profile)]
    if profile.kernels:
        rows = (
            (doc.Code(k.kernel), k.registers, k.spill_bytes, k.shared_bytes,
             doc.number(k.occupancy, percent))
            for k in profile.kernels
        )  # fmt: skip
        columns = ("kernel", "registers", "spilled bytes", "shared bytes", "occupancy")
        blocks.append(doc.table(columns, rows, "Kernels of the best"))
    missing = [f"{what}: {why}" for what, why in profile.missing.items()]
    return blocks + [doc.Paragraph((f"Not told: {text}.",)) for text in missing]
