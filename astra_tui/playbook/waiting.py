"""Where a kernel has to wait for the launches before its own, which may still run at the same time.

That is above all that it does with global memory which these launches may write or use:
docs/launch-plan.md, "Programmatic dependent launch".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tree_sitter import Node

from astra_tui.cuda_source.effects import PURE_FUNCTIONS, stores_in
from astra_tui.cuda_source.functions import Function, Variable, variables_of
from astra_tui.cuda_source.syntax import (
    bare,
    called_name,
    cast_of,
    contains,
    descendants,
    field,
    of_type,
    operator_of,
    statements_of,
    subscript_of,
    text_of,
)
from astra_tui.model.launch.expression import Name
from astra_tui.model.task import KernelTask
from astra_tui.playbook.accesses import (
    Access,
    accesses_in,
    pointer_in,
    root_of,
    unknown_accesses,
)
from astra_tui.playbook.edits import Edit, replace
from astra_tui.playbook.kernel_text import KernelText

WAIT = "cudaGridDependencySynchronize"
TRIGGER = "cudaTriggerProgrammaticLaunchCompletion"

_RESTRICT = re.compile(rb"\b__restrict(__)?\s*")
_LOADS = frozenset({"__ldg", "__ldcs"})
_HARMLESS = (PURE_FUNCTIONS - _LOADS) | {
    *("__syncthreads", "__syncwarp", "__shfl_sync", "__shfl_xor_sync", "__shfl_down_sync"),
    *("__shfl_up_sync", "__cvta_generic_to_shared", "__popc"),
}
_OPAQUE = frozenset(
    {
        *("return_statement", "goto_statement", "labeled_statement", "throw_statement"),
        *("gnu_asm_expression", "lambda_expression", "new_expression", "delete_expression"),
    }
)
"""What a thread may leave by, so that it would never wait, and what may hide an access."""


def calls_of(node: Node, name: str) -> list[Node]:
    """The calls of a function at or below a node."""
    return [c for c in of_type(node, "call_expression") if called_name(c) == name]


def guarded_by(statement: Node) -> Node | None:
    """The braces of an `if` that has no `else`; None for any other statement."""
    if statement.type != "if_statement" or statement.child_by_field_name("alternative") is not None:
        return None
    body = field(statement, "consequence")
    return body if body.type == "compound_statement" else None


def stable_arguments(task: KernelTask) -> frozenset[str]:
    """The arguments of a task that are complete before any call, so that no launch has to wait."""
    return frozenset(a.name for a in task.args.values() if a.stable)


def is_stable_buffer(
    source: KernelText, kernel: Function, root: Variable, stable: frozenset[str]
) -> bool:
    """Whether every launch passes one of the stable arguments for a parameter."""
    passed = source.passed(kernel, root)
    return bool(passed) and all(isinstance(e, Name) and e.id in stable for e in passed)


def keep_loads_below(
    source: KernelText, kernel: Function, stable: frozenset[str]
) -> Iterator[Edit]:
    """Takes `__restrict__` from what a kernel reads only, and launches before may write.

    With it such loads are `ld.global.nc`, for memory that nothing writes while the kernel runs, and
    ptxas moves some of those above the wait (13.0 and 13.5). What the kernel stores keeps it, so
    that loads still pass stores.
    """
    stored = {root.name for root in _stored(kernel)}
    for parameter in kernel.parameters:
        is_free = parameter.name in stored or is_stable_buffer(source, kernel, parameter, stable)
        if parameter.is_pointer and not is_free:
            start = parameter.declaration.start_byte
            text = source.data[start : parameter.declaration.end_byte]
            for found in _RESTRICT.finditer(text):
                yield Edit(start + found.start(), start + found.end(), "")


def _stored(kernel: Function) -> Iterator[Variable]:
    """The parameters and arrays that a kernel stores to, also as another type."""
    for store in stores_in(kernel.body):
        target = bare(store.child_by_field_name("left") or field(store, "argument"))
        parts = subscript_of(target)
        address = parts[0] if parts else target.child_by_field_name("argument")
        pointer = pointer_in(address, kernel) if address is not None else None
        root = root_of(pointer, kernel) if pointer is not None else None
        if root is not None:
            yield root


def plain_loads(source: KernelText, kernel: Function, stable: frozenset[str]) -> Iterator[Edit]:
    """Writes `__ldg`, which is `ld.global.nc` too, as a plain load where it is not of what is
    stable.
    """
    for call in calls_of(kernel.body, "__ldg"):
        roots = [a.root for a in accesses_in(call, kernel) if contains(a.node, call)]
        if not all(is_stable_buffer(source, kernel, root, stable) for root in roots):
            yield replace(call, f"(*{text_of(field(call, 'arguments'))})")


@dataclass(frozen=True)
class Waiting:
    """One kernel of a source, and the arguments of the task that are complete before any call."""

    source: KernelText
    kernel: Function
    stable: frozenset[str]

    def first(self) -> Node | None:
        """The first statement of the kernel before which all threads that are left have to have
        waited.

        All before it is index arithmetic, shared memory, loads of what is stable, and conditions
        on these by which threads return. It stands at the kernel's outermost level. None for a
        kernel without any.
        """
        return next(filter(self._has_to_wait, statements_of(self.kernel.body)), None)

    def place(self) -> Node | None:
        """The statement above which the wait goes: `first`, or what stands first under its
        condition where the threads that it keeps out use no memory that could be waited for.

        What the condition asks is computed before the wait then, while the launch before runs.
        """
        first = self.first()
        body = guarded_by(first) if first is not None else None
        if first is None or body is None or self._has_to_wait(field(first, "condition")):
            return first
        every = statements_of(self.kernel.body)
        if any(map(self._has_to_wait, every[every.index(first) + 1 :])):
            return first
        return next(iter(statements_of(body)), first)

    def _has_to_wait(self, statement: Node) -> bool:
        if _only_returns(statement):
            return self._has_to_wait(field(statement, "condition"))
        if any(self._is_opaque(node) for node in descendants(statement)):
            return True
        known = list(accesses_in(statement, self.kernel))
        return bool(unknown_accesses(statement, self.kernel)) or not all(map(self._is_free, known))

    def _is_free(self, access: Access) -> bool:
        if access.root.is_array:
            return True
        stable = is_stable_buffer(self.source, self.kernel, access.root, self.stable)
        return stable and not access.is_store

    def _is_opaque(self, node: Node) -> bool:
        if node.type == "call_expression":
            return cast_of(node) is None and not self._is_harmless(node)
        if node.type == "field_expression":
            return operator_of(node) == "->"
        if node.type in ("identifier", "type_identifier"):
            name = text_of(node)
            return name in self._hidden and self.kernel.lookup(name, node) is None
        return node.type in _OPAQUE

    def _is_harmless(self, call: Node) -> bool:
        if called_name(call) in _LOADS:
            loads = accesses_in(call, self.kernel)
            return any(contains(a.node, call) for a in loads)
        return called_name(call) in _HARMLESS

    @cached_property
    def _hidden(self) -> frozenset[str]:
        """Names that may stand for accesses."""
        root, functions = self.source.root, (f.name for f in self.source.functions)
        globals_, types = _globals(self.source), _types_with_functions(root)
        return frozenset({*macros_of(root), *functions, *globals_, *types})


def _only_returns(statement: Node) -> bool:
    """Whether a statement is `if (...) return;`."""
    if statement.type != "if_statement" or statement.child_by_field_name("alternative") is not None:
        return False
    body = field(statement, "consequence")
    done = statements_of(body) if body.type == "compound_statement" else [body]
    return [s.type for s in done] == ["return_statement"]


def macros_of(root: Node) -> Iterator[str]:
    """The macros of a source, but for those that are a number."""
    for macro in of_type(root, "preproc_function_def"):
        yield text_of(field(macro, "name"))
    for macro in of_type(root, "preproc_def"):
        value = text_of(macro.child_by_field_name("value")).strip()
        if not re.fullmatch(r"\(?[-+]?\.?\d[\w.]*\)?", value):
            yield text_of(field(macro, "name"))


def _types_with_functions(root: Node) -> Iterator[str]:
    for type_ in of_type(root, "struct_specifier", "class_specifier", "union_specifier"):
        if next(of_type(type_, "function_definition"), None) is not None:
            yield text_of(type_.child_by_field_name("name"))


def _globals(source: KernelText) -> Iterator[str]:
    bodies = [f.node for f in source.functions]
    for declaration in of_type(source.root, "declaration"):
        if any(contains(body, declaration) for body in bodies):
            continue
        if "__device__" in text_of(declaration) or "__managed__" in text_of(declaration):
            yield from (v.name for v in variables_of(declaration))
