"""Where and with what it was measured, what it cost, and how to check it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from astra_tui.model.gpu import GpuIdentity
from astra_tui.present.document import (
    Block,
    Cell,
    Code,
    Items,
    Line,
    Paragraph,
    Section,
    Strong,
    Table,
    number,
    table,
)
from astra_tui.present.numbers import decimal, size
from astra_tui.present.report.facts import Facts
from astra_tui.present.report.timings import protocol_table


def environment_section(facts: Facts) -> Section:
    """Versions, GPU, driver, clocks and protocol."""
    blocks: list[Block] = [table(("what", "value"), _environment(facts), "Environment")]
    gpu = facts.state.device.gpu if facts.state.device else None
    if gpu is not None and gpu.missing:
        missing = tuple((f"{what}: {why}",) for what, why in gpu.missing.items())
        blocks += [Paragraph(("Not told by NVML:",)), Items(missing)]
    protocol = protocol_table(facts)
    if protocol is not None:
        blocks.append(protocol)
    if facts.state.troubles:
        troubles = tuple((f"{t.where}: {t.message}",) for t in facts.state.troubles)
        blocks += [Paragraph(("What went wrong outside of the kernels:",)), Items(troubles)]
    return Section("Environment", "environment", tuple(blocks))


def _environment(facts: Facts) -> Iterator[tuple[str, Line]]:
    settings = facts.opened.settings
    yield "device", (facts.device,)
    gpu = facts.state.device.gpu if facts.state.device else None
    if gpu is not None:
        yield from _gpu(gpu)
    clocks = [w.sm_mhz for t in facts.timings for w in t.workloads if w.sm_mhz]
    if clocks:
        yield "SM clock while measured", (f"{min(clocks):,.0f} to {max(clocks):,.0f} MHz",)
    for part, version in facts.opened.versions.items():
        yield part, (version,)
    compilers = dict.fromkeys(
        c.compilation.compiler for c in facts.state.candidates.values() if c.compilation
    )
    yield "compiler", (", ".join(c for c in compilers if c) or "unknown",)
    yield "team", (settings.team.value,)
    yield "search", (settings.search.value,)
    if settings.model:
        yield "model", (settings.model, f" at {settings.base_url}" if settings.base_url else "")
    approval = settings.approval
    by = approval.decisions or f"plans {approval.plan.value}, diffs {approval.diff.value}"
    yield "approval", (by,)
    yield "rounds at most", (str(facts.state.round_limit or settings.rounds),)
    if facts.state.seed:
        yield "seed of drawn cases", (str(facts.state.seed),)
    yield "hash of the task", (Code(facts.opened.task_hash),)


def _gpu(gpu: GpuIdentity) -> Iterator[tuple[str, Line]]:
    known = {
        "GPU": gpu.name,
        "compute capability": ".".join(map(str, gpu.compute_capability or ())),
        "SMs": gpu.sm_count,
        "memory": gpu.memory_bytes and size(gpu.memory_bytes),
        "driver": gpu.driver,
        "CUDA of the driver": gpu.cuda_driver,
        "highest SM clock": gpu.max_sm_mhz and f"{gpu.max_sm_mhz:,} MHz",
        "highest memory clock": gpu.max_mem_mhz and f"{gpu.max_mem_mhz:,} MHz",
        "power limit": gpu.power_limit_w and f"{gpu.power_limit_w:,.0f} W",
        "ECC": _switch(gpu.ecc_enabled),
        "MIG": _switch(gpu.mig_enabled),
        "persistence mode": _switch(gpu.persistence),
        "VBIOS": gpu.vbios,
    }
    yield from ((name, (str(value),)) for name, value in known.items() if value)


def _switch(value: bool | None) -> str:
    return "" if value is None else "on" if value else "off"


def cost_section(facts: Facts) -> Section:
    """What models and the GPU took."""
    usage = facts.state.usage
    blocks: list[Block] = []
    rows: list[tuple[str, Cell]] = [
        ("model calls", usage.calls),
        ("input tokens", usage.input_tokens),
        ("output tokens", usage.output_tokens),
        ("dollars", number(usage.dollars, decimal, 4)),
        ("calls without a known price", usage.unpriced_calls),
    ]
    if not facts.on_emulator:
        rows.append(("seconds of timing on the GPU", number(usage.gpu_seconds, decimal)))
    blocks.append(table(("what", "sum"), rows, "Cost"))
    if facts.costs:
        blocks.append(_models(facts))
    return Section("Cost", "cost", tuple(blocks))


def _models(facts: Facts) -> Table:
    rows = (
        (c.purpose, c.model, c.calls, c.failed, c.input_tokens, c.output_tokens,
         number(c.seconds, decimal), number(c.dollars, decimal, 4), c.unpriced)
        for c in facts.costs
    )  # fmt: skip
    columns = (
        "purpose", "model", "calls", "failed", "input tokens", "output tokens", "seconds",
        "dollars", "unpriced",
    )  # fmt: skip
    return table(columns, rows, "By purpose and model")


def evidence_section(facts: Facts) -> Section:
    """The digests by which this report can be tied to its journal."""
    rows: list[tuple[str, Cell]] = [
        ("session", Code(facts.opened.session)),
        ("events in the journal", facts.events),
        ("SHA-256 of journal.jsonl", Code(facts.journal_sha256)),
        ("digest of the state", Code(facts.digest)),
        ("digest when it was closed", _closing(facts)),
        ("baseline", Code(facts.baseline.hash)),
        ("best", Code(facts.best.hash)),
    ]
    origin = facts.opened.forked_from
    if origin is not None:
        where: Line = (Code(origin.session), f", after event {origin.seq}, at the state ")
        rows.append(("forked from", (*where, Code(origin.digest))))
    command = f"astra-tui verify {shlex.quote(facts.folder.resolve().name)}"
    text: Line = (
        "Everything above was read from the session's journal and sources, and nothing else. ",
        Code(command), " rebuilds the accepted candidates from them and checks and measures "
        "again; ", Code("sha256sum journal.jsonl"), " tells whether the journal is still the one "
        "that this report was made from.",
    )  # fmt: skip
    digests = table(("what", "value"), rows, "Digests")
    return Section("How to verify", "verify", (Paragraph(text), digests))


def _closing(facts: Facts) -> Line:
    if not facts.closing_digest:
        return ("none: the journal does not end with a closed session",)
    if facts.closing_digest == facts.recomputed_digest:
        return Code(facts.closing_digest), " agrees with the events before it"
    return (
        Code(facts.closing_digest),
        Strong(" is not what this version makes of the events before it"),
        ": they were altered, or another version wrote them",
    )
