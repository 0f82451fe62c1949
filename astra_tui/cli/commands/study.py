"""`astra-tui study`: tasks, teams, settings and seeds, every combination a run; then one table."""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON, WORKERS
from astra_tui.model.errors import UserError

if TYPE_CHECKING:
    import asyncio

    from astra_tui.cli.commands.run import Hosted
    from astra_tui.cli.study_file import Cost, Study, StudyRun
    from astra_tui.model.settings import Budget, RunSettings
    from astra_tui.model.state import SessionState, Usage
    from astra_tui.sessions.engines import RunRequest
    from astra_tui.sessions.study import StudyRow
    from astra_tui.workers import Workers


@command(
    "run tasks, teams, settings and seeds of a file, and compare them",
    "Every combination is a run without anyone, with a session of its own: one after the other, or "
    "several at a time on workers. "
    "Called again, it continues: what has ended is not run again, what was cut is resumed. Then a "
    "table says what the sessions recorded: counts on the emulator, speedups on a GPU.",
    argument("file", "FILE", "a TOML file (docs/study.md)"),
    flag("--out", metavar="DIR", help="where its sessions go (default: studies/NAME of the file)"),
    flag("--config", metavar="FILE", help="a TOML file of settings, for what the study leaves out"),
    flag("--no-run", help="run nothing: say what was recorded so far"),
    *WORKERS,
    JSON,
    example="astra-tui study my_study.toml --workers 2",
)
def run(options: Options) -> int:
    """Runs what is left; the table goes to stdout, a line for each run to stderr."""
    from astra_tui.cli.json_answers import StudyAnswer
    from astra_tui.cli.settings import read_choices
    from astra_tui.cli.study_file import read_study
    from astra_tui.present.sessions import study_blocks
    from astra_tui.sessions.experience import VARIABLE

    os.environ[VARIABLE] = "off"  # Runs that learned from each other would be no seeds.
    file = Path(options.file)
    study = read_study(file, read_choices(options))
    out = Path(options.out) if options.out else Path("studies") / file.stem
    work = _Work(study, out)
    code = ExitCode.OK if options.no_run else _carry_out(work, options)
    answer = StudyAnswer(int(code), str(out), work.usage, tuple(work.rows()), work.not_ended())
    plain.print_answer(answer, options.json, lambda: study_blocks(answer.rows, answer.usage))
    return code


def _carry_out(work: _Work, options: Options) -> ExitCode:
    import asyncio

    from astra_tui.cli.devices import asked_workers, fetch_upstream
    from astra_tui.model.task import find_task

    left = [one for one in work.study.runs if not work.has_ended(one)]
    for one in work.study.runs:
        if one not in left:
            plain.note(f"{work.head(one)}: ended before")
    if not left:
        return ExitCode.OK
    for task in dict.fromkeys(one.task for one in left):
        fetch_upstream(find_task(task))
    with asked_workers(options, live=True) as workers:
        return asyncio.run(_Runs(work, workers, deque(left)).carry_out())


@dataclass
class _Work:
    """A study with what its sessions hold."""

    study: Study
    out: Path
    states: dict[str, SessionState] = field(init=False)

    def __post_init__(self) -> None:
        found = ((one.name, self._recorded(one)) for one in self.study.runs)
        self.states = {name: state for name, state in found if state is not None}

    def _recorded(self, one: StudyRun) -> SessionState | None:
        """The session of a run. Raises UserError for one that was altered, or run otherwise."""
        from astra_tui.cli.commands.resume import intact_state
        from astra_tui.sessions.journal_reader import has_session

        folder = self.out / one.name
        if not has_session(folder):
            return None
        state = intact_state(folder)
        assert state.opened is not None
        before = _compared(state.opened.settings)
        asked = _compared(_request(one, self.out, None).settings)
        names = [n for n in asked if asked[n] != before.get(n) and (n, asked[n]) != _ANY_DEVICE]
        if names or state.opened.seed != one.seed:
            what = ", ".join(name.replace("_", " ") for name in names) or "seed"
            raise UserError(
                f"this session was run with other settings than the study says now: {what}",
                file=str(folder),
                hint="name another folder (--out), or remove this one",
            )
        return state

    @property
    def usage(self) -> Usage:
        """What all runs together have cost."""
        from astra_tui.model.state import Usage

        total = Usage()
        for state in self.states.values():
            used = state.usage
            sums = {n: getattr(total, n) + getattr(used, n) for n in _SUMMED}
            total = replace(total, **sums, reserved=total.reserved + used.reserved)
        return total

    def has_ended(self, one: StudyRun) -> bool:
        """Whether nothing is left to do. One that the study's budget ended, and not its setting's
        own, continues as soon as there is more.
        """
        from astra_tui.model.events import StopReason
        from astra_tui.model.settings import Budget

        state = self.states.get(one.name)
        if state is None or state.closed is None:
            return False
        if state.closed.reason is StopReason.BUDGET:
            assert state.opened is not None
            asked = _request(one, self.out, None).settings.budget
            return asked != Budget() and state.opened.settings.budget == asked
        return state.closed.reason not in (
            StopReason.CANCELLED, StopReason.TROUBLE, StopReason.UNATTENDED
        )  # fmt: skip

    def not_ended(self) -> tuple[str, ...]:
        """The names of runs with something left to do."""
        return tuple(one.name for one in self.study.runs if not self.has_ended(one))

    def rows(self) -> Iterator[StudyRow]:
        """One for each task, team and setting."""
        from astra_tui.sessions.study import study_row

        runs = self.study.runs
        for key in dict.fromkeys(one.row for one in runs):
            same = [one for one in runs if one.row == key]
            ended = {
                self.out / one.name: self.states[one.name] for one in same if self.has_ended(one)
            }
            yield study_row(*key, len(same), ended)

    def head(self, one: StudyRun) -> str:
        """What lines about a run begin with."""
        return f"{self.study.runs.index(one) + 1}/{len(self.study.runs)} {one.name}"

    def cut_by_budget(self, one: StudyRun) -> str:
        """How the study's budget ended a run; "" where it did not."""
        from astra_tui.model.events import StopReason

        state = self.states.get(one.name)
        closed = state.closed if state is not None else None
        is_cut = closed is not None and closed.reason is StopReason.BUDGET
        return closed.message if closed is not None and is_cut and not self.has_ended(one) else ""


@dataclass
class _Runs:
    """Those that are left of a study: engines of this process, with one budget. Their labs work
    here, or on workers; journals and keys of models stay here.
    """

    work: _Work
    workers: Workers | None
    waiting: deque[StudyRun]
    cut: deque[StudyRun] = field(default_factory=deque)
    """Those that have spent their part of the budget: each continues alone, with all that is left.
    """
    running: dict[asyncio.Task[ExitCode], _Running] = field(default_factory=dict)
    spent: str = ""
    """Why the budget lets no other run begin."""

    @property
    def most(self) -> int:
        """How many run at a time: one for each job that workers do, and for each GPU that times."""
        return max(1, self.workers.slots + self.workers.gpus) if self.workers is not None else 1

    async def carry_out(self) -> ExitCode:
        """Runs what is left, as far as the budget allows; returns the most telling exit code."""
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        from astra_tui.cli.commands.run import Hosted
        from astra_tui.present.numbers import pluralised

        if self.workers is not None:
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
        hosted, codes = Hosted.until_signal(), {ExitCode.OK}
        try:
            self._begin(hosted, codes)
            while self.running:
                done, _ = await asyncio.wait(
                    self.running, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                codes.update(map(self._end, done))
                self._begin(hosted, codes)
        finally:
            hosted.cancel()
            await asyncio.gather(*self.running, return_exceptions=True)
        if self.spent:
            left = pluralised(len(self.work.not_ended()), "run")
            plain.note(f"the study's budget is spent ({self.spent}), with {left} left")
        elif ExitCode.INTERRUPTED in codes:
            plain.note("interrupted; the same command continues")
        return max(codes)

    def _begin(self, hosted: Hosted, codes: set[ExitCode]) -> None:
        """Begins as many runs as there is room and budget for."""
        import asyncio

        from astra_tui.cli.study_file import cost_of

        while len(self.running) < self.most and not (hosted.cancelled or self.spent):
            queue = self.cut if self.cut and not self.running else self.waiting
            if not queue or ExitCode.INTERRUPTED in codes:
                return
            one, budget = queue[0], self.work.study.budget
            begun = {*self.work.states, *(r.one.name for r in self.running.values())} - {one.name}
            why = budget.spent(len(begun), self._costs())
            if why:  # Those that run may leave some of what they were given.
                self.spent = "" if self.running else why
                return
            queue.popleft()
            room = min(self.most - len(self.running), len(self.waiting) + 1)
            among = 1 if queue is self.cut else room
            state = self.work.states.get(one.name)
            own = cost_of(state.usage) if state is not None else None
            asked = _request(one, self.work.out, None).settings.budget
            share = budget.share(self._costs(one.name), asked, own, among)
            task = asyncio.ensure_future(self._run(one, share, hosted))
            self.running[task] = _Running(one, share, not self.running and among == 1)

    def _costs(self, but: str = "") -> list[Cost]:
        """What all runs but one have cost, or may, while they are at work."""
        from astra_tui.cli.study_file import cost_of, most_of

        may = {r.one.name: most_of(r.share) for r in self.running.values()}
        used = {name: cost_of(state.usage) for name, state in self.work.states.items()}
        return [cost for name, cost in {**used, **may}.items() if name != but]

    def _end(self, task: asyncio.Task[ExitCode]) -> ExitCode:
        """Takes note of a run that came to an end. Raises as it did."""
        ended = self.running.pop(task)
        code = task.result()
        if cut := self.work.cut_by_budget(ended.one):
            if ended.has_all:
                self.spent = cut
            else:
                self.cut.append(ended.one)
        return code

    async def _run(self, one: StudyRun, share: Budget, hosted: Hosted) -> ExitCode:
        from astra_tui.cli.commands.run import host, settings_before
        from astra_tui.cli.run_result import EXIT_CODE_OF
        from astra_tui.present.words import best_of

        gate = _Gate(one, self.work.out)
        while True:
            gate.prepare()
            before = settings_before(self.work.out / one.name)
            request = _request(one, self.work.out, before)
            request = replace(request, settings=replace(request.settings, budget=share))
            state, _ = await host(request, among=hosted, workers=self.workers)
            self.work.states[one.name] = state
            if not gate.turn_down(state):
                break
        assert state.closed is not None
        best = best_of(state).text or "nothing better"
        end = f"{state.closed.reason.words} ({state.closed.message})"
        plain.note(f"{self.work.head(one)}: {best}; {end}")
        return EXIT_CODE_OF[state.closed.reason]


@dataclass(frozen=True)
class _Running:
    """A run that is at work, and what it may cost in all."""

    one: StudyRun
    share: Budget
    has_all: bool
    """Whether that is all that is left for the study."""


_THREADS = 1024
"""At the most. Each job has one that waits for its worker."""

_LOOK_SECONDS = 1.0
"""How often it is seen whether workers have come, which take more runs."""

_SUMMED = (
    "calls", "input_tokens", "output_tokens", "dollars", "unpriced_calls", "gpu_seconds",
    "estimated_calls", "tools_used",
)  # fmt: skip
_ANY_DEVICE = ("device", "auto")


def _compared(settings: RunSettings) -> dict[str, object]:
    """What has to be the same where a session is continued: its budget is what was left."""
    found: dict[str, object] = msgspec.to_builtins(
        replace(settings, budget=type(settings.budget)())
    )
    approval = found["approval"]
    assert isinstance(approval, dict)
    return {**found, "approval": {**approval, "decisions": Path(approval["decisions"]).name}}


def _request(one: StudyRun, out: Path, before: RunSettings | None) -> RunRequest:
    """What the engine is asked for; decisions of a gate count from when its file is there."""
    from astra_tui.cli.settings import request_for
    from astra_tui.model.settings import GatePolicy

    request = request_for(one.choices, one.task, before)
    gate = _Gate(one, out)
    approval = request.settings.approval
    if one.setting.accept_plans is not None:
        approval = replace(approval, plan=GatePolicy.ASK, decisions=str(gate.file))
    elif before is not None and gate.file.is_file():
        approval = replace(approval, decisions=str(gate.file))
    settings = replace(request.settings, approval=approval)
    return replace(request, settings=settings, folder=str(out / one.name), seed=one.seed)


@dataclass(frozen=True)
class _Gate:
    """Decides on plans where `auto` does not: by lot, or against all that is too risky.

    Its decisions are a file next to the session, so that the journal names who took them.
    """

    one: StudyRun
    out: Path

    @property
    def file(self) -> Path:
        """The file of decisions."""
        return self.out / f"{self.one.name}.gate.toml"

    def prepare(self) -> None:
        """Draws a random gate's decisions, the same for each task and team of a seed."""
        from astra_tui.model.state import FREE_REJECTIONS

        share = self.one.setting.accept_plans
        if share is None or self.file.is_file():
            return
        settings = _request(self.one, self.out, None).settings
        drawn = random.Random(self.one.seed)
        plans = (settings.rounds + FREE_REJECTIONS) * settings.candidates
        accepted = (drawn.random() < share for _ in range(plans))
        self._add("".join(map(_drawn, accepted)))

    def turn_down(self, state: SessionState) -> bool:
        """Rejects the plan for which the run stopped, since it is riskier than `max_risk`."""
        from astra_tui.model.approval import ApprovalGate
        from astra_tui.model.events import StopReason
        from astra_tui.model.settings import GatePolicy

        assert state.closed is not None
        waiting = [q for q in state.pending if q.gate is ApprovalGate.PLAN]
        if state.closed.reason is not StopReason.UNATTENDED or not waiting:
            return False
        approval = _request(self.one, self.out, None).settings.approval
        if approval.plan is not GatePolicy.AUTO or approval.decisions:
            return False
        why = f"riskier than {approval.max_risk.value}"
        for q in waiting:
            self._add(_decision("rejected", why, round=q.round, proposal=q.proposal + 1))
        return True

    def _add(self, text: str) -> None:
        from astra_tui.sessions.safe_open import write_inside

        before = self.file.read_text(encoding="utf-8") if self.file.is_file() else ""
        write_inside(self.out, self.file.name, (before + text).encode())


def _drawn(accepted: bool) -> str:
    return _decision("accepted" if accepted else "rejected", "drawn by lot")


def _decision(status: str, reason: str, **where: int) -> str:
    places: Mapping[str, int] = where
    lines = "".join(f"{key} = {value}\n" for key, value in places.items())
    return f'[[decision]]\ngate = "plan"\n{lines}status = "{status}"\nreason = "{reason}"\n\n'
