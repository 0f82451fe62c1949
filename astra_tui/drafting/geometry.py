"""The launch of a draft: grid, block, shared memory and kernel arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    integer_value,
    one_line,
    text_of,
)
from astra_tui.drafting.accesses import Access
from astra_tui.drafting.answers import Answers, Ask
from astra_tui.drafting.elements import ElementTypes
from astra_tui.drafting.expressions import (
    free_name,
    plan_expression,
    printed,
)
from astra_tui.drafting.folding import combined
from astra_tui.drafting.host_launches import HostLaunch
from astra_tui.drafting.instances import Template
from astra_tui.drafting.launching import HostCode, Sizes
from astra_tui.drafting.polynomial import Polynomial, from_expression
from astra_tui.drafting.reading import KernelFunction, SourceText, host_template_of
from astra_tui.drafting.structures import Member
from astra_tui.drafting.template_arguments import (
    DEFAULT_BLOCK,
    THREAD_COUNT,
    cpp_names,
    element_names,
    element_types,
    launcher,
    read_host_template,
    template_arguments,
    thread_counts,
)
from astra_tui.drafting.types import dtype_of, is_size_type
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.launch.expression import Call, Conditional, Expression, Integer, Name, names_in
from astra_tui.model.launch.scope import RESERVED_NAMES

PLENTY_OF_SHARED = 48 * 1024
"""Bytes of shared memory that every kernel may ask for."""

MAX_BLOCK = 1024
_NULLS = ("nullptr", "NULL")
_AXES = "xyz"


@dataclass(frozen=True)
class LaunchDraft:
    """One launch. `grid` is None where there is no host code to read it from."""

    template: tuple[str, ...]
    grid: tuple[Expression, ...] | None
    block: tuple[Expression, ...]
    shared: str
    numbers: Mapping[str, int]
    """Values of the kernel's template parameters that are whole numbers."""
    pdl: bool = False
    nulls: frozenset[str] = frozenset()
    """Parameters of the kernel that the launch passes no tensor for."""
    shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Shapes that the host code checks, by the draft's names of the tensors."""
    conditions: tuple[str, ...] = ()
    """Conditions on sizes that the host code checks."""
    launcher: Template | None = None
    """The class of the function that launches."""


def read_launch(
    source: SourceText,
    kernel: KernelFunction,
    launch: HostLaunch | None,
    elements: ElementTypes,
    sizes: Sizes,
    answers: Answers,
    ask: Ask,
) -> LaunchDraft:
    """Reads the launch of a kernel and adds to `sizes` whatever names it needs.

    Raises UserError for answers in `[plan]` that are not in the plan's language.
    """
    if launch is None:
        for parameter in kernel.parameters:
            if is_size_type(parameter, source.aliases):
                sizes.arguments[parameter.name] = Name(sizes.add(parameter.name))
        _answer_arguments(kernel, sizes, answers)
        template, numbers = template_arguments(source, kernel, elements, None, sizes, answers, ask)
        grid = _answered_parts("grid", answers.plan.grid, sizes)
        block = _answered_parts("block", answers.plan.block, sizes)
        shared = answers.plan.shared
        nulls = _answered_nulls(kernel, answers)
        block = block or (Integer(DEFAULT_BLOCK),)
        return LaunchDraft(template, grid, block, shared, numbers, nulls=nulls)
    host = HostCode(source, kernel, launch, sizes)
    host.types.update(element_names(kernel, launch, elements, source.aliases))
    host.cpp_names.update(cpp_names(source, kernel, launch, elements))
    for kind, name, default in host_template_of(launch.function):
        if kind == "typename" and default in host.cpp_names:
            host.cpp_names.setdefault(name, host.cpp_names[default])
    host.read_properties(dict(element_types(kernel, elements)))
    for name in host.read_modes():
        asked = one_line(text_of(host.values[name]))
        ask(f"{name}: the launcher asks {asked}; the plan is for an answer of false")
    read_host_template(host, answers, ask)
    host.numbers.update(thread_counts(source, launch, answers, ask))
    host.read_checks()
    host.bind_arguments()
    host.read_moved_pointers(ask)
    _bind_rest(source, kernel, sizes, ask)
    _restrict_divisors(kernel, sizes, ask)
    _answer_arguments(kernel, sizes, answers)
    template, numbers = template_arguments(source, kernel, elements, host, sizes, answers, ask)
    grid = _answered_parts("grid", answers.plan.grid, sizes) or _geometry(host, 0, "grid", ask)
    block = _answered_parts("block", answers.plan.block, sizes) or _geometry(host, 1, "block", ask)
    host.read_switches()
    for name in (n for n in host.unread if n in sizes.leaves):
        said = f"{host.described(host.unread[name])} could not be read"
        ask(f"{name}: {said}; the draft makes it a dimension", f"dims.{sizes.leaves[name]}")
    pdl = launch.pdl and not any("PDL" in n.upper() and not v for n, v in host.flags.items())
    shared = answers.plan.shared or _shared(host, ask)
    given = zip(kernel.parameters, launch.arguments, strict=False)
    nulls = frozenset(p.name for p, a in given if p.is_pointer and text_of(a) in _NULLS)
    answered = _answered_nulls(kernel, answers)
    for name in sorted(nulls - answered):
        ask(f"{free_name(name)} is passed as null, and no argument of the task", "", launch.line)
    nulls |= answered
    checked = host.conditions(ask)
    block = block or (Integer(DEFAULT_BLOCK),)
    return LaunchDraft(
        template, grid, block, shared, numbers, pdl, nulls, host.shapes, checked, launcher(host)
    )


def _answer_arguments(kernel: KernelFunction, sizes: Sizes, answers: Answers) -> None:
    """Passes what `[plan.args]` says for the kernel's whole numbers."""
    for name, text in answers.plan.args.items():
        if name not in {p.name for p in kernel.parameters}:
            known = [p.name for p in kernel.parameters]
            raise UserError(f"the kernel has no plan.args.{name}", hint=nearest(name, known))
        if name in sizes.arguments:
            sizes.arguments[name] = _answered_expression(f"plan.args.{name}", text, sizes)


def _answered_nulls(kernel: KernelFunction, answers: Answers) -> frozenset[str]:
    """The pointers that `[plan.args]` leaves out."""
    given = answers.plan.args
    return frozenset(
        p.name for p in kernel.parameters if p.is_pointer and given.get(p.name) == "null"
    )


def _answered_parts(
    what: str, parts: tuple[str, ...], sizes: Sizes
) -> tuple[Expression, ...] | None:
    """The parts of an answered grid or block, None for no answer."""
    return tuple(_answered_expression(f"plan.{what}", part, sizes) for part in parts) or None


def _answered_expression(key: str, text: str, sizes: Sizes) -> Expression:
    """An expression of the plan's language; names that are new in it become dimensions."""
    found = plan_expression(text)
    if found is None:
        raise UserError(f"{key} = {text!r} is no expression of a launch plan")
    for name in sorted(names_in(found) - set(sizes.workload) - sizes.taken - RESERVED_NAMES):
        sizes.add(name, name)
    return found


def _restrict_divisors(kernel: KernelFunction, sizes: Sizes, ask: Ask) -> None:
    """Sizes that divide in the kernel through a precomputed form, which is not written for all."""
    for structure in kernel.structures.values():
        for member in structure.members:
            value = sizes.arguments.get(member.parameter)
            if member.divisors and isinstance(value, Name):
                sizes.fixed.setdefault(value.id, member.divisors)
                said = "the plan writes its precomputed division for powers of two alone"
                ask(f"{value.id}: {said}", f"dims.{value.id}")


def _bind_rest(source: SourceText, kernel: KernelFunction, sizes: Sizes, ask: Ask) -> None:
    """Sizes for whole numbers that the launch leaves to their defaults."""
    for parameter in kernel.parameters:
        if is_size_type(parameter, source.aliases) and parameter.name not in sizes.arguments:
            value = integer_value(parameter.default)
            sizes.arguments[parameter.name] = Name(sizes.add(parameter.name, "", value))
            text = f"{parameter.name}: the launch does not pass it; the draft makes it a dimension"
            ask(text, f"plan.args.{parameter.name}")


# -- grid, block and shared memory -----------------------------------------------------------------


def _geometry(host: HostCode, place: int, what: str, ask: Ask) -> tuple[Expression, ...] | None:
    configuration = host.launch.configuration
    node = configuration[place] if place < len(configuration) else None
    if node is not None and what == "grid":
        _name_constant_rows(host, node)
    before = dict(host.sizes.workload), dict(host.sizes.leaves)
    found = host.geometry(node) if node is not None else None
    added = host.sizes.workload.keys() - before[0]
    if what == "block" and any(map(THREAD_COUNT.search, added)):
        host.sizes.workload, host.sizes.leaves = before  # What tunes a launch is no dimension.
        found = None
    if node is None or found is None or not all(map(printed, found)):
        shown = host.described(node) if node is not None else f"at line {host.launch.line}"
        ask(f"{what}: {shown} could not be rewritten; the plan holds a guess", f"plan.{what}")
        return None
    if any("max_threads_per_sm" in names_in(part) for part in found):
        text = "blocks per SM are those that its threads allow; its registers may allow fewer"
        ask(f"{what}: {text}", f"plan.{what}")
    while len(found) > 1 and found[-1] == Integer(1):
        found.pop()
    return tuple(found[:3])


def _name_constant_rows(host: HostCode, grid: Node) -> None:
    """Makes a size of a constant that is a whole grid, as of `rows` in a sample's main()."""
    name = text_of(grid)
    definition = host.values.get(name)
    if grid.type != "identifier" or definition is None or THREAD_COUNT.search(name):
        return
    value = integer_value(text_of(definition))
    if value is not None and name not in host.sizes.leaves:
        host.sizes.add(name, name, value)


def _shared(host: HostCode, ask: Ask) -> str:
    """Dynamic shared memory in bytes, "" for none."""
    if len(host.launch.configuration) < 3:
        return ""
    node = host.launch.configuration[2]
    before = dict(host.sizes.workload), dict(host.sizes.leaves)
    found = host.expression(node)
    text = printed(found) if found is not None else ""
    if found is None or not text or names_in(found) & (host.sizes.workload.keys() - before[0]):
        # A number of bytes is no dimension of an operator.
        host.sizes.workload, host.sizes.leaves = before
        what = f"shared memory: {host.described(node)} could not be rewritten"
        said = f"{what}; the plan asks for {PLENTY_OF_SHARED}, the most without an attribute"
        ask(said, "plan.shared")
        return str(PLENTY_OF_SHARED)
    return "" if text == "0" else text


def guess_grid(function: Node, accesses: list[Access], sizes: Sizes) -> tuple[Expression, ...]:
    """A grid that no launch shows, from the conditions around a kernel's accesses."""
    body = text_of(function)
    used = [axis for axis, name in enumerate(_AXES) if f"blockIdx.{name}" in body]
    return tuple(
        _blocks_along(axis, accesses, sizes) if axis in used else Integer(1)
        for axis in range(max(used, default=0) + 1)
    )


def _blocks_along(axis: int, accesses: list[Access], sizes: Sizes) -> Expression:
    """How many blocks cover the limit of a guarded sum over this axis; else a size of its own."""
    for access in accesses:
        for total, limit in access.bounds:
            of_block = ((f, a) for m, f in total.terms.items() for a in m if a.kind == "block")
            factors = {f for f, a in of_block if a.axis == axis}
            above = plan_expression(limit.text())
            if len(factors) != 1 or above is None or not all(a.is_size for a in limit.atoms()):
                continue
            factor = factors.pop()
            if factor > 0:
                return above if factor == 1 else Call("ceil_div", (above, Integer(factor)))
    name = ("rows", "blocks_y", "blocks_z")[axis]
    return Name(sizes.leaves.get(name) or sizes.add(name, name))


def limits(parts: tuple[Expression, ...]) -> tuple[Polynomial, ...]:
    """The parts of a grid or block as sums."""
    return tuple(map(from_expression, parts))


def plan_arguments(
    kernel: KernelFunction, launch: LaunchDraft, sizes: Sizes, answers: Answers
) -> tuple[str, ...]:
    """What the plan passes for each parameter of the source's kernel."""
    values = []
    passed = {**sizes.arguments, **sizes.moved}
    for parameter in kernel.parameters:
        if parameter.name in answers.plan.args:
            values.append(answers.plan.args[parameter.name])
        elif parameter.name in launch.nulls:
            values.append("null")
        elif parameter.name in passed:
            values.append(printed(passed[parameter.name]) or "0")
        else:
            values.append(free_name(parameter.name))
    found: list[str] = []
    while values:
        structure = kernel.structures.get(len(found))
        if structure is None:
            found.append(values.pop(0))
            continue
        members = structure.members
        parts = [_member(m, v) for m, v in zip(members, values[: len(members)], strict=True)]
        found.append(structure.braced(parts))
        del values[: len(members)]
    return tuple(found)


def _member(member: Member, value: str) -> str:
    """A member as the plan writes it: a number with its type before it."""
    if "*" in member.type:
        return value
    if member.layout:
        return member.layout.replace("#", value)
    dtype = dtype_of(member.type, {})
    return f"{dtype.value if dtype is not None else 'T'} {value}"


def block_limit(block: tuple[Expression, ...], sizes: Sizes) -> Iterator[str]:
    """Conditions for a block whose size grows with the dimensions without a limit."""
    growing = [part for part in block if not _is_capped(part) and not isinstance(part, Integer)]
    product: Expression = Integer(1)
    for part in block if growing else ():
        product = combined("*", product, part)
        if names_in(part) & set(sizes.workload) and "//" in printed(part):
            yield f"{printed(part)} >= 1"
    if growing and set().union(*map(names_in, block)) & set(sizes.workload):
        yield f"{printed(product)} <= {MAX_BLOCK}"


def _is_capped(part: Expression) -> bool:
    """Whether a part of a block is one thread, or the smaller of something and a number."""
    match part:
        case Integer(value=1):
            return True
        case Call(function="min", args=args):
            return any(map(_is_number, args))
        case Call(function="ceil_div", args=(part, Integer())):
            return _is_capped(part)
        case Conditional(when_true=a, when_false=b):
            return isinstance(a, Integer) or isinstance(b, Integer)
        case _:
            return False


def _is_number(value: Expression) -> bool:
    """Whether an expression is a number, or a choice among some."""
    if isinstance(value, Conditional):
        return _is_number(value.when_true) and _is_number(value.when_false)
    return isinstance(value, Integer)
