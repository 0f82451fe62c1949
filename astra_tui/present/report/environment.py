"""Where and with what it was measured, what it cost, and how to check it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from hashlib import sha256

from astra_tui.model.events import ExchangeMade, SessionClosed
from astra_tui.model.fold import fold
from astra_tui.present import document as doc
from astra_tui.present.gpu import gpu_facts
from astra_tui.present.numbers import decimal
from astra_tui.present.report.facts import Facts
from astra_tui.present.report.timings import protocol_table
from astra_tui.sessions.reading import journal_path
from astra_tui.sessions.records import LARGEST_JOURNAL
from astra_tui.sessions.safe_open import read_inside


def environment_section(facts: Facts) -> doc.Section:
    """Versions, GPU, driver, clocks and protocol."""
    blocks: list[doc.Block] = [doc.table(("what", "value"), _environment(facts), "Environment")]
    gpu = facts.state.device.gpu if facts.state.device else None
    if gpu is not None and gpu.missing:
        missing = tuple((f"{what}: {why}",) for what, why in gpu.missing.items())
        blocks += [doc.Paragraph(("Not told by NVML:",)), doc.Items(missing)]
    protocol = protocol_table(facts)
    if protocol is not None:
        blocks.append(protocol)
    if facts.state.troubles:
        troubles = tuple((f"{t.where}: {t.message}",) for t in facts.state.troubles)
        blocks += [doc.Paragraph(("What went wrong outside of the kernels:",)), doc.Items(troubles)]
    return doc.Section("Environment", "environment", tuple(blocks))


def _environment(facts: Facts) -> Iterator[tuple[str, doc.Line]]:
    settings = facts.opened.settings
    yield "device", (facts.device,)
    gpu = facts.state.device.gpu if facts.state.device else None
    if gpu is not None:
        yield from ((name, (value,)) for name, value in gpu_facts(gpu).items())
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
    yield "hash of the task", (doc.Code(facts.opened.task_hash),)


def cost_section(facts: Facts) -> doc.Section:
    """What models and the GPU took."""
    usage = facts.state.usage
    blocks: list[doc.Block] = []
    rows: list[tuple[str, doc.Cell]] = [
        ("model calls", usage.calls),
        ("input tokens", usage.input_tokens),
        ("output tokens", usage.output_tokens),
        ("dollars", doc.number(usage.dollars, decimal, 4)),
        ("calls without a known price", usage.unpriced_calls),
    ]
    if not facts.on_emulator:
        rows.append(("seconds of timing on the GPU", doc.number(usage.gpu_seconds, decimal)))
    blocks.append(doc.table(("what", "sum"), rows, "Cost"))
    if calls := _calls(facts):
        blocks.append(calls)
    return doc.Section("Cost", "cost", tuple(blocks))


def _calls(facts: Facts) -> doc.Table | None:
    """What the models were asked for; None where none was asked."""
    groups: dict[tuple[str, str], list[ExchangeMade]] = {}
    for event in facts.session.contents.events:
        if isinstance(event, ExchangeMade):
            groups.setdefault((event.purpose, event.model), []).append(event)
    if not groups:
        return None
    rows: list[tuple[doc.Cell, ...]] = []
    for (purpose, model), calls in groups.items():
        tokens = sum(c.input_tokens for c in calls), sum(c.output_tokens for c in calls)
        seconds = doc.number(sum(c.seconds for c in calls), decimal)
        dollars = doc.number(sum(c.dollars or 0.0 for c in calls), decimal, 4)
        failed, unpriced = sum(bool(c.error) for c in calls), sum(c.dollars is None for c in calls)
        rows.append((purpose, model, len(calls), failed, *tokens, seconds, dollars, unpriced))
    columns = (
        "purpose", "model", "calls", "failed", "input tokens", "output tokens", "seconds",
        "dollars", "unpriced",
    )  # fmt: skip
    return doc.table(columns, rows, "By purpose and model")


def evidence_section(facts: Facts) -> doc.Section:
    """The digests by which this report can be tied to its journal."""
    rows: list[tuple[str, doc.Cell]] = [
        ("session", doc.Code(facts.opened.session)),
        ("events in the journal", len(facts.session.contents.records)),
        ("SHA-256 of journal.jsonl", doc.Code(_journal_sha256(facts))),
        ("digest of the state", doc.Code(facts.state.digest())),
        ("digest when it was closed", _closing(facts)),
        ("baseline", doc.Code(facts.baseline.hash)),
        ("best", doc.Code(facts.best.hash)),
    ]
    origin = facts.opened.forked_from
    if origin is not None:
        where: doc.Line = (doc.Code(origin.session), f", after event {origin.seq}, at the state ")
        rows.append(("forked from", (*where, doc.Code(origin.digest))))
    command = f"astra-tui verify {shlex.quote(facts.session.folder.resolve().name)}"
    text: doc.Line = (
        "Everything above was read from the session's journal and sources, and nothing else. ",
        doc.Code(command), " rebuilds the accepted candidates from them and checks and measures "
        "again; ", doc.Code("sha256sum journal.jsonl"), " tells whether the journal is still the "
        "one that this report was made from.",
    )  # fmt: skip
    digests = doc.table(("what", "value"), rows, "Digests")
    return doc.Section("How to verify", "verify", (doc.Paragraph(text), digests))


def _journal_sha256(facts: Facts) -> str:
    folder = facts.session.folder
    text = read_inside(folder, journal_path(folder).name, LARGEST_JOURNAL)
    return sha256(text).hexdigest()


def _closing(facts: Facts) -> doc.Line:
    events = facts.session.contents.events
    last = events[-1]
    if not isinstance(last, SessionClosed) or not last.digest:
        return ("none: the journal does not end with a closed session",)
    if last.digest == fold(events[:-1]).digest():
        return doc.Code(last.digest), " agrees with the events before it"
    return (
        doc.Code(last.digest),
        doc.Strong(" is not what this version makes of the events before it"),
        ": they were altered, or another version wrote them",
    )
