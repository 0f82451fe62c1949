"""Two candidates side by side: the plans that led to them, their checks, what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from astra_tui.model.check import CaseOutcome
from astra_tui.model.digest import short
from astra_tui.model.timing import Timing
from astra_tui.present import document as doc
from astra_tui.present import words
from astra_tui.present.counters import counted_table
from astra_tui.present.numbers import pluralised, significant
from astra_tui.present.plans import effects
from astra_tui.present.timing import timing_blocks
from astra_tui.present.tones import Phrase, Tone, phrase_of, sign_of
from astra_tui.sessions.comparison import (
    Side,
    Sides,
    Step,
    case_differences,
    direct_timing,
    same_task,
)
from astra_tui.sessions.summary import TUNED

LETTERS = ("A", "B")
NO_RATIO = (
    "These times are of different runs, so that no ratio of A and B is formed from them: clocks, "
    "temperature and neighbours differ from run to run."
)
_OTHER_TASKS = "The sessions ran on different tasks: "


def comparison_blocks(sides: Sides, timed: Timing | None = None) -> list[doc.Block]:
    """Plans, checks and costs with a column a side, then the diff of the sources."""
    first, second = sides
    parts = {
        "Plans": plans_blocks(sides),
        "Tests": cases_blocks(sides),
        "Costs": costs_blocks(sides, timed),
    }
    diff = doc.Diff(first.name, second.name, first.source, second.source)
    return [*doc.sections(parts), diff]


def _table(rows: Iterable[doc.Row]) -> doc.Table:
    return doc.table(("", *LETTERS), rows)


def plans_blocks(sides: Sides) -> list[doc.Block]:
    """Where each side comes from, how far it may be believed, and the plans that led to it."""
    origins = [_origin(side) for side in sides]
    all_whole = all(side.trust.whole for side in sides)
    known = (name for name in origins[0] if name != "trust" or not all_whole)
    steps: list[doc.Row] = []
    for at in range(max(len(side.steps) for side in sides)):
        columns = [_step(side, side.steps[at]) if at < len(side.steps) else {} for side in sides]
        steps += [(name, *(c.get(name) for c in columns)) for name in columns[0] | columns[1]]
    others = (f"{pluralised(side.other_plans, 'plan')} that led elsewhere" for side in sides)
    return [
        *doc.paragraphs("" if same_task(sides) else f"{_OTHER_TASKS}only plans compare."),
        _table((name, *(origin[name] for origin in origins)) for name in known),
        doc.Section("Plans, from the baseline on", [_table([*steps, ("not shown", *others)])]),
    ]


def _origin(side: Side) -> dict[str, doc.Cell]:
    """Where a side comes from; no verdict where another candidate of its proposal was judged."""
    found, trust, opened = side.compared, side.trust, side.state.opened
    assert opened is not None
    tone = Tone.GOOD if trust.whole else Tone.BAD if trust.altered else Tone.CAUTION
    verdict = side.steps[-1].verdict if side.steps else None
    told: doc.Line = ()
    if found.outcome is not None and verdict is not None:
        outcome = words.round_verdict(side.state, verdict)
        told = (outcome, f": {'; '.join(found.reasons[:2])}")
    return {
        "session": f"{side.folder.name}:r{found.round}",
        "trust": Phrase(trust.verdict.value.upper(), tone),
        "candidate": doc.Code(short(found.candidate)),
        "task": f"{opened.settings.task}, {words.team_words(opened.settings)}",
        "device": side.state.device_name,
        "written by": found.author,
        "verdict": told,
    }


def _step(side: Side, step: Step) -> dict[str, doc.Cell]:
    """A plan on the way to a candidate, by the names of its rows."""
    verdict, plan = step.verdict, step.plan
    tone = words.round_verdict(side.state, verdict).tone if verdict else Tone.ACCENT
    mark = sign_of(tone) if verdict else ">"
    told = effects(plan, verdict, side.state.candidate(side.state.round(step.round).base))
    return {
        "plan": (Phrase(f"{mark} ", tone), f"{step.round} ", Phrase(plan.title, Tone.TITLE)),
        "  move": plan.move or "written by the coding agent",
        "  bottleneck": plan.bottleneck,
        "  change": plan.change,
        **{f"  {name}": cell for name, cell in told.items()},
    }


def cases_blocks(sides: Sides) -> list[doc.Block]:
    """How many cases passed, and those that ended in two ways."""
    errors = (f"{significant(s.compared.worst_error)} of what is allowed" for s in sides)
    checked = _table([("check", *map(_check, sides)), ("largest error", *errors)])
    if not same_task(sides):
        return [checked, *doc.paragraphs(f"{_OTHER_TASKS}their cases are not comparable.")]
    different = case_differences(sides)
    if not different:
        return [checked, *doc.paragraphs("Every case ended alike on both sides.")]
    rows = [(case, _ended(first), _ended(second)) for case, first, second in different]
    return [checked, *doc.sections({f"Ended in two ways: {len(rows)}": [_table(rows)]})]


def _check(side: Side) -> doc.Cell:
    found = side.compared
    if found.verdict is None:
        return "not checked"
    return phrase_of(found.verdict), f", {found.cases} cases, {len(found.failed)} failed"


def _ended(outcome: CaseOutcome | None) -> doc.Cell:
    return phrase_of(outcome) if outcome else Phrase("not run", Tone.DIM)


def costs_blocks(sides: Sides, timed: Timing | None = None, note: str = "") -> list[doc.Block]:
    """Counters, what was timed of both in one run or a note on it, and the times of each alone."""
    first, second = (side.compared.counters for side in sides)
    if first is None or second is None or not same_task(sides):
        missing = "the tasks differ" if first and second else "not both have a profile"
        counted = doc.paragraphs(f"No counters to compare: {missing}.")
    else:
        counted = [counted_table(LETTERS, [((), first, second)])]
    own = "Times that the sessions have, each against another version in a run of its own"
    return [
        *doc.sections({"Counted by the emulator, over all workloads": counted}),
        *doc.paragraphs(note),
        *_both_timed(sides, timed or direct_timing(sides)),
        *doc.sections({own: list(_own_times(sides))}),
    ]


def _both_timed(sides: Sides, timing: Timing | None) -> list[doc.Block]:
    if timing is not None:
        base, other = LETTERS if timing.base == sides[0].compared.candidate else LETTERS[::-1]
        told = f"One run, in turns. {base} is the base, {other} the candidate."
        times = [*timing_blocks(timing, base, other), *doc.paragraphs(told)]
        return doc.sections({"Time of A against B": times})
    told = NO_RATIO if same_task(sides) else f"{_OTHER_TASKS}their times are not comparable."
    is_timed = any(side.compared.timings for side in sides)
    return doc.paragraphs(told if is_timed else "Neither was timed.")


def _own_times(sides: Sides) -> Iterator[doc.Block]:
    for letter, side in zip(LETTERS, sides, strict=True):
        opened = side.state.opened
        known = side.state.candidate(side.compared.candidate)
        names = {t.timing.base: TUNED for t in known.timings if t.final}
        names |= {opened.baseline: "the baseline"} if opened is not None else {}
        for timing in side.compared.timings:
            base = names.get(timing.base, short(timing.base))
            yield from timing_blocks(timing, base, letter)
