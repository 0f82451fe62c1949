"""A kernel task as immutable data, and what follows from it for given dimensions."""

from __future__ import annotations

import hashlib
import keyword
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType

import msgspec

from astra_tui.model.device import ArgumentRole
from astra_tui.model.dtypes import DType, item_shape
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.findings import Acceptance
from astra_tui.model.launch.evaluate import Evaluator
from astra_tui.model.launch.expression import Expression, Name, names_in
from astra_tui.model.launch.expression_parser import parse_expression
from astra_tui.model.launch.scope import Bindings, Scope, TensorType
from astra_tui.model.task.placement import Placement, attempts, placed
from astra_tui.model.task.upstream import Upstream
from astra_tui.model.values import Distinct, ValueKind, Values, finite_number

NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Dimension:
    """One size of the operator. `sizes` are the values that the checks try."""

    name: str
    about: str
    typical: int
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Argument:
    """One argument of the operator.

    `dtype` None means the workload's element type `T`. A scalar has no shape; its `choices` are
    the numbers that the checks pass. `limit` is the largest magnitude that has to work, `special`
    the values apart from those that are drawn whose result the reference defines: non-finite ones,
    and of an input that is drawn from a range, numbers outside of it. A `strided` tensor
    may have rows that lie further apart than they are long.
    """

    name: str
    role: ArgumentRole
    about: str
    dtype: DType | None
    shape: tuple[Expression, ...] = ()
    values: Values = Values()
    limit: float | None = None
    special: tuple[str, ...] = ()
    strided: bool = False
    stable: bool = False
    """Whether it is complete long before a call (weights): a launch with `pdl=` may read it at
    once."""
    choices: tuple[float, ...] = ()
    between: tuple[float, float] | None = None
    """Of a floating-point scalar: the ends between which one more is drawn, where these are not the
    least and the largest of its choices."""

    def allows(self, number: float) -> bool:
        """Whether an element of a floating-point input may be a number.

        It is within the limit, and within the range of an input that is drawn from one, or one
        that is defined outside of it.
        """
        match self.values.kind:
            case ValueKind.UNIFORM:
                in_range = self.values.low <= number <= self.values.high
                in_range |= number in map(finite_number, self.special)
            case kind:
                in_range = not kind.is_of_rows
        return in_range and (self.limit is None or abs(number) <= self.limit)

    @property
    def is_tensor(self) -> bool:
        """Whether this is a buffer rather than a number."""
        return self.role is not ArgumentRole.SCALAR

    @property
    def is_read(self) -> bool:
        """Whether the operator reads it."""
        return self.role.is_input

    @property
    def is_written(self) -> bool:
        """Whether the operator's results appear in it."""
        return self.role.is_output


@dataclass(frozen=True)
class Workload:
    """Dimensions and an element type on which counters or time are compared."""

    name: str
    dims: Mapping[str, int]
    dtype: DType
    weight: float = 1.0
    """How much it counts in a mean over the workloads, relative to the others."""


@dataclass(frozen=True)
class Tolerance:
    """Bounds on an output: |x - ref| <= atol + rtol * |ref|, and on the relative L2 error.

    Whole numbers have to be equal, or no further than `atol` from the reference where it is given.
    """

    atol: float
    rtol: float
    relative_l2: float
    source: str
    cancelled: float = 0.0
    """What rounding of terms that cancel leaves of an element, however small the element is."""


@dataclass(frozen=True)
class ExtraCase:
    """A case that the task's author adds to the ones that follow from the contract."""

    name: str
    why: str
    dims: Mapping[str, int]
    values: Mapping[str, Values]
    dtypes: tuple[DType, ...]


KNOWN_SHAPES = 1 << 14
"""Shapes that a task remembers."""


@dataclass(frozen=True)
class KernelTask:
    """An operator: its arguments, contract, workloads, tolerances and costs."""

    name: str
    summary: str
    origin: str
    dtypes: tuple[DType, ...]
    rows: str
    """The dimension along which rows are independent, or "" when there is none."""
    dims: Mapping[str, Dimension]
    args: Mapping[str, Argument]
    accepts: tuple[Expression, ...]
    accepts_text: tuple[str, ...]
    tolerances: Mapping[DType, Tolerance]
    bytes_moved: Expression
    flops: Expression
    workloads: tuple[Workload, ...]
    cases: tuple[ExtraCase, ...]
    folder: Path
    text: str
    """The text of task.toml."""
    accepted: tuple[Acceptance, ...] = ()
    """What an engineer has looked at and allows."""
    deterministic: bool = False
    """Whether results have to be the same bits every time, which float atomics do not give."""
    upstream: Upstream | None = None
    """The sources of others that kernel sources of this task may include."""

    @property
    def file(self) -> Path:
        """The file that describes the task."""
        return self.folder / "task.toml"

    @property
    def reference_file(self) -> Path:
        """The trusted float64 oracle."""
        return self.folder / "reference.py"

    @property
    def baseline_file(self) -> Path:
        """The source where optimisation starts."""
        return self.folder / "baseline.cu"

    @property
    def tuned_file(self) -> Path:
        """A source as good as what is in use elsewhere; it may be absent."""
        return self.folder / "tuned.cu"

    @property
    def yardsticks_file(self) -> Path:
        """The kernels that others ship for this operator; it may be absent."""
        return self.folder / "yardsticks.toml"

    def workload(self, name: str | None = None) -> Workload:
        """The workload by name, by default the first. Raises UserError for an unknown one."""
        known = {w.name: w for w in self.workloads}
        if name is not None and name not in known:
            raise UserError(f"{self.name} has no workload '{name}'", hint=nearest(name, known))
        return self.workloads[0] if name is None else known[name]

    @cached_property
    def scope(self) -> Scope:
        """The names that a launch plan of this task can use."""
        tensors = {a.name: TensorType(a.dtype, len(a.shape)) for a in self.tensors}
        scalars = {a.name: a.dtype for a in self.scalars if a.dtype is not None}
        return Scope(frozenset(self.dims), tensors, scalars)

    @cached_property
    def tensors(self) -> tuple[Argument, ...]:
        """The arguments that are buffers."""
        return tuple(a for a in self.args.values() if a.is_tensor)

    @property
    def scalars(self) -> tuple[Argument, ...]:
        """The arguments that are numbers."""
        return tuple(a for a in self.args.values() if not a.is_tensor)

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arguments that are compared with the reference."""
        return tuple(a for a in self.args.values() if a.is_written)

    def has_rows(self, argument: Argument) -> bool:
        """Whether an argument's first dimension is the one along which rows are independent."""
        first = argument.shape[0] if argument.shape else None
        return bool(self.rows) and isinstance(first, Name) and first.id == self.rows

    def dtype_of(self, argument: Argument, element: DType) -> DType:
        """The argument's element type when `T` is `element`."""
        return argument.dtype or element

    def dtypes_of(self, argument: Argument) -> tuple[DType, ...]:
        """All element types that the argument can have."""
        return (argument.dtype,) if argument.dtype is not None else self.dtypes

    def shape_of(
        self, argument: Argument, dims: Mapping[str, int], element: DType
    ) -> tuple[int, ...]:
        """The argument's shape for these dimensions. Raises PlanError when there is none."""
        return self.shapes(dims, element)[argument.name]

    def shapes(self, dims: Mapping[str, int], element: DType) -> Mapping[str, tuple[int, ...]]:
        """The shapes of all tensors by argument. Raises PlanError when one has none."""
        return self._known_shapes(tuple(dims.items()), element)

    @cached_property
    def _known_shapes(
        self,
    ) -> Callable[[tuple[tuple[str, int], ...], DType], Mapping[str, tuple[int, ...]]]:
        """Shapes by sizes and element type; checks ask for the same ones many times."""

        def shapes(
            sizes: tuple[tuple[str, int], ...], element: DType
        ) -> Mapping[str, tuple[int, ...]]:
            evaluator = self._evaluator(dict(sizes), element)
            return {a.name: _shape(a, sizes, evaluator) for a in self.tensors}

        return lru_cache(KNOWN_SHAPES)(shapes)

    def cut_item(self, dims: Mapping[str, int], element: DType) -> Argument | None:
        """The first tensor whose rows would end inside of a byte, for these dimensions."""
        for argument in self.tensors:
            per_item = self.dtype_of(argument, element).per_item
            if per_item > 1 and self.shape_of(argument, dims, element)[-1] % per_item:
                return argument
        return None

    def violated(self, dims: Mapping[str, int], element: DType) -> str:
        """The first condition of the contract that these dimensions break, or "".

        Conditions on addresses and strides are broken where no placement of the tensors keeps them.
        """
        return self._known_violation(tuple(dims.items()), element)

    @cached_property
    def _known_violation(self) -> Callable[[tuple[tuple[str, int], ...], DType], str]:
        """As `violated`, by sizes and element type; suites try the same ones many times."""
        return lru_cache(KNOWN_SHAPES)(self._violation)

    def _violation(self, sizes: tuple[tuple[str, int], ...], element: DType) -> str:
        # Most of what a suite tries breaks a condition on sizes: then no tensor has to be placed.
        broken = self._broken_by_sizes(sizes, element)
        if broken is None and self._placed_by_contract:
            _, broken = self._placed(dict(sizes), element, self._asked(dict(sizes), element))
        return self.accepts_text[broken] if broken is not None else ""

    @cached_property
    def allows(self) -> Callable[[str, int, DType], bool]:
        """Whether a size, of the named dimension, keeps what the contract says of that alone."""

        def allows(name: str, size: int, element: DType) -> bool:
            of_it = self._conditions_alone.get(name, ())
            return all(self._holds(number, ((name, size),), element) for number in of_it)

        return lru_cache(KNOWN_SHAPES)(allows)

    @cached_property
    def _conditions_alone(self) -> dict[str, list[int]]:
        """The numbers of the conditions that read one dimension and no other, by its name."""
        found: dict[str, list[int]] = {}
        for number, names in enumerate(self._sizes_read):
            if len(names) == 1:
                found.setdefault(names[0], []).append(number)
        return found

    @cached_property
    def _sizes_read(self) -> tuple[tuple[str, ...], ...]:
        """The sizes that each condition reads, of those before the first that speaks of where a
        tensor lies.
        """
        conditions = self.accepts[: self._ask_sizes_alone]
        return tuple(tuple(sorted(names_in(c) & self.dims.keys())) for c in conditions)

    @cached_property
    def _holds(self) -> Callable[[int, tuple[tuple[str, int], ...], DType], bool]:
        """Whether a condition holds, by its number, the sizes that it reads and element type."""

        def holds(number: int, sizes: tuple[tuple[str, int], ...], element: DType) -> bool:
            evaluator = Evaluator(Bindings(element, dict(sizes), {}), self._file_name)
            return evaluator.truth(self.accepts[number])

        return lru_cache(KNOWN_SHAPES)(holds)

    @cached_property
    def _broken_by_sizes(self) -> Callable[[tuple[tuple[str, int], ...], DType], int | None]:
        """By sizes and element type, the number of the first broken condition, of those before the
        first one that speaks of where a tensor lies.
        """

        def broken(sizes: tuple[tuple[str, int], ...], element: DType) -> int | None:
            dims = dict(sizes)
            for number, names in enumerate(self._sizes_read):
                # Of the sizes that it reads alone, which many draws have in common.
                if not self._holds(number, tuple([(name, dims[name]) for name in names]), element):
                    return number
            return None

        return lru_cache(KNOWN_SHAPES)(broken)

    @cached_property
    def _ask_sizes_alone(self) -> int:
        """How many conditions come before the first that speaks of where a tensor lies."""
        placed = self._placed_by_contract.keys()
        asks = (bool(names_in(condition) & placed) for condition in self.accepts)
        return next((number for number, asked in enumerate(asks) if asked), len(self.accepts))

    def values_at(self, values: Values, dims: Mapping[str, int], element: DType) -> Values:
        """A distribution with numbers in place of its expressions over dimensions."""
        evaluator = self._evaluator(dims, element)
        ends = {
            end: float(evaluator.integer(parse_expression(text)))
            for end, text in (("low", values.low_text), ("high", values.high_text))
            if text
        }
        return (
            msgspec.structs.replace(values, **ends, low_text="", high_text="") if ends else values
        )

    def group_size(
        self, values: Values, argument: Argument, dims: Mapping[str, int], element: DType
    ) -> int:
        """How many elements in a row, from each multiple of so many on, follow from each other.

        They differ, rise, sum to 1 or have one that stands out; 0 for none.
        """
        shape = self.shape_of(argument, dims, element)
        if values.kind.is_of_rows:
            return shape[-1]
        if values.kind is ValueKind.LONE:
            return 2 * shape[-1]
        match values.distinct:
            case Distinct.NONE:
                return 0
            case Distinct.TENSOR:
                return math.prod(shape)
            case Distinct.ROWS:
                return shape[-1]

    def broken(self, call: Bindings) -> str:
        """The first condition of the contract that a call breaks, or ""."""
        first = self._first_broken(call)
        return self.accepts_text[first] if first is not None else ""

    def _first_broken(self, call: Bindings, first: int = 0) -> int | None:
        """The number of the first broken condition, of those from `first` on."""
        evaluator = Evaluator(call, self._file_name)
        truths = map(evaluator.truth, self.accepts[first:])
        return next((first + number for number, holds in enumerate(truths) if not holds), None)

    def bindings(
        self, dims: Mapping[str, int], element: DType, placements: Mapping[str, Placement]
    ) -> Bindings:
        """What the contract may ask about a call."""
        sizes = {name: self.dtype_of(self.args[name], element).size for name in placements}
        layouts = {name: one.layout(sizes[name]) for name, one in placements.items()}
        return Bindings(element, dims, layouts)

    def placements(
        self,
        dims: Mapping[str, int],
        element: DType,
        shifts: Mapping[str, int] = NOTHING,
        row_padding: Mapping[str, int] = NOTHING,
        *,
        within_contract: bool = True,
    ) -> Mapping[str, Placement]:
        """Where the tensors of a call lie, by argument.

        `shifts` are items from a wide alignment to the base, `row_padding` items between rows.
        `within_contract`, what the contract asks for is kept: where it does not hold, the tensors
        that it names are moved to the next places at which it does, if there are any.
        """
        asked = self._asked(dims, element, shifts, row_padding)
        if not within_contract or not self._placed_by_contract:
            return asked
        if self._broken_by_sizes(tuple(dims.items()), element) is not None:
            return asked  # No place of a tensor mends that.
        return self._placed(dims, element, asked)[0]

    def _asked(
        self,
        dims: Mapping[str, int],
        element: DType,
        shifts: Mapping[str, int] = NOTHING,
        row_padding: Mapping[str, int] = NOTHING,
    ) -> Mapping[str, Placement]:
        """As `placements`, whatever the contract asks for."""
        return {
            name: placed(
                item_shape(shape, self.dtype_of(self.args[name], element)),
                shifts.get(name, 0),
                row_padding.get(name, 0),
            )
            for name, shape in self.shapes(dims, element).items()
        }

    def _placed(
        self, dims: Mapping[str, int], element: DType, asked: Mapping[str, Placement]
    ) -> tuple[Mapping[str, Placement], int | None]:
        """The next places at which the contract holds; those asked for where there are none, with
        the number of the condition that they break.
        """
        first_broken = None
        for attempt in attempts(asked, self._placed_by_contract):
            call = self.bindings(dims, element, attempt)
            broken = self._first_broken(call, self._ask_sizes_alone)
            if broken is None:
                return attempt, None
            first_broken = broken if first_broken is None else first_broken
            if not names_in(self.accepts[broken]) & self._placed_by_contract.keys():
                break
        return asked, first_broken

    @cached_property
    def _placed_by_contract(self) -> Mapping[str, bool]:
        """The tensors of whose address or strides the contract speaks; whether rows may move."""
        named = set().union(*map(names_in, self.accepts)) if self.accepts else set()
        return {a.name: a.strided for a in self.tensors if a.name in named}

    def compulsory_bytes(self, dims: Mapping[str, int], element: DType) -> int:
        """Bytes that any kernel for these dimensions has to move through device memory."""
        return self._evaluator(dims, element).integer(self.bytes_moved)

    def compulsory_flops(self, dims: Mapping[str, int], element: DType) -> int:
        """Floating-point operations that the operator needs."""
        return self._evaluator(dims, element).integer(self.flops)

    def elements(self, dims: Mapping[str, int], element: DType) -> int:
        """Elements of the largest tensor argument."""
        return max(map(math.prod, self.shapes(dims, element).values()))

    @cached_property
    def hash(self) -> str:
        """Identifies what correctness means here (SHA-256): task.toml, reference.py, upstream.toml.

        The last holds the hash of every upstream file.
        """
        digest = hashlib.sha256(self.text.encode())
        digest.update(b"\0" + self.reference_file.read_bytes())
        if self.upstream is not None:
            digest.update(b"\0upstream\0" + self.upstream.text.encode())
        return digest.hexdigest()

    @cached_property
    def _file_name(self) -> str:
        return str(self.file)

    def _evaluator(self, dims: Mapping[str, int], element: DType) -> Evaluator:
        return Evaluator(Bindings(element, dims, {}), self._file_name)


def _shape(
    argument: Argument, sizes: tuple[tuple[str, int], ...], evaluator: Evaluator
) -> tuple[int, ...]:
    shape = tuple(map(evaluator.integer, argument.shape))
    for size, expression in zip(shape, argument.shape, strict=True):
        if size < 0:
            given = ", ".join(f"{dim} = {value}" for dim, value in sizes)
            text = f"{argument.name} would have a size of {size} for {given}"
            evaluator.fail(text, expression.place)
    return shape


MAX_LENGTH = 64
NAME_RULE = (
    f"a small letter, then small letters, digits and underscores: {MAX_LENGTH} at most, and no "
    "keyword of C++ or Python"
)

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_CPP_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
wchar_t while xor xor_eq
"""


def is_task_name(name: str) -> bool:
    """Whether a task can have this name; `NAME_RULE` says which can."""
    return (
        _NAME.fullmatch(name) is not None
        and len(name) <= MAX_LENGTH
        and name not in _CPP_KEYWORDS.split()
        and not keyword.iskeyword(name)
    )
