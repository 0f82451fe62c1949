"""The file of a study: tasks, teams, settings and seeds, every combination of which is a run."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import msgspec

from astra_tui.cli.flags import MAX_SEED
from astra_tui.cli.read_file import read_user_file
from astra_tui.cli.settings import Choices, choices_of
from astra_tui.model.errors import Place, UserError, nearest
from astra_tui.model.settings import Budget, GatePolicy, TeamKind
from astra_tui.model.state import Usage
from astra_tui.model.task import find_task
from astra_tui.model.task.table import Table, TaskError

_REFUSED = (
    "team", "sessions", "linger_seconds", "plain", "theme", "notify", "keys",
)  # fmt: skip
"""Settings that the study itself says, or that are about a screen."""

_SETTING_NAME = re.compile(r"[A-Za-z0-9_]{1,40}")
_LINE = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True)
class Setting:
    """One way to run; `accept_plans` is the share of plans that a random gate accepts."""

    name: str
    choices: Choices
    accept_plans: float | None


@dataclass(frozen=True)
class StudyRun:
    """One run: its session's folder has its name."""

    task: str
    team: TeamKind
    setting: Setting
    seed: int

    @property
    def row(self) -> tuple[str, str, str]:
        """The row of the table that it counts for."""
        return Path(self.task).name, self.team.value, self.setting.name

    @property
    def name(self) -> str:
        """Tells it from all others of its study."""
        return "-".join((*self.row, str(self.seed)))

    @property
    def choices(self) -> Choices:
        """The setting's, with its team."""
        return msgspec.structs.replace(self.setting.choices, team=self.team)


@dataclass(frozen=True)
class StudyBudget:
    """What all runs together may cost; None means no bound."""

    runs: int | None = None
    whole: Budget = Budget()

    def spent(self, begun: int, costs: Sequence[Cost]) -> str:
        """Why no other run is begun or resumed, in words; "" where one may be."""
        for name, most in self._bounds():
            if (used := math.fsum(cost[name] for cost in costs)) >= most:
                return f"{used:,.6g} of {most:,.6g} {name.replace('_', ' ')} are used"
        if self.runs is not None and begun >= self.runs:
            return f"{begun} of {self.runs} runs are begun"
        return ""

    def share(
        self, others: Sequence[Cost], asked: Budget, own: Cost | None = None, among: int = 1
    ) -> Budget:
        """What a run may cost in all, resumed or new, where all others have cost this, or may: of
        what they leave, its own part `among` so many, and never more than was asked for.
        """
        shares = {name: getattr(asked, name) for name in _NOTHING}
        for name, most in self._bounds():
            spent = (own or _NOTHING)[name]
            left = max(most - math.fsum(other[name] for other in others) - spent, 0)
            part = left / among if name in _FRACTIONAL else math.ceil(left / among)
            wanted = shares[name]
            shares[name] = spent + part if wanted is None else min(spent + part, wanted)
        return msgspec.convert(shares, Budget, strict=False)

    def _bounds(self) -> Iterator[tuple[str, float]]:
        named = ((name, getattr(self.whole, name)) for name in _NOTHING)
        return ((name, most) for name, most in named if most is not None)


Cost = Mapping[str, float]
"""By the names of a budget."""

_FRACTIONAL = ("dollars", "gpu_seconds")


def cost_of(usage: Usage) -> Cost:
    """What was used; calls that never ended count with what they may have cost."""
    return {
        "calls": usage.calls + usage.open_calls,
        "tokens": usage.tokens + usage.reserved_tokens,
        "dollars": usage.dollars + usage.reserved_dollars,
        "gpu_seconds": usage.gpu_seconds,
    }


def most_of(share: Budget) -> Cost:
    """What a run may come to cost; of what has no bound, nothing."""
    return {name: getattr(share, name) or 0 for name in _NOTHING}


_NOTHING = cost_of(Usage())


@dataclass(frozen=True)
class Study:
    """All runs, in the order of the file."""

    runs: tuple[StudyRun, ...]
    budget: StudyBudget


def read_study(file: Path, known: Choices) -> Study:
    """The study of a file. `known` holds where a setting says nothing, but for approvals: `auto`
    takes them unless the setting says otherwise. Raises UserError, which names file, line and key.
    """
    top = _table(file)
    tasks, seeds = _tasks(top), top.integers("seeds")
    teams = tuple(_team(top, name) for name in top.strings("teams"))
    for key, values in (("tasks", tasks), ("teams", teams), ("seeds", seeds)):
        if not values or len({Path(str(v)).name for v in values}) < len(values):
            top.fail("names each one once, and at least one", key)
    if not all(0 <= seed <= MAX_SEED for seed in seeds):
        top.fail(f"a seed is a whole number from 0 to {MAX_SEED}", "seeds")
    unattended = msgspec.structs.replace(
        known, approve=GatePolicy.AUTO.value, approve_plan=None, approve_diff=None
    )
    settings = [
        _setting(name, table, unattended)
        for name, table in top.table("settings").entries("setting")
    ]
    if not settings:
        top.fail("there is none", "settings", "write a table such as: [settings.usual]")
    budget = _budget(top.table("budget", required=False))
    top.close()
    return Study(tuple(StudyRun(*one) for one in product(tasks, teams, settings, seeds)), budget)


def _table(file: Path) -> Table:
    try:
        text = read_user_file(file, "file of a study").decode()
        return Table(tomllib.loads(text), (), str(file), text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        found = _LINE.search(str(error))
        place = Place(int(found[1]), int(found[2])) if found else None
        message = f"cannot be read: {_LINE.sub('', str(error)).strip()}"
        raise UserError(message, file=str(file), place=place) from None


def _tasks(top: Table) -> tuple[str, ...]:
    names = top.strings("tasks")
    for name in names:
        try:
            find_task(name)
        except TaskError as error:
            if error.file:  # The task is there, and something in it is wrong.
                raise
            top.fail(error.message, "tasks", error.hint)
    return names


def _team(top: Table, name: str) -> TeamKind:
    if name not in list(TeamKind):
        top.fail(f"there is no team '{name}'", "teams", nearest(name, list(TeamKind)))
    return TeamKind(name)


def _setting(name: str, table: Table, known: Choices) -> Setting:
    if not _SETTING_NAME.fullmatch(name):
        table.fail("a setting's name has letters, digits and underscores, 40 at most")
    share = table.take("accept_plans", float, -1.0) if "accept_plans" in table.data else None
    if share is not None and not 0 <= share <= 1:
        table.fail("a share lies from 0 to 1", "accept_plans")
    table.known.add("accept_plans")
    choices = choices_of(table, known, _REFUSED)
    for key in ("approve", "approve_plan", "approve_diff"):
        if table.data.get(key) == GatePolicy.ASK:
            table.fail("no one is there to be asked", key, 'say "auto", or leave it out')
        if share is not None and key in table.data:
            table.fail("a random gate decides already (accept_plans)", key)
    if share is not None and choices.max_risk is not None and "max_risk" in table.data:
        table.fail("a random gate looks at no risk (accept_plans)", "max_risk")
    return Setting(name, choices, share)


def _budget(table: Table) -> StudyBudget:
    found: dict[str, float] = {}
    for key in ("runs", "calls", "tokens", "dollars", "gpu_seconds"):
        if key not in table.data:
            table.known.add(key)
            continue
        kind = float if key in ("dollars", "gpu_seconds") else int
        found[key] = table.take(key, kind)
        if not 0 <= found[key] < math.inf:
            table.fail("a budget is not below 0, and has an end", key)
    table.close()
    runs = found.pop("runs", None)
    return StudyBudget(None if runs is None else int(runs), msgspec.convert(found, Budget))
