"""A launch plan for one case: concrete kernels, grids, blocks, workspaces and arguments."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from astra_tui.model.c_layout import Extent
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place
from astra_tui.model.launch.evaluate import Evaluator, Value
from astra_tui.model.launch.expression import Expression, Name, split_pointer
from astra_tui.model.launch.plan import (
    Dispatch,
    KernelArgument,
    Launch,
    LaunchPlan,
    Let,
    Refuse,
    Step,
    Struct,
    Tune,
    Verbatim,
    Workspace,
)
from astra_tui.model.launch.scope import ELEMENT_TYPE, NULL, Bindings, Layout
from astra_tui.model.occupancy import MAX_CLUSTER, NO_CLUSTER, cluster_refusal

WORKSPACE_ALIGNMENT = 256
MAX_WORKSPACE_BYTES = 1 << 30

_GRID_LIMITS = ((1 << 31) - 1, 65_535, 65_535)
_BLOCK_LIMITS = (1024, 1024, 64)


@dataclass(frozen=True, slots=True)
class BufferArgument:
    """A pointer to a tensor argument or workspace, so many elements from its first."""

    name: str
    elements: int = 0


@dataclass(frozen=True, slots=True)
class NumberArgument:
    """A number; which type it has to fit is known once the kernel is compiled."""

    value: int | float | bool


@dataclass(frozen=True, slots=True)
class NullArgument:
    """A pointer to nothing."""


SimpleArgument = BufferArgument | NumberArgument | NullArgument


@dataclass(frozen=True, slots=True)
class ResolvedLeaf:
    """A value in a structure, at its offset in bytes; `dtype` None is a pointer's."""

    offset: int
    dtype: DType | None
    value: SimpleArgument


@dataclass(frozen=True, slots=True)
class StructArgument:
    """A structure by value, see `StructLayout`."""

    extent: Extent
    leaves: tuple[ResolvedLeaf, ...]


ResolvedArgument = SimpleArgument | StructArgument


@dataclass(frozen=True, slots=True)
class ResolvedWorkspace:
    """A scratch buffer with its sizes."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    place: Place = Place()

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return math.prod(self.shape) * self.dtype.size


@dataclass(frozen=True, slots=True)
class ResolvedLaunch:
    """One launch with every number known. `kernel` is a C++ name expression."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    args: tuple[ResolvedArgument, ...]
    place: Place
    pdl: bool = False
    cluster: tuple[int, int, int] = NO_CLUSTER


@dataclass(frozen=True, slots=True)
class ResolvedPlan:
    """What to run for one case, in order."""

    workspaces: tuple[ResolvedWorkspace, ...]
    launches: tuple[ResolvedLaunch, ...]
    choices: frozenset[tuple[int, int, bool]] = frozenset()
    """What `or` and `if else` chose on the way, see `Evaluator.choices`."""
    instance_choices: frozenset[tuple[int, int, bool]] = frozenset()
    """What they chose within template arguments, which decides the names of kernels alone."""
    sides: frozenset[tuple[int, int, int, bool]] = frozenset()
    """Which operands of `min` and `max` were smaller, see `Evaluator.sides`."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The plan says, or implies, that it does not handle this case."""

    reason: str
    place: Place


def resolve(plan: LaunchPlan, bindings: Bindings, file: str = "") -> ResolvedPlan | Refused:
    """Evaluates a validated plan for one case.

    Raises PlanError where only the numbers show that the plan is wrong: a division by zero, a
    block of 2,048 threads, more shared memory than the device has.
    """
    return _Resolver(bindings, file).plan(plan)


class _Resolver:
    def __init__(self, bindings: Bindings, file: str):
        self.bindings = bindings
        self.file = file
        self.layouts = dict(bindings.layouts)
        self.workspace_bytes = 0
        bindings = Bindings(
            bindings.element, bindings.dims, self.layouts, bindings.scalars, bindings.device
        )
        self.evaluator = Evaluator(bindings, file)
        self.instance_choices: set[tuple[int, int, bool]] = set()

    def plan(self, plan: LaunchPlan) -> ResolvedPlan | Refused:
        workspaces: list[ResolvedWorkspace] = []
        for declaration in plan.declarations:
            match declaration:
                case Workspace():
                    workspaces.append(self._workspace(declaration))
                case Tune(name=name, value=value):
                    self.evaluator.define(name, value)
                case Let(name=name, value=expression):
                    self.evaluator.define(name, self.evaluator.value(expression))
        launches: list[ResolvedLaunch] = []
        for step in plan.steps:
            items = self._items(step)
            if isinstance(items, Refused):
                return items
            for item in items:
                if isinstance(item, Refuse):
                    return Refused(item.reason, item.place)
                launch = self._launch(item)
                if launch is not None:
                    launches.append(launch)
        evaluator = self.evaluator
        chosen = frozenset(evaluator.choices), frozenset(self.instance_choices)
        sides = frozenset(evaluator.sides)
        return ResolvedPlan(tuple(workspaces), tuple(launches), *chosen, sides)

    def _items(self, step: Step) -> tuple[Launch | Refuse, ...] | Refused:
        if not isinstance(step, Dispatch):
            return (step,)
        for branch in step.branches:
            if branch.condition is None or self.evaluator.truth(branch.condition):
                return branch.body
        return Refused("no branch of the launch plan covers this case", step.place)

    def _workspace(self, workspace: Workspace) -> ResolvedWorkspace:
        element = workspace.dtype == ELEMENT_TYPE
        dtype = self.bindings.element if element else DType(workspace.dtype)
        shape = tuple(map(self.evaluator.integer, workspace.shape))
        self.workspace_bytes += math.prod(shape) * dtype.size
        if min(shape) < 0 or self.workspace_bytes > MAX_WORKSPACE_BYTES:
            self.evaluator.fail(
                f"workspace {workspace.name} would have the shape {list(shape)}; workspaces have "
                f"at most {MAX_WORKSPACE_BYTES} bytes together",
                workspace.place,
            )
        self.layouts[workspace.name] = Layout(WORKSPACE_ALIGNMENT, contiguous_strides(shape))
        return ResolvedWorkspace(workspace.name, dtype, shape, workspace.place)

    def _launch(self, launch: Launch) -> ResolvedLaunch | None:
        """One launch, or None for an empty grid, whose other sizes may make no sense."""
        grid = self._sizes(launch, "grid", launch.grid, _GRID_LIMITS, smallest=0)
        if not math.prod(grid):
            return None
        block = self._sizes(launch, "block", launch.block, _BLOCK_LIMITS, smallest=1)
        threads, most = math.prod(block), self.bindings.device["max_threads_per_block"]
        if threads > most:
            self.evaluator.fail(
                f"block={block} of {launch.kernel} has {threads} threads; at most {most} fit",
                launch.block[0].place,
            )
        return ResolvedLaunch(
            self._name_expression(launch),
            grid,
            block,
            self._shared_bytes(launch),
            tuple(map(self._argument, launch.args)),
            launch.place,
            launch.pdl is not None and self.evaluator.truth(launch.pdl),
            self._cluster(launch, grid),
        )

    def _cluster(self, launch: Launch, grid: tuple[int, int, int]) -> tuple[int, int, int]:
        """The blocks of a cluster by axis; one block where the plan says none."""
        if not launch.cluster:
            return NO_CLUSTER
        most = (MAX_CLUSTER, MAX_CLUSTER, MAX_CLUSTER)
        cluster = self._sizes(launch, "cluster", launch.cluster, most, smallest=1)
        why = cluster_refusal(grid, cluster)
        if why:
            self.evaluator.fail(f"{launch.kernel}: {why}", launch.cluster[0].place)
        return cluster

    def _shared_bytes(self, launch: Launch) -> int:
        if launch.shared_bytes is None:
            return 0
        count = self.evaluator.integer(launch.shared_bytes)
        most = self.bindings.device["max_shared_memory_per_block"]
        if not 0 <= count <= most:
            self.evaluator.fail(
                f"shared={count} of {launch.kernel} is not between 0 and {most} bytes",
                launch.shared_bytes.place,
            )
        return count

    def _sizes(
        self,
        launch: Launch,
        field: str,
        sizes: tuple[Expression, ...],
        limits: tuple[int, int, int],
        smallest: int,
    ) -> tuple[int, int, int]:
        values = [*map(self.evaluator.integer, sizes), 1, 1][:3]
        for value, limit, size in zip(values, limits, sizes, strict=False):
            if not smallest <= value <= limit:
                self.evaluator.fail(
                    f"{field}={value} of {launch.kernel} is not between {smallest} and {limit}",
                    size.place,
                )
        return values[0], values[1], values[2]

    def _argument(self, argument: KernelArgument) -> ResolvedArgument:
        return self._struct(argument) if isinstance(argument, Struct) else self._value(argument)

    def _value(self, expression: Expression) -> SimpleArgument:
        pointer = split_pointer(expression)
        if pointer is not None and pointer[0].id in self.layouts:
            name, elements = pointer
            return BufferArgument(name.id, self.evaluator.integer(elements))
        if isinstance(expression, Name) and expression.id == NULL:
            return NullArgument()
        value = self.evaluator.value(expression)
        assert not isinstance(value, DType)
        return NumberArgument(value)

    def _struct(self, struct: Struct) -> StructArgument:
        layout = struct.layout(self.bindings.element)
        for leaf in layout.leaves:
            if leaf.dtype is not None and leaf.dtype.is_narrow:
                self.evaluator.fail(
                    f"{leaf.dtype.value} is no type of a number; pass its bits as uint8",
                    leaf.value.place,
                )
        leaves = (ResolvedLeaf(x.offset, x.dtype, self._value(x.value)) for x in layout.leaves)
        return StructArgument(layout.extent, tuple(leaves))

    def _name_expression(self, launch: Launch) -> str:
        if not launch.template_args:
            return launch.kernel
        parts = [
            self._substitute(argument.text)
            if isinstance(argument, Verbatim)
            else _cpp(self._template_value(argument))
            for argument in launch.template_args
        ]
        return f"{launch.kernel}<{', '.join(parts)}>"

    def _template_value(self, argument: Expression) -> Value:
        """A value that decides the instance; which side of a condition it is, is a choice."""
        evaluator = self.evaluator
        outside, evaluator.choices = evaluator.choices, self.instance_choices
        value = evaluator.value(argument)
        evaluator.choices = outside
        if isinstance(value, bool):
            self.instance_choices.add((*value_place(argument), value))
        return value

    def _substitute(self, text: str) -> str:
        names = self.evaluator.names
        return re.sub(r"[A-Za-z_]\w*", lambda m: _cpp(names[m[0]]) if m[0] in names else m[0], text)


def value_place(argument: Expression) -> tuple[int, int]:
    """Line and column by which the values of a template argument that is a condition are told from
    one another: not its own, since an `or` there has sides of that place.
    """
    return argument.place.line, argument.place.column + 1


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides)) if shape else ()


def _cpp(value: Value) -> str:
    if isinstance(value, DType):
        return value.cuda
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
