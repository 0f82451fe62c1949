"""GPUs of other kinds than the session's: each gets a winner of its own, and no mean is taken.

The rounds of a session are decided on one kind of GPU. Where workers have others too, what passes
its check is timed there as well, against the baseline, while those GPUs would idle. In the end the
winner of a kind is the session's best, unless another candidate is faster than it on one GPU of
that kind, in one paired timing; and it has passed its whole check there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from astra_tui.engine.lab import Lab, LabFailed
from astra_tui.engine.record import Record
from astra_tui.engine.rerun import check, named_source, time_pair
from astra_tui.engine.stops import Stop, check_gpu_budget
from astra_tui.lab.requests import NamedSource
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.events import ErrorOccurred, KindTimed, KindWinnerChosen
from astra_tui.model.settings import FIRST_GPU, Budget
from astra_tui.model.state import KindState
from astra_tui.model.task import KernelTask
from astra_tui.model.timing import Timing, TimingVerdict

if TYPE_CHECKING:
    from astra_tui.workers import Workers


class OtherKinds:
    """The kinds of GPUs that workers have, without the session's `own`."""

    def __init__(
        self, record: Record, task: KernelTask, budget: Budget, workers: Workers | None, own: str
    ):
        self._record, self._task, self._budget = record, task, budget
        self._workers, self._own = workers, own
        self._labs: dict[str, Lab] = {}

    def close(self) -> None:
        """Ends what runs there."""
        for lab in self._labs.values():
            lab.close()

    async def measure(self, candidate: str) -> None:
        """Times a correct candidate on each kind, against the baseline, unless the journal holds
        that. What cannot be timed there is in the journal as such.
        """
        candidate = self._record.state.candidate(candidate).copy_of or candidate
        await asyncio.gather(*(self._measure(kind, candidate) for kind in self._kinds))

    async def choose_winners(self) -> None:
        """Leaves the winner of each kind in the journal."""
        await asyncio.gather(*(self._choose_winner(kind) for kind in self._kinds))

    @property
    def _kinds(self) -> tuple[str, ...]:
        if self._workers is None or not self._own:
            return ()
        return tuple(kind for kind in self._workers.roster.kinds if kind != self._own)

    @property
    def _baseline(self) -> str:
        opened = self._record.state.opened
        assert opened is not None
        return opened.baseline

    def _state(self, kind: str) -> KindState:
        return self._record.state.kinds.get(kind, KindState())

    async def _measure(self, kind: str, candidate: str) -> None:
        baseline = self._baseline
        if candidate == baseline or self._state(kind).has(candidate, baseline):
            return
        try:
            check_gpu_budget(self._record.state, self._budget)
            await self._time(kind, baseline, candidate)
        except Stop:  # The next timing of the session's own GPU says so, and ends the run.
            return
        except LabFailed as error:
            self._record.emit(ErrorOccurred(f"timing on {kind}", str(error)))

    async def _choose_winner(self, kind: str) -> None:
        try:
            winner, reason = await self._winner(kind)
        except LabFailed as error:
            self._record.emit(ErrorOccurred(f"timing on {kind}", str(error)))
            return
        known = self._state(kind)
        if (known.winner, known.reason) != (winner, reason):
            self._record.emit(KindWinnerChosen(kind, winner, reason))

    async def _winner(self, kind: str) -> tuple[str, str]:
        """The winner of a kind, and why it is."""
        best, baseline = self._record.state.best, self._baseline
        if best != baseline:
            await self._measure(kind, best)
        for leader in self._state(kind).faster(baseline):
            winner, reason = await self._better(kind, leader)
            if not await self._passes(kind, winner):
                continue
            if _is_faster(await self._timed(kind, baseline, winner)):
                return winner, reason
        return baseline, "nothing that passed its check is faster there than the baseline"

    async def _better(self, kind: str, leader: str) -> tuple[str, str]:
        """The leader of a kind, or the session's best where that is as fast there."""
        best = self._record.state.best
        same = f"the best on {self._own} too"
        if leader == best:
            return best, same
        if best not in self._state(kind).faster(self._baseline):
            return leader, f"{short(best)}, the best on {self._own}, is not faster there"
        if _is_faster(await self._timed(kind, best, leader)):
            return leader, f"faster there than {short(best)}, the best on {self._own}"
        return best, same

    async def _timed(self, kind: str, base: str, candidate: str) -> Timing | None:
        """A final timing, in a fresh process, unless the journal holds it."""
        if not self._state(kind).has(candidate, base, final=True):
            await self._time(kind, base, candidate, final=True)
        return self._state(kind).timing(candidate, base, final=True)

    async def _passes(self, kind: str, candidate: str) -> bool:
        """Whether a candidate passes its whole check there; its final timing says that it did."""
        if self._state(kind).has(candidate, self._baseline, final=True):
            return self._state(kind).timing(candidate, self._baseline, final=True) is not None
        try:
            cases = self._record.state.cases
            checked = await check(self._lab(kind), self._source(candidate), cases)
            problem = "" if checked.passed else f"fails its check: {checked.report.message}"
        except UserError as error:
            problem = f"cannot be checked: {error.describe()}"
        if problem:
            self._record.emit(KindTimed(kind, candidate, self._baseline, None, problem, True))
        return not problem

    async def _time(self, kind: str, base: str, candidate: str, *, final: bool = False) -> None:
        timing, problem = None, ""
        try:
            pair = self._source(base), self._source(candidate)
            timing = await time_pair(self._lab(kind), *pair, final=final)
        except UserError as error:
            problem = f"cannot be timed: {error.describe()}"
        self._record.emit(KindTimed(kind, candidate, base, timing, problem, final))

    def _lab(self, kind: str) -> Lab:
        assert self._workers is not None
        if kind not in self._labs:
            workers = self._workers.of_kind(kind)
            seed = self._record.state.seed
            self._labs[kind] = Lab(self._task, FIRST_GPU, seed=seed, workers=workers)
        return self._labs[kind]

    def _source(self, candidate: str) -> NamedSource:
        return named_source(self._record.store.get(candidate), candidate)


def _is_faster(timing: Timing | None) -> bool:
    return timing is not None and timing.verdict is TimingVerdict.FASTER
