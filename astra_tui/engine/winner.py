"""Times the winner again: against the baseline, the tuned kernel, and what others ship."""

from __future__ import annotations

from astra_tui.engine.candidate_steps import ProposalId, check_candidate, time_again
from astra_tui.engine.lab import Lab
from astra_tui.engine.record import Record
from astra_tui.engine.rerun import named_source
from astra_tui.lab.requests import NamedSource
from astra_tui.model.check import CheckVerdict
from astra_tui.model.errors import UserError
from astra_tui.model.events import ErrorOccurred, ShippedTimed
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
        if task.yardsticks_file.is_file() and state.candidate(state.best).shipped is None:
            await _time_shipped(record, lab, task, state.opened.baseline)
    except UserError as error:
        record.emit(ErrorOccurred("the winner's timing", error.describe()))


async def _time_shipped(record: Record, lab: Lab, task: KernelTask, baseline: str) -> None:
    """Against the kernels that others ship, as far as they are in the cache."""
    best = record.state.best
    base = NamedSource(record.store.get(baseline), task.baseline_file.name)
    shipped = await lab.open(named_source(record.store.get(best), best)).time_shipped(base)
    record.emit(ShippedTimed(best, shipped))


async def _tuned(record: Record, lab: Lab, task: KernelTask) -> str:
    """The tuned kernel's hash; "" where the task has none, or one that is wrong here."""
    file = task.tuned_file
    if not file.is_file():
        return ""
    tuned = record.store.put_source(file.read_text(encoding="utf-8"))
    checked = await check_candidate(record, lab, tuned, ProposalId(0))
    return tuned if checked.verdict is CheckVerdict.PASSED else ""
