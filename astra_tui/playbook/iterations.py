"""Loops of which the launch plan gives every thread at most one iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, variables_of
from astra_tui.cuda_source.indices import IndexReader
from astra_tui.cuda_source.polynomial import of_atom
from astra_tui.cuda_source.syntax import field, text_of
from astra_tui.model.launch import Branch, Dispatch, Launch, LaunchPlan
from astra_tui.model.launch.expression import Binary, Call, Compare, Expression, Integer
from astra_tui.playbook.edits import Edit, indentation, pragma_of
from astra_tui.playbook.edits import replace as replace_node
from astra_tui.playbook.grids import flat_loops
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import is_fallback, plan_value
from astra_tui.playbook.loops import Loop, loops_of


@dataclass(frozen=True)
class SingleIteration:
    """A loop that is a condition, if the launch is changed so, under a condition of the plan."""

    loop: Loop
    launch: Launch
    """The launch with the grid that makes it so, which may be the old one."""
    condition: Expression | None
    """What the launch's branch has to ask for besides what it asks already."""
    always: bool
    """Whether every thread takes the iteration, so that nothing has to be asked."""


def single_iterations(source: KernelText, kernel: Function) -> list[SingleIteration]:
    """The loops of a kernel that no thread takes twice, at the only launch that it has."""
    launches = list(source.launches_of(kernel))
    if len(launches) != 1:
        return []
    found = [*_along_x(kernel, launches[0]), *_along_y(source, kernel, launches[0])]
    return [turn for turn in found if _is_plain(turn.loop)]


def _along_x(kernel: Function, launch: Launch) -> Iterator[SingleIteration]:
    """Loops in strides of the grid, where the grid has a thread for each element."""
    if len(launch.block) != 1:
        return
    for loop in flat_loops(kernel):
        bound = plan_value(loop.bound, kernel, launch)
        if bound is None:
            continue
        counts = (bound, Call("max", (bound, Integer(1))))
        if any(launch.grid[0] == Call("ceil_div", (c, launch.block[0])) for c in counts):
            yield SingleIteration(loop, launch, None, always=False)


def _along_y(source: KernelText, kernel: Function, launch: Launch) -> Iterator[SingleIteration]:
    """Loops over rows, where the grid has a row of blocks for each up to its largest size."""
    reader = IndexReader(kernel)
    for loop in loops_of(kernel):
        forms = (loop.start_form(reader), loop.step_form(reader))
        if forms != (of_atom("blockIdx.y"), of_atom("gridDim.y")) or not loop.counts_up():
            continue
        bound = plan_value(loop.bound, kernel, launch)
        if bound is None or len(launch.grid) < 2:
            continue
        always = not _declared(kernel.body) & _declared(field(loop.node, "body"))
        if launch.grid[1] == bound:
            yield SingleIteration(loop, launch, None, always)
        match launch.grid[1]:
            case Call(function="min", args=(rows, Integer() as most)) if rows == bound:
                if _has_fallback(source.plan, launch):
                    grid = (launch.grid[0], bound, *launch.grid[2:])
                    within = Compare(bound, (("<=", most),))
                    yield SingleIteration(loop, replace(launch, grid=grid), within, always)


def _has_fallback(plan: LaunchPlan, launch: Launch) -> bool:
    """Whether a later launch serves what this one's branch does not ask for."""
    launches = list(plan.launches())
    later = launches[[e is launch for e in launches].index(True) + 1 :]
    return any(e.args == launch.args and is_fallback(plan, e) for e in later)


def _is_plain(loop: Loop) -> bool:
    body = loop.node.child_by_field_name("body")
    return (
        loop.node.type == "for_statement"
        and loop.declaration is None
        and body is not None
        and body.type == "compound_statement"
        and pragma_of(loop.node) is None
        and not loop.has_jump()
    )


def without_single_iterations(text: str, kernel_names: tuple[str, ...]) -> str:
    """The source with conditions in place of such loops of some kernels, or nothing at all."""
    while True:
        source = KernelText.read(text)
        kernels = (k for k in source.kernels if k.name in kernel_names)
        found = next(((k, t) for k in kernels for t in single_iterations(source, k)), None)
        if found is None:
            return text
        kernel, turn = found
        (old,) = source.launches_of(kernel)
        plan = source.plan
        if turn.condition is not None:
            plan = _narrowed(plan, old, turn.launch, turn.condition)
        edit = _once(source, turn.loop) if turn.always else _as_condition(source, turn.loop)
        text = source.changed([edit], plan)


def _narrowed(plan: LaunchPlan, old: Launch, new: Launch, condition: Expression) -> LaunchPlan:
    """The plan with another launch in a branch that asks for one thing more."""

    def narrowed(branch: Branch) -> Branch:
        if branch.condition is None or not any(item is old for item in branch.body):
            return branch
        body = tuple(new if item is old else item for item in branch.body)
        both = Binary("and", branch.condition, condition)
        return replace(branch, condition=both, body=body)

    steps = tuple(
        replace(s, branches=tuple(map(narrowed, s.branches))) if isinstance(s, Dispatch) else s
        for s in plan.steps
    )
    return replace(plan, steps=steps)


def _as_condition(source: KernelText, loop: Loop) -> Edit:
    name, indent = loop.name, indentation(source.data, loop.node)
    declared = f"const {loop.variable.type} {name} = {text_of(loop.start)};"
    asked = f"if ({name} < {text_of(loop.bound)}) {{"
    begin = field(loop.node, "body").start_byte + 1
    return Edit(loop.node.start_byte, begin, f"{declared}\n{indent}{asked}")


def _once(source: KernelText, loop: Loop) -> Edit:
    """The body of a loop in place of the loop, one level of indentation further out."""
    body = field(loop.node, "body")
    inner = source.data[body.start_byte + 1 : body.end_byte - 1].decode().strip("\n")
    lines = [line.removeprefix("  ") for line in inner.rstrip().split("\n")]
    declared = f"const {loop.variable.type} {loop.name} = {text_of(loop.start)};"
    return replace_node(loop.node, "\n".join([declared, *lines]))


def _declared(block: Node) -> set[str]:
    """The names that a block declares itself."""
    found = (c for c in block.named_children if c.type == "declaration")
    return {v.name for c in found for v in variables_of(c)}
