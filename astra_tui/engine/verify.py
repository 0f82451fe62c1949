"""Tries the accepted candidates of a session again, from the sources that it stores.

Everything runs in lab processes, on the task that was found here: nothing of the session but the
kernel sources is run, and these as in any check.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from astra_tui.engine.judging import judge_counters
from astra_tui.engine.lab import Lab
from astra_tui.engine.rerun import check, named_source, time_pair
from astra_tui.gpu.timing.stopping import minimum_detectable
from astra_tui.model.check import CaseOutcome, CaseResult, CheckReport, CheckVerdict, worst_error
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.plan import Counter
from astra_tui.model.state import CandidateState, SessionState
from astra_tui.model.timing import WRONG_OUTPUT, Ratio, Timing
from astra_tui.model.verdict import Profile, RoundVerdict, WorkloadProfile
from astra_tui.model.verification import CandidateVerification, CounterPair, TimingPair


@dataclass(frozen=True)
class Accepted:
    """A candidate that became the best in a round; round 0 is the baseline."""

    hash: str
    round: int


def accepted_candidates(state: SessionState) -> tuple[Accepted, ...]:
    """The baseline and every candidate that became the best after it, in order."""
    if state.opened is None:
        return ()
    better = (Accepted(r.best, r.number) for r in state.rounds if r.best)
    return (Accepted(state.opened.baseline, 0), *better)


class Verifier:
    """Compiles, checks, counts and times candidates again, and compares with a state."""

    def __init__(
        self,
        state: SessionState,
        source: Callable[[str], str],
        lab: Lab,
        fresh_seed: int | None = None,
        at_once: int = 1,
    ):
        """`source` gives the text of a candidate by its hash; so many are tried `at_once`.

        The session's drawn cases are repeated; those of `fresh_seed`, if any, come on top.
        """
        self._fresh_seed = fresh_seed
        self._state = state
        self._source = source
        self._lab = lab
        self._free = asyncio.Semaphore(at_once)
        self._profiles: dict[str, asyncio.Future[Profile | None]] = {}

    async def run(self) -> AsyncIterator[CandidateVerification]:
        """One candidate after the other, in the order in which they were accepted."""
        accepted = accepted_candidates(self._state)
        loop = asyncio.get_running_loop()
        self._profiles = {one.hash: loop.create_future() for one in accepted}
        verifying = [asyncio.ensure_future(self._in_turn(one)) for one in accepted]
        try:
            for verified in verifying:
                yield await verified
        finally:
            for task in verifying:
                task.cancel()
            await asyncio.gather(*verifying, return_exceptions=True)

    async def _in_turn(self, accepted: Accepted) -> CandidateVerification:
        async with self._free:
            try:
                return await self._verify(accepted)
            finally:  # A verdict that rests on it need not wait.
                if not (profile := self._profiles[accepted.hash]).done():
                    profile.set_result(None)

    async def _verify(self, accepted: Accepted) -> CandidateVerification:
        known = self._state.candidate(accepted.hash)
        source = named_source(self._source(accepted.hash), accepted.hash)
        checked = await check(self._lab, source, self._state.cases, self._state.seed)
        results, report = checked.results, checked.report
        problems = _check_problems(known, results, report)
        if report.verdict is CheckVerdict.PASSED and self._fresh_seed is not None:
            fresh = await check(self._lab, source, self._state.cases, self._fresh_seed)
            if not fresh.passed:
                problems.append(f"with cases drawn from {self._fresh_seed}: {fresh.report.message}")
        counters: tuple[CounterPair, ...] = ()
        timings: tuple[TimingPair, ...] = ()
        notes: tuple[str, ...] = ()
        compared = False
        if report.verdict is CheckVerdict.PASSED:
            try:
                profile = await self._profile(accepted.hash)
                counters = _counter_pairs(known.profile, profile)
                compared, notes = _comparable(known.profile, profile)
                problems += _counter_problems(known.profile, profile) if compared else []
                problems += await self._verdict_problems(accepted, profile)
                timings = await self._time(known)
                problems += [t.disagreement for t in timings if t.disagreement]
            except UserError as error:
                problems.append(error.describe())
        return CandidateVerification(
            candidate=accepted.hash,
            round=accepted.round,
            recorded=known.check.verdict if known.check else None,
            measured=report.verdict,
            cases=len(results),
            worst_recorded=worst_error(known.results),
            worst_measured=worst_error(results),
            counters=counters,
            timings=timings,
            problems=tuple(problems),
            notes=notes,
            counters_compared=compared,
        )

    async def _profile(self, hash_: str) -> Profile:
        source = named_source(self._source(hash_), hash_)
        profiled = await self._lab.open(source).profile()
        if not (found := self._profiles[hash_]).done():
            found.set_result(profiled.profile)
        return profiled.profile

    async def _verdict_problems(self, accepted: Accepted, mine: Profile) -> list[str]:
        """Whether the journal's verdict by counters follows from what was counted here."""
        verdict = _verdict_on(self._state, accepted)
        if verdict is None:
            return [] if accepted.round == 0 else ["no verdict of the journal accepts it"]
        if verdict.comparison is None or verdict.comparison.basis != "counters":
            return []
        base = await self._profiles[verdict.base] if verdict.base in self._profiles else None
        if base is None:
            return [f"the verdict rests on {short(verdict.base)}, which was not accepted"]
        again = judge_counters(verdict.base, base, accepted.hash, mine)
        if again.outcome is verdict.outcome:
            return []
        return [f"the verdict was {verdict.outcome.value}, and is {again.outcome.value}"]

    async def _time(self, known: CandidateState) -> tuple[TimingPair, ...]:
        pairs = []
        for recorded in _latest_timings(known):
            measured = await self._time_against(recorded) if self._lab.has_times else None
            pairs.append(_timing_pair(recorded, measured))
        return tuple(pairs)

    async def _time_against(self, recorded: Timing) -> Timing:
        base, candidate = (
            named_source(self._source(h), h) for h in (recorded.base, recorded.candidate)
        )
        return await time_pair(self._lab, base, candidate)


def _check_problems(
    known: CandidateState, results: tuple[CaseResult, ...], report: CheckReport
) -> list[str]:
    if known.check is None:
        return ["the journal holds no check of it"]
    problems = []
    if report.verdict is not known.check.verdict:
        was, now = known.check.verdict.value, report.verdict.value
        problems.append(f"the check was {was}, and is {now}: {report.message}")
    before = {r.case.id: r.outcome for r in known.results}
    after = {r.case.id: r.outcome for r in results}
    # Suites grow: what one of them does not have says nothing of the candidate.
    changed = [i for i in before if i in after and before[i] is not after[i]]
    if changed:
        first, second = (_ending(cases, changed[0]) for cases in (before, after))
        problems.append(
            f"{len(changed)} cases end otherwise; {changed[0]} was {first}, and is {second}"
        )
    return problems


def _ending(cases: Mapping[str, CaseOutcome], id_: str) -> str:
    return cases[id_].value if id_ in cases else "not run"


def _counter_pairs(recorded: Profile | None, measured: Profile) -> tuple[CounterPair, ...]:
    if recorded is None:
        return ()
    return tuple(
        CounterPair(c.value, recorded.total(c.value), measured.total(c.value)) for c in Counter
    )


def _comparable(recorded: Profile | None, measured: Profile) -> tuple[bool, tuple[str, ...]]:
    """Whether counts have to be the same, and what is to be said of it.

    Another compiler makes other instructions. It is known by the content of its library, and in
    older sessions by its version.
    """
    if recorded is None or "counters" in {**recorded.missing, **measured.missing}:
        return False, ("counters are not compared: there or here nothing was counted",)
    before, after = _compilers(recorded), _compilers(measured)
    contents = recorded.compiler_content, measured.compiler_content
    if not all(contents):
        if before != after:
            return False, (_made_by(before, after),)
        said = "the compiler is the same by its version; the journal does not have its content"
        return True, (said,)
    if contents[0] == contents[1]:
        return True, ()
    before, after = (
        f"{name}, SHA-256 {short(content)}"
        for name, content in zip((before, after), contents, strict=True)
    )
    return False, (_made_by(before, after),)


def _made_by(before: str, after: str) -> str:
    return f"counters are not compared: the code was made by {before}, and here by {after}"


def _compilers(profile: Profile) -> str:
    return ", ".join(sorted({w.counters.compiler for w in profile.workloads}))


def _counter_problems(recorded: Profile | None, measured: Profile) -> list[str]:
    """Counts are exact: by line, by kind of access, on every workload."""
    if recorded is None:
        return ["the journal holds no profile of it"]
    before = {w.workload: _unnamed(w) for w in recorded.workloads}
    after = {w.workload: _unnamed(w) for w in measured.workloads}
    if not any(w.traffic for w in recorded.workloads):  # Older than what is said of traffic.
        after = {name: replace(w, traffic=()) for name, w in after.items()}
    problems = []
    for name in {**before, **after}:
        if name not in before or name not in after:
            problems.append(
                f"workload {name} was counted only {'there' if name in before else 'here'}"
            )
        elif before[name] != after[name]:
            problems.append(f"the counters of workload {name} are not as recorded")
    return problems


def _unnamed(workload: WorkloadProfile) -> WorkloadProfile:
    """Without the name of the compiler, which has been compared."""
    return replace(workload, counters=replace(workload.counters, compiler=""))


def _verdict_on(state: SessionState, accepted: Accepted) -> RoundVerdict | None:
    if accepted.round == 0:
        return None
    verdicts = (p.verdict for p in state.round(accepted.round).proposals)
    return next((v for v in verdicts if v is not None and v.candidate == accepted.hash), None)


def _latest_timings(known: CandidateState) -> tuple[Timing, ...]:
    """The last timing against each base; of a winner those that were measured again."""
    latest = {t.timing.base: t.timing for t in known.timings}
    return tuple(t for base, t in latest.items() if base != known.hash)


def _timing_pair(recorded: Timing, measured: Timing | None) -> TimingPair:
    if measured is None:
        return TimingPair(recorded.base, recorded, None, 0.0, "")
    wrong = (d for w in measured.workloads for d in w.caveats if d.kind == WRONG_OUTPUT)
    why = next((d.message for d in wrong), "") or disagreement(recorded, measured)
    return TimingPair(recorded.base, recorded, measured, tolerance(recorded, measured), why)


MIN_TOLERANCE = 0.02
"""Between two machines, or two days on one, less is not to be had: clocks and heat differ."""


def tolerance(recorded: Timing, measured: Timing) -> float:
    """How far two ratios may be apart, as a fraction.

    The sum of both half-widths and of the larger minimum detectable difference, 2 % or more.
    Nothing is allowed where one has no usable numbers, as in a session that no engine wrote.
    """
    if not all(_usable(r) for t in (recorded, measured) for r in (t.speedup, t.control)):
        return 0.0
    widths = recorded.speedup.half_width + measured.speedup.half_width
    detectable = max(minimum_detectable(t.control) for t in (recorded, measured))
    return max(MIN_TOLERANCE, widths + detectable)


def disagreement(recorded: Timing, measured: Timing) -> str:
    """Why two timings do not say the same, in words; empty where they do."""
    if recorded.verdict is not measured.verdict:
        return f"the verdict was {recorded.verdict.value}, and is {measured.verdict.value}"
    allowed = tolerance(recorded, measured)
    if not allowed:
        return "one of the timings has no usable numbers"
    apart = abs(measured.speedup.value / recorded.speedup.value - 1)
    if apart <= allowed:
        return ""
    return f"the ratios are {apart:.1%} apart, and {allowed:.1%} is allowed"


def _usable(ratio: Ratio) -> bool:
    numbers = (ratio.low, ratio.value, ratio.high)
    return all(math.isfinite(n) and n > 0 for n in numbers) and ratio.low <= ratio.high
