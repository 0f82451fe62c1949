"""Times the winner again: against the baseline, the tuned kernel, and what others ship.

What others ship is also what a model's planning agent is told about the source of a round.
"""

from __future__ import annotations

from astra_tui.engine.candidate_steps import ProposalId, check_candidate, time_again
from astra_tui.engine.lab import Lab
from astra_tui.engine.record import Record
from astra_tui.engine.rerun import named_source
from astra_tui.engine.stops import Stop, check_gpu_budget
from astra_tui.lab.requests import NamedSource
from astra_tui.model.check import CheckVerdict
from astra_tui.model.errors import UserError
from astra_tui.model.events import ErrorOccurred, ShippedTimed
from astra_tui.model.settings import Budget
from astra_tui.model.task import KernelTask


async def measure_winner(record: Record, lab: Lab, task: KernelTask) -> None:
    """Leaves its timings in the journal, where the device times and something was won.

    One that cannot be taken is an error in the journal, and no reason for the session to fail.
    """
    state = record.state
    assert state.opened is not None
    if not lab.has_times or not state.has_better:
        return
    try:
        await time_again(record, lab, state.opened.baseline, state.best)
        tuned = await _tuned(record, lab, task)
        if tuned:
            await time_again(record, lab, tuned, state.best)
        await _time_shipped(record, lab, task, state.best)
    except UserError as error:
        record.emit(ErrorOccurred("the winner's timing", error.describe()))


async def time_base_shipped(
    record: Record, lab: Lab, task: KernelTask, round_: int, budget: Budget
) -> None:
    """The same for what a round stands on, against what others ship alone: its planning agent is
    told. One that cannot be taken, or does not fit the GPU's budget, is left out.
    """
    if not lab.has_times:
        return
    try:
        check_gpu_budget(record.state, budget)
        await _time_shipped(record, lab, task, record.state.round(round_).base)
    except Stop:
        return
    except UserError as error:
        record.emit(ErrorOccurred("timing what others ship", error.describe()))


async def _time_shipped(record: Record, lab: Lab, task: KernelTask, candidate: str) -> None:
    """Against the kernels that others ship, as far as they are in the cache; each source once."""
    state = record.state
    if not task.yardsticks_file.is_file() or state.candidate(candidate).shipped is not None:
        return
    assert state.opened is not None
    base = NamedSource(record.store.get(state.opened.baseline), task.baseline_file.name)
    opened = lab.open(named_source(record.store.get(candidate), candidate))
    record.emit(ShippedTimed(candidate, await opened.time_shipped(base)))


async def _tuned(record: Record, lab: Lab, task: KernelTask) -> str:
    """The tuned kernel's hash; "" where the task has none, or one that is wrong here."""
    file = task.tuned_file
    if not file.is_file():
        return ""
    tuned = record.store.put_source(file.read_text(encoding="utf-8"))
    checked = await check_candidate(record, lab, tuned, ProposalId(0))
    return tuned if checked.verdict is CheckVerdict.PASSED else ""
