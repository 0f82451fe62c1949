"""What becomes of the sides that the suite did not take: reached by a case, or proved unreachable.

First the values that the suite has elsewhere are tried on launches of the kernel in question,
numbers that the kernel compares with, and in integers of inputs those that scalars may be. For what
is left a solver is asked for sizes, scalars and layouts within the contract; that it finds none is
a proof, and what it finds becomes a case, or where it is too large for one, is checked as workloads
are at their own sizes. All limits are counts of the solver's own steps, so that the answer is the
same on any machine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from astra_tui.emulator.ptx.inline import inline_calls
from astra_tui.emulator.ptx.module import Immediate, PtxError
from astra_tui.emulator.ptx.parser import float_value, parse_ptx
from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.check.kernels import workload_cases
from astra_tui.lab.check.suite import LARGE_ELEMENTS
from astra_tui.lab.conditions.coverage import Coverage, OpenSide, Reporting
from astra_tui.lab.conditions.flow import ControlFlowGraph
from astra_tui.model.check import CONDITION_OF, Case, CaseResult, ConditionResult, ConditionStatus
from astra_tui.model.errors import UserError
from astra_tui.model.launch import DEVICE_ATTRIBUTES, Refused
from astra_tui.model.launch.resolve import ResolvedLaunch
from astra_tui.model.task import KernelTask, ValueKind, Values

if TYPE_CHECKING:
    from astra_tui.lab.conditions.contract import Launches
    from astra_tui.lab.conditions.query import DeadCode, Query

MAX_PROBES = 200
MAX_PROBED = 4 << 20
"""Cases that are tried for the open sides of one source, and the elements in all of them."""

MAX_PROBE_STEPS = 8_000_000
MAX_PROBE_THREADS = 8 << 20
"""Steps of the emulator for all of these cases, and threads of one: of blocks of a thousand threads
65,536 rows of 4 elements have took 80 s."""

_CASE_COST = 1 << 13
"""Elements that take as long as what every case costs."""

_FEW_ELEMENTS, _FAR_APART = 1 << 12, 1 << 16

MAX_LARGE_PROBES = 24
"""Sizes too large for a case that are tried for one source, each in about a second."""

MAX_LARGE_ELEMENTS = 1 << 30
"""Elements of all tensors at such sizes."""

_FEW_FIRST = (1 << 22, 1 << 25, MAX_LARGE_ELEMENTS)
"""Bounds of elements where sizes are looked for that launch a kernel, one after the other."""

_LARGER = (2.0, 1.5, 1.125, 1.03, 1.0)
"""How many times as large as was found such a size is made."""

_SOME, _MANY = 1 << 13, 1 << 16
"""Bounds of a size there, of which the solver is asked one after the other."""

_SOLVER_BUDGET = 8_000_000
_SOLVER_STEPS, _MANY_STEPS = 250_000, 1_000_000
"""Steps of the solver: for one source, for one question, and for one of contiguous tensors whose
sizes are all open. A million take about half a second.
"""

_SIZE_STEPS = 20_000
_MAX_SIZES = 200
"""Steps of a question about one size, some 20 ms, and how many are asked for one source."""

_HELD_STEPS = 125_000
_MAX_HELD = 200
"""The same with all sizes of a workload but one held, of which some 60,000 are used."""

_MODELS = 3
_MAX_NUMBERS = 6
_STEPS = (-1, 1, -2, 2, -8, 8, -16, 16, -64, 64, -128, 128)
_PARTS = (15, 13, 11, 9, 8, 7, 5, 4, 2, 1, 24, 32)


@dataclass(frozen=True)
class Probed:
    """What a run of a case showed."""

    took: bool
    """Whether it took a side that was open."""
    steps: int = 0
    """What an emulator spent on it."""


Probe = Callable[[Case], Probed]
"""Runs a case."""


@dataclass
class _Tried:
    """What was tried for one side."""

    probes: int = 0
    beyond: str = ""
    """Sizes that lead there, where these are too large for a case."""
    gave_up: str = ""


@dataclass
class Closing:
    """Works on the open sides of one source."""

    task: KernelTask
    source: Source
    reporting: Reporting
    coverage: Coverage
    suite: tuple[CaseResult, ...]
    probe: Probe
    probe_large: Callable[[Case], None]
    """Checks a case that is too large to run whole, and notes the sides that it took."""
    large: tuple[Case, ...]
    """What was checked like workloads."""
    probes: int = 0
    large_probes: int = 0
    """How often each was asked."""
    asked: int = 0
    """Sizes that the solver was asked about."""
    asked_held: int = 0
    """Questions that were asked with all sizes but one held."""
    found: list[Case] = field(default_factory=list)
    """The cases that took open sides."""
    elements: int = MAX_PROBED
    emulated: int = MAX_PROBE_STEPS
    """Steps that are left for cases."""
    kept_back: float = 0.0
    """The part of elements and steps that is not to be used yet."""
    steps: int = _SOLVER_BUDGET
    tried: dict[OpenSide, _Tried] = field(default_factory=dict)
    proved: dict[OpenSide, str] = field(default_factory=dict)

    def close(self) -> tuple[ConditionResult, ...]:
        """All sides that the suite left open, with what is known of each now."""
        left = self.coverage.open()
        self._try(self._with_marks, data_only=True)
        self.kept_back = 0.5  # Other sizes are to have their turn as well.
        self._try(self._with_other_values, data_only=True)
        self.kept_back = 0.0
        for side in self.coverage.open():
            self._prove(side, thorough=False)
        self._try(self._with_other_sizes)
        for side in self._unsolved():
            self._search(side)
            if not self.coverage.taken_by(side):
                self._prove(side, thorough=True)
        return (*map(self._result, left), *self.coverage.unseen())

    def _unsolved(self) -> Iterator[OpenSide]:
        """The sides that are still open when their turn comes."""
        for side in self.coverage.open():
            if side not in self.proved and not self.coverage.taken_by(side):
                yield side

    def _result(self, side: OpenSide) -> ConditionResult:
        found = self.coverage.result(side)
        by = self.coverage.taken_by(side)
        if by:
            return msgspec.structs.replace(found, status=ConditionStatus.REACHED, why=by)
        if side in self.proved:
            why = self.proved[side]
            return msgspec.structs.replace(found, status=ConditionStatus.UNREACHABLE, why=why)
        return msgspec.structs.replace(found, why=self._what_was_tried(side))

    def _what_was_tried(self, side: OpenSide) -> str:
        tried = self.tried.get(side, _Tried())
        text = f"{self.probes} cases made for open conditions did not lead there"
        if self.emulated <= 0:
            text += ", and the emulator's steps for more are spent"
        if tried.beyond:
            return f"{text}; {tried.beyond} may, which is too large for a case"
        return f"{text}; {tried.gave_up}" if tried.gave_up else text

    # -- values that the suite has elsewhere -------------------------------------------------------

    def _try(
        self, variants: Callable[[Case, str], Iterator[Case]], *, data_only: bool = False
    ) -> None:
        """Tries variants of a case of each kernel that has open sides, or such that read data."""
        sides = [s for s in self._unsolved() if not data_only or self._reads_data(s)]
        for kernel in dict.fromkeys(side.kernel for side in sides):
            base = self._base_of(kernel)
            if base is not None:
                for case in variants(base, kernel):
                    if not any(side.kernel == kernel for side in self._unsolved()):
                        break
                    launched = any(launch.kernel == kernel for launch in self._launched(case))
                    if launched and self._may_lead(case, kernel):
                        self._probe(case)

    def _may_lead(self, case: Case, kernel: str) -> bool:
        """Whether a case may take an open side of a kernel: what takes longer to run than the
        solver needs for its sizes is asked about first, where no data take part.
        """
        if self.task.elements(case.dims, case.dtype) <= _CASE_COST:
            return True
        sides = [s for s in self._unsolved() if s.kernel == kernel]
        return any(self._reads_data(s) or self._may_take(s, case) for s in sides)

    def _may_take(self, side: OpenSide, case: Case) -> bool:
        for query, launch in self._queries(side) or ():
            if launch.dtype is case.dtype and self.asked < _MAX_SIZES:
                self.asked += 1
                sizes = [*launch.at_sizes(case.dims, ""), *launch.on_device(DEVICE_ATTRIBUTES)]
                if not query.is_refuted_with(_SIZE_STEPS, sizes):
                    return True
        return self.asked >= _MAX_SIZES

    def _reads_data(self, side: OpenSide) -> bool:
        queries = self._queries(side)
        return queries is None or any(query.has_data for query, _ in queries)

    def _base_of(self, kernel: str) -> Case | None:
        """The smallest case of the suite that launches a kernel, with rows close by if it can be:
        those of its variants may be many.
        """

        def size(case: Case) -> tuple[bool, int]:
            is_far_apart = max(case.row_padding.values(), default=0) >= _FAR_APART
            return is_far_apart, self.task.elements(case.dims, case.dtype) or 1 << 40

        return min((r.case for r in self.suite if kernel in r.kernels), key=size, default=None)

    def _smallest_of(self, cases: Iterable[Case], kernel: str) -> Case | None:
        """The smallest of some cases that launches a kernel."""
        found = [c for c in cases if any(r.kernel == kernel for r in self._launched(c))]
        return min(found, key=lambda c: self.task.elements(c.dims, c.dtype), default=None)

    def _known_to_launch(self, kernel: str) -> Case | None:
        """A case that launches a kernel: of the suite, a workload in any element type, what a
        solver finds, or what is checked like workloads, which is no larger than it has to be.
        """
        workloads = (
            msgspec.structs.replace(case, dtype=dtype)
            for case in workload_cases(self.task)
            for dtype in self.task.dtypes
        )
        return (
            self._base_of(kernel)
            or self._smallest_of(workloads, kernel)
            or self._found_to_launch(kernel)
            or self._smallest_of(self.large, kernel)
        )

    def _found_to_launch_by(self, kernel: str) -> Case | None:
        """Sizes of a workload but for one, which a solver finds, that launch a kernel, as behind a
        threshold of a product of sizes. That one is more than large enough where it may be, so that
        sizes close by launch the kernel as well.
        """
        launches = self._launches(kernel) or ()
        every = itertools.product(_FEW_FIRST, launches, self.task.workloads, self.task.dims)
        for most, launch, workload, name in itertools.islice(every, _MAX_HELD - self.asked_held):
            self.asked_held += 1
            facts = [*launch.at_sizes(workload.dims, name), *launch.contiguous()]
            point = self._point_of(launch, [*facts, *launch.with_elements(most)])
            if point is None:
                continue
            for factor in _LARGER:
                sizes = {**point["dims"], name: int(factor * point["dims"][name])}
                case = self._case_at(launch, {**point, "dims": sizes})
                fits = self.task.elements(sizes, case.dtype) <= MAX_LARGE_ELEMENTS
                fits = fits and not self.task.violated(sizes, case.dtype)
                if fits and any(one.kernel == kernel for one in self._launched(case)):
                    return case
        return None

    def _point_of(self, launch: Launches, facts: list[Any]) -> dict[str, dict[str, int]] | None:
        """What launches a kernel where more holds."""
        from astra_tui.lab.conditions.query import solver_of

        plain = launch.plain(self.task, DEVICE_ATTRIBUTES)
        return launch.solution(solver_of(_HELD_STEPS, [*launch.facts, *plain, *facts]))

    def _launched(self, case: Case) -> tuple[ResolvedLaunch, ...]:
        """What a case launches; nothing where the plan refuses or fails."""
        try:
            scalars = scalars_of(self.task, case)
            resolved = resolve_case(self.task, self.source, case, scalars)
        except UserError:
            return ()
        return () if isinstance(resolved, Refused) else resolved.launches

    def _with_other_sizes(self, base: Case, kernel: str) -> Iterator[Case]:
        """A case with the sizes of each other one, and with those that are compared with."""
        seen = [base.dims]
        sizes = (
            *(c.dims for c in self.found),
            *self._compared_sizes(base, kernel),
            *self._suite_sizes(base),
            *self._sizes_nearby(base),
        )
        for dims in sizes:
            if dims not in seen:
                seen.append(dims)
                if not self.task.violated(dims, base.dtype):
                    yield _changed(base, _named(dims), dims=dims)

    def _suite_sizes(self, base: Case) -> Iterator[dict[str, int]]:
        return (r.case.dims for r in self.suite if r.case.dtype is base.dtype)

    def _sizes_nearby(self, base: Case, most: int = LARGE_ELEMENTS) -> Iterator[dict[str, int]]:
        """A case's own sizes, each a little smaller or larger, and at parts of itself."""
        for name, size in base.dims.items():
            near = [size + d for d in _STEPS] + [size * part // 16 // 8 * 8 for part in _PARTS]
            for other in near:
                dims = {**base.dims, name: other}
                if other > 0 and self.task.elements(dims, base.dtype) <= most:
                    yield dims

    def _sizes_of_workloads(self, base: Case) -> Iterator[dict[str, int]]:
        """A case's own sizes but for one, which is a workload's or a part of it."""
        for workload, name in itertools.product(self.task.workloads, base.dims):
            size = workload.dims[name]
            for other in (size, *(size * part // 16 // 8 * 8 for part in _PARTS)):
                if other > 0:
                    yield {**base.dims, name: other}

    def _compared_sizes(self, base: Case, kernel: str) -> Iterator[dict[str, int]]:
        """Each size one below, at and one above each whole number that a kernel compares with."""
        smallest = min(self._suite_sizes(base), key=lambda d: self.task.elements(d, base.dtype))
        smallest = {n: max(v, 1) for n, v in smallest.items()}
        for number in self._whole_numbers(kernel):
            for name in base.dims:
                for size in (number, number + 1, number - 1):
                    for others in (base.dims, smallest):
                        dims = {**others, name: size}
                        if size >= 0 and self.task.elements(dims, base.dtype) <= LARGE_ELEMENTS:
                            yield dims
                            break

    def _with_other_values(self, base: Case, kernel: str) -> Iterator[Case]:
        """A case with the values of each other one of its type, and with the kernel's numbers."""
        seen: list[object] = [(base.values, base.scalars)]
        for other in (r.case for r in self.suite):
            if other.dtype is base.dtype and (other.values, other.scalars) not in seen:
                seen.append((other.values, other.scalars))
                yield _changed(base, other.name, values=other.values, scalars=other.scalars)
        numbers = self._numbers(kernel)
        for argument in self.task.scalars:
            if argument.dtype is not None and argument.dtype.is_float:
                for number in numbers:
                    scalars = {**base.scalars, argument.name: number}
                    yield _changed(base, f"{argument.name}={number:g}", scalars=scalars)
        for argument in (a for a in self.task.tensors if a.is_read):
            if self.task.dtype_of(argument, base.dtype).is_float:
                yield from (_filled(base, argument.name, n) for n in numbers if argument.allows(n))

    def _with_marks(self, base: Case, _: str) -> Iterator[Case]:
        """A case with integers that are what a scalar may be, such as the mark of what is empty."""
        whole = (a for a in self.task.scalars if a.dtype is not None and not a.dtype.is_float)
        marks = dict.fromkeys(number for scalar in whole for number in scalar.choices)
        for argument in (a for a in self.task.tensors if a.is_read):
            if argument.values.kind is ValueKind.INTEGERS and not argument.values.distinct:
                ends = self.task.values_at(argument.values, base.dims, base.dtype)
                for number in (n for n in marks if ends.low <= n <= ends.high):
                    yield _filled(base, argument.name, number)

    def _numbers(self, kernel: str) -> list[float]:
        """Floating-point numbers that a kernel compares with."""
        found = dict.fromkeys(float_value(i) for i in self._compared(kernel) if i.float_bytes)
        return [n for n in found if abs(n) < float("inf")][:_MAX_NUMBERS]

    def _whole_numbers(self, kernel: str) -> list[int]:
        """Whole numbers that a kernel compares with, and that could be sizes."""
        found = dict.fromkeys(i.value for i in self._compared(kernel) if not i.float_bytes)
        return [n for n in found if 1 < n <= LARGE_ELEMENTS][:_MAX_NUMBERS]

    def _compared(self, kernel: str) -> Iterator[Immediate]:
        flow = self._flow(kernel)
        for instruction in flow.instructions if flow is not None else ():
            if instruction.operation == "setp":
                yield from (o for o in instruction.operands if isinstance(o, Immediate))

    def _probe(self, case: Case) -> bool:
        if case.outside_contract:
            return False
        cost = _CASE_COST + self.task.elements(case.dims, case.dtype)
        if self.probes >= MAX_PROBES or cost > self.elements - self.kept_back * MAX_PROBED:
            return False
        threads = sum(math.prod((*r.grid, *r.block)) for r in self._launched(case))
        if threads > MAX_PROBE_THREADS or self.emulated <= self.kept_back * MAX_PROBE_STEPS:
            return False
        probed = self.probe(case)
        self.probes += 1
        self.elements -= cost
        self.emulated -= probed.steps
        self.found += [case] if probed.took else []
        return probed.took

    # -- the solver --------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        module = cache(lambda: parse_ptx(self.reporting.compilation.ptx))

        def flow_of(kernel: str) -> ControlFlowGraph | None:
            try:
                symbol = self.reporting.compilation.kernel(kernel).symbol
                made = ControlFlowGraph(inline_calls(module(), symbol))
            except (PtxError, RecursionError):
                return None
            return made if made.is_reducible() else None

        self._flow = cache(flow_of)
        self._launches = cache(self._launches_of)
        self._queries = cache(self._queries_of)
        self._dead_code = cache(self._dead_code_of)
        self._found_to_launch = cache(self._found_to_launch_by)

    def _launches_of(self, kernel: str) -> list[Launches] | None:
        # The solver is loaded only where something is open.
        from astra_tui.lab.conditions.contract import NotModelled, launches_of

        try:
            return launches_of(self.task, self.source, self.reporting.compilation.kernel(kernel))
        except NotModelled:
            return None

    def _dead_code_of(self, kernel: str) -> list[DeadCode]:
        """What no launch of a kernel comes to, for each of them."""
        from astra_tui.lab.conditions.query import DeadCode

        flow = self._flow(kernel)
        launches = self._launches(kernel) or []
        return [] if flow is None else [DeadCode(flow, launch) for launch in launches]

    def _prove(self, side: OpenSide, *, thorough: bool) -> None:
        """Proves that nothing leads to a side, where that is cheap enough."""
        queries = self._queries(side)
        if queries is None:
            self._tried(side).gave_up = "its kernel or launch is not modelled for the solver"
        elif all(q.is_impossible(self._some_steps, thorough=thorough) for q, _ in queries):
            self.proved[side] = "no sizes, scalars or layouts of the contract lead there (z3)"

    def _queries_of(self, side: OpenSide) -> list[tuple[Query, Launches]] | None:
        from astra_tui.lab.conditions.query import query_for

        flow, launches = self._flow(side.kernel), self._launches(side.kernel)
        if flow is None or launches is None:
            return None
        dead = self._dead_code(side.kernel)
        return [
            (query_for(side.number, side.side, flow, launch, never), launch)
            for launch, never in zip(launches, dead, strict=True)
        ]

    def _search(self, side: OpenSide) -> None:
        """Tries sizes, scalars and layouts that the solver finds, where they are small enough.

        Most sizes are held at those of a case at first, which makes products and quotients plain.
        """
        base = self._base_of(side.kernel)
        for query, launch in self._queries(side) or ():
            held = [launch.at_sizes(base.dims, name) for name in ("", *base.dims)] if base else []
            for fixed in (*held, launch.with_elements(_FEW_ELEMENTS), []):
                solver = query.solver(self._some_steps(), [*self._small(launch), *fixed])
                for _ in range(1 if query.has_data else _MODELS):
                    point = launch.solution(solver)
                    if point is None:
                        break
                    self._try_point(side, launch, point, query.has_data)
                    if self.coverage.taken_by(side):
                        return
            self._look_beyond(side, query, launch)
            if self.coverage.taken_by(side):
                return
        self._try_large_nearby(side)

    def _try_large_nearby(self, side: OpenSide) -> None:
        """Tries sizes close to those of a case or workload that launches the kernel, and a size of
        a workload with them, where they are too large for a case, as behind a threshold of a
        portfolio.
        """
        base = self._known_to_launch(side.kernel)
        if base is None or self._reads_data(side):
            return
        near = self._sizes_nearby(base, MAX_LARGE_ELEMENTS)
        for dims in (base.dims, *near, *self._sizes_of_workloads(base)):
            is_small = self.task.elements(dims, base.dtype) <= LARGE_ELEMENTS
            if is_small or self.task.violated(dims, base.dtype):
                continue
            case = _changed(base, _named(dims), dims=dims)
            launched = any(launch.kernel == side.kernel for launch in self._launched(case))
            if launched and self._may_take(side, case):
                self._probe_large(case)
                if self.coverage.taken_by(side):
                    return

    def _look_beyond(self, side: OpenSide, query: Query, launch: Launches) -> None:
        """Tries sizes that may lead to a side and are too large for a case."""
        base = self._known_to_launch(side.kernel)
        most = launch.with_elements(MAX_LARGE_ELEMENTS)
        held = [[*launch.at_sizes(base.dims, name), *most] for name in base.dims] if base else []
        contiguous = [*launch.contiguous(), *launch.with_sizes(_SOME), *most]
        questions = [(fixed, _SOLVER_STEPS) for fixed in held]
        questions += [(contiguous, _MANY_STEPS), (launch.with_sizes(_SOME), _SOLVER_STEPS)]
        questions += [(launch.with_sizes(_MANY), _SOLVER_STEPS), ([], _SOLVER_STEPS)]
        for fixed, steps in questions:
            facts = [*launch.plain(self.task, DEVICE_ATTRIBUTES), *fixed]
            point = launch.solution(query.solver(self._steps_up_to(steps), facts))
            if point and self.task.elements(point["dims"], launch.dtype) > LARGE_ELEMENTS:
                self._tried(side).beyond = _named(point["dims"])
                if not query.has_data:
                    self._probe_large(self._case_at(launch, point))
                return

    def _probe_large(self, case: Case) -> None:
        elements = self.task.elements(case.dims, case.dtype)
        if self.large_probes < MAX_LARGE_PROBES and elements <= MAX_LARGE_ELEMENTS:
            self.large_probes += 1
            self.probe_large(case)

    def _some_steps(self) -> int:
        """Steps for one more question; next to none where the budget is spent."""
        return self._steps_up_to(_SOLVER_STEPS)

    def _steps_up_to(self, most: int) -> int:
        some = min(most, self.steps)
        self.steps -= some
        return max(some, 1)

    def _small(self, launch: Launches) -> list[Any]:
        """What a solution has to keep so that it can be a case."""
        return [*launch.with_elements(LARGE_ELEMENTS), *launch.plain(self.task, DEVICE_ATTRIBUTES)]

    def _try_point(
        self, side: OpenSide, launch: Launches, point: dict[str, dict[str, int]], has_data: bool
    ) -> None:
        case = self._case_at(launch, point)
        self._probe(case)
        is_small = self.task.elements(case.dims, case.dtype) <= _FEW_ELEMENTS
        if has_data and is_small and not self.coverage.taken_by(side):
            for other in self._with_other_values(case, side.kernel):
                if self.coverage.taken_by(side):
                    return
                self._probe(other)

    def _case_at(self, launch: Launches, point: dict[str, dict[str, int]]) -> Case:
        from astra_tui.lab.conditions.contract import case_at

        named = _named({n: v for part in point.values() for n, v in part.items() if v})
        return case_at(self.task, point, launch.dtype, CONDITION_OF + named)

    def _tried(self, side: OpenSide) -> _Tried:
        return self.tried.setdefault(side, _Tried())


def _named(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={number}" for name, number in numbers.items())


def _filled(base: Case, name: str, number: float) -> Case:
    """A case with one number everywhere in an input."""
    values = {**base.values, name: Values(ValueKind.CONSTANT, number)}
    return _changed(base, f"{name} all {number:g}", values=values)


def _changed(base: Case, name: str, **changes: Any) -> Case:
    begin = base.name if base.name.startswith(CONDITION_OF) else CONDITION_OF + base.name
    return msgspec.structs.replace(base, name=f"{begin}, {name}", why=WHY, **changes)


WHY = "made for a side of a condition that no other case took"
