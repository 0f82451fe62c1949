"""The launch plan as immutable data, and the error that speaks about one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from astra_tui.model.errors import Place, UserError
from astra_tui.model.launch.expression import Expression


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


TemplateArgument = Expression | Verbatim


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch; grid and block have one to three sizes."""

    kernel: str
    template_args: tuple[TemplateArgument, ...]
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    args: tuple[Expression, ...]
    shared_bytes: Expression | None = None
    pdl: Expression | None = None
    """Where true: programmatic dependent launch; it may begin before what runs before it ends."""
    place: Place = _place()


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
