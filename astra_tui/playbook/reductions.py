"""What a block does with a value a warp: lanes, places in shared memory, shuffles by xor."""

from __future__ import annotations

from collections.abc import Callable

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, Variable
from astra_tui.cuda_source.indices import THREAD, Division, IndexReader, Polynomial
from astra_tui.cuda_source.polynomial import constant
from astra_tui.cuda_source.syntax import (
    arguments_of,
    bare,
    called_name,
    field,
    identifiers_in,
    named,
    of_type,
    operator_of,
    statements_of,
    subscript_of,
    text_of,
)
from astra_tui.model.occupancy import WARP
from astra_tui.playbook.loops import halves, loops_of

_SHUFFLES = ("__shfl_xor_sync", "shfl_xor_sync")


class Lanes:
    """Reads what a function says of warps and lanes."""

    def __init__(self, function: Function):
        self._function = function
        self._reader = IndexReader(function)

    def read(self, index: Node) -> Polynomial:
        """The polynomial of an index."""
        return self._reader.read(index)

    def _is(self, operator: str, index: Polynomial) -> bool:
        """Whether an index is a thread's warp ("/"), or its lane ("%")."""
        wanted = Division(operator, THREAD, constant(WARP))
        atoms = [self._reader.divisions.get(atom) for atom in index.atoms()]
        return atoms == [wanted] and len(index.terms) == 1 and set(index.terms.values()) == {1}

    def warp(self, index: Polynomial) -> bool:
        """Whether an index is a thread's warp."""
        return self._is("/", index)

    def first(self, index: Polynomial) -> bool:
        """Whether an index is that of the first place."""
        return index == constant(0)

    def store_of(
        self, statement: Node, is_place: Callable[[Polynomial], bool]
    ) -> tuple[Variable, Variable] | None:
        """The shared array and the local of `array[place] = local`, or by the first lane alone."""
        if statement.type == "if_statement" and self._is_first_lane(statement):
            inner = statements_of(field(statement, "consequence"))
            statement = inner[0] if len(inner) == 1 else statement
        change = assignment(statement)
        target = subscript_of(field(change, "left")) if change is not None else None
        if change is None or target is None:
            return None
        if not is_place(self.read(target[1])):
            return None
        array = self._function.lookup(text_of(target[0]), target[0])
        right = bare(field(change, "right"))
        value = self._function.lookup(text_of(right), right) if right.type == "identifier" else None
        if array is None or value is None or not (array.is_array and array.is_shared):
            return None
        return (array, value) if value.is_scalar and value.type == array.type else None

    def _is_first_lane(self, guard: Node) -> bool:
        condition = bare(field(guard, "condition"))
        alone = guard.child_by_field_name("alternative") is None
        if condition.type != "binary_expression" or operator_of(condition) != "==" or not alone:
            return False
        left, right = (self.read(field(condition, side)) for side in ("left", "right"))
        return self._is("%", left) and right == constant(0)

    def is_filled(self, statement: Node, array: Variable, value: Variable) -> bool:
        """Whether it is `value = lane < warps ? array[lane] : number;`."""
        change = assignment(statement)
        if change is None or text_of(field(change, "left")) != value.name:
            return False
        choice = bare(field(change, "right"))
        if choice.type != "conditional_expression":
            return False
        condition, taken = bare(field(choice, "condition")), bare(field(choice, "consequence"))
        parts = subscript_of(taken)
        if condition.type != "binary_expression" or operator_of(condition) != "<" or parts is None:
            return False
        lane, warps = (self.read(field(condition, side)) for side in ("left", "right"))
        of_thread = any("threadIdx" in self._reader.names_of.get(a, {a}) for a in warps.atoms())
        of_array = self._function.lookup(text_of(parts[0]), parts[0]) == array
        is_number = bare(field(choice, "alternative")).type == "number_literal"
        is_lane = self._is("%", lane) and self._is("%", self.read(parts[1]))
        return is_lane and of_array and is_number and not of_thread


def assignment(statement: Node) -> Node | None:
    """The assignment that a statement is, with `=` alone; None for any other."""
    inner = named(statement)
    if statement.type != "expression_statement" or not inner:
        return None
    plain = inner[0].type == "assignment_expression" and operator_of(inner[0]) == "="
    return inner[0] if plain else None


def is_butterfly(kernel: Function, statement: Node, value: Variable) -> bool:
    """Whether every lane combines a value with those of all others, as by `value += shuffle`."""
    loop = next((one for one in loops_of(kernel) if one.node == statement), None)
    if loop is None or not halves(loop) or len(loop.body) != 1:
        return False
    if loop.start_form(IndexReader(kernel)) != constant(WARP // 2):
        return False
    calls = list(of_type(loop.body[0], "call_expression"))
    changes = list(of_type(loop.body[0], "assignment_expression"))
    # A shuffle's fourth argument parts the warp.
    shuffles = [c for c in calls if called_name(c) in _SHUFFLES and len(arguments_of(c)) < 4]
    if len(shuffles) != 1 or len(changes) != 1:
        return False
    called = {name for c in calls for name in identifiers_in(field(c, "function"))}
    names = identifiers_in(loop.body[0]) - called
    return names == {value.name, loop.name} and text_of(field(changes[0], "left")) == value.name
