"""The archive and what a search draws from it, on sessions that no one has run."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.engine.search import Parents, choose_parents, exhausted, weights
from astra_tui.model.archive import archive_of
from astra_tui.model.check import CaseOutcome
from astra_tui.model.digest import content_hash
from astra_tui.model.events import (
    BestChanged,
    CodeWritten,
    CompileFinished,
    CopyFound,
    Event,
    ParentChoice,
    PlanningFinished,
    PlanProposed,
    ProfileTaken,
    RoundClosed,
    RoundOpened,
    VerdictReached,
)
from astra_tui.model.fold import apply, fold
from astra_tui.model.settings import SearchKind
from astra_tui.model.state import SessionState
from astra_tui.model.verdict import Comparison, Outcome, RoundVerdict
from astra_tui.sessions.journal_lines import Record, decode_record, encode_record
from tests.sessions.samples import (
    BASELINE,
    BASELINE_SOURCE,
    PLAN,
    PLAYBOOK,
    checked,
    opened,
    profile,
)

BEGIN_COST = 64
WRONG, COPY, BARREN = "wrong", "copy", "barren"

Result = int | str
"""What becomes of a plan: the requests that its candidate makes, or a way in which it fails."""

RESULTS = st.integers(30, 80) | st.sampled_from([WRONG, COPY])
ROUNDS = st.lists(st.lists(RESULTS, min_size=1, max_size=3) | st.just([]), max_size=9)
"""The results of each round's plans; a round without a plan is barren."""
SEARCHES = st.sampled_from([SearchKind.ARCHIVE, SearchKind.RESTARTS])


@dataclass
class Play:
    """A session that goes on as a search says, with results that are given."""

    search: SearchKind
    seed: int = 0

    def __post_init__(self) -> None:
        self.events: list[Event] = []
        self.texts = {BASELINE: BASELINE_SOURCE}
        self.chosen: list[Parents] = []
        self.state = SessionState()
        self.emit(replace(opened(), seed=self.seed))
        self.emit(RoundOpened(0, 0, BASELINE), *checked(BASELINE))
        self.emit(ProfileTaken(BASELINE, profile(BEGIN_COST)), RoundClosed(0))

    def emit(self, *events: Event) -> None:
        for event in events:
            self.state = apply(self.state, event)
            self.events.append(event)

    def choose(self) -> Parents | None:
        return choose_parents(self.state, self.search, self.texts.__getitem__)

    def round(self, results: list[Result]) -> bool:
        """Whether there was a candidate to stand on."""
        parents = self.choose()
        if parents is None:
            return False
        self.chosen.append(parents)
        number = len(self.state.rounds)
        before = self.state.place_of(parents.base)[0]
        parts = parents.base, parents.other, parents.why, parents.among
        self.emit(RoundOpened(number, before, *parts))
        self.emit(*(PlanProposed(number, i, PLAN, PLAYBOOK) for i in range(len(results))))
        self.emit(PlanningFinished(number, "" if results else "none"))
        for index, result in enumerate(results):
            self._try(number, index, parents.base, result)
        round_ = self.state.round(number)
        if round_.winner and self._cost(round_.winner) < self._cost(self.state.best):
            self.emit(BestChanged(number, round_.winner))
        self.emit(RoundClosed(number))
        return True

    def _cost(self, candidate: str) -> tuple[int, int, int]:
        found = self.state.candidate(candidate).profile
        assert found is not None
        return found.ranking_key()

    def _try(self, number: int, index: int, base: str, result: Result) -> None:
        text = f"{self.texts[base]}// {number}.{index}\n" + "x\n" * (number % 3)
        candidate = content_hash(text)
        self.texts[candidate] = text
        self.emit(CodeWritten(number, index, 0, candidate, base, PLAYBOOK))
        outcome, comparison = Outcome.WRONG, None
        if result == WRONG:
            self.emit(*checked(candidate, CaseOutcome.WRONG))
        elif result == COPY:
            self.emit(CompileFinished(candidate, True, (), "NVRTC", 1.0, "code"))
            self.emit(CopyFound(candidate, base))
            outcome = Outcome.SAME
        else:
            assert isinstance(result, int)
            self.emit(*checked(candidate), ProfileTaken(candidate, profile(result)))
            old, new = self._cost(base), self._cost(candidate)
            outcome = Outcome.BETTER if new < old else Outcome.SAME if new == old else Outcome.WORSE
            comparison = Comparison("counters", old, new, {})
        verdict = RoundVerdict(outcome, (), candidate, base, comparison)
        self.emit(VerdictReached(number, index, verdict))


def play(search: SearchKind, rounds: list[list[Result]], seed: int = 0) -> Play:
    played = Play(search, seed)
    for results in rounds:
        if not played.round(results):
            break
    return played


@settings(deadline=None, max_examples=60)
@given(SEARCHES, ROUNDS, st.integers(0, 2**60))
def test_the_archive_is_a_table_of_all_candidates_with_their_lineage(search, rounds, seed):
    state = play(search, rounds, seed).state
    archive = archive_of(state)
    written = [BASELINE, *(a.candidate for r in state.rounds for p in r.proposals
                           for a in p.attempts)]  # fmt: skip
    copies = {h for h, known in state.candidates.items() if known.copy_of}
    assert list(archive.members) == [h for h in written if h not in copies]
    seen: set[str] = set()
    for hash_, member in archive.members.items():
        assert set(member.parents) <= seen
        assert hash_ == BASELINE or member.parents[0] == state.round(member.round).base
        assert archive.lineage(hash_)[-1] == BASELINE
        assert member.fit == state.candidate(hash_).correct
        seen.add(hash_)
    costs = [m.cost for m in archive.fit]
    assert costs == sorted(costs)
    assert costs[0] == archive.members[state.best].cost
    for one in archive.members:
        for other in archive.members:
            shared = set(archive.lineage(one)) & set(archive.lineage(other))
            assert archive.common_ancestor(one, other) in shared


@settings(deadline=None, max_examples=60)
@given(SEARCHES, ROUNDS, st.integers(0, 2**60))
def test_parents_are_open_and_winners_are_merged_once(search, rounds, seed):
    played = Play(search, seed)
    merged: list[str] = []
    for results in rounds:
        before, archive = played.state, archive_of(played.state)
        if not played.round(results):
            break
        parents = played.chosen[-1]
        assert archive.members[parents.base].fit
        if parents.why is not ParentChoice.MERGE:
            assert parents.base not in exhausted(before)
            assert not parents.other
            continue
        assert parents.base == before.best
        assert archive.members[parents.other].outcome is Outcome.BETTER
        assert parents.other not in archive.lineage(parents.base)
        assert parents.base not in archive.lineage(parents.other)
        assert not before.rounds[-1].other
        merged.append(parents.other)
    assert len(merged) == len(set(merged))


@settings(deadline=None, max_examples=60)
@given(SEARCHES, ROUNDS, st.integers(0, 2**60), st.integers(0, 9))
def test_a_journal_that_was_cut_goes_on_with_the_same_parents(search, rounds, seed, cut):
    """A choice follows from what the journal holds before it, and from nothing else."""
    played = play(search, rounds, seed)
    opens = [n for n, e in enumerate(played.events) if isinstance(e, RoundOpened) and e.round]
    for number, place in enumerate(opens[cut : cut + 2], cut):
        lines = [encode_record(Record(n, "", 0.0, e)) for n, e in enumerate(played.events[:place])]
        state = fold(decode_record(line).event for line in lines)
        again = choose_parents(state, search, played.texts.__getitem__)
        assert again == played.chosen[number]


@settings(deadline=None, max_examples=30)
@given(SEARCHES, ROUNDS, st.integers(0, 2**60))
def test_a_search_ends_where_no_candidate_has_a_plan_left(search, rounds, seed):
    played = play(search, rounds, seed)
    done = played.state.rounds_done
    left = 2 * len(archive_of(played.state).members) + 1
    assert any(not played.round([]) for _ in range(left))
    assert played.choose() is None
    assert played.state.rounds_done == done  # Rounds without a plan cost none.


@given(ROUNDS)
def test_greedy_stands_on_the_best(rounds):
    played = play(SearchKind.GREEDY, rounds)
    assert all(p.why is ParentChoice.BEST and not p.other for p in played.chosen)
    assert [r.base for r in played.state.rounds[1:]] == [p.base for p in played.chosen]
    assert played.choose() == Parents(played.state.best, ParentChoice.BEST)


def test_better_candidates_are_drawn_more_often_and_every_one_now_and_then():
    tally: Tally[int] = Tally()
    for seed in range(200):
        played = play(SearchKind.ARCHIVE, [[50, 70, 66, 90]], seed)
        played.round([80])  # The merge of a second winner, if there is one, is not drawn.
        chosen = played.choose()
        assert chosen is not None
        tally[played._cost(chosen.base)[1]] += 1
    assert tally[50] == max(tally.values())
    assert {50, BEGIN_COST, 66, 70} <= set(tally)


def test_a_candidate_that_brought_nothing_is_drawn_less_often():
    played = play(SearchKind.ARCHIVE, [[50]])
    members = archive_of(played.state).fit
    fresh = weights(played.state, members, played.texts.__getitem__)
    best = played.state.best
    for number in (2, 3):
        played.emit(RoundOpened(number, 1, best), PlanProposed(number, 0, PLAN, PLAYBOOK))
        played._try(number, 0, best, WRONG)
        played.emit(RoundClosed(number))
    tired = weights(played.state, members, played.texts.__getitem__)
    assert tired == [fresh[0] / 3, fresh[1]]


def test_a_candidate_much_like_a_better_one_is_drawn_less_often():
    played = play(SearchKind.ARCHIVE, [[50]])
    members = archive_of(played.state).fit
    texts = dict(played.texts)
    alike = weights(played.state, members, texts.__getitem__)
    texts[BASELINE] = "".join(f"other {n}\n" for n in range(40))
    apart = weights(played.state, members, texts.__getitem__)
    assert alike[0] == apart[0] == 1.0
    assert 0 < alike[1] < apart[1] < 0.5


def test_restarts_leave_a_line_that_brings_nothing_and_come_back_to_no_dead_end():
    worse: list[Result] = [70]
    played = play(SearchKind.RESTARTS, [[50], worse, worse, worse, worse, worse], seed=3)
    why = [p.why for p in played.chosen]
    line, restart = ParentChoice.LINE, ParentChoice.RESTART
    assert why[:4] == [line, line, line, restart]
    best = played.state.best
    assert [p.base == best for p in played.chosen[:4]] == [False, True, True, False]
    assert why[4] is line  # The new line has its rounds, too.
    assert played.chosen[4].base == played.chosen[3].base
