"""What a loop computes again every iteration although it cannot change."""

from __future__ import annotations

from dataclasses import dataclass, field

from tree_sitter import Node

from astra_tui.cuda_source.effects import PURE_FUNCTIONS, is_pure, reads_memory, written_names
from astra_tui.cuda_source.functions import Function, Variable, variables_of
from astra_tui.cuda_source.syntax import (
    called_name,
    cast_of,
    contains,
    of_type,
    operator_of,
    text_of,
)
from astra_tui.cuda_source.syntax import (
    field as child,
)
from astra_tui.cuda_source.types import type_of
from astra_tui.playbook.accesses import accesses_in, may_alias, unknown_accesses
from astra_tui.playbook.kernel_text import KernelText

_HARMLESS = PURE_FUNCTIONS | {
    *("__syncthreads", "__syncwarp", "__shfl_sync", "__shfl_xor_sync", "__shfl_down_sync"),
    *("__shfl_up_sync",),
}
_CHEAP = frozenset({"min", "max", "abs", "sizeof", "fabsf", "fmaxf", "fminf", "isinf", "isnan"})


@dataclass
class Invariance:
    """Which expressions of one loop have the same value every iteration.

    `lifted` are the names of declarations inside of the loop that move out of it.
    """

    source: KernelText
    function: Function
    loop: Node
    lifted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.written = written_names(self.loop)
        self.stores = [a for a in accesses_in(self.loop, self.function) if a.is_store]
        self.unknown = bool(_unknown_stores(self.loop, self.function)) or _has_effects(self.loop)

    def holds(self, expression: Node) -> bool:
        """Whether an expression has no effects and the same value every iteration."""
        if not is_pure(expression):
            return False
        names = (n for n in of_type(expression, "identifier"))
        return all(map(self._name_holds, names)) and self._loads_hold(expression)

    def _name_holds(self, identifier: Node) -> bool:
        name = text_of(identifier)
        variable = self.function.lookup(name, identifier)
        if variable is None:
            return True
        if contains(self.loop, variable.declaration):
            return name in self.lifted
        return name not in self.written

    def _loads_hold(self, expression: Node) -> bool:
        if not reads_memory(expression):
            return True
        if self.unknown or unknown_accesses(expression, self.function):
            return False
        return not any(
            may_alias(self.source, self.function, load.root, store.root)
            for load in accesses_in(expression, self.function)
            for store in self.stores
        )


def _unknown_stores(node: Node, function: Function) -> list[Node]:
    """Stores whose buffer is not known."""
    return [n for n in unknown_accesses(node, function) if _is_stored(n)]


def _is_stored(access: Node) -> bool:
    parent = access.parent
    assigned = parent is not None and parent.type == "assignment_expression"
    return assigned and parent is not None and parent.child_by_field_name("left") == access


def _has_effects(node: Node) -> bool:
    """Whether something is called that may write memory."""
    calls = of_type(node, "call_expression")
    return any(cast_of(c) is None and called_name(c) not in _HARMLESS for c in calls)


def can_speculate(expression: Node, function: Function) -> bool:
    """Whether an expression may be evaluated where the source would not have done so.

    Loads may leave their buffer, and an integer division may divide by zero.
    """
    if reads_memory(expression):
        return False
    divisions = (b for b in of_type(expression, "binary_expression") if operator_of(b) in "/%")
    return all(type_of(d, function) in ("float", "double") for d in divisions)


def is_costly(expression: Node, function: Function) -> bool:
    """Whether repeating an expression costs: a function, a division or a load."""
    if reads_memory(expression):
        return True
    for call in of_type(expression, "call_expression"):
        if cast_of(call) is None and called_name(call) not in _CHEAP:
            return True
    divisions = (b for b in of_type(expression, "binary_expression") if operator_of(b) == "/")
    return any(type_of(d, function) in ("float", "double") for d in divisions)


def plain_locals(declaration: Node) -> list[Variable] | None:
    """The variables of a declaration of initialised scalars, None for any other."""
    if declaration.type != "declaration":
        return None
    found = list(variables_of(declaration))
    if any(c.type == "storage_class_specifier" for c in declaration.children):
        return None
    plain = all(v.is_scalar and not v.is_shared and v.value is not None for v in found)
    return found if found and plain else None


def assignment_to(statement: Node) -> tuple[str, list[Node]] | None:
    """The name and the expressions of `x = v;` or `if (c) x = v;`, None for anything else."""
    conditions: list[Node] = []
    if statement.type == "if_statement":
        if statement.child_by_field_name("alternative") is not None:
            return None
        conditions = [child(statement, "condition")]
        statement = child(statement, "consequence")
    if statement.type == "compound_statement":
        inner = [c for c in statement.named_children if c.type != "comment"]
        if len(inner) != 1:
            return None
        statement = inner[0]
    if statement.type != "expression_statement" or not statement.named_children:
        return None
    change = statement.named_children[0]
    if change.type != "assignment_expression":
        return None
    left = child(change, "left")
    if left.type != "identifier":
        return None
    return text_of(left), [*conditions, child(change, "right")]
