"""The title of a report and what it says first."""

from __future__ import annotations

from astra_tui.model.settings import TeamKind
from astra_tui.present.document import (
    Block,
    Code,
    Inline,
    Line,
    Paragraph,
    Strong,
    badge,
    number,
    speedup_line,
)
from astra_tui.present.numbers import change_between, count, minute, pluralised, short
from astra_tui.present.report.facts import Facts
from astra_tui.present.words import shipped_words, timing_verdict
from astra_tui.sessions.integrity import Trust
from astra_tui.sessions.summary import FinalTiming

_TEAMS = {
    TeamKind.LLM: "a model in four roles",
    TeamKind.LLM_SINGLE: "one model in all roles",
    TeamKind.PLAYBOOK: "the playbook, which needs no model",
}


def title(facts: Facts) -> str:
    """What was optimised, and where."""
    where = "on the emulator" if facts.on_emulator else f"on {facts.gpu_name or facts.device}"
    return f"{facts.opened.settings.task} {where}"


def subtitle(facts: Facts) -> str:
    """Which session it was, and when."""
    name = facts.folder.resolve().name
    return f"Session {name}, {minute(facts.started)} to {minute(facts.ended)} UTC"


def opening(facts: Facts) -> tuple[Block, ...]:
    """The summary: who worked where, its result, and how much of it may be believed."""
    blocks: list[Block] = []
    if not facts.trust.whole:
        blocks.append(_distrust(facts.trust))
    blocks += [Paragraph(_who(facts)), Paragraph(_result(facts))]
    if facts.timings:
        blocks.append(Paragraph(_caveats(facts)))
    if facts.damage:
        lost = pluralised(len(facts.damage), "part")
        text = f"{lost} of the journal cannot be read, so this report is not complete: "
        blocks.append(Paragraph((Strong(text), "; ".join(facts.damage[:5]))))
    return tuple(blocks)


def _distrust(trust: Trust) -> Block:
    where = f"line {trust.line}: {trust.message}" if trust.line else trust.message
    if trust.altered:
        text = "This session was altered, so that nothing in this report can be relied on: "
        return Paragraph((Strong(text), where))
    if trust.writer:
        text = f"This session is still being written, by {trust.writer}: "
        return Paragraph((Strong(text), f"the report shows it up to line {trust.line}."))
    text = "This session is cut off, so that its end may be missing: "
    return Paragraph((Strong(text), where))


def _who(facts: Facts) -> Line:
    settings = facts.opened.settings
    rounds = [r for r in facts.state.rounds if r.number > 0]
    model = (" ", Code(settings.model)) if settings.model else ()
    gpu = f" ({facts.gpu_name})" if facts.gpu_name else ""
    closed = facts.state.closed
    unfinished = " It is still running." if facts.trust.writer else " It has no end."
    end = f" It {closed.reason.words} ({closed.message})." if closed else unfinished
    return (
        Code(settings.task), f" was worked on by {_TEAMS[settings.team]}", *model, ", on ",
        Code(facts.device), f"{gpu}, in {pluralised(len(rounds), 'round')}.",
        end.replace("..", "."),
    )  # fmt: skip


def _result(facts: Facts) -> Line:
    if not facts.won:
        return (Strong("No candidate was correct and better"), ": the best is the baseline.")
    best = Code(short(facts.best.hash))
    if facts.finals:
        words: list[Inline] = ["The best candidate ", best, ", measured again at the end, is "]
        for index, final in enumerate(facts.finals):
            words += [" and " if index else "", *_beside(final)]
        shipped = facts.best.shipped
        headline: Line = ()
        if shipped is not None:
            headline = (" It is ", badge(shipped_words(shipped)), ".")
        means = ". These are geometric means over the workloads with their 95 % intervals, cold."
        return (*words, means, *headline)
    if facts.timings:
        return _of_its_round(facts)
    return _by_counters(facts)


def _beside(final: FinalTiming) -> Line:
    against = badge(timing_verdict(final.timing)), " against ", Code(final.beside), ": "
    return *against, *speedup_line(final.timing.speedup)


def _of_its_round(facts: Facts) -> Line:
    best = Code(short(facts.best.hash))
    timing = facts.best.timings[-1].timing if facts.best.timings else None
    if timing is None:
        return ("The best candidate ", best, " was not timed; see its round for why it was kept.")
    return (
        "The best candidate ", best, " was not measured again at the end. In its round it was ",
        badge(timing_verdict(timing)), " against the version it started from: ",
        *speedup_line(timing.speedup), " (95 % interval, cold).",
    )  # fmt: skip


def _by_counters(facts: Facts) -> Line:
    best = Code(short(facts.best.hash))
    before, after = facts.baseline.profile, facts.best.profile
    if before is None or after is None:
        return ("The best candidate is ", best, "; nothing was measured.")
    words: list[Inline] = ["The best candidate ", best, " against the baseline: "]
    for index, name in enumerate(("sectors", "requests", "warp_instructions")):
        old, new = before.total(name), after.total(name)
        words += [", " if index else "", name.replace("_", " "), " ", number(old, count), " to "]
        change = change_between(old, new) or "unchanged"
        words += [number(new, count), f" ({change})" if old else ""]
    why = "the emulator counts, and tells nothing of how long a kernel takes"
    if not facts.on_emulator:
        why = "nothing was timed"
    return (*words, f". These are counters: {why}.")


def _caveats(facts: Facts) -> Line:
    shown = [f.timing for f in facts.finals] or list(facts.timings)
    workloads = [w for t in shown for w in t.workloads]
    doubted = sum(bool(w.caveats) for w in workloads)
    invalidated = sum(w.invalidated for w in workloads)
    if not doubted:
        return ("No caveat was raised about these measurements.",)
    text = f"Caveats were raised about {doubted} of {pluralised(len(workloads), 'measurement')}"
    text += f", and {invalidated} of them decide nothing" if invalidated else ""
    return (text + "; each is marked in its table and explained under Caveats.",)
