"""What the panes draw: one immutable view of a session, made once a tick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from astra_tui.model.approval import Question
from astra_tui.model.events import ExchangeMade, RoundsTimed, StageBegan, ToolUsed
from astra_tui.model.gpu import GpuSample
from astra_tui.model.state import CandidateState, ProposalState, RoundState, SessionState
from astra_tui.model.tuning import SweptCandidate
from astra_tui.model.workers import WorkersStatus
from astra_tui.present.events import describe
from astra_tui.present.tones import Tone
from astra_tui.sessions.journal_lines import Record


class Choice(NamedTuple):
    """What all panes are about: a proposal of a round. Round 0 is the baseline, without one."""

    round: int
    proposal: int = 0


class LogEntry(NamedTuple):
    """One event in words, with the number of its record.

    `exchange` leads to prompt and reply of a call, or to what a tool was given and told.
    """

    number: int
    time: str
    text: str
    tone: Tone
    exchange: ExchangeMade | ToolUsed | None = None


class View(msgspec.Struct, frozen=True):
    """A session at one moment.

    Of a session that runs `state` holds the results of cases of the chosen candidate and of some
    others, as `tui/presenter.py` says.

    `streams` holds what each role is writing, by role. `awaiting` is the question that someone
    has to answer; a saved session never has one. `since` is when the stage began, in seconds of
    the screen's clock.
    """

    state: SessionState
    choice: Choice
    following: bool
    stage: StageBegan | None = None
    since: float = 0.0
    awaiting: Question | None = None
    streams: Mapping[str, str] = {}
    log: tuple[LogEntry, ...] = ()
    rounds_timed: tuple[RoundsTimed, ...] = ()
    """How far the timing that runs is, one entry a workload."""
    sweep: str = ""
    """How far the sweep that runs is."""
    samples: tuple[GpuSample, ...] = ()
    """The latest readings of NVML, oldest first."""
    workers: WorkersStatus = WorkersStatus()
    """What workers are at, where the run has some."""
    without_cases: str = ""
    """Why the chosen candidate has no results of cases although it was checked, in words."""

    @property
    def asked(self) -> Question | None:
        """The question that waits for someone; in a saved session, the one that waited here."""
        return self.awaiting or next(iter(self.state.pending), None)

    @property
    def round(self) -> RoundState | None:
        """The chosen round."""
        return find_round(self.state, self.choice.round)

    @property
    def proposal(self) -> ProposalState | None:
        """The chosen proposal."""
        found = self.round
        if found is None or self.choice.proposal >= len(found.proposals):
            return None
        return found.proposals[self.choice.proposal]

    @property
    def candidate(self) -> CandidateState | None:
        """The candidate of the choice, also where its code failed and nothing replaced it; None
        where no code was written yet.
        """
        if self.choice.round == 0:
            return self._baseline
        written = self.proposal.written if self.proposal else ()
        return self.state.candidate(written[-1]) if written else None

    @property
    def sweeps(self) -> tuple[SweptCandidate, ...]:
        """What sweeps made of the code of the choice."""
        written = self.proposal.written if self.proposal else ()
        found = (self.state.candidate(candidate).swept for candidate in written)
        return tuple(swept for swept in found if swept is not None)

    @property
    def _baseline(self) -> CandidateState | None:
        opened = self.state.opened
        return self.state.candidate(opened.baseline) if opened else None

    @property
    def waits_for_baseline(self) -> bool:
        """Whether a plan is there and is asked about once the baseline has passed its check."""
        return self.stage is not None and self.stage.round == 0 and self.state.rounds[-1].number > 0

    @property
    def tested(self) -> CandidateState | None:
        """The candidate whose check is shown: that of the choice, or the baseline that it waits
        for.
        """
        return self._baseline if self.waits_for_baseline else self.candidate

    @property
    def base(self) -> CandidateState | None:
        """What the candidate was made from; None for the baseline."""
        found = self.round
        if found is None or found.number == 0:
            return None
        return self.state.candidate(found.base)


def entry_of(record: Record) -> LogEntry | None:
    """What the log says of a record; None where it says nothing."""
    event, said = record.event, describe(record.event)
    if said is None:
        return None
    exchange = event if isinstance(event, ExchangeMade | ToolUsed) else None
    return LogEntry(record.seq, record.time, said.text, said.tone, exchange)


def find_round(state: SessionState, number: int) -> RoundState | None:
    """The round with a number, if there is one."""
    try:
        return state.round(number)
    except KeyError:
        return None


def newest_choice(state: SessionState, awaiting: Question | None) -> Choice:
    """What someone who follows the work looks at: the question, else the latest proposal."""
    if awaiting is not None:
        return Choice(awaiting.round, awaiting.proposal)
    for round_ in reversed(state.rounds):
        unfinished = [p.index for p in round_.proposals if p.verdict is None]
        if round_.number == 0 or unfinished:
            return Choice(round_.number, unfinished[0] if unfinished else 0)
        if round_.proposals:
            return Choice(round_.number, round_.proposals[-1].index)
    return Choice(0)


def place_of(state: SessionState, candidate: str) -> Choice | None:
    """The first proposal that made a source, or the baseline; None where neither did."""
    if state.opened is not None and candidate == state.opened.baseline:
        return Choice(0)
    return next(
        (
            Choice(round_.number, proposal.index)
            for round_ in state.rounds
            for proposal in round_.proposals
            if proposal.code is not None and proposal.code.candidate == candidate
        ),
        None,
    )


def start_of(view: View) -> View | None:
    """The version that a plan starts from, as if it were chosen; None once the plan has code."""
    if view.candidate is not None or view.base is None:
        return None
    place = place_of(view.state, view.base.hash)
    return replace(view, choice=place) if place is not None else None
