"""Checks one source against its task, result by result.

Correctness comes in an order that fails early: compile, the cases from typical to exotic, the
properties, and a proof that the suite would have noticed a fake.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from astra_tui.lab.check.basis import Basis
from astra_tui.lab.check.execution import Source, read_source
from astra_tui.lab.check.kernels import kernels_to_compile, workload_cases
from astra_tui.lab.check.source_check import CheckEvent, SourceCheck
from astra_tui.lab.check.suite import build_suite
from astra_tui.model.check import Case, CaseResult
from astra_tui.model.errors import UserError
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import KernelTask


class NoSuchCase(UserError):
    """A filter that matches no case."""


def select_cases(task: KernelTask, patterns: tuple[str, ...], seed: int = 0) -> tuple[Case, ...]:
    """The task's cases whose id or name matches a pattern such as `float16/*`; all without one."""
    suite = build_suite(task, seed)
    if not patterns:
        return suite
    chosen = tuple(
        c for c in suite if any(fnmatchcase(c.id, p) or fnmatchcase(c.name, p) for p in patterns)
    )
    if not chosen:
        raise NoSuchCase(
            f"no case of {task.name} matches {', '.join(patterns)}",
            hint="list them with: astra-tui check TASK --list",
        )
    return chosen


class Checker(Basis):
    """Checks sources of one task on one device, with one compiler and one oracle."""

    def check(
        self,
        text: str,
        file: str,
        cases: tuple[Case, ...] | None = None,
        *,
        whole_suite: bool | None = None,
        known: tuple[CaseResult, ...] = (),
    ) -> Iterator[CheckEvent]:
        """Checks a source; yields events as they come, the report last.

        Cases with `known` results, from a check of the same source that was cut off, do not run
        again: their results come as they are, in their places.

        `whole_suite` says that `cases` hold the task's suite and more, so that the suite is put
        to the proof as well; by default this is so when no cases are given.

        Raises PlanError for a plan that cannot be read or does not fit the task, and other
        UserErrors for a task whose reference fails.
        """
        source = read_source(self.task, text, file)
        yield from self.check_source(source, cases, whole_suite=whole_suite, known=known)

    def check_source(
        self,
        source: Source,
        cases: tuple[Case, ...] | None = None,
        *,
        whole_suite: bool | None = None,
        known: tuple[CaseResult, ...] = (),
    ) -> Iterator[CheckEvent]:
        """The same for a source whose plan has been read."""
        whole_suite = cases is None if whole_suite is None else whole_suite
        suite = build_suite(self.task, self.seed) if cases is None else cases
        check = SourceCheck(self, source, suite, known)
        self.oracle.warm_up(suite)
        if whole_suite and self.device.name != EMULATOR:
            self.oracle.start()  # It judges workloads at their own size there, never cached.
        yield from check.run(whole_suite)

    def check_part(
        self, source: Source, suite: tuple[Case, ...], part: int, parts: int
    ) -> Iterator[CaseResult]:
        """The results of a part of all cases, with what they leave to a check that knows them."""
        self.oracle.warm_up(suite)
        yield from SourceCheck(self, source, suite).run_part(part, parts)

    def drawing_from(self, seed: int) -> Checker:
        """The same with cases drawn from another seed."""
        if seed == self.seed:
            return self
        parts = self.task, self.device, self.compiler, self.oracle
        return Checker(*parts, seed, self.emulator_check)

    def kernels_of(self, source: Source) -> tuple[str, ...]:
        """The kernels that a check of the whole suite needs, as C++ names. Raises PlanError."""
        suite = build_suite(self.task, self.seed)
        own = self.cases_of(source, suite)
        beyond = (case for case, _ in (*self.beyond(source, suite), *own.large))
        cases = (*suite, *own.cases, *workload_cases(self.task), *beyond)
        return kernels_to_compile(self.task, source, cases, self.device.attributes)
