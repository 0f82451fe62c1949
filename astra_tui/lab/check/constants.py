"""Sizes at which a source may change its mind: what it, or its launch plan, compares sizes with.

The plan's comparisons are evaluated, so that the sizes are exact. Of the device code the whole
numbers are read that stand in comparisons, after `%`, in `min` and `max`, or as named constants;
which dimension they mean is not known, so each of them is tried.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Set
from functools import cache
from itertools import pairwise

import msgspec
from tree_sitter import Node

from astra_tui.cuda_source.syntax import operator_of, parse_comparisons
from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import scalars_of
from astra_tui.lab.check.layout import layouts_of, plan_layouts
from astra_tui.model.check import Case, ConditionResult
from astra_tui.model.digest import content_hash
from astra_tui.model.launch import PlanError, ResolvedPlan, print_expression
from astra_tui.model.launch.evaluate import Evaluator
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Compare,
    Expression,
    parts_of,
)
from astra_tui.model.launch.plan import Dispatch, Let, Tune, Verbatim
from astra_tui.model.launch.scope import Bindings
from astra_tui.model.task import KernelTask

LARGEST_SIZE = 1 << 20
"""Sizes beyond this one are left to the full-size stage."""

LARGE = 1 << 11
"""Whole numbers from which on sizes are near, though nothing is compared with them."""

MAX_STEPS_AWAY = 64
"""How far from a size its neighbours within the contract are looked for."""

_DEEPEST = 16

_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]{1,18})[uUlLzZ]*")
_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!=", "%"})
_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "<<": operator.lshift,
    ">>": operator.rshift,
}


def around(sizes: set[int], allowed: Callable[[int], bool]) -> list[int]:
    """Each size with its two neighbours: where the contract asks for a multiple, the next ones."""
    near = set()
    for size in sizes:
        near.add(size)
        for step in (-1, 1):
            tried = (size + step * far for far in range(1, MAX_STEPS_AWAY + 1))
            near.add(next((s for s in tried if 1 <= s <= LARGEST_SIZE and allowed(s)), size))
    return sorted(size for size in near if 1 <= size <= LARGEST_SIZE)


# -- the launch plan -------------------------------------------------------------------------------


PlanSide = tuple[int, int, int, bool]
"""As in `Evaluator.sides`."""


def boundary_sizes(
    task: KernelTask, source: Source, case: Case, name: str, attributes: Mapping[str, int]
) -> set[int]:
    """Sizes of one dimension, all else as in a case, at which a comparison of the plan turns.

    Found by bisection: all of those whose sides differ by something monotonic. Where they are equal
    for several sizes, as those of `d // 8 > 8192`, the first of them and the first after them.
    """
    return _sizes_of_turns(task, source, case, name, attributes, tuple(_compared(source)))


def quotient_sizes(
    task: KernelTask, source: Source, case: Case, name: str, attributes: Mapping[str, int]
) -> set[int]:
    """As `boundary_sizes`, those at which a quotient of the plan is not 0 any more."""
    divided = tuple(
        (e.left, e.right)
        for e in _expressions(source)
        if isinstance(e, Binary) and e.operator in ("//", "%")
    )
    return _sizes_of_turns(task, source, case, name, attributes, divided)


def _sizes_of_turns(
    task: KernelTask,
    source: Source,
    case: Case,
    name: str,
    attributes: Mapping[str, int],
    compared: tuple[tuple[Expression, Expression], ...],
) -> set[int]:
    scalars = scalars_of(task, case)
    needs_layouts = reads_strides(source)

    @cache
    def signs(size: int) -> tuple[int | None, ...]:
        sized = msgspec.structs.replace(case, dims={**case.dims, name: size})
        layouts = plan_layouts(layouts_of(task, sized)) if needs_layouts else {}
        bindings = Bindings(case.dtype, sized.dims, layouts, scalars, attributes)
        return tuple(_signs(source, compared, bindings))

    low, high = signs(1), signs(LARGEST_SIZE)
    found = set()
    for k, (first, last) in enumerate(zip(low, high, strict=True)):
        if first is None or last is None or first == last:
            continue
        found |= _turns(signs, k, first, last)
    return found


def _turns(
    signs: Callable[[int], tuple[int | None, ...]], k: int, first: int, last: int
) -> set[int]:
    """Where the k-th sign is not any more what it is at first, and where it is what it is at last,
    unless that is right behind the former, and tried as its neighbour.
    """
    left = _first(1, lambda size: signs(size)[k] != first)
    middle = signs(left)[k]
    if middle == last:
        return {left}
    reached = _first(left, lambda size: signs(size)[k] != middle)
    return {left, reached} if reached > left + 1 else {left}


def _first(below: int, holds: Callable[[int], bool]) -> int:
    """The first size above one at which something holds, if it does from there on.

    Of what comes and goes, such as a remainder, halving finds one size at least: the powers of two
    are looked at.
    """
    above = LARGEST_SIZE
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above


def cases_of_plan_sides(
    task: KernelTask,
    source: Source,
    seen: Set[PlanSide],
    attributes: Mapping[str, int],
) -> Iterator[tuple[Case, frozenset[PlanSide]]]:
    """Cases that take sides of the plan's `min` and `max` which no run did, with these sides.

    Looked for around the sizes at which one of them turns, from typical sizes and from those of the
    largest workload; of a side that none of these takes nothing is said.
    """
    left = {
        (call.place.line, call.place.column, number, is_less)
        for call in _expressions(source)
        if isinstance(call, Call) and call.function in ("min", "max")
        for number in range(1, len(call.args))
        for is_less in (True, False)
    } - seen
    for case in _around_turning(task, source, attributes) if left else ():
        try:
            resolved = resolve_case(task, source, case, scalars_of(task, case), attributes)
        except PlanError:
            continue
        taken = resolved.sides & left if isinstance(resolved, ResolvedPlan) else frozenset()
        if taken:
            left -= taken
            yield case, taken


def open_plan_side(source: Source, side: PlanSide, case: Case) -> ConditionResult:
    """A side of the plan's `min` or `max` that a case would take, and that none did."""
    line, column, number, is_less = side
    call = next(
        c for c in _expressions(source)
        if isinstance(c, Call) and (c.place.line, c.place.column) == (line, column)
    )  # fmt: skip
    text = " < ".join(map(print_expression, (call.args[0], call.args[number])))
    return ConditionResult(
        kernel="the launch plan",
        line=line,
        column=column,
        text=text,
        side=is_less,
        key=content_hash(text)[:10],
        why=", ".join(f"{name}={size}" for name, size in case.dims.items())
        + " leads there, and no case did",
    )


def _around_turning(
    task: KernelTask, source: Source, attributes: Mapping[str, int]
) -> Iterator[Case]:
    """Typical sizes and the largest workload's, one of them at and next to each that matters."""
    typical = {name: dimension.typical for name, dimension in task.dims.items()}
    largest = max(task.workloads, key=lambda w: task.elements(w.dims, w.dtype))
    why = "made for a side of the launch plan that no other case took"
    starts = [
        *(Case("", why, d, typical) for d in task.dtypes),
        Case("", why, largest.dtype, dict(largest.dims)),
    ]
    for start, name in itertools.product(starts, task.dims):

        def sized(size: int, start: Case = start, name: str = name) -> Case:
            dims = {**start.dims, name: size}
            sizes = ", ".join(f"{n}={s}" for n, s in dims.items())
            return msgspec.structs.replace(start, name=f"side of the plan, {sizes}", dims=dims)

        def allowed(size: int, sized: Callable[[int], Case] = sized) -> bool:
            case = sized(size)
            return not task.violated(case.dims, case.dtype)

        turning = boundary_sizes(task, source, start, name, attributes)
        yield from (sized(size) for size in around(turning, allowed) if allowed(size))


def _signs(
    source: Source, compared: tuple[tuple[Expression, Expression], ...], bindings: Bindings
) -> Iterator[int | None]:
    """Of each comparison in the plan, which side is larger; None where that is not known."""
    evaluator = Evaluator(bindings, source.file)
    for declaration in source.plan.declarations:
        try:
            match declaration:
                case Tune(name=name, value=value):
                    evaluator.define(name, value)
                case Let(name=name, value=expression):
                    evaluator.define(name, evaluator.value(expression))
        except PlanError:
            continue
    for left, right in compared:
        try:
            sides = evaluator.value(left), evaluator.value(right)
        except (PlanError, KeyError):
            yield None
            continue
        numbers = [side for side in sides if isinstance(side, int | float)]
        yield (numbers[0] > numbers[1]) - (numbers[0] < numbers[1]) if len(numbers) == 2 else None


def _compared(source: Source) -> Iterator[tuple[Expression, Expression]]:
    for expression in _expressions(source):
        match expression:
            case Compare(first=first, links=links):
                sides = [first, *(right for _, right in links)]
                yield from pairwise(sides)
            case Call(function="min" | "max", args=args):
                yield from ((args[0], other) for other in args[1:])


def reads_strides(source: Source) -> bool:
    """Whether the plan asks how far rows lie apart."""
    return any(isinstance(e, Call) and e.function == "stride" for e in _expressions(source))


def has_several_alignments(source: Source) -> bool:
    """Whether the plan asks for more than one alignment."""
    calls = (e for e in _expressions(source) if isinstance(e, Call) and e.function == "aligned")
    return len({call.args[1] for call in calls}) > 1


def _expressions(source: Source) -> Iterator[Expression]:
    """Every expression of the plan, and what it is made of."""
    plan = source.plan
    stack = [d.value for d in plan.declarations if isinstance(d, Let)]
    for step in plan.steps:
        if isinstance(step, Dispatch):
            stack += [b.condition for b in step.branches if b.condition is not None]
    for launch in plan.launches():
        stack += launch.expressions()
        stack += (e for e in launch.template_args if not isinstance(e, Verbatim))
    while stack:
        expression = stack.pop()
        yield expression
        stack += parts_of(expression)


# -- the device code -------------------------------------------------------------------------------


def compared_constants(text: str) -> set[int]:
    """The whole numbers that the device code may compare a size with."""
    found = set()
    stack = [parse_comparisons(text)]
    while stack:
        node = stack.pop()
        stack.extend(node.children)
        is_call = node.type == "call_expression"
        for operand in _operands(node):
            value = _constant(operand)
            if value is not None and 2 <= value <= LARGEST_SIZE:
                # The last index is beyond what a `min` holds it to from two more on.
                found |= {value, value + 1} if is_call else {value}
    return found


def large_constants(text: str) -> set[int]:
    """The whole numbers of the device code that a size may be divided by, or masked with."""
    found = set()
    stack = [parse_comparisons(text)]
    while stack:
        node = stack.pop()
        value = _constant(node) if node.type in ("number_literal", "binary_expression") else None
        if value is None:
            stack.extend(node.children)
        elif LARGE <= value <= LARGEST_SIZE:
            found.add(value)
    return found


_ALWAYS = (0.0, 1.0)
"""What sources compare data with without writing it: `if (x)`, a flag, a neutral element."""
_FLOAT = re.compile(r"([0-9]*\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)[fFlL]?")


def compared_numbers(text: str, most: int) -> tuple[float, ...]:
    """The floating-point numbers that the device code may compare data with, zero and one first.

    Of the others those come first that stand in a comparison; at most `most` in all.
    """
    found = dict.fromkeys(_ALWAYS)
    elsewhere: dict[float, None] = {}
    stack = [parse_comparisons(text)]
    while stack:
        node = stack.pop()
        stack.extend(reversed(node.children))
        compares = node.type == "binary_expression"
        for operand in _operands(node):
            for number in _numbers_in(operand):
                (found if compares else elsewhere)[number] = None
    numbers = [n for n in (*found, *elsewhere) if math.isfinite(n)]
    return tuple(dict.fromkeys(numbers))[:most]


def _numbers_in(node: Node) -> Iterator[float]:
    """The floating-point literals of an operand, each with its sign; not those of comparisons."""
    if node.type == "number_literal":
        match = _FLOAT.fullmatch((node.text or b"").decode(errors="replace").replace("'", ""))
        if match and any(c.isdigit() for c in match[1]):
            yield float(match[1])
        return
    minus = node.type == "unary_expression" and (node.text or b"").startswith(b"-")
    if node.type in _AROUND_A_NUMBER:
        for child in node.named_children:
            for number in _numbers_in(child):
                yield -number if minus else number


_AROUND_A_NUMBER = frozenset(
    {"unary_expression", "parenthesized_expression", "cast_expression", "call_expression",
     "argument_list"}
)  # fmt: skip


def _operands(node: Node) -> list[Node]:
    """What stands where a size may be compared with it."""
    match node.type:
        case "binary_expression":
            sign = node.child_by_field_name("operator")
            if sign is not None and sign.type in _COMPARISONS:
                return [n for n in map(node.child_by_field_name, ("left", "right")) if n]
        case "call_expression":
            function, arguments = map(node.child_by_field_name, ("function", "arguments"))
            if (
                function is not None
                and arguments is not None
                and (function.text or b"")[-3:] in (b"min", b"max")
            ):
                return arguments.named_children
        case "case_statement" | "enumerator" | "init_declarator" | "preproc_def":
            value = node.child_by_field_name("value")
            return [value] if value is not None else []
    return []


def _constant(node: Node, depth: int = 0) -> int | None:
    """The value of a constant expression of whole numbers; None for anything else."""
    if depth > _DEEPEST:
        return None
    match node.type:
        case "number_literal" | "preproc_arg":
            written = (node.text or b"").decode(errors="replace").replace("'", "").strip(" ()")
            match = _NUMBER.fullmatch(written)
            return (
                int(match[1], 0 if match[1][:2].lower() in ("0x", "0b") else 10) if match else None
            )
        case "parenthesized_expression" | "cast_expression":
            inner = node.named_children[-1:] if node.named_children else []
            return _constant(inner[0], depth + 1) if inner else None
        case "binary_expression":
            left, right = (node.child_by_field_name(side) for side in ("left", "right"))
            sign = operator_of(node)
            if left is None or right is None or sign not in _OPERATORS:
                return None
            first, second = _constant(left, depth + 1), _constant(right, depth + 1)
            if first is None or second is None or not 0 < second <= LARGEST_SIZE:
                return None
            if sign in ("<<", ">>") and second > 64:
                return None
            return _OPERATORS[sign](first, second)
    return None
