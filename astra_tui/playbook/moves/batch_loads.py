"""Has all turns of a loop load before the first of them computes or stores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import Function, Variable, variables_of
from astra_tui.cuda_source.indices import IndexReader
from astra_tui.cuda_source.syntax import (
    bare,
    contains,
    field,
    integer_of,
    line_of,
    named,
    of_type,
    operator_of,
    text_of,
)
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.playbook.accesses import Access, accesses_in, may_alias, unknown_accesses
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal
from astra_tui.playbook.edits import (
    Edit,
    dedented,
    indented_lines,
    insert_before,
    remove_statement,
)
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import is_left_over
from astra_tui.playbook.loops import Loop
from astra_tui.playbook.slicing import NotSliced, Slice, leaves
from astra_tui.playbook.turns import (
    declared_loads,
    fixed_loops,
    is_own,
    is_repeated,
    with_any_turn,
)


class _Unsuitable(Exception):
    """Why a load stays where it is."""


@dataclass(frozen=True)
class _Load:
    """A load of one turn, and what its address needs."""

    access: Access
    statement: Node
    """Declares a local with what is loaded, or puts it into the turn's element of an array."""
    needs: Slice

    @property
    def declared(self) -> Variable | None:
        """The local that the statement declares."""
        is_declaration = self.statement.type == "declaration"
        return next(variables_of(self.statement)) if is_declaration else None


@dataclass(frozen=True)
class _Batch:
    """The loads of all turns of a loop."""

    loop: Loop
    loads: tuple[_Load, ...]
    is_first: bool
    """Whether the block has not met before the loop."""


class BatchLoads:
    """One wait for memory in place of one a turn."""

    name = "batch_loads"
    summary = "all turns of a loop load before the first of them computes or stores"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: counters do not show when a load leaves"
    gain = (1.0, 1.2)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """All loops with a fixed number of turns, but for those of fallbacks."""
        found, reasons = _batches(source)
        if not found:
            return NotApplicable(self.name, "; ".join(dict.fromkeys(reasons)) or "no such loop")
        nodes = [load.access.node for batch in found for load in batch.loads]
        plan = Plan(
            title="Load for all turns at once",
            bottleneck="a turn asks memory for its part only once the turn before it has its own, "
            "so that a thread waits for memory once a turn",
            evidence=evidence_of(evidence.counters, nodes, Counter.SECTORS, Counter.REQUESTS),
            change=f"{lines_text(nodes)}: loaded into registers by a loop of their own, before "
            "any turn computes or stores. It costs registers.",
            prediction=Prediction(*self.gain, Counter.SECTORS, 1.0),
            risk=Risk.LOW,
            places=places_of([batch.loop.node for batch in found]),
            move=self.name,
        )
        return Proposal(plan, _rewritten(source, found))


def with_batched_loads(text: str, before: KernelText) -> str:
    """A changed source whose new kernels load for all turns at once, up to their first barrier."""
    source = KernelText.read(text)
    found, _ = _batches(source, frozenset(kernel.name for kernel in before.kernels))
    first = [batch for batch in found if batch.is_first]
    return _rewritten(source, first) if first else text


def _batches(
    source: KernelText, left_out: frozenset[str] = frozenset()
) -> tuple[list[_Batch], list[str]]:
    """The loops whose loads can leave at once, and why others stay as they are."""
    found: list[_Batch] = []
    reasons: list[str] = []
    for kernel in (k for k in source.kernels if k.name not in left_out):
        if is_left_over(source, kernel):
            reasons.append(f"{kernel.name}: this is the fallback of a specialised kernel")
            continue
        for loop in fixed_loops(kernel):
            try:
                found.append(_batch(source, kernel, loop))
            except (_Unsuitable, NotSliced) as reason:
                reasons.append(f"{kernel.name}: {reason}")
    return found, reasons


def _batch(source: KernelText, kernel: Function, loop: Loop) -> _Batch:
    line = f"line {line_of(loop.node)}"
    if (integer_of(bare(loop.bound)) or 2) < 2:
        raise _Unsuitable(f"{line}: the loop has one turn")
    unknown = unknown_accesses(loop.node, kernel)
    if unknown:
        raise _Unsuitable(f"line {line_of(unknown[0])}: an access that cannot be followed")
    waits = _waiting(source, text_of(loop.node))
    if waits:
        raise _Unsuitable(f"{line}: its turns may wait for other threads ({waits})")
    statements = [*declared_loads(kernel, loop), *_kept_loads(kernel, loop)]
    statements.sort(key=lambda found: found[1].start_byte)
    loads = tuple(_load(source, kernel, loop, *found) for found in statements)
    if not loads:
        raise _Unsuitable(f"{line}: no load that a statement is all about")
    alone = {n for load in loads for n in load.needs.nodes} | {load.statement for load in loads}
    if all(any(contains(n, leaf) for n in alone) for s in loop.body for leaf in leaves(s)):
        raise _Unsuitable(f"{line}: the loop does nothing but load")
    is_first = all(loop.node.end_byte <= b.start_byte for b in source.barriers(kernel))
    return _Batch(loop, loads, is_first)


_WAITING = re.compile(
    r"\b(?:while|do|asm|volatile|atomic\w*|__threadfence\w*|__nanosleep|__sync\w*|__shfl\w*|__ldcv)\b"
)
"""By what a thread may come to know that others have stored something."""


def _waiting(source: KernelText, text: str) -> str:
    """By what code may wait for other threads, itself or in functions of the source; "" if it
    does not.
    """
    bodies = {f.name: text_of(f.body) for f in source.functions if not f.is_kernel}
    texts = [text]
    for part in texts:  # Grows by what is called.
        found = _WAITING.search(part)
        if found:
            return found[0]
        texts += [bodies.pop(name) for name in set(re.findall(r"\w+", part)) & bodies.keys()]
    return ""


def _kept_loads(kernel: Function, loop: Loop) -> Iterator[tuple[Access, Node]]:
    """Loads that a turn puts into its own element of a local array, which no other turn changes."""
    for statement in (s for b in loop.body for s in of_type(b, "expression_statement")):
        change = next(iter(named(statement)), None)
        if change is None or change.type != "assignment_expression" or operator_of(change) != "=":
            continue
        target = [a for a in accesses_in(field(change, "left"), kernel) if a.root.is_array]
        value = bare(field(change, "right"))
        loads = [a for a in accesses_in(value, kernel) if a.node == value and not a.root.is_array]
        if is_repeated(statement, loop):
            continue
        if len(target) == len(loads) == 1 and _is_turns_own(kernel, loop, target[0]):
            yield loads[0], statement


def _is_turns_own(kernel: Function, loop: Loop, target: Access) -> bool:
    """Whether an array outside of a loop gets its values by this statement alone."""
    array = target.root
    if array.is_shared or contains(loop.node, array.declaration):
        return False
    stores = [a for a in accesses_in(kernel.body, kernel) if a.root == array and a.is_store]
    return text_of(target.index) == loop.name and [a.node for a in stores] == [target.node]


def _load(
    source: KernelText, kernel: Function, loop: Loop, access: Access, statement: Node
) -> _Load:
    """Raises _Unsuitable where a turn may store what a later one loads, or decides where it is."""
    needs = Slice(source.data, loop.body, statement)
    where = f"line {line_of(access.node)}"
    for node in needs.nodes:
        others = [a for a in accesses_in(node, kernel) if a.node != access.node]
        if any(a.is_load for a in others):
            raise _Unsuitable(f"{where}: its address is in memory itself")
    for name in sorted(needs.names):
        variable = kernel.lookup(name, statement)
        if variable is None or variable.is_array or contains(loop.node, variable.declaration):
            continue
        if not kernel.is_constant(variable):
            raise _Unsuitable(f"{where}: {name} changes")
    reader = IndexReader(kernel)
    own = with_any_turn(reader.read(access.index), (loop.name,))
    for store in (a for s in loop.body for a in accesses_in(s, kernel) if a.is_store):
        if store.root.is_array or not may_alias(source, kernel, access.root, store.root):
            continue
        stored = with_any_turn(reader.read(store.index), (loop.name,))
        same = text_of(store.pointer) == text_of(access.pointer) and stored == own
        if not (same and is_own(own)):
            raise _Unsuitable(f"{where}: another turn may store what it loads")
        if store.node.start_byte < access.node.start_byte:
            raise _Unsuitable(f"{where}: the turn itself stores it before")
    return _Load(access, statement, needs)


def _rewritten(source: KernelText, batches: list[_Batch]) -> str:
    taken = source.names()
    return source.changed([edit for batch in batches for edit in _edits(source, batch, taken)])


def _edits(source: KernelText, batch: _Batch, taken: set[str]) -> Iterator[Edit]:
    """A loop of the loads, before the loop whose turns then have them."""
    turn, bound = batch.loop.name, text_of(batch.loop.bound)
    arrays: list[str] = []
    bodies: dict[str, list[str]] = {}
    for load in batch.loads:
        old = dedented(source.data, load.statement, text_of(load.statement))
        new = old
        if load.declared is not None:
            name = fresh_name(f"{text_of(load.access.pointer)}_turns", taken)
            arrays.append(f"{load.access.element} {name}[{bound}];")
            new = f"{name}[{turn}] = {text_of(load.access.node)};"
            yield put(field(load.declared.declarator, "value"), f"{name}[{turn}]")
        else:
            yield remove_statement(source.data, load.statement)
        around = "\n".join(load.needs.lines)
        assert around.count(old) == 1
        bodies.setdefault(around.replace(old, _LOADS), []).append(new)
    lines = [*arrays]
    for around, loads in bodies.items():
        lines += ["#pragma unroll", f"for (int {turn} = 0; {turn} < {bound}; ++{turn}) {{"]
        lines += [indented_lines(_filled(around, loads)), "}"]
    yield insert_before(source.data, batch.loop.node, lines)


_LOADS = "(the loads)"


def _filled(around: str, loads: list[str]) -> list[str]:
    """What addresses need, with the loads in their place."""
    lines = []
    for line in around.split("\n"):
        blank = line[: len(line) - len(line.lstrip())]
        lines += [blank + load for load in loads] if line.strip() == _LOADS else [line]
    return lines
