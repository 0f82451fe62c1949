"""Runs that passed, again: with everything that hardware may do otherwise.

A second run has other bytes in undefined memory and registers, buffers at other addresses, other
values in timers and in the numbers of multiprocessor, warp and grid, and, where blocks communicate,
blocks and warps in another order. Outputs may not change. Where they do, each of these is tried
alone to name the cause. Kernels with approximate instructions run once more with each result at the
edge of its documented error; these outputs are judged like the first.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from astra_tui.emulator.special import MACHINE_DEPENDENT
from astra_tui.lab.check.execution import Run
from astra_tui.lab.check.layout import POISON_NAN, POISON_SENTINEL
from astra_tui.model.check import Case
from astra_tui.model.device import (
    APPROXIMATE,
    COMMUNICATES,
    FLOAT_ATOMIC,
    PLAIN,
    Accepts,
    Variation,
)
from astra_tui.model.findings import Finding, FindingKind

ERROR_BOUND_ELEMENTS = 1 << 14
ERROR_BOUND_RUNS_PER_KERNEL = 6
"""Runs at the edge take cases with at most so many elements, of each kind of values the first."""

RunAgain = Callable[[str, Variation], Run]
"""Runs the case again with this poison and variation, unchecked and uncounted."""


@dataclass(frozen=True)
class RerunDifference:
    """What another run showed: a message, and a finding where there is more to name."""

    message: str
    finding: Finding | None = None

    def unless(self, accepts: Accepts) -> RerunDifference:
        """The same, its finding marked where an engineer accepts it."""
        reason = accepts(self.finding) if self.finding is not None else ""
        if self.finding is None or not reason:
            return self
        return RerunDifference(self.message, msgspec.structs.replace(self.finding, accepted=reason))


def seed_of(text: str, case: Case) -> int:
    """What a source cannot know of the runs of a case: any change of its text changes it."""
    return zlib.crc32(f"{case.id}\0{text}".encode())


def second_run(
    first: Run, again: RunAgain, same: Callable[[Run], bool], seed: int
) -> RerunDifference | None:
    """Runs with everything changed; names the cause where `same` says that outputs differ."""
    reached = first.outcome.reached
    everything = Variation(
        registers=MACHINE_DEPENDENT & set(reached),
        finite_registers=True,
        moved_buffers=True,
        seed=seed,
        order=int(COMMUNICATES in reached),
    )
    changed = again(POISON_SENTINEL, everything)
    if not same(changed):
        return _cause(first, changed, again, same, everything)
    if COMMUNICATES in reached:
        changed = again(POISON_NAN, Variation(order=2 + seed))
        if not same(changed):
            return _of_order(reached, changed)
    return None


def _cause(
    first: Run,
    changed: Run,
    again: RunAgain,
    same: Callable[[Run], bool],
    everything: Variation,
) -> RerunDifference:
    """Each change alone, until one gives other outputs as well."""
    reached = first.outcome.reached
    if not same(again(POISON_SENTINEL, PLAIN)):
        return RerunDifference(
            f"{_differing(first, changed)}: the result depends on what was in undefined memory "
            "before"
        )
    undefined = again(POISON_NAN, Variation(finite_registers=True))
    if not same(undefined):
        return RerunDifference(
            f"{_differing(first, undefined)}: the result depends on a variable, or an element of "
            "a local array, that was never given a value"
        )
    for name in sorted(everything.registers):
        alone = again(
            POISON_NAN,
            replace(
                everything,
                registers=frozenset({name}),
                finite_registers=False,
                moved_buffers=False,
                order=0,
            ),
        )
        if not same(alone):
            return _of_registers(frozenset({name}), reached, alone)
    if everything.registers:
        alone = again(
            POISON_NAN, replace(everything, finite_registers=False, moved_buffers=False, order=0)
        )
        if not same(alone):
            return _of_registers(everything.registers, reached, alone)
    alone = again(POISON_NAN, Variation(moved_buffers=True, seed=everything.seed))
    if not same(alone):
        text = "the result depends on the addresses of buffers"
        return _found(FindingKind.DEPENDS_ON_ADDRESS, text, (), alone)
    if everything.order:
        alone = again(POISON_NAN, Variation(order=everything.order))
        if not same(alone):
            return _of_order(reached, alone)
    text = (
        "the result depends on what was in undefined memory before, on the addresses of buffers "
        "and on the registers of the machine together"
    )
    return _found(FindingKind.DEPENDS_ON_MACHINE, text, (), changed)


def _of_registers(
    names: frozenset[str], reached: Mapping[str, tuple[int, ...]], run: Run
) -> RerunDifference:
    lines = tuple(sorted({line for name in names for line in reached[name]}))
    text = f"the result depends on {', '.join(sorted(names))}, which another GPU or launch changes"
    return _found(FindingKind.DEPENDS_ON_MACHINE, text, lines, run)


def _of_order(reached: Mapping[str, tuple[int, ...]], run: Run) -> RerunDifference:
    text = "the result depends on the order in which blocks and warps run"
    return _found(FindingKind.DEPENDS_ON_ORDER, text, reached[COMMUNICATES], run)


def _found(kind: FindingKind, text: str, lines: tuple[int, ...], run: Run) -> RerunDifference:
    """The difference as a finding; a fault of the other run tells more than its outputs."""
    if run.outcome.faults:
        text += f" (there: {run.outcome.faults[0].describe()})"
    line = next((line for line in lines if line), 0)
    kernel = run.kernels[0] if len(run.kernels) == 1 else ""
    return RerunDifference(text, Finding(kind, text, line=line, kernel=kernel))


def _differing(first: Run, other: Run) -> str:
    return next(
        (n for n, bits in first.outputs.items() if not np.array_equal(bits, other.outputs[n])),
        "outputs",
    )


class ErrorBoundRuns:
    """Which cases of a check run with approximate instructions at their error bounds."""

    def __init__(self) -> None:
        self.tried: dict[tuple[str, ...], set[bytes]] = {}
        self.lines: dict[str, tuple[int, ...]] = {}
        """Of the instructions at whose error bounds a case ran, by its id."""

    def wants(self, case: Case, run: Run, elements: int) -> bool:
        """Whether this case reached such an instruction, and is small and the first of its kind.

        The first case that reaches other instructions is wanted whatever its size.
        """
        lines = run.outcome.reached.get(APPROXIMATE, ())
        if not lines or not elements:
            return False
        tried = self.tried.get(_reached(run.kernels, lines), set())
        full = len(tried) == ERROR_BOUND_RUNS_PER_KERNEL or elements > ERROR_BOUND_ELEMENTS
        if tried and (full or _kind(case) in tried):
            return False
        self.note(case, run.kernels, lines)
        return True

    def note(self, case: Case, kernels: tuple[str, ...], lines: tuple[int, ...]) -> None:
        """Notes that a case of these kernels runs at the edges of these lines."""
        self.tried.setdefault(_reached(kernels, lines), set()).add(_kind(case))
        self.lines[case.id] = lines


def _reached(kernels: tuple[str, ...], lines: tuple[int, ...]) -> tuple[str, ...]:
    return (*kernels, *map(str, lines))


def _kind(case: Case) -> bytes:
    return msgspec.json.encode((case.dtype, case.values), order="sorted")


def run_at_error_bounds(
    first: Run, again: RunAgain, case: Case, problem: Callable[[Run, Variation], str]
) -> RerunDifference | None:
    """Runs at the edge; `problem` says what is wrong with the outputs. Names the line where it can.

    Cases differ in which blocks err to which side.
    """
    variation = Variation(error_bounds=1 + zlib.crc32(case.id.encode()) % 1000)
    run = again(POISON_NAN, variation)
    wrong = problem(run, variation)
    if not wrong:
        return None
    lines = first.outcome.reached[APPROXIMATE]
    for line in lines if len(lines) > 1 else ():
        alone = replace(variation, error_bounds_line=line)
        if line and problem(again(POISON_NAN, alone), alone):
            lines = (line,)
            break
    text = (
        f"{wrong}, when approximate instructions err as much as the PTX ISA allows: it is right "
        "only for results as exact as this emulator gives otherwise"
    )
    return _found(FindingKind.DEPENDS_ON_APPROXIMATION, text, lines, run)


def of_float_atomics(run: Run, deterministic: bool) -> Finding | None:
    """The finding about sums whose order is not fixed: a caution, or a fault where bits matter."""
    lines = run.outcome.reached.get(FLOAT_ATOMIC, ())
    told = any(f.kind is FindingKind.FLOAT_ATOMICS for f in run.findings)
    if not (lines or (told and deterministic)):
        return None
    line = next((line for line in lines if line), 0)
    if deterministic:
        text = "the order of float atomics is not fixed, and the task asks for the same bits"
        return Finding(FindingKind.NOT_DETERMINISTIC, text, line=line)
    text = "the order of float atomics is not fixed: outputs are judged by tolerance"
    return Finding(FindingKind.FLOAT_ATOMICS, text, line=line)
