"""The launch plan as immutable data, and the error that speaks about one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from astra_tui.model.c_layout import POINTER_BYTES, Extent, place
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place, UserError
from astra_tui.model.launch.expression import Expression, names_in
from astra_tui.model.launch.scope import ELEMENT_TYPE


class PlanError(UserError):
    """A launch plan that cannot be read, or that does not fit its task."""


def _place() -> Place:
    return field(default=Place(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A scratch buffer that exists for one call and arrives poisoned."""

    name: str
    dtype: str
    shape: tuple[Expression, ...]
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Tune:
    """A constant to sweep: its value now, and the values that may be tried."""

    name: str
    value: int
    choices: tuple[int, ...]
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Let:
    """A named subexpression."""

    name: str
    value: Expression
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A template argument in quotes: C++ text with `T` substituted."""

    text: str
    place: Place = _place()

    @property
    def names(self) -> set[str]:
        """Every name in it, of the plan or of C++."""
        return set(re.findall(r"[A-Za-z_]\w*", self.text))


TemplateArgument = Expression | Verbatim


@dataclass(frozen=True, slots=True)
class Member:
    """A number in a structure, with its type: `float32 eps`."""

    dtype: str
    value: Expression
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Struct:
    """A structure that is passed by value: its members in the order of their declaration.

    A tensor argument, a workspace and `null` are pointers. `alignment` is what the type asks for
    beyond its members, as `alignas` does; 1 for nothing.
    """

    members: tuple[Member | Struct | Expression, ...]
    alignment: int = 1
    place: Place = _place()

    def layout(self, element: DType) -> StructLayout:
        """Where its values lie when `T` is `element`, by the rules of C."""
        parts = [_member_layout(member, element) for member in self.members]
        placed = place((part.extent for part in parts), self.alignment)
        leaves = (
            replace(leaf, offset=offset + leaf.offset)
            for offset, part in zip(placed.offsets, parts, strict=True)
            for leaf in part.leaves
        )
        return StructLayout(placed.extent, tuple(leaves))

    def values(self) -> Iterator[Expression]:
        """Every value in it, in order."""
        return (leaf.value for leaf in self.layout(DType.FLOAT32).leaves)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value in a structure, at its offset in bytes; `dtype` None is a pointer's."""

    offset: int
    dtype: DType | None
    value: Expression


@dataclass(frozen=True, slots=True)
class StructLayout:
    """Size and alignment of a structure, and what lies in it. Bytes between are zero."""

    extent: Extent
    leaves: tuple[Leaf, ...]


def _member_layout(member: Member | Struct | Expression, element: DType) -> StructLayout:
    """A member as a structure of its own."""
    match member:
        case Struct():
            return member.layout(element)
        case Member(dtype=name, value=value):
            dtype = element if name == ELEMENT_TYPE else DType(name)
            return StructLayout(Extent(dtype.size, dtype.size), (Leaf(0, dtype, value),))
        case _:
            extent = Extent(POINTER_BYTES, POINTER_BYTES)
            return StructLayout(extent, (Leaf(0, None, member),))


KernelArgument = Expression | Struct


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch; grid and block have one to three sizes."""

    kernel: str
    template_args: tuple[TemplateArgument, ...]
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    args: tuple[KernelArgument, ...]
    shared_bytes: Expression | None = None
    pdl: Expression | None = None
    """Where true: programmatic dependent launch; it may begin before what runs before it ends."""
    place: Place = _place()
    cluster: tuple[Expression, ...] = ()
    """Blocks of a thread block cluster, one to three sizes; empty where the plan says none."""

    def expressions(self) -> Iterator[Expression]:
        """Every expression of it but the template arguments."""
        yield from (*self.grid, *self.block, *self.cluster)
        for argument in self.args:
            if isinstance(argument, Struct):
                yield from argument.values()
            else:
                yield argument
        yield from (e for e in (self.shared_bytes, self.pdl) if e is not None)

    def value_at(self, number: int) -> Expression | None:
        """What is passed as an argument; None for a structure, and where there is no such one."""
        argument = self.args[number] if number < len(self.args) else None
        return None if isinstance(argument, Struct) else argument


@dataclass(frozen=True, slots=True)
class Refuse:
    """Says that a case lies outside what this source handles."""

    reason: str
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Branch:
    """What to do when a condition holds; the condition of `otherwise` is None."""

    condition: Expression | None
    body: tuple[Launch | Refuse, ...]
    place: Place = _place()


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Branches tried in order; the first whose condition holds is taken."""

    branches: tuple[Branch, ...]
    place: Place = _place()


Declaration = Workspace | Tune | Let
Step = Launch | Dispatch | Refuse


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Declarations, then steps that run in order on one stream."""

    declarations: tuple[Declaration, ...]
    steps: tuple[Step, ...]
    place: Place = _place()

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """The declared scratch buffers."""
        return tuple(d for d in self.declarations if isinstance(d, Workspace))

    @property
    def tunes(self) -> tuple[Tune, ...]:
        """The constants to sweep."""
        return tuple(d for d in self.declarations if isinstance(d, Tune))

    def launches(self) -> Iterator[Launch]:
        """Every launch of the plan, in the order of the text."""
        for step in self.steps:
            match step:
                case Launch():
                    yield step
                case Dispatch(branches=branches):
                    for branch in branches:
                        yield from (item for item in branch.body if isinstance(item, Launch))

    def names(self) -> set[str]:
        """Every name that the plan reads, in quotes or not."""
        found: set[str] = set()
        for declaration in self.declarations:
            match declaration:
                case Workspace(shape=shape):
                    found.update(*map(names_in, shape))
                case Let(value=value):
                    found.update(names_in(value))
        for step in self.steps:
            if isinstance(step, Dispatch):
                found.update(*(names_in(b.condition) for b in step.branches if b.condition))
        for launch in self.launches():
            found.update(*map(names_in, launch.expressions()))
            for argument in launch.template_args:
                found |= argument.names if isinstance(argument, Verbatim) else names_in(argument)
        return found

    def with_conditions(self, change: Callable[[Expression], Expression]) -> LaunchPlan:
        """The plan with every condition of a branch changed."""

        def branch(found: Branch) -> Branch:
            condition = found.condition
            return found if condition is None else replace(found, condition=change(condition))

        return replace(
            self,
            steps=tuple(
                replace(step, branches=tuple(map(branch, step.branches)))
                if isinstance(step, Dispatch)
                else step
                for step in self.steps
            ),
        )

    def with_launches(self, change: Callable[[Launch], Launch]) -> LaunchPlan:
        """The plan with every launch changed."""

        def item(found: Launch | Refuse) -> Launch | Refuse:
            return change(found) if isinstance(found, Launch) else found

        steps: list[Step] = []
        for step in self.steps:
            if isinstance(step, Dispatch):
                branches = tuple(replace(b, body=tuple(map(item, b.body))) for b in step.branches)
                steps.append(replace(step, branches=branches))
            else:
                steps.append(item(step))
        return replace(self, steps=tuple(steps))
