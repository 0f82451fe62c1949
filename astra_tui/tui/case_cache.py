"""Which candidates' cases the screen holds; those of all others are in the journal alone.

Case results are four fifths of a journal, and one candidate's are shown at a time. The screen
holds those of the candidates that were checked or looked at last, so that its memory does not
grow with the session.
"""

from __future__ import annotations

from msgspec.structs import replace

from astra_tui.model.check import Case, CaseResult
from astra_tui.model.events import CaseChecked, CheckStarted, DeviceOpened, Event
from astra_tui.model.state import SessionState

MAX_HELD = 8
"""Candidates; more than are checked at a time."""


class Evicted:
    """Stands for results that were evicted; another one for each time."""

    problem: str = ""
    """Why they could not be read again, if they could not."""


class CaseCache:
    """Takes results out of the states of the screen, and puts them back."""

    def __init__(self) -> None:
        self._held: dict[str, None] = {}
        """The least recently used first."""
        self._evicted: dict[str, Evicted] = {}
        self._shared: dict[str, Case] = {}

    def shared(self, event: Event) -> Event:
        """Every candidate runs the same cases; each is held once, which halves the memory."""
        if not isinstance(event, CaseChecked):
            return event
        return replace(event, result=self._with_shared_case(event.result))

    def after(self, state: SessionState, event: Event) -> SessionState:
        """The state after an event, without the results that are held no longer."""
        if isinstance(event, CheckStarted):
            self._evicted.pop(event.candidate, None)
        if isinstance(event, DeviceOpened) and not any(c.cases for c in state.candidates.values()):
            self._evicted.clear()  # The state has left those of another device behind.
        return self._hold(state, event.candidate) if isinstance(event, CaseChecked) else state

    def evicted(self, candidate: str) -> Evicted | None:
        """Whether a candidate's results have to be read again; None where they do not."""
        return self._evicted.get(candidate)

    def restored(
        self,
        state: SessionState,
        candidate: str,
        results: tuple[CaseResult, ...],
        instead_of: Evicted,
    ) -> SessionState:
        """The state with results that were read again, unless others have come meanwhile."""
        if self._evicted.get(candidate) is not instead_of:
            return state
        del self._evicted[candidate]
        results = tuple(map(self._with_shared_case, results))
        return self._hold(_with_results(state, candidate, results), candidate)

    def _hold(self, state: SessionState, candidate: str) -> SessionState:
        self._held.pop(candidate, None)
        self._held[candidate] = None
        if len(self._held) <= MAX_HELD:
            return state
        oldest = next(iter(self._held))
        del self._held[oldest]
        self._evicted[oldest] = Evicted()
        return _with_results(state, oldest, ())

    def _with_shared_case(self, result: CaseResult) -> CaseResult:
        known = self._shared.setdefault(result.case.id, result.case)
        same = known is not result.case and known == result.case
        return replace(result, case=known) if same else result


def _with_results(
    state: SessionState, candidate: str, results: tuple[CaseResult, ...]
) -> SessionState:
    changed = replace(state.candidate(candidate), results=results)
    return replace(state, candidates={**state.candidates, candidate: changed})
