"""Reduces within warps by shuffles where the source climbs a tree in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function, Variable
from astra_tui.cuda_source.indices import BLOCK_THREADS, THREAD, Division, IndexReader
from astra_tui.cuda_source.polynomial import constant, of_atom
from astra_tui.cuda_source.syntax import (
    LOOPS,
    ancestors,
    arguments_of,
    bare,
    called_name,
    contains,
    field,
    is_barrier,
    line_of,
    named,
    of_type,
    operator_of,
    same_code,
    statements_of,
    subscript_of,
    text_of,
)
from astra_tui.model.launch.expression import Integer
from astra_tui.model.plan import Counter, Plan, Risk
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import Edit, indentation, indented, remove_statement, replace
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of, predicted, share
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import multiple_of_warp
from astra_tui.playbook.loops import Loop, halves, loops_of

_SHUFFLED = ("float", "double", "int", "unsigned", "unsigned int")
_EXTREMES = ("fmaxf", "fminf", "max", "min", "fmax", "fmin")


@dataclass(frozen=True)
class _Tree:
    """A tree reduction: `array[thread] = value`, a barrier, and the halving loop."""

    function: Function
    loop: Loop
    array: Variable
    combine: str
    """"+" or "*", or the name of a function of two values."""
    value: Node
    store: Node

    def nodes(self) -> list[Node]:
        return [self.store, self.loop.node]

    def later(self) -> list[Node] | None:
        """Reads of the result, which each thread can have in a register of its own; None where
        another thread may write to the array before all have read it, or where the result is
        needed in another block of the code.
        """
        if any(above.type in LOOPS for above, _ in ancestors(self.loop.node)):
            return None
        reads = []
        for use in self.function.uses(self.array):
            if any(contains(node, use) for node in self.nodes()):
                continue
            read, block = use.parent, self.store.parent
            if use.start_byte < self.store.start_byte or read is None or block is None:
                return None
            if _is_written(read) or not contains(block, read):
                return None
            reads.append(read)
        return reads


class _Unsuitable(Exception):
    """Why a tree stays."""


class ShuffleReduction:
    """Registers and shuffles within a warp; shared memory only between warps."""

    name = "shuffle_reduction"
    summary = "warp shuffles in place of a tree of barriers in shared memory"
    kind = MoveKind.CODE
    needs_gpu = ""
    gain = (1.0, 1.05)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every tree reduction of the source, each in two levels of shuffles."""
        trees: list[_Tree] = []
        reasons: list[str] = []
        for function in source.kernels:
            try:
                trees += _trees_of(source, function)
            except _Unsuitable as reason:
                reasons.append(f"{function.name}: {reason}")
        if not trees:
            return NotApplicable(self.name, "; ".join(reasons) or "no halving loop over a block")
        lines = evidence.lines(tree.loop.node for tree in trees)
        trees = [tree for tree in trees if line_of(tree.loop.node) in lines.chosen]
        nodes = [n for tree in trees for n in tree.nodes()]
        part = share(evidence.counters, Counter.BARRIERS, nodes)
        # Counters see instructions, which are more, and no waiting, which is less.
        once = evidence.timed and all(tree.later() is not None for tree in trees)
        who = "every warp" if once else "the first warp"
        barriers = "One barrier remains." if once else "Two barriers remain."
        plan = Plan(
            title="Reduce by warp shuffles",
            bottleneck="a sum over the block climbs a tree in shared memory, with a barrier for "
            "the whole block at every level",
            evidence=evidence_of(
                evidence.counters,
                nodes,
                Counter.BARRIERS,
                Counter.SHARED_REQUESTS,
                Counter.WARP_INSTRUCTIONS,
            ),
            change=f"{lines_text([t.loop.node for t in trees])}: each warp reduces in registers "
            f"with __shfl_xor_sync, one value a warp goes through shared memory, and {who} "
            f"reduces those. {barriers} Values are combined in another order.",
            prediction=predicted(Counter.BARRIERS, part, 0.25, (1.02, 1.3), 1.0),
            risk=Risk.LOW,
            places=places_of(nodes),
            move=self.name,
            parameters=settable(lines),
        )
        names = source.names()
        edits = [
            e for tree in trees
            for e in _rewrite(source, tree, names, later=tree.later() if once else None)
        ]  # fmt: skip
        return Proposal(plan, source.changed(edits))


def _trees_of(source: KernelText, function: Function) -> list[_Tree]:
    trees = []
    refused: _Unsuitable | None = None
    for loop in loops_of(function):
        if halves(loop):
            try:
                trees.append(_read_tree(source, function, loop))
            except _Unsuitable as reason:
                refused = reason
    for tree in trees:
        _check_uses(tree, trees)
    if not trees and refused is not None:
        raise refused
    return trees


def _read_tree(source: KernelText, function: Function, loop: Loop) -> _Tree:
    _check_blocks(source, function, loop)
    if len(loop.body) != 2 or not is_barrier(loop.body[1]):
        raise _Unsuitable(
            f"line {line_of(loop.node)}: an iteration is not one step and one barrier"
        )
    array, combine = _read_step(function, loop)
    store, value = _read_store(function, loop, array)
    if array.type not in _SHUFFLED:
        raise _Unsuitable(f"line {line_of(loop.node)}: no shuffle moves a {array.type}")
    return _Tree(function, loop, array, combine, value, store)


def _check_blocks(source: KernelText, function: Function, loop: Loop) -> None:
    reader = IndexReader(function)
    start = loop.start_form(reader)
    half = Division("/", BLOCK_THREADS, constant(2))
    is_half = half in (reader.divisions.get(atom) for atom in start.atoms())
    spans = is_half and len(start.terms) == 1 and set(start.terms.values()) == {1}
    for launch in source.launches_of(function):
        if len(launch.block) != 1 or not multiple_of_warp(launch.block[0], source.plan):
            raise _Unsuitable(f"line {launch.place.line}: a block is not a whole number of warps")
        size = launch.block[0]
        fixed = isinstance(size, Integer) and start == constant(size.value // 2)
        if not (fixed or spans):
            raise _Unsuitable(f"line {line_of(loop.node)}: the tree does not span the block")


def _read_step(function: Function, loop: Loop) -> tuple[Variable, str]:
    """The array and the operation of `if (thread < half) a[thread] += a[thread + half];`."""
    problem = _Unsuitable(f"line {line_of(loop.body[0])}: no step of a tree reduction")
    guard = loop.body[0]
    if guard.type != "if_statement" or guard.child_by_field_name("alternative") is not None:
        raise problem
    reader = IndexReader(function)
    if not _is_below(bare(field(guard, "condition")), loop, reader):
        raise problem
    steps = statements_of(field(guard, "consequence"))
    if len(steps) != 1 or steps[0].type != "expression_statement":
        raise problem
    change = named(steps[0])[0]
    if change.type != "assignment_expression":
        raise problem
    combine, other = _read_combination(change)
    target, added = (
        subscript_of(field(change, "left")),
        subscript_of(bare(other) if other else change),
    )
    if not combine or target is None or added is None:
        raise problem
    array = function.lookup(text_of(target[0]), target[0])
    same = array is not None and function.lookup(text_of(added[0]), added[0]) == array
    places = (reader.read(target[1]), reader.read(added[1]))
    if array is None or not same or places != (THREAD, THREAD + of_atom(loop.name)):
        raise problem
    if not (array.is_shared and array.is_array):
        raise problem
    return array, combine


def _is_below(condition: Node, loop: Loop, reader: IndexReader) -> bool:
    if condition.type != "binary_expression":
        return False
    sides = [reader.read(field(condition, s)) for s in ("left", "right")]
    if operator_of(condition) == ">":
        sides.reverse()
    return operator_of(condition) in "<>" and sides == [THREAD, of_atom(loop.name)]


def _read_combination(change: Node) -> tuple[str, Node | None]:
    """The operation and the other value of `x += y`, `x = x + y` or `x = f(x, y)`."""
    left, right = field(change, "left"), bare(field(change, "right"))
    operator = operator_of(change)
    if operator in ("+=", "*="):
        return operator[0], right
    if operator != "=":
        return "", None
    if right.type == "binary_expression" and operator_of(right) in ("+", "*"):
        values, combine = [field(right, "left"), field(right, "right")], operator_of(right)
    elif right.type == "call_expression" and called_name(right) in _EXTREMES:
        values, combine = arguments_of(right), called_name(right)
    else:
        return "", None
    others = [v for v in values if not same_code(bare(v), left)]
    return (combine, others[0]) if len(values) == 2 and len(others) == 1 else ("", None)


def _read_store(function: Function, loop: Loop, array: Variable) -> tuple[Node, Node]:
    """The store of each thread's value before the loop, with only a barrier between."""
    parent = loop.node.parent
    before = [
        s for s in (named(parent) if parent is not None else [])
        if s.end_byte <= loop.node.start_byte and s != loop.declaration
        and s.type != "preproc_call"
    ]  # fmt: skip
    problem = _Unsuitable(
        f"line {line_of(loop.node)}: no store of each thread's value before the tree"
    )
    if len(before) < 2 or not is_barrier(before[-1]) or before[-2].type != "expression_statement":
        raise problem
    change = named(before[-2])[0]
    if change.type != "assignment_expression" or operator_of(change) != "=":
        raise problem
    target = subscript_of(field(change, "left"))
    if target is None or text_of(target[0]) != array.name:
        raise problem
    if IndexReader(function).read(target[1]) != THREAD:
        raise problem
    return before[-2], field(change, "right")


def _check_uses(tree: _Tree, trees: list[_Tree]) -> None:
    """After the tree the array holds the result in its first place and nothing else."""
    reader = IndexReader(tree.function)
    own = [n for t in trees for n in t.nodes()]
    for use in tree.function.uses(tree.array):
        if use.start_byte < tree.store.start_byte or any(contains(n, use) for n in own):
            continue
        parts = subscript_of(use.parent) if use.parent is not None else None
        if parts is None or reader.read(parts[1]) != constant(0):
            raise _Unsuitable(f"line {line_of(use)}: partial values of the tree are used later")
    returns = of_type(tree.function.body, "return_statement")
    early = next((r for r in returns if r.start_byte < tree.loop.node.start_byte), None)
    if early is not None:
        raise _Unsuitable(f"line {line_of(early)}: threads may have left before the reduction")


def _is_written(element: Node) -> bool:
    """Whether an element of an array is assigned to, or more than read."""
    above = element.parent
    if above is None or above.type in ("update_expression", "pointer_expression"):
        return True
    return above.type == "assignment_expression" and field(above, "left") == element


def _rewrite(
    source: KernelText, tree: _Tree, names: set[str], later: list[Node] | None
) -> list[Edit]:
    """`later`: the reads of the result where every warp reduces for itself."""
    value = fresh_name("reduced", names)
    offset = fresh_name("offset", names)
    array = tree.array.name
    shuffle = [
        "#pragma unroll",
        f"for (int {offset} = 16; {offset} > 0; {offset} /= 2) {{",
        f"  {_combined(tree.combine, value, f'__shfl_xor_sync(0xffffffffu, {value}, {offset})')}",
        "}",
    ]
    lines = [
        f"{tree.array.type} {value} = {text_of(tree.value)};",
        *shuffle,
        f"if (threadIdx.x % 32 == 0) {array}[threadIdx.x / 32] = {value};",
        "__syncthreads();",
    ]
    if later is not None:
        lines += [_of_warp(tree.combine, value, array, "threadIdx.x % 32"), *shuffle]
    else:
        lines += [
            "if (threadIdx.x < 32) {",
            f"  {_of_warp(tree.combine, value, array, 'threadIdx.x')}",
            *(line if line.startswith("#") else f"  {line}" for line in shuffle),
            f"  if (threadIdx.x == 0) {array}[0] = {value};",
            "}",
            "__syncthreads();",
        ]
    text = indented("\n".join(lines), indentation(source.data, tree.store)).lstrip()
    edits = [Edit(tree.store.start_byte, tree.loop.node.end_byte, text)]
    edits += [replace(read, value) for read in later or ()]
    declaration = tree.loop.declaration
    if declaration is not None and declaration.start_byte < tree.store.start_byte:
        edits.append(remove_statement(source.data, declaration))
    return edits


def _combined(combine: str, value: str, other: str) -> str:
    if combine in ("+", "*"):
        return f"{value} {combine}= {other};"
    return f"{value} = {combine}({value}, {other});"


def _of_warp(combine: str, value: str, array: str, lane: str) -> str:
    """Each lane of a warp takes one warp's value."""
    inside = f"{lane} < blockDim.x / 32"
    if combine in ("+", "*"):
        return f"{value} = {inside} ? {array}[{lane}] : {'0' if combine == '+' else '1'};"
    # Lanes without a warp keep their own warp's value: counting it twice changes no extreme.
    return f"if ({inside}) {value} = {array}[{lane}];"
