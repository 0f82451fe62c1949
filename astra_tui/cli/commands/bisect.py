"""`astra-tui bisect`: which accepted round of a session introduced a regression."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.click_command import OneOf, Options, argument, command, flag, positive_number
from astra_tui.cli.exit_codes import ExitCode, UnavailableHere
from astra_tui.cli.flags import DEVICE, JSON, SESSION_TASK
from astra_tui.model.errors import UserError
from astra_tui.model.plan import Counter
from astra_tui.model.settings import EMULATOR

if TYPE_CHECKING:
    from astra_tui.engine.bisection import Regression, Sources, Trial
    from astra_tui.engine.verify import Accepted
    from astra_tui.model.state import SessionState
    from astra_tui.model.task import KernelTask


@command(
    "find the round that introduced a regression",
    "Tries accepted candidates from their stored sources, halving what is left each time. Exit "
    "code 1 where the last one has no regression, or the first has it already.",
    argument(
        "session",
        "SESSION",
        "a session's name or folder; by default the one written last",
        required=False,
    ),
    flag("--sessions", metavar="DIR", help="where they are (default: ./sessions)"),
    flag(
        "--error",
        metavar="BOUND",
        type=positive_number,
        help="the regression: an output's error above this share of what is allowed, such as 0.6",
    ),
    flag(
        "--slower",
        metavar="WORKLOAD",
        help="the regression: this workload is slower than with the first candidate",
    ),
    flag(
        "--by",
        metavar="PERCENT",
        type=positive_number,
        help="by more than this (default: by what the timing's verdict calls slower; for a "
        "counter by anything)",
    ),
    flag(
        "--counter",
        metavar="NAME",
        type=OneOf([c.value for c in Counter]),
        help="what the emulator counts of the workload, in the place of its time",
    ),
    flag(
        "--good", metavar="ROUND", help="the first candidate is of this round (default: baseline)"
    ),
    flag("--bad", metavar="ROUND", help="the last candidate is of this round (default: the best)"),
    *SESSION_TASK,
    DEVICE,
    JSON,
    example="astra-tui bisect h100-playbook-silu --error 0.6",
)
def run(options: Options) -> int:
    """Prints every trial as it ends, then the round; exit code 1 where there is none."""
    import asyncio

    from astra_tui.cli.devices import fetch_upstream
    from astra_tui.cli.session_lookup import local_task, saved_session
    from astra_tui.lab.devices import choose_device
    from astra_tui.sessions.integrity import read_session

    _check_flags(options)
    folder = saved_session(options.session, options.sessions)
    session = read_session(folder)
    session.refuse_altered()
    if not session.trust.whole:
        plain.note(f"the session is {session.trust.describe()}")
    state = session.state
    _, task = local_task(state, folder, options.task, trust=options.trust)
    fetch_upstream(task)
    task.workload(options.slower)  # Raises UserError for one that there is not.
    device = choose_device(options.device).name
    if options.slower and not options.counter and device == EMULATOR:
        raise UnavailableHere(
            "the emulator gives no times, by which a workload could be slower",
            hint=f"by what it counts: --counter {Counter.SECTORS.value}",
        )
    chain = _chain(state, options.good, options.bad)
    trials = asyncio.run(_bisect(options, folder, state, task, device, chain))
    return _report(options, folder, state, chain, trials)


def _check_flags(options: Options) -> None:
    if (options.error is None) == (options.slower is None):
        raise UserError(
            "it looks for one regression", hint="say --error BOUND, or --slower WORKLOAD"
        )
    if options.counter and options.slower is None:
        raise UserError("a counter is of a workload", hint="name one: --slower WORKLOAD")


def _chain(state: SessionState, good: str | None, bad: str | None) -> tuple[Accepted, ...]:
    """The accepted candidates from one round to another. Raises UserError for unknown rounds."""
    from astra_tui.engine.verify import accepted_candidates

    chain = accepted_candidates(state)
    first, last = _index(chain, good, 0), _index(chain, bad, len(chain) - 1)
    if first > last:
        raise UserError(f"round {chain[first].round} comes after round {chain[last].round}")
    return chain[first : last + 1]


def _index(chain: tuple[Accepted, ...], named: str | None, default: int) -> int:
    if named is None:
        return default
    rounds = [f"r{a.round}" for a in chain]
    name = f"r{named.removeprefix('r')}"
    if name not in rounds:
        raise UserError(f"in {name} nothing was accepted", hint=f"in these: {', '.join(rounds)}")
    return rounds.index(name)


async def _bisect(
    options: Options,
    folder: Path,
    state: SessionState,
    task: KernelTask,
    device: str,
    chain: tuple[Accepted, ...],
) -> list[Trial]:
    from astra_tui.engine.bisection import Sources, bisect
    from astra_tui.engine.lab import Lab, LabFailed
    from astra_tui.sessions.folder import read_blob

    lab, trials = Lab(task, device), []
    sources = Sources(lab, lambda h: read_blob(folder, h), state.cases)
    try:
        async for trial in bisect(chain, _regression(options, sources, chain)):
            trials.append(trial)
            if not options.json:
                plain.note(_line(trial), sys.stdout)
    except LabFailed as error:
        raise UnavailableHere(str(error), hint="see: astra-tui doctor") from None
    finally:
        lab.close()
    return trials


def _regression(options: Options, sources: Sources, chain: tuple[Accepted, ...]) -> Regression:
    from astra_tui.engine.bisection import CounterRose, ErrorAbove, Slower

    good = chain[0].hash
    if options.error is not None:
        return ErrorAbove(sources, options.error)
    by = None if options.by is None else options.by / 100
    if options.counter:
        return CounterRose(sources, options.slower, options.counter, good, by or 0.0)
    return Slower(sources, options.slower, good, by)


def _line(trial: Trial) -> str:
    from astra_tui.model.digest import short

    what = "regressed" if trial.regressed else "as before"
    return f"{_where(trial.accepted):<10} {short(trial.accepted.hash)}  {what:<9} {trial.text}"


def _where(accepted: Accepted) -> str:
    return f"round {accepted.round}" if accepted.round else "baseline"


def _report(
    options: Options,
    folder: Path,
    state: SessionState,
    chain: tuple[Accepted, ...],
    trials: list[Trial],
) -> int:
    from astra_tui.cli.json_answers import BisectAnswer, BisectStep
    from astra_tui.engine.bisection import culprit

    found = culprit(chain, trials)
    code = ExitCode.OK if found else ExitCode.FAILED
    message = _message(found, chain, trials)
    if options.json:
        assert state.opened is not None
        steps = tuple(
            BisectStep(t.accepted.round, t.accepted.hash, t.value, t.regressed, t.text)
            for t in trials
        )
        answer = BisectAnswer(
            exit_code=int(code),
            session=state.opened.session,
            folder=str(folder),
            question=_words(options),
            candidates=len(chain),
            steps=steps,
            round=found.round if found else None,
            candidate=found.hash if found else None,
            message=message,
        )
        plain.print_json(answer)
    else:
        plain.note(message, sys.stdout)
    return int(code)


def _message(found: Accepted | None, chain: tuple[Accepted, ...], trials: list[Trial]) -> str:
    from astra_tui.model.digest import short

    tried = f"{len(trials)} of {len(chain)} candidates were tried"
    if found is not None:
        return f"{_where(found)} introduced it: {short(found.hash)}; {tried}"
    if trials[-1].regressed:
        return f"{_where(chain[0])} has the regression already; {tried}"
    return f"{_where(chain[-1])} has no such regression; {tried}"


def _words(options: Options) -> str:
    if options.error is not None:
        return f"largest error above {options.error:g} of what is allowed"
    by = f" by more than {options.by:g} %" if options.by is not None else ""
    what = f"{options.counter} of" if options.counter else "time of"
    return f"{what} {options.slower} worse{by}"
