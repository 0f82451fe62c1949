"""How well an operator fits a kernel: its name, its arguments by role, and words of its body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from astra_tui.cuda_source.syntax import one_line
from astra_tui.drafting.expressions import plan_expression
from astra_tui.drafting.operators import KernelFacts, ScalarFacts, TensorFacts, snake_case
from astra_tui.drafting.polynomial import Polynomial, from_expression
from astra_tui.drafting.tensors import product
from astra_tui.model.dtypes import DType
from astra_tui.model.task import ArgumentRole

NAME_SCORE = 40
ROLES_SCORE = 35
BODY_SCORE = 25
ONE_WORD_SCORE = 15
"""Of a body in which one word alone speaks for an operator that the name does not say."""
ELIMINATION_PENALTY = 15
"""For each argument that fits a role by elimination alone."""
LEFT_OUT_PENALTY = 5
"""For each optional argument that the reference leaves out."""
UNEXPLAINED_PENALTY = 25
"""For each tensor or scalar that plays no role in the operator."""
CONTRARY_PENALTY = 30
"""For words of the body that speak for another operator."""

_READ = frozenset({ArgumentRole.IN})
_WRITTEN = frozenset({ArgumentRole.OUT, ArgumentRole.INOUT})
_UPDATED = frozenset({ArgumentRole.INOUT})
_AFFIXES = re.compile(r"^(d|p|h)_(?=\w{2})|_(ptr|void|arg|arr|array|tensor|memory)$")


@dataclass(frozen=True)
class Slot:
    """One argument that an operator takes: its role there, and the names that it goes by."""

    role: str
    names: str
    ways: frozenset[ArgumentRole]
    optional: bool = False
    is_index: bool | None = None
    """Whether it holds whole numbers; None where both are possible."""


def reads(role: str, names: str, *, optional: bool = False, is_index: bool | None = False) -> Slot:
    """A tensor that is only read; the default is one of floating-point numbers."""
    return Slot(role, names, _READ, optional, is_index)


def writes(role: str, names: str, *, optional: bool = False, is_index: bool | None = None) -> Slot:
    """A tensor that is written only; a kernel may read back what it wrote."""
    return Slot(role, names, _WRITTEN, optional, is_index)


def updates(role: str, names: str, *, optional: bool = False) -> Slot:
    """A tensor that is changed in place."""
    return Slot(role, names, _UPDATED, optional, None)


def reads_or_updates(role: str, names: str) -> Slot:
    """A floating-point tensor that is read, and may be the output as well."""
    return Slot(role, names, _READ | _UPDATED, False, False)


def scalar(role: str, names: str, *, optional: bool = True) -> Slot:
    """A number that is passed by value."""
    return Slot(role, names, frozenset({ArgumentRole.SCALAR}), optional)


class Unfit(Exception):
    """The shapes of a kernel's tensors are not those of an operator."""


def indices(size: str, *, low: int = 0, distinct: str = "") -> str:
    """Values of task.toml for numbers of one of so many; with `distinct` no two are alike."""
    high = str(int(size) - 1) if size.isdecimal() else f'"{size} - 1"'
    more = f', distinct = "{distinct}"' if distinct else ""
    return f'{{ kind = "integers", low = {low}, high = {high}{more} }}'


def _elements(sizes: tuple[str, ...]) -> Polynomial | None:
    expression = plan_expression(product(sizes)) if sizes else None
    return from_expression(expression) if expression is not None else None


@dataclass(frozen=True)
class Bound:
    """An operator's roles with the kernel's arguments that play them."""

    facts: KernelFacts
    tensors: Mapping[str, TensorFacts]
    scalars: Mapping[str, ScalarFacts]
    eliminated: frozenset[str] = frozenset()
    """Roles that were filled by elimination."""

    def __contains__(self, role: str) -> bool:
        return role in self.tensors or role in self.scalars

    def __getitem__(self, role: str) -> str:
        """The name of the argument in a role."""
        return self.tensors[role].name if role in self.tensors else self.scalars[role].name

    def local(self, name: str) -> str:
        """A name for a local variable that no argument or dimension has."""
        while name in self.facts.names or name in self.facts.dims:
            name += "_"
        return name

    def sizes(self, role: str) -> tuple[str, ...]:
        """The sizes of the tensor in a role."""
        return self.tensors[role].sizes

    def shape(self, role: str) -> str:
        """The sizes of a tensor as arguments of reshape."""
        return ", ".join(self.sizes(role))

    def target(self, *roles: str) -> str:
        """The first of several roles that is filled: where a result goes."""
        return next(role for role in roles if role in self)

    def require_same_size(self, role: str, like: tuple[str, ...]) -> None:
        """Raises Unfit when a tensor is known to have another number of elements."""
        elements = [_elements(sizes) for sizes in (self.sizes(role), like)]
        if None not in elements and elements[0] != elements[1]:
            raise Unfit

    def shaped(self, text: str, role: str, like: tuple[str, ...]) -> str:
        """A result with the sizes `like`, in the shape of the tensor in a role.

        Raises Unfit when the number of elements differs.
        """
        if self.sizes(role) == like:
            return text
        self.require_same_size(role, like)
        whole = text if re.fullmatch(r"[\w.]+(\([^()]*\))?", text) else f"({text})"
        return f"{whole}.reshape({self.shape(role)})"


@dataclass(frozen=True)
class Reference:
    """What an operator computes, as statements of torch, and what else it says of the task.

    `values` are inline tables of task.toml by tensor, `limits` largest magnitudes, `choices` values
    by scalar, `tolerances` atol and rtol by element type, `accepts` conditions on sizes without
    which such values would not be valid. `roles` are those of tensors whose role the source does
    not show, or shows as the kernel uses it: inout for what it reads back after it wrote it.
    """

    summary: str
    lines: tuple[str, ...]
    outputs: Mapping[str, str]
    values: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    choices: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    tolerances: Mapping[DType, tuple[float, float]] = field(default_factory=dict)
    tolerance_source: str = ""
    accepts: tuple[str, ...] = ()
    roles: Mapping[str, ArgumentRole] = field(default_factory=dict)
    flops: str = ""
    questions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operator:
    """A common operator.

    `like` and `unlike` are patterns for the kernel's name in snake case; all of `body` speak for
    the operator, any of `contrary` against it. `write` gives None where the shapes do not fit.
    """

    name: str
    like: str
    slots: tuple[Slot, ...]
    write: Callable[[Bound], Reference | None]
    unlike: str = ""
    body: tuple[str, ...] = ()
    contrary: tuple[str, ...] = ()
    left_out: str = ""
    """Names of optional arguments that the reference leaves out, with a question."""


@dataclass(frozen=True)
class Match:
    """An operator that a kernel looks like, with the reason in one line; `score` is 0 to 100.

    Without a `reference` it is a guess by name or body whose arguments do not fit.
    """

    operator: str
    score: int
    reason: str
    reference: Reference | None


def recognise(operator: Operator, facts: KernelFacts) -> Match | None:
    """How an operator fits a kernel; None when nothing speaks for it."""
    name = snake_case(facts.kernel)
    if operator.unlike and re.search(operator.unlike, name):
        return None
    is_named = bool(re.search(operator.like, name))
    values = facts.template.values()
    named_values = " ".join((*values, *map(snake_case, values), *(v.lower() for v in values)))
    chosen = _evidence(operator.body, named_values)
    words = chosen or _evidence(operator.body, f"{named_values} {facts.body}")
    if not is_named and not words:
        return None
    bound, missing = bind(operator.slots, facts)
    left_out = [n for n in _unbound(bound) if re.fullmatch(operator.left_out, plain_name(n))]
    unexplained = [n for n in _unbound(bound) if n not in left_out]
    score = NAME_SCORE * is_named
    if words:
        score += BODY_SCORE if is_named or len(words) > 1 else ONE_WORD_SCORE
    # Of a body with a branch for each operator a template argument chooses one.
    if not chosen and any(re.search(pattern, facts.body) for pattern in operator.contrary):
        score -= CONTRARY_PENALTY
    reference = None if missing else _reference(operator, bound)
    if reference is not None:
        score += ROLES_SCORE - ELIMINATION_PENALTY * len(bound.eliminated)
        score -= UNEXPLAINED_PENALTY * len(unexplained) + LEFT_OUT_PENALTY * len(left_out)
        asked = [
            *(f"{n} is left out of reference.py: pass null, or write its part" for n in left_out),
            *(f"{n} has no part in reference.py; say what it does" for n in unexplained),
        ]
        reference = replace(reference, questions=(*reference.questions, *asked))
    reason = _reason(facts.kernel if is_named else "", bound, words, missing, unexplained)
    return Match(operator.name, max(score, 0), reason, reference)


def _reason(
    kernel: str, bound: Bound, words: list[str], missing: list[str], unexplained: list[str]
) -> str:
    """What speaks for a match and against it in one line; `kernel` is "" if its name does not."""
    parts = [f"named {one_line(kernel)}"] if kernel else []
    parts += [", ".join(_played(role, bound[role]) for role in (*bound.tensors, *bound.scalars))]
    parts += [f"its body has {', '.join(words)}"] if words else []
    parts += [f"nothing fits {', '.join(missing)}"] if missing else []
    plays = "plays" if len(unexplained) == 1 else "play"
    parts += [f"{', '.join(unexplained)} {plays} no part in it"] if unexplained else []
    return "; ".join(part for part in parts if part)


def bind(slots: Iterable[Slot], facts: KernelFacts) -> tuple[Bound, list[str]]:
    """Finds the argument for each slot: by name, else the only one left that fits."""
    slots = tuple(slots)
    tensors: dict[str, TensorFacts] = {}
    scalars: dict[str, ScalarFacts] = {}
    taken: set[str] = set()
    for slot in slots:
        for argument in _fitting(slot, facts, taken):
            if re.fullmatch(slot.names, plain_name(argument.name)):
                taken.add(argument.name)
                if isinstance(argument, TensorFacts):
                    tensors[slot.role] = argument
                else:
                    scalars[slot.role] = argument
                break
    eliminated, missing = set(), []
    for slot in slots:
        if slot.optional or slot.role in tensors or slot.role in scalars:
            continue
        fitting = _fitting(slot, facts, taken)
        left = [t for t in fitting if isinstance(t, TensorFacts) and _is_sure(slot, t)]
        if len(left) == 1:
            tensors[slot.role] = left[0]
            taken.add(left[0].name)
            eliminated.add(slot.role)
        else:
            missing.append(slot.role)
    return Bound(facts, tensors, scalars, frozenset(eliminated)), missing


def _is_sure(slot: Slot, tensor: TensorFacts) -> bool:
    """Whether a tensor may fill a slot by elimination: its role is known and fits by itself."""
    if slot.ways == _WRITTEN:
        return tensor.role is ArgumentRole.OUT
    return tensor.role is not None


def _played(role: str, name: str) -> str:
    return name if role == plain_name(name) else f"{name} as {role}"


def plain_name(name: str) -> str:
    """A parameter's name in snake case, without `d_`, `_ptr`, `_arg` and the like."""
    return _AFFIXES.sub("", snake_case(name))


def _fitting(slot: Slot, facts: KernelFacts, taken: set[str]) -> list[TensorFacts | ScalarFacts]:
    if ArgumentRole.SCALAR in slot.ways:
        return [s for s in facts.scalars if s.name not in taken]
    return [
        t
        for t in facts.tensors
        if t.name not in taken
        and (t.role is None or t.role in slot.ways)
        and (slot.is_index is None or t.dtype is None or slot.is_index != t.dtype.is_float)
    ]


def _unbound(bound: Bound) -> list[str]:
    used = {bound[role] for role in (*bound.tensors, *bound.scalars)}
    names = (*(t.name for t in bound.facts.tensors), *(s.name for s in bound.facts.scalars))
    return [name for name in names if name not in used]


def _evidence(patterns: tuple[str, ...], body: str) -> list[str]:
    """The words that patterns find in a body; none unless all of them do."""
    found = [re.search(pattern, body) for pattern in patterns]
    return [one_line(m[0], 40) for m in found if m] if found and all(found) else []


def _roles(slots: tuple[Slot, ...], bound: Bound, reference: Reference) -> dict[str, ArgumentRole]:
    """The roles of bound tensors that the draft does not know, or gives to what is read back."""
    found = {}
    for slot in slots:
        tensor = bound.tensors.get(slot.role)
        if tensor is None:
            continue
        only_written = slot.ways == _WRITTEN and tensor.role is ArgumentRole.INOUT
        if tensor.role is None or only_written:
            read = ArgumentRole.INOUT if slot.ways != _WRITTEN else ArgumentRole.OUT
            found[tensor.name] = read if tensor.name in reference.outputs else ArgumentRole.IN
    return found


def _reference(operator: Operator, bound: Bound) -> Reference | None:
    """The reference, if it gives every output of the kernel and nothing else."""
    try:
        reference = operator.write(bound)
    except Unfit:
        return None
    known = {t.name: t.role for t in bound.facts.tensors if t.role is not None}
    written = {name for name, role in known.items() if role is not ArgumentRole.IN}
    if reference is None or reference.outputs.keys() & known.keys() != written:
        return None
    roles = {**_roles(operator.slots, bound, reference), **reference.roles}
    asked = (f"{n}: role {r.value}, as in {operator.name}; confirm" for n, r in roles.items())
    return replace(reference, roles=roles, questions=(*reference.questions, *asked))
