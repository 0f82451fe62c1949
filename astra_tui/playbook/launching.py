"""Changes to launch plans, through their tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import TypeVar

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.syntax import (
    bare,
    cast_of,
    field,
    integer_of,
    operator_of,
    text_of,
)
from astra_tui.model.dtypes import OF_SPELLING, TENSOR_ONLY
from astra_tui.model.launch import (
    Branch,
    Dispatch,
    Launch,
    LaunchPlan,
    Let,
    PlanError,
    ResolvedPlan,
    Tune,
    resolve,
)
from astra_tui.model.launch.evaluate import Evaluator
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Compare,
    Conditional,
    Expression,
    Integer,
    Name,
    names_in,
)
from astra_tui.model.launch.plan import Step, Verbatim
from astra_tui.model.launch.resolve import ResolvedLaunch
from astra_tui.model.plan import Parameter
from astra_tui.model.task import KernelTask, Workload
from astra_tui.playbook.api import NotApplicable
from astra_tui.playbook.kernel_text import KernelText


def with_branch(
    plan: LaunchPlan,
    old: Launch,
    new: Launch,
    condition: Expression,
    lets: tuple[Let, ...] = (),
) -> LaunchPlan:
    """The plan that launches `new` in place of `old` where a condition holds."""
    steps: list[Step] = []
    for step in plan.steps:
        if isinstance(step, Dispatch):
            branches = [b for branch in step.branches for b in _split(branch, old, new, condition)]
            steps.append(replace(step, branches=tuple(branches)))
        elif step is old:
            steps.append(Dispatch((Branch(condition, (new,)), Branch(None, (old,)))))
        else:
            steps.append(step)
    return replace(plan, declarations=(*plan.declarations, *lets), steps=tuple(steps))


def in_place(
    plan: LaunchPlan,
    old: Launch,
    new: Launch,
    condition: Expression,
    lets: tuple[Let, ...] = (),
) -> LaunchPlan:
    """The plan that launches `new` in place of `old` where a condition holds, and `old` no more:
    what the condition leaves out goes to later branches.
    """
    both = with_branch(plan, old, new, condition, lets)

    def kept(branch: Branch) -> bool:
        return not any(item is old for item in branch.body)

    steps = tuple(
        replace(s, branches=tuple(filter(kept, s.branches))) if isinstance(s, Dispatch) else s
        for s in both.steps
    )
    return replace(both, steps=steps)


def _split(branch: Branch, old: Launch, new: Launch, condition: Expression) -> list[Branch]:
    if not any(item is old for item in branch.body):
        return [branch]
    both = condition if branch.condition is None else _both(branch.condition, condition)
    body = tuple(new if item is old else item for item in branch.body)
    return [Branch(both, body), branch]


def _both(a: Expression, b: Expression) -> Expression:
    return Binary("and", a, b)


def all_of(conditions: list[Expression]) -> Expression:
    """The conjunction of at least one condition, each named once."""
    first, *rest = dict.fromkeys(conditions)
    for condition in rest:
        first = Binary("and", first, condition)
    return first


def only_for(task: KernelTask, workloads: Parameter) -> list[Expression]:
    """The condition that a case has the sizes of one of the workloads; none where all are meant."""
    chosen = [w for w in task.workloads if w.name in workloads.chosen]
    if len(workloads.chosen) == len(workloads.choices):
        return []
    return [reduce(lambda a, b: Binary("or", a, b), dict.fromkeys(map(_sizes, chosen)))]


def _sizes(workload: Workload) -> Expression:
    sizes = workload.dims.items()
    return all_of([Compare(Name(name), (("==", Integer(size)),)) for name, size in sizes])


def for_workloads(workloads: Parameter) -> str:
    """Words for the condition of `only_for`, to end a sentence with."""
    if len(workloads.chosen) == len(workloads.choices):
        return ""
    return f"; the new kernel is for {', '.join(map(str, workloads.chosen))} alone"


def divisible(value: Expression, by: Expression) -> Expression:
    """`value % by == 0`."""
    return Compare(Binary("%", value, by), (("==", Integer(0)),))


def aligned(argument: Name, count: int) -> Expression:
    """`aligned(argument, count)`."""
    return Call("aligned", (argument, Integer(count)))


def factors(value: Expression) -> tuple[Expression, ...]:
    """The factors of a product; anything else is a single one."""
    if isinstance(value, Binary) and value.operator == "*":
        return (*factors(value.left), *factors(value.right))
    return (value,)


def launched_kernels(task: KernelTask, plan: LaunchPlan) -> frozenset[str]:
    """The kernels that a plan launches on the task's workloads, on an H100.

    A workload that the plan refuses, or whose numbers break it, launches none.
    """
    return frozenset(
        launch.kernel.partition("<")[0]
        for launches in resolved_on_workloads(task, plan)
        for launch in launches
    )


def resolved_on_workloads(
    task: KernelTask, plan: LaunchPlan
) -> tuple[tuple[ResolvedLaunch, ...], ...]:
    """What a plan launches on each of the task's workloads, as `launched_kernels` has it."""
    found: list[tuple[ResolvedLaunch, ...]] = []
    scalars = {a.name: a.choices[0] for a in task.scalars}
    for workload in task.workloads:
        placed = task.placements(workload.dims, workload.dtype)
        call = replace(task.bindings(workload.dims, workload.dtype, placed), scalars=scalars)
        try:
            resolved = resolve(plan, call)
        except PlanError:
            found.append(())
            continue
        found.append(tuple(resolved.launches) if isinstance(resolved, ResolvedPlan) else ())
    return tuple(found)


def values_on_workloads(value: Expression, source: KernelText, task: KernelTask) -> tuple[int, ...]:
    """An integer of the plan on each of the task's workloads that it launches for, on an H100."""
    found: list[int] = []
    scalars = {a.name: a.choices[0] for a in task.scalars}
    for workload in task.workloads:
        placed = task.placements(workload.dims, workload.dtype)
        bound = task.bindings(workload.dims, workload.dtype, placed)
        evaluator = Evaluator(replace(bound, scalars=scalars))
        try:
            for declared in source.plan.declarations:
                if isinstance(declared, Let):
                    evaluator.define(declared.name, evaluator.value(declared.value))
                elif isinstance(declared, Tune):
                    evaluator.define(declared.name, declared.value)
            found.append(evaluator.integer(value))
        except PlanError:
            continue  # The plan does not launch there.
    return tuple(found)


def lets_of(sizes: tuple[Expression, ...], plan: LaunchPlan) -> dict[str, Expression]:
    """The lets that some sizes come from, directly or through others."""
    lets = {d.name: d.value for d in plan.declarations if isinstance(d, Let)}
    found: dict[str, Expression] = {}
    left = [n for e in sizes for n in names_in(e)]
    while left:
        name = left.pop()
        if name in lets and name not in found:
            found[name] = lets[name]
            left += names_in(lets[name])
    return found


class Unsuitable(Exception):
    """Why a kernel or launch stays as it is."""


Found = TypeVar("Found")


def first_suitable(
    source: KernelText,
    move: str,
    read: Callable[[Function, Launch], Found],
    *,
    of_fallbacks: bool = False,
) -> Found | NotApplicable:
    """What `read` makes of the first launch that it finds suitable, and that is no fallback, unless
    these count too.

    `read` raises Unsuitable; where no launch is suitable, the reasons are the answer.
    """
    reasons: list[str] = []
    for kernel in source.kernels:
        for launch in source.launches_of(kernel):
            try:
                if not of_fallbacks and is_fallback(source.plan, launch):
                    raise Unsuitable("this is the fallback of a specialised kernel")
                return read(kernel, launch)
            except Unsuitable as reason:
                reasons.append(f"{kernel.name}: {reason}")
    return NotApplicable(move, "; ".join(dict.fromkeys(reasons)) or "no kernel")


def is_left_over(source: KernelText, kernel: Function) -> bool:
    """Whether a kernel serves only what specialised ones leave over."""
    return all(is_fallback(source.plan, launch) for launch in source.launches_of(kernel))


def is_fallback(plan: LaunchPlan, launch: Launch) -> bool:
    """Whether a branch before this launch's own does the same with a specialised kernel.

    Such a kernel takes this launch's arguments and template arguments, and more of either.
    """
    for step in plan.steps:
        if not isinstance(step, Dispatch):
            continue
        earlier: list[Launch] = []
        for branch in step.branches:
            if any(item is launch for item in branch.body):
                return any(_is_specialised(e, launch) for e in earlier)
            earlier += [item for item in branch.body if isinstance(item, Launch)]
    return False


def _is_specialised(candidate: Launch, launch: Launch) -> bool:
    def given(found: Launch) -> int:
        return len(found.template_args) + len(found.args)

    template, args = len(launch.template_args), len(launch.args)
    same = candidate.template_args[:template] == launch.template_args
    return same and candidate.args[:args] == launch.args and given(candidate) > given(launch)


def plan_value(
    node: Node, function: Function, launch: Launch, task: KernelTask | None = None
) -> Expression | None:
    """A kernel's integer expression in the plan's words, None where it has none.

    Parameters stand for what the launch passes, template arguments for what it names. With the
    task, sizes of element types are known as well.
    """
    node = bare(node)
    value = integer_of(node)
    if value is not None:
        return Integer(value)
    cast = cast_of(node)
    if cast is not None:
        return plan_value(cast[1], function, launch, task)
    if node.type == "identifier":
        return _plan_name(node, function, launch, task)
    if node.type == "sizeof_expression" and task is not None:
        named = text_of(node).removeprefix("sizeof").strip().strip("()").strip()
        element = plan_type(named, function, launch, task)
        return None if element is None else Call("sizeof", (element,))
    if node.type != "binary_expression":
        return None
    operator = {"/": "//"}.get(operator_of(node), operator_of(node))
    sides = [plan_value(field(node, s), function, launch, task) for s in ("left", "right")]
    if operator not in ("+", "-", "*", "//", "%") or sides[0] is None or sides[1] is None:
        return None
    if operator in ("*", "//") and sides[1] == Integer(1):
        return sides[0]
    return Binary(operator, sides[0], sides[1])


def _plan_name(
    node: Node, function: Function, launch: Launch, task: KernelTask | None
) -> Expression | None:
    name = text_of(node)
    variable = function.lookup(name, node)
    if variable is None:
        return template_values(function, launch).get(name)
    if variable.is_parameter and function.is_constant(variable):
        return launch.value_at([p.name for p in function.parameters].index(name))
    if variable.value is not None and variable.is_scalar and function.is_constant(variable):
        return plan_value(variable.value, function, launch, task)
    return None


def plan_type(
    element: str, kernel: Function, launch: Launch, task: KernelTask
) -> Expression | None:
    """An element type in the plan's words: a type, or what a template parameter stands for, which
    the tensors say that are passed for pointers to it where the plan names it in C++.
    """
    given = template_values(kernel, launch).get(element)
    if given is not None:
        return given
    if any(p.name == element for p in kernel.template):
        passed = (
            launch.value_at(number) for number, p in enumerate(kernel.parameters)
            if p.is_pointer and p.type == element
        )  # fmt: skip
        names = (p.id for p in passed if isinstance(p, Name))
        types = {task.args[name].dtype for name in names if name in task.args}
        if len(types) == 1 and not types & TENSOR_ONLY:
            (dtype,) = types
            return Name("T" if dtype is None else dtype.value)
    found = OF_SPELLING.get(element)
    return None if found is None or found in TENSOR_ONLY else Name(found.value)


def template_values(function: Function, launch: Launch) -> Mapping[str, Expression]:
    """What a launch names for each template parameter; C++ text in quotes is left out."""
    pairs = zip(function.template, launch.template_args, strict=False)
    return {name: given for (_, name, _), given in pairs if not isinstance(given, Verbatim)}


def whole_warps(threads: Expression) -> Expression:
    """At least one warp; as `max(ceil_div(threads, 32) * 32, 32)`."""
    warps = Binary("*", Call("ceil_div", (threads, Integer(32))), Integer(32))
    return Call("max", (warps, Integer(32)))


def multiple_of_warp(expression: Expression, plan: LaunchPlan) -> bool:
    """Whether a block size is a multiple of 32 whatever the case, as far as can be seen."""
    match expression:
        case Integer(value=value):
            return value > 0 and value % 32 == 0
        case Name(id="warp_size"):
            return True
        case Name(id=name):
            return _declared_multiple(name, plan)
        case Call(function="min" | "max", args=args):
            return all(multiple_of_warp(a, plan) for a in args)
        case Conditional(when_true=a, when_false=b):
            return multiple_of_warp(a, plan) and multiple_of_warp(b, plan)
        case Binary(operator="*", left=left, right=right):
            return multiple_of_warp(left, plan) or multiple_of_warp(right, plan)
        case Binary(operator="+" | "-", left=left, right=right):
            return multiple_of_warp(left, plan) and multiple_of_warp(right, plan)
    return False


def _declared_multiple(name: str, plan: LaunchPlan) -> bool:
    for declaration in plan.declarations:
        if declaration.name != name:
            continue
        if isinstance(declaration, Let):
            return multiple_of_warp(declaration.value, plan)
        values = getattr(declaration, "choices", ())
        return bool(values) and all(v % 32 == 0 for v in (declaration.value, *values))  # type: ignore[union-attr]
    return False
