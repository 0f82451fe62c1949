"""Sessions: what one was asked, its result, lists of them, what a study and the memory have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from msgspec.structs import replace

from astra_tui.model.digest import short
from astra_tui.model.experience import Experience, PredictionRecord
from astra_tui.model.roles import Role
from astra_tui.model.settings import EMULATOR, ModelSettings, RunSettings, WireChoice
from astra_tui.model.state import SessionState, Usage
from astra_tui.model.timing import TimingVerdict
from astra_tui.model.verdict import Outcome
from astra_tui.present import document as doc
from astra_tui.present import numbers, words
from astra_tui.present.checks import sanitizer_blocks
from astra_tui.present.counters import counted_table, hardware_blocks
from astra_tui.present.timing import final_blocks, portfolio_blocks, speedup_told
from astra_tui.present.tones import Phrase, Tone, phrase_of, words_of
from astra_tui.sessions.store import ALTERED, SessionSummary, in_tree_order, summary_and_state
from astra_tui.sessions.study import STUDY_COUNTERS, SeedMean, StudyRow, WorkloadMeans, over_tasks
from astra_tui.sessions.summary import counter_totals, final_timings, told_timing
from astra_tui.sessions.wire import Welcome

# -- one -------------------------------------------------------------------------------------------


def ending_facts(state: SessionState) -> dict[str, doc.Line]:
    """Why a run ended, how good the best is, which workloads lost, what is left to the floor."""
    closed, best, told = state.closed, words.best_of(state), told_timing(state)
    facts: dict[str, doc.Line] = {}
    if closed is not None:
        ended, _, why = words.closed_words(closed).partition(": ")
        facts[ended] = (why if ended == "finished" else Phrase(why, Tone.BAD),)
    counted = "" if state.candidate(state.best).is_timed else " than the baseline"
    told_best: doc.Line = (Phrase("the baseline: nothing is better", Tone.CAUTION),)
    if state.has_better:
        told_best = doc.Code(short(state.best)), *((", ", best, counted) if best.text else ())
    facts[f"best on {state.gpu_name}" if state.kinds else "best"] = told_best
    for kind, known in state.kinds.items():
        if known.winner:
            winner = "the same" if known.winner == state.best else doc.Code(short(known.winner))
            facts[f"best on {kind}"] = winner, ", ", words.kind_winner(state, kind)
    workloads = told[1].workloads if told is not None else ()
    if slower := [w for w in workloads if w.verdict is TimingVerdict.SLOWER]:
        lost = (f"{w.workload} {numbers.ratio(w.cold.speedup.value)}" for w in slower)
        facts["slower on"] = (Phrase(", ".join(lost), Tone.CAUTION),)
    if reached := sorted((w.of_floor, w.workload) for w in workloads if w.of_floor is not None):
        ends = dict.fromkeys((reached[0], reached[-1]))
        shares = (f"{numbers.percent(share)} on {workload}" for share, workload in ends)
        facts["of the floor"] = (f"{', '.join(shares)}; the floor is a copy of as many bytes",)
    return facts


def result_facts(state: SessionState) -> dict[str, doc.Cell]:
    """What ran where, how it ended, and how far its result may be believed."""
    opened, gpu = state.opened, state.device.gpu if state.device else None
    assert opened is not None
    facts: dict[str, doc.Cell] = {
        "task": opened.settings.task,
        "team": words.team_words(opened.settings),
        "device": words.device_words(state.device_name, gpu),
        "rounds": sum(r.number > 0 for r in state.rounds),
        **ending_facts(state),
    }
    best = state.candidate(state.best)
    if state.has_better:
        facts["source"] = doc.Code(f"sources/{short(best.hash)}.cu")
    measured = [final.timing for final in final_timings(state)]
    facts |= {f"against {f.against}": speedup_told(f.timing) for f in final_timings(state)}
    decided = [t.timing for t in best.timings if t.timing.base != best.hash]
    if decided and not measured:
        measured = decided[-1:]
        told = "; it was not measured again at the end"
        facts["against its base"] = *speedup_told(measured[0]), told
    if best.shipped is not None:
        facts["shipped"] = words.shipped_words(best.shipped)
    workloads = [w for timing in measured for w in timing.workloads]
    if doubted := sum(bool(w.caveats) for w in workloads):
        void = sum(w.invalidated for w in workloads)
        raised = f"about {doubted} of {numbers.pluralised(len(workloads), 'measurement')}"
        facts["caveats"] = raised + (f", and {void} of them decide nothing" if void else "")
    return facts


def result_blocks(state: SessionState, folder: Path) -> list[doc.Block]:
    """The result of a session, then what speaks for it."""
    assert state.opened is not None
    baseline, best = state.candidate(state.opened.baseline), state.candidate(state.best)
    result = doc.fields({**result_facts(state), "session": str(folder)})
    if baseline.profile is None and not final_timings(state):
        return [result]
    hardware = hardware_blocks(best.hardware) if best.hardware is not None else []
    parts = {
        "Portfolio by device": portfolio_blocks(state),
        "Tools": sanitizer_blocks(best.sanitizer) + hardware,
        "Times": final_blocks(state),
    }
    before, after = baseline.profile, best.profile
    if before is not None and after is not None and before.workloads and after.workloads:
        no_time = "counted by the emulator, which gives no time and no speedup"
        counts = [((), counter_totals(before), counter_totals(after))]
        counted = counted_table(("baseline", "best"), counts)
        parts["Counters"] = [counted, *doc.paragraphs(no_time)]
    return [result, *doc.sections(parts)]


# -- lists -----------------------------------------------------------------------------------------


def session_entry(folder: Path) -> SessionSummary:
    """One session with its result in words; a damaged or altered one has none."""
    summary, state = summary_and_state(folder)
    is_told = state is not None and summary.status != ALTERED
    result = words.best_of(state) if state is not None and is_told else words.NOTHING_BETTER
    return replace(summary, result=result.text, tone=result.tone.value)


def sessions_blocks(sessions: Sequence[SessionSummary]) -> list[doc.Block]:
    """One row a session, branches below their parent; then what they are called."""
    columns = "session", "task", "team", "device", "status", "rounds", "started", "best"
    rows = (_row(depth, s) for depth, s in in_tree_order(sessions))
    titles = (f"{s.name}: {s.title}" for s in sessions if s.title)
    return [doc.table(columns, rows), *doc.paragraphs(*titles)]


def _row(depth: int, s: SessionSummary) -> doc.Row:
    name = s.name
    if s.parent:
        origin = "" if depth else f"{s.parent} "
        name = f"{'  ' * depth}{s.name} (from {origin}event {s.fork_seq})"
    result = Phrase(s.result or "-", Tone(s.tone))
    return name, s.task, s.team, s.device, s.status, s.rounds, numbers.minute(s.started), result


def engines_blocks(engines: Sequence[Welcome]) -> list[doc.Block]:
    """One row a running engine."""
    columns = "session", "task", "status", "process", "folder"
    rows = ((e.session, e.task, e.status, str(e.pid), e.folder) for e in engines)
    return [doc.table(columns, rows)]


def memory_blocks(
    known: Sequence[Experience], records: Sequence[PredictionRecord]
) -> list[doc.Block]:
    """One row a plan that was tried, latest last; then how predictions came out."""
    columns = "plan", "operator", "GPU", "outcome", "predicted", "measured", "what"
    ledger = ((f"{r.team} {r.model}".strip(), r.describe()) for r in records)
    tried = doc.table(columns, map(_tried_row, known))
    return [tried, doc.table(("team", "so far"), ledger, "Predictions")]


def _tried_row(one: Experience) -> doc.Row:
    expected, measured = one.prediction, one.ratios.get(one.prediction.counter.value)
    if one.speedup is not None and expected.speedup is not None:
        predicted, found = words.speedup_prediction(expected), numbers.speedup(one.speedup)
    else:
        predicted = words.prediction_words(expected)
        found = "-" if measured is None else numbers.change(measured)
    return one.id, one.operator, one.gpu, phrase_of(one.outcome), predicted, found, one.title


# -- a study ---------------------------------------------------------------------------------------

_COUNTED = (
    "Requests, sectors and instructions: of the best against the baseline, counted by the emulator."
)
_TIMED = (
    "Speedup: of the best over baseline.cu, measured again at the end (1 where nothing was better)."
)
_MEANS = (
    "Geometric means over the seeds that have ended, with 95 % intervals by Student's t on the "
    "logarithms; there is none of one seed, or where all seeds say the same. Lines are not blank, "
    "before and after."
)
_TEAMS = "The same by team; of all tasks, each seed's geometric mean over them."
_COUNTERS = dict(zip(("requests", "sectors", "instructions"), STUDY_COUNTERS, strict=True))
"""The counters of a study, by the names of their columns; `speedup` is the other figure."""


def study_blocks(rows: Sequence[StudyRow], usage: Usage) -> list[doc.Block]:
    """What was gained by task, by team and by workload, as in tables 2, 3 and 4 of the paper, then
    the outcomes. Speedups stand only where a GPU ran.
    """
    is_timed = any(device != EMULATOR for row in rows for device in row.devices)
    figures = (*_COUNTERS, *["speedup"] * is_timed)
    blocks: list[doc.Block] = [
        doc.records(({**_names(r), **_ended(r), **_cells(r, figures)} for r in rows), "Gains"),
        *doc.paragraphs(_COUNTED, *[_TIMED] * is_timed, _MEANS),
    ]
    teams = tuple(dict.fromkeys(row.team for row in rows))
    if len(teams) > 1 or len({row.task for row in rows}) > 1:
        columns = ("task", "setting", "figure", *teams)
        blocks.append(doc.table(columns, _team_rows(rows, teams, figures), "Teams"))
        blocks += doc.paragraphs(_TEAMS)
    by_workload = [
        {**_names(row), "workload": one.workload, **_cells(one, figures)}
        for row in rows
        for one in row.workloads
        if any(mean and set(mean.values) != {1.0} for mean in _means(one).values())
    ]
    if by_workload:
        blocks.append(doc.records(by_workload, "By workload, where a seed found anything"))
    return [*blocks, *_outcome_blocks(rows), *_cost_blocks(usage)]


def _names(row: StudyRow) -> dict[str, doc.Cell]:
    return {"task": row.task, "team": row.team, "setting": row.setting}


def _ended(row: StudyRow) -> dict[str, doc.Cell]:
    lines = f"{row.lines.before:.3g} to {row.lines.after:.3g}" if row.lines else "-"
    ended, correct = f"{row.ended} of {row.runs}", f"{row.correct} of {row.ended}"
    return {"ended": ended, "correct": correct, "lines": lines}


def _means(found: StudyRow | WorkloadMeans) -> dict[str, SeedMean | None]:
    """By the names of their columns."""
    counted = {name: found.counters[counter] for name, counter in _COUNTERS.items()}
    return {**counted, "speedup": found.speedup}


def _cells(found: StudyRow | WorkloadMeans, figures: Sequence[str]) -> dict[str, doc.Cell]:
    means = _means(found)
    return {figure: _mean_cell(means[figure], figure) for figure in figures}


def _mean_cell(mean: SeedMean | None, figure: str) -> doc.Cell:
    write = numbers.ratio if figure == "speedup" else numbers.change
    if mean is None:
        return "-"
    value = doc.number(mean.value, write)
    if mean.low is None or mean.high is None or len(set(mean.values)) == 1:
        return value
    return value, " [", doc.number(mean.low, write), ", ", doc.number(mean.high, write), "]"


def _team_rows(
    rows: Sequence[StudyRow], teams: Sequence[str], figures: Sequence[str]
) -> Iterator[doc.Row]:
    """A row for each task, setting and figure, and for all tasks where there are several."""
    means = {(row.task, row.setting, row.team): _means(row) for row in rows}
    tasks = tuple(dict.fromkeys(row.task for row in rows))
    groups = {**{task: (task,) for task in tasks}, **({"all": tasks} if len(tasks) > 1 else {})}
    settings = dict.fromkeys(row.setting for row in rows)
    for setting, named, figure in product(settings, groups, figures):
        found = (
            [means.get((t, setting, team), {}).get(figure) for t in groups[named]] for team in teams
        )
        yield named, setting, figure, *(_mean_cell(over_tasks(each), figure) for each in found)


def _outcome_blocks(rows: Sequence[StudyRow]) -> list[doc.Block]:
    """How plans and candidates came out."""
    seen = [o for o in Outcome if any(row.outcomes.get(o.value) for row in rows)]
    plans: list[doc.Record] = []
    faults: list[doc.Record] = []
    for row in rows:
        shares: dict[str, doc.Cell] = dict.fromkeys(map(words_of, seen), "-")
        if row.plans:
            shares = {words_of(o): doc.number(row.share(o.value), numbers.percent) for o in seen}
        plans.append({**_names(row), "plans": row.plans, **shares})
        counts = {"candidates": row.candidates, "wrong": row.wrong}
        faults.append({**_names(row), **counts, "not compiled": row.not_compiled})
    repaired = doc.records(faults, "Candidates, repairs included")
    return [doc.records(plans, "Plans by outcome"), repaired]


def _cost_blocks(usage: Usage) -> list[doc.Block]:
    if not usage.calls and not usage.gpu_seconds:
        return []
    return doc.paragraphs(
        f"All runs: {numbers.pluralised(usage.calls, 'call')}, "
        f"{numbers.pluralised(usage.tokens, 'token')}, {numbers.dollars(usage.dollars)}, "
        f"{numbers.seconds(usage.gpu_seconds)} of timing on the GPU."
    )


# -- what a run was asked to do --------------------------------------------------------------------


def settings_rows(settings: RunSettings, rounds: int) -> Iterator[tuple[str, doc.Cell]]:
    """Who works and how; `rounds` is the limit that holds now. What no one chose has no row."""
    yield "team", settings.team.value
    yield "search", settings.search.value
    if settings.model:
        yield "model", (settings.model, f" at {settings.base_url}" if settings.base_url else "")
    general = ModelSettings(
        "", settings.effort, settings.output_tokens, settings.temperature, settings.wire,
        settings.silence_seconds, settings.call_seconds,
    )  # fmt: skip
    if asked := model_words(general):
        yield "every agent", asked
    for role in Role:
        if role in settings.roles:
            yield f"{role.value} agent", model_words(settings.roles[role])
    approval = settings.approval
    by = approval.decisions or f"plans {approval.plan.value}, diffs {approval.diff.value}"
    yield "approval", by
    yield "rounds at most", str(rounds or settings.rounds)
    yield "plans a round", settings.candidates
    if settings.sweep:
        yield "swept of each candidate", f"{numbers.percent(settings.sweep)} of its trials"
    budget = settings.budget
    spent = (
        (budget.tokens, "tokens"), (budget.dollars, "dollars"), (budget.calls, "calls"),
        (budget.gpu_seconds, "seconds of measuring"),
    )  # fmt: skip
    bounds = [f"{bound:,g} {what}" for bound, what in spent if bound is not None]
    if bounds:
        yield "budget", ", ".join(bounds)


def model_words(asked: ModelSettings) -> str:
    """How a model is asked, as in "effort low, at most 2,000 tokens an answer"."""
    told = [
        asked.model,
        f"effort {asked.effort}" if asked.effort else "",
        ""
        if asked.output_tokens is None
        else f"at most {numbers.count(asked.output_tokens)} tokens",
        "" if asked.temperature is None else f"temperature {asked.temperature:g}",
        "" if asked.wire is WireChoice.AUTO else f"{asked.wire.value} wire",
        "" if asked.silence_seconds is None else f"silent {asked.silence_seconds:g} s at most",
        "" if asked.call_seconds is None else f"{asked.call_seconds:g} s a call",
    ]
    return ", ".join(filter(None, told))
