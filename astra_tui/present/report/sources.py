"""The sources: how the baseline became the best, step by step, and both as a whole."""

from __future__ import annotations

from astra_tui.model.errors import UserError
from astra_tui.present.document import Block, Details, Diff, Paragraph, Section, Source
from astra_tui.present.numbers import short
from astra_tui.present.report.facts import Facts
from astra_tui.sessions.folder import read_blob

LONGEST_SOURCE = 200_000
"""Longer sources, in characters, are not shown; kernels of our tasks have some 5,000."""


def sources_section(facts: Facts) -> Section:
    """The diff from the baseline to the best, each accepted step, and both sources."""
    first, last = facts.baseline.hash, facts.best.hash
    if not facts.won:
        blocks: tuple[Block, ...] = (Paragraph(("The best is the baseline: nothing changed.",)),)
        return Section("Sources", "sources", (*blocks, _whole(facts, "baseline", first)))
    steps = [t for t in facts.reported if t.became_best and t.proposal.verdict]
    names = [(f"Round {t.label}: {t.plan.title}", t.round.base, t.round.best) for t in steps]
    shown: list[Block] = [Paragraph(("From the baseline to the best:",))]
    shown.append(_change(facts, first, last))
    if names and len(names) > 1:
        shown.append(Paragraph(("The accepted steps, each from the version before it:",)))
        shown += [Details(title, (_change(facts, old, new),)) for title, old, new in names]
    shown += [_whole(facts, "best", last), _whole(facts, "baseline", first)]
    return Section("Sources", "sources", tuple(shown))


def _change(facts: Facts, old: str, new: str) -> Block:
    try:
        texts = _read(facts, old), _read(facts, new)
    except UserError as error:
        return Paragraph((f"This diff cannot be shown: {error.message}.",))
    return Diff(f"{short(old)}.cu", f"{short(new)}.cu", *texts)


def _whole(facts: Facts, name: str, hash_: str) -> Block:
    try:
        text = _read(facts, hash_)
    except UserError as error:
        return Paragraph((f"The source of the {name} cannot be shown: {error.message}.",))
    lines = text.count("\n") + (not text.endswith("\n"))
    title = f"The {name} as a whole: {short(hash_)}.cu, {lines} lines"
    return Details(title, (Source(text),), long=True)


def _read(facts: Facts, hash_: str) -> str:
    text = read_blob(facts.folder, hash_)
    if len(text) > LONGEST_SOURCE:
        raise UserError(f"it has {len(text):,} characters, more than {LONGEST_SOURCE:,}")
    return text
