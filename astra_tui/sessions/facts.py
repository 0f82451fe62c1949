"""What a report needs to know of a session beyond its state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from astra_tui.model.check import CheckReport
from astra_tui.model.events import (
    CaseAdded,
    ExchangeMade,
    NoteAdded,
    RoundOpened,
    SessionClosed,
    SessionOpened,
)
from astra_tui.model.fold import fold
from astra_tui.model.plan import Plan
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import CandidateState, ProposalState, RoundState, SessionState
from astra_tui.model.timing import Timing
from astra_tui.model.verdict import Profile
from astra_tui.sessions.integrity import Session
from astra_tui.sessions.summary import FinalTiming, check_of, final_timings


@dataclass(frozen=True)
class ReportedProposal:
    """One proposal of a round with all that became of it."""

    state: SessionState
    round: RoundState
    proposal: ProposalState

    @property
    def label(self) -> str:
        """As in "3", or "3.2" for the second of several proposals."""
        number = str(self.round.number)
        several = len(self.round.proposals) > 1
        return f"{number}.{self.proposal.index + 1}" if several else number

    @property
    def plan(self) -> Plan:
        """The plan as it was decided."""
        return self.state.plan_of(self.round.number, self.proposal.index)

    @property
    def candidate(self) -> CandidateState | None:
        """The source that was judged; None where there was none."""
        verdict = self.proposal.verdict
        return self.state.candidate(verdict.candidate) if verdict and verdict.candidate else None

    @property
    def became_best(self) -> bool:
        """Whether the next round built on it."""
        return self.candidate is not None and self.round.best == self.candidate.hash


@dataclass(frozen=True)
class Facts:
    """A session as a report sees it.

    Raises UserError where the session was never opened, or its journal is none that an engine
    could have written.
    """

    session: Session

    @cached_property
    def state(self) -> SessionState:
        """The state at the end."""
        return self.session.state

    @property
    def opened(self) -> SessionOpened:
        """How the session began."""
        assert self.state.opened is not None
        return self.state.opened

    @cached_property
    def reported(self) -> tuple[ReportedProposal, ...]:
        """Every proposal of every round."""
        rounds = self.state.rounds
        return tuple(ReportedProposal(self.state, r, p) for r in rounds for p in r.proposals)

    @cached_property
    def finals(self) -> tuple[FinalTiming, ...]:
        """The winner, measured again at the end."""
        return final_timings(self.state)

    @cached_property
    def timings(self) -> tuple[Timing, ...]:
        """All of them, round by round and then the final ones."""
        finished = [t for c in self.state.candidates.values() for t in c.timings]
        return tuple(t.timing for t in sorted(finished, key=lambda t: t.final))

    @cached_property
    def checked(self) -> tuple[tuple[str, int, CheckReport], ...]:
        """Every version that was checked under its first name, with the number of its cases."""
        named = {self.opened.baseline: "baseline"}
        for entry in self.reported:
            for attempt in entry.proposal.attempts:
                if hash_ := getattr(attempt, "candidate", ""):
                    named.setdefault(hash_, f"round {entry.label}")
        for final in self.finals:
            named.setdefault(final.timing.base, final.against)
        versions = [(name, self.state.candidate(hash_)) for hash_, name in named.items()]
        device = self.state.device_name
        checks = ((name, v.cases, check_of(v, device)) for name, v in versions)
        return tuple((name, cases, check) for name, cases, check in checks if check is not None)

    @cached_property
    def counted(self) -> tuple[tuple[str, str, Profile], ...]:
        """Every version with counters: its name, its hash, and its profile."""
        named = [("baseline", self.baseline)]
        named += [(f"round {e.label}", e.candidate) for e in self.reported if e.candidate]
        profiles = ((name, version.hash, version.profile) for name, version in named)
        return tuple((n, h, found) for n, h, found in profiles if found and found.workloads)

    @cached_property
    def calls(self) -> dict[tuple[str, str], list[ExchangeMade]]:
        """The calls of models by what they were for and which model answered."""
        groups: dict[tuple[str, str], list[ExchangeMade]] = {}
        for event in self.session.contents.events:
            if isinstance(event, ExchangeMade):
                groups.setdefault((event.purpose, event.model), []).append(event)
        return groups

    @cached_property
    def additions(self) -> tuple[tuple[int, NoteAdded | CaseAdded], ...]:
        """Notes and cases that were added, each after the round in which it came."""
        found: list[tuple[int, NoteAdded | CaseAdded]] = []
        number = 0
        for event in self.session.contents.events:
            if isinstance(event, RoundOpened):
                number = event.round
            elif isinstance(event, NoteAdded | CaseAdded):
                found.append((number, event))
        return tuple(found)

    @cached_property
    def closing(self) -> tuple[str, bool] | None:
        """The digest with which it was closed, and whether its events give that; None if none."""
        *events, last = self.session.contents.events
        if not isinstance(last, SessionClosed) or not last.digest:
            return None
        return last.digest, last.digest == fold(events).digest()

    @property
    def on_emulator(self) -> bool:
        """Whether candidates ran on the emulator, which gives counters and never a time."""
        return self.state.device_name == EMULATOR and not self.timings

    @property
    def baseline(self) -> CandidateState:
        """Where optimisation started."""
        return self.state.candidate(self.opened.baseline)

    @property
    def best(self) -> CandidateState:
        """The best correct candidate; the baseline where none was better."""
        return self.state.candidate(self.state.best)
