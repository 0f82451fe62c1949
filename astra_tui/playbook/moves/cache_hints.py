"""Marks data that is touched once, so that it does not push reused data out of the caches."""

from __future__ import annotations

from collections.abc import Collection

from tree_sitter import Node

from astra_tui.cuda_source.functions import TYPE, Function
from astra_tui.cuda_source.indices import IndexReader, Polynomial
from astra_tui.cuda_source.syntax import (
    LOOPS,
    ancestors,
    contains,
    field,
    line_of,
    operator_of,
    text_of,
)
from astra_tui.model.dtypes import DType, NumberKind
from astra_tui.model.launch.expression import Name
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.model.task import ArgumentRole, KernelTask
from astra_tui.playbook.accesses import Access, accesses_in, offset_of, unknown_accesses
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import Edit, replace
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import template_values
from astra_tui.playbook.loops import loops_of

_HINTABLE = frozenset(
    name
    for dtype in DType
    if dtype.kind is not NumberKind.BOOL and not dtype.is_narrow
    for name in dtype.spellings
)
"""Types of elements that CUDA's loads with a hint take."""


class CacheHints:
    """__ldcs for streamed loads and __stcs for results that the kernel never reads."""

    name = "cache_hints"
    summary = "streaming loads and stores for data that is touched once"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: counters do not show what a cache keeps"
    gain = (0.98, 1.01)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every scalar access of each kernel that no thread repeats."""
        hinted: list[tuple[Node, list[Edit]]] = []
        reasons: list[str] = []
        for kernel in source.kernels:
            unknown = unknown_accesses(kernel.body, kernel)
            if unknown:
                reasons.append(f"line {line_of(unknown[0])}: an access that cannot be followed")
                continue
            hinted += [(a.node, _hinted(a)) for a in _streamed(source, kernel, evidence)]
        hinted = [(node, edits) for node, edits in hinted if edits]
        if not hinted:
            return NotApplicable(
                self.name,
                "; ".join(reasons) or "no single elements that are read or written only once",
            )
        lines = evidence.lines(node for node, _ in hinted)
        hinted = [(node, edits) for node, edits in hinted if line_of(node) in lines.chosen]
        nodes = [node for node, _ in hinted]
        plan = Plan(
            title="Stream what is touched once",
            bottleneck="data that nothing reads again takes the place of data that is reused",
            evidence=evidence_of(evidence.counters, nodes, Counter.SECTORS),
            change=f"{lines_text(nodes)}: loads by __ldcs and stores by __stcs, which caches "
            "give up first. Neither results nor counters change.",
            prediction=Prediction(1.0, 1.05, Counter.SECTORS, 1.0),
            risk=Risk.LOW,
            places=places_of(nodes),
            move=self.name,
            parameters=settable(lines),
        )
        return Proposal(plan, source.changed(e for _, edits in hinted for e in edits))


def _streamed(source: KernelText, kernel: Function, evidence: Evidence) -> list[Access]:
    accesses = [a for a in accesses_in(kernel.body, kernel) if not a.root.is_array]
    found = []
    for access in accesses:
        same = [a for a in accesses if a.root == access.root]
        buffers = source.buffers(kernel, access.root)
        if access.node.type != "subscript_expression":
            continue
        if not _can_hint(access, kernel, source, buffers, evidence.task):
            continue
        if not _is_once(access, kernel) or (access.is_store and access.is_load):
            continue
        roles = {_role(evidence, b) for b in buffers}
        loads = (
            not access.is_store and roles == {ArgumentRole.IN} and len(same) == len(_places(same))
        )
        stores = access.is_store and roles == {ArgumentRole.OUT} and all(a.is_store for a in same)
        if loads or stores:
            found.append(access)
    return found


def _role(evidence: Evidence, name: str) -> ArgumentRole | None:
    argument = evidence.task.args.get(name)
    return argument.role if argument is not None else None


def _places(accesses: list[Access]) -> set[str]:
    return {text_of(a.node) for a in accesses}


def _can_hint(
    access: Access,
    kernel: Function,
    source: KernelText,
    buffers: Collection[str],
    task: KernelTask,
) -> bool:
    """Whether CUDA has loads and stores with a hint for all that the element's type stands for."""
    if access.element in _HINTABLE:
        return True
    if access.element not in {p.name for p in kernel.template if p.kind == TYPE}:
        return False
    launches = source.launches_of(kernel)
    given = (template_values(kernel, launch).get(access.element) for launch in launches)
    if not all(isinstance(value, Name) for value in given):
        return False  # A type of others, by C++ text.
    arguments = [task.args[name] for name in buffers if name in task.args]
    return not any(dtype.is_narrow for a in arguments for dtype in task.dtypes_of(a))


def _is_once(access: Access, kernel: Function) -> bool:
    """Whether each block and each iteration of the loops around it touches another element."""
    reader = IndexReader(kernel)
    pointer = kernel.lookup(text_of(access.pointer), access.pointer)
    offset = offset_of(pointer, kernel, reader) if pointer is not None else None
    if offset is None:
        return False
    index = offset + reader.read(access.index)
    loops = [a for a, _ in ancestors(access.node) if a.type in LOOPS]
    turning = {v.name for v in kernel.locals if any(contains(n, v.declaration) for n in loops)}
    turning |= {loop.name for loop in loops_of(kernel) if loop.node in loops}
    moved = any(reader.depends_on(index, name) for name in ("threadIdx", *sorted(turning)))
    return moved and _depends_on_block(index, reader, kernel)


def _depends_on_block(index: Polynomial, reader: IndexReader, kernel: Function) -> bool:
    """Whether blocks touch different elements; what they share is worth keeping."""
    if reader.depends_on(index, "blockIdx"):
        return True
    return any(
        v.value is not None and reader.depends_on(reader.read(v.value), "blockIdx")
        for v in kernel.locals
        if reader.depends_on(index, v.name)
    )


def _hinted(access: Access) -> list[Edit]:
    text = text_of(access.node)
    if not access.is_store:
        return [replace(access.node, f"__ldcs(&{text})")]
    change = access.node.parent
    if change is None or change.type != "assignment_expression" or operator_of(change) != "=":
        return []
    value = field(change, "right")
    return [
        Edit(access.node.start_byte, access.node.start_byte, "__stcs(&"),
        Edit(access.node.end_byte, value.start_byte, ", "),
        Edit(value.end_byte, value.end_byte, ")"),
    ]
