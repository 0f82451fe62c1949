"""Sends loads on their way before anything else, where threads ask for them after a barrier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function, Variable, variables_of
from astra_tui.cuda_source.syntax import (
    called_name,
    contains,
    field,
    identifiers_in,
    line_of,
    statements_of,
    text_of,
)
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.accesses import Access, accesses_in, may_alias, unknown_accesses
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import (
    Edit,
    dedented,
    indentation,
    indented,
    indented_lines,
    insert_above,
    rewritten,
)
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import is_left_over
from astra_tui.playbook.loops import Loop
from astra_tui.playbook.slicing import NotSliced, Slice
from astra_tui.playbook.turns import declared_loads, element_of, fixed_loops
from astra_tui.playbook.waiting import (
    WAIT,
    calls_of,
    is_stable_buffer,
    keep_loads_below,
    stable_arguments,
)


class _Unsuitable(Exception):
    """Why a load stays where it is."""


@dataclass(frozen=True)
class _Late:
    """A load of a loop behind a barrier, and what its address needs."""

    kernel: Function
    loop: Loop
    declared: Variable
    load: Access
    needs: Slice

    @property
    def place(self) -> Node:
        """What changes."""
        return self.loop.node


@dataclass(frozen=True)
class _Same:
    """Loads behind a barrier of one element, the same for all threads of a block."""

    kernel: Function
    loads: tuple[Access, ...]

    @property
    def load(self) -> Access:
        """The first of them."""
        return self.loads[0]

    @property
    def place(self) -> Node:
        """What changes."""
        return self.load.node


class EarlyLoads:
    """Memory answers while the block reduces: what a later loop needs is asked for at the start."""

    name = "early_loads"
    summary = "loads that need no result of the block leave before anything else"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: counters do not show when a load leaves"
    gain = (0.97, 1.3)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """All such loads of later loops with a fixed number of iterations, and of elements that are
        the same for a block.
        """
        reasons: list[str] = []
        found: list[_Late | _Same] = []
        for kernel in source.kernels:
            if is_left_over(source, kernel):
                reasons.append(f"{kernel.name}: this is the fallback of a specialised kernel")
                continue
            try:
                found += _late_loads(source, kernel)
            except _Unsuitable as reason:
                reasons.append(f"{kernel.name}: {reason}")
        if not found:
            return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or "no kernel")
        stable = stable_arguments(evidence.task)
        taken = source.names()
        edits = [e for late in found for e in _rewrite(source, late, stable, taken)]
        for kernel in dict.fromkeys(x.kernel for x in found if _is_stable(source, x, stable)):
            if calls_of(_first_access(kernel), WAIT):
                edits += keep_loads_below(source, kernel, stable)
        nodes = [late.load.node for late in found]
        plan = Plan(
            title="Load before anything else",
            bottleneck="after the block has met, its threads ask memory for values that they could "
            "have asked for at the start, and wait for it a second time",
            evidence=evidence_of(evidence.counters, nodes, Counter.SECTORS, Counter.REQUESTS),
            change=f"{lines_text(nodes)}: loaded into registers before the first loop, where the "
            "launches before need not have written it even before the wait for them, by pointers "
            "that keep the compiler from moving such loads below it, and others above it. It costs "
            "registers for as long as the block reduces.",
            prediction=Prediction(*self.gain, Counter.SECTORS, 1.0),
            risk=Risk.MEDIUM,
            places=places_of([late.place for late in found]),
            move=self.name,
        )
        return Proposal(plan, source.changed(edits))


def _late_loads(source: KernelText, kernel: Function) -> list[_Late | _Same]:
    barriers = source.barriers(kernel)
    if not barriers:
        raise _Unsuitable("its threads do not wait for each other")
    unknown = unknown_accesses(kernel.body, kernel)
    if unknown:
        raise _Unsuitable(f"line {line_of(unknown[0])}: an access that cannot be followed")
    stores = [a for a in accesses_in(kernel.body, kernel) if a.is_store]
    reasons: list[str] = []
    found: list[_Late | _Same] = []
    for loop in fixed_loops(kernel):
        if loop.node.start_byte < barriers[0].start_byte:
            continue
        for load, declaration in declared_loads(kernel, loop):
            if any(may_alias(source, kernel, load.root, store.root) for store in stores):
                reasons.append(f"line {line_of(load.node)}: the kernel stores to that buffer")
                continue
            try:
                (declared,) = variables_of(declaration)
                found.append(_late(source, kernel, loop, load, declared))
            except (_Unsuitable, NotSliced) as reason:
                reasons.append(str(reason))
    found += _same_loads(source, kernel, barriers[0], {late.load.node for late in found})
    if not found:
        none = "no load behind a barrier in a loop with a fixed number of iterations"
        raise _Unsuitable("; ".join(dict.fromkeys(reasons)) or none)
    return found


def _late(
    source: KernelText, kernel: Function, loop: Loop, load: Access, declared: Variable
) -> _Late:
    needs = Slice(source.data, loop.body, declared.declaration)
    for node in needs.nodes:
        others = [a for a in accesses_in(node, kernel) if a.node != load.node]
        if others:
            raise _Unsuitable(f"line {line_of(load.node)}: its address is in memory itself")
    for name in sorted(needs.names | identifiers_in(loop.bound)):
        variable = kernel.lookup(name, declared.declaration)
        if variable is None or contains(loop.node, variable.declaration):
            continue
        if not _is_known(kernel, variable):
            raise _Unsuitable(f"line {line_of(load.node)}: {name} is not known any earlier")
    return _Late(kernel, loop, declared, load, needs)


def _is_known(kernel: Function, variable: Variable) -> bool:
    """Whether a variable has its one value before the kernel uses global memory."""
    first = _first_access(kernel)
    known = variable.is_parameter or variable.declaration.end_byte <= first.start_byte
    return known and kernel.is_constant(variable)


def _same_loads(
    source: KernelText, kernel: Function, barrier: Node, left_out: set[Node]
) -> Iterator[_Same]:
    """Loads behind a barrier of elements that neither threads nor turns decide, such as a scale."""
    accesses = list(accesses_in(kernel.body, kernel))
    stores = [a for a in accesses if a.is_store]
    found: dict[str, list[Access]] = {}
    for access in accesses:
        behind = access.node.start_byte > barrier.start_byte and access.node not in left_out
        if not behind or not access.is_load or access.is_store or access.root.is_array:
            continue
        if any(may_alias(source, kernel, access.root, store.root) for store in stores):
            continue
        pointer = kernel.lookup(text_of(access.pointer), access.pointer)
        if pointer is not None and _is_known(kernel, pointer) and _is_of_block(kernel, access):
            found.setdefault(text_of(access.node), []).append(access)
    return (_Same(kernel, tuple(loads)) for loads in found.values())


def _is_of_block(kernel: Function, access: Access) -> bool:
    """Whether parameters and the block alone decide which element is accessed."""
    element = element_of(kernel, access)
    if element is None:
        return False
    constants = {p.name for p in kernel.template}
    for atom in {atom for product in element.terms for atom in product} - constants:
        variable = kernel.lookup(atom, access.node)
        given = variable is not None and variable.is_parameter and kernel.is_constant(variable)
        if not given and not atom.startswith(("blockIdx.", "blockDim.", "gridDim.")):
            return False
    return True


def _first_access(kernel: Function) -> Node:
    """The first statement of a kernel that uses global memory, or waits for launches before."""
    for statement in statements_of(kernel.body):
        if calls_of(statement, WAIT):
            return statement
        if any(not a.root.is_array for a in accesses_in(statement, kernel)):
            return statement
    raise _Unsuitable("it uses no global memory")


def _rewrite(
    source: KernelText, late: _Late | _Same, stable: frozenset[str], taken: set[str]
) -> list[Edit]:
    name = fresh_name(f"{text_of(late.load.pointer)}_early", taken)
    anchor = _first_access(late.kernel)
    waits, is_stable = bool(calls_of(anchor, WAIT)), _is_stable(source, late, stable)
    load = text_of(late.load.node)
    pinned: list[str] = []
    if waits and is_stable:
        pinned, load = _pinned(source.data, late, taken)
    if isinstance(late, _Late):
        lines = _loop_of_loads(source.data, late, name, load)
        used = [put(field(late.declared.declarator, "value"), f"{name}[{late.loop.name}]")]
    else:
        lines = [f"const {late.load.element} {name} = {load};"]
        used = [put(access.node, name) for access in late.loads]
    text = indented("\n".join([*pinned, *lines]), indentation(source.data, anchor))
    if waits and not is_stable:
        placed = Edit(anchor.end_byte, anchor.end_byte, f"\n{text}")
    else:
        placed = insert_above(source.data, anchor, text.lstrip())
    return [placed, *used]


def _loop_of_loads(data: bytes, late: _Late, name: str, load: str) -> list[str]:
    """A loop that puts what all iterations need into an array of a name."""
    turn, bound = late.loop.name, text_of(late.loop.bound)
    declaration = late.declared.declaration
    old = dedented(data, declaration, text_of(declaration))
    body = "\n".join(late.needs.lines)
    assert body.count(old) == 1
    return [
        f"{late.load.element} {name}[{bound}];",
        "#pragma unroll",
        f"for (int {turn} = 0; {turn} < {bound}; ++{turn}) {{",
        indented_lines(body.replace(old, f"{name}[{turn}] = {load};").split("\n")),
        "}",
    ]


def _pinned(data: bytes, late: _Late | _Same, taken: set[str]) -> tuple[list[str], str]:
    """A pointer by which a load stays above a wait, and the load by it.

    Through a pointer to const that is __restrict__, and by __ldg, loads read what nothing writes,
    so that the compiler is free to move them below the wait.
    """
    load = late.load
    variable = late.kernel.lookup(text_of(load.pointer), load.pointer)
    assert variable is not None
    name = fresh_name(f"{variable.name}_now", taken)
    lines = [
        "// The compiler does not know where this points, and so keeps its loads above the wait.",
        f"const {variable.type}* {name} = {variable.name};",
        _hidden(name),
    ]
    if load.node.type == "call_expression" and called_name(load.node) == "__ldg":
        return lines, f"{name}[{text_of(load.index)}]"
    return lines, rewritten(data, load.node, [put(load.pointer, name)])


def _hidden(name: str) -> str:
    """Code after which the compiler does not know where a pointer points."""
    return f'asm("" : "+l"({name}));'


def _is_stable(source: KernelText, late: _Late | _Same, stable: frozenset[str]) -> bool:
    return is_stable_buffer(source, late.kernel, late.load.root, stable)
