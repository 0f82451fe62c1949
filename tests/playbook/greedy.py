"""Applies the playbook greedily to a source, on the real lab.

python -m tests.playbook.greedy [TASK FOLDER ...]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.counting import Count, count, workload_case
from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import Case, CheckReport, CheckVerdict
from astra_tui.model.counters import Counters
from astra_tui.model.digest import content_hash
from astra_tui.model.task import load_task
from astra_tui.playbook import Evidence, propose_all
from tests.conftest import OracleHere

ROUNDS = 5
KERNELS = Path(__file__).resolve().parents[2] / "kernels"


@dataclass(frozen=True)
class Round:
    """A move that was taken, and the counters of the source that it made."""

    move: str
    source: str
    counters: Counters
    rejected: tuple[str, ...]
    """Moves before it that lowered nothing or failed the check, each with the reason."""


class Greedy:
    """Takes the best proposal that passes the check and lowers the ranking key, again and again.

    On the way every `every`th case is tried, at the end all of them.
    """

    def __init__(self, checker: Checker, every: int = 1):
        self.checker = checker
        self.task = checker.task
        self.case = workload_case(self.task, None, None)
        self.on_the_way = build_suite(self.task)[::every]

    def run(self, source: str, rounds: int = ROUNDS) -> list[Round]:
        """The rounds in order; the first is the source itself."""
        taken = [Round("start", source, self._count(source).counters, ())]
        withdrawn: dict[tuple[str, str], str] = {}
        for _ in range(rounds):
            found = self._round(taken[-1], withdrawn)
            if found is None:
                break
            taken.append(found)
        problem = self._check(taken[-1].source, build_suite(self.task))
        assert not problem, (taken[-1].move, problem)
        return taken

    def _round(self, last: Round, withdrawn: dict[tuple[str, str], str]) -> Round | None:
        evidence = Evidence(self.task, last.counters)
        proposals, _ = propose_all(last.source, evidence, withdrawn)
        rejected: list[str] = []
        for proposal in proposals:
            move = proposal.plan.move
            counted = self._count(proposal.source)
            problem = _first_problem(counted)
            if not problem and counted.counters.ranking_key() >= last.counters.ranking_key():
                problem = "lowers no counter"
            if not problem:
                problem = self._check(proposal.source, self.on_the_way)
            if not problem:
                return Round(move, proposal.source, counted.counters, tuple(rejected))
            rejected.append(f"{move}: {problem}")
            withdrawn[move, content_hash(last.source)] = problem
        return None

    def _count(self, source: str) -> Count:
        read = read_source(self.task, source, "candidate.cu")
        return count(self.task, read, self.case, self.checker.compiler, Emulator(budget=1 << 40))

    def _check(self, source: str, cases: Sequence[Case]) -> str:
        *_, report = self.checker.check(source, "candidate.cu", tuple(cases))
        assert isinstance(report, CheckReport)
        return "" if report.verdict is CheckVerdict.PASSED else report.message


def _first_problem(counted: Count) -> str:
    if not counted.compilation.ok:
        return f"does not compile: {counted.compilation.errors[0].message}"
    return counted.faults[0].describe() if counted.faults else ""


def table(name: str, rounds: list[Round]) -> str:
    """The rounds as lines of text."""
    lines = [f"{name:32}{'sectors':>12}{'requests':>12}{'warp instr.':>14}{'barriers':>10}"]
    for each in rounds:
        c = each.counters
        key = "".join(f"{v:>{w},}" for v, w in zip(c.ranking_key(), (12, 12, 14), strict=True))
        lines.append(f"  {each.move:30}{key}{c.barriers:>10,}")
        lines += [f"      not {reason[:110]}" for reason in each.rejected]
    return "\n".join(lines)


def main() -> None:
    """Prints the rounds of the bundled tasks, or of some folders."""
    folders = [Path(a) for a in sys.argv[1:]] or sorted(
        p.parent for p in KERNELS.glob("*/task.toml")
    )
    with Compiler() as compiler:
        for folder in folders:
            task = load_task(folder)
            checker = Checker(task, Emulator(), compiler, OracleHere(task))
            rounds = Greedy(checker).run(task.baseline_file.read_text())
            print(table(task.name, rounds), flush=True)


if __name__ == "__main__":
    main()
