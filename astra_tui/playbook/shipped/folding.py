"""Kernels without what their launches settle: branches that none of them takes, and constants.

Libraries compile one kernel for many calls, by template arguments and by arguments that are null or
zero. Where all launches of a source agree on one, the rest is in the way of who reads the kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function, Variable, variables_of
from astra_tui.cuda_source.syntax import (
    bare,
    contains,
    field,
    integer_of,
    integer_value,
    named,
    of_type,
    operator_of,
    text_of,
)
from astra_tui.cuda_source.types import INTEGER_TYPES, type_of
from astra_tui.model.launch import Launch
from astra_tui.model.launch.expression import Expression, Integer, Name
from astra_tui.model.launch.plan import Verbatim
from astra_tui.model.launch.scope import NULL, TRUTH_VALUES
from astra_tui.playbook.edits import (
    Edit,
    dedented,
    indentation,
    indented,
    outermost,
    remove_statement,
)
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.kernel_text import KernelText

_TRUTH: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_SUFFIXES = {
    **dict.fromkeys(("int", "int32_t", "bool"), ""),
    **dict.fromkeys(("unsigned", "unsigned int", "uint32_t"), "u"),
    **dict.fromkeys(("int64_t", "long long", "long long int"), "LL"),
    **dict.fromkeys(("uint64_t", "unsigned long long", "size_t"), "ULL"),
}
"""What makes a number of a type."""


def folded(source: KernelText) -> str:
    """The source with each kernel as all of its launches run it."""
    while True:
        settled = [_Settled(source, kernel) for kernel in source.kernels]
        edits = [e for kernel in settled for e in kernel.branches()]
        edits = edits or [e for kernel in settled for e in kernel.constants()]
        if not edits:
            return source.text
        source = KernelText.read(source.changed(edits))


@dataclass(frozen=True)
class _Settled:
    """A kernel, and what its launches say of the values in it."""

    source: KernelText
    kernel: Function

    def branches(self) -> Iterator[Edit]:
        """The edits that leave of each decided condition the side that is taken."""
        decided = outermost(
            node for node in of_type(self.kernel.body, "if_statement", "conditional_expression")
            if self.value(field(node, "condition")) is not None
        )  # fmt: skip
        for node in decided:
            taken = node.child_by_field_name(
                "consequence" if self.value(field(node, "condition")) else "alternative"
            )
            if node.type == "conditional_expression":
                assert taken is not None
                yield put(node, _operand(taken))
            elif taken is None:
                yield self._without(node)
            else:
                inner = named(taken)[-1] if taken.type == "else_clause" else taken
                yield put(node, self._statements(node, inner))

    def constants(self) -> Iterator[Edit]:
        """The edits that put arguments which are numbers into the sums and products with them, one
        in each: what is left is read again.
        """
        for node in outermost(of_type(self.kernel.body, "binary_expression")):
            found = (self._constant(use) for use in of_type(node, "identifier"))
            edit = next((e for e in found if e is not None), None)
            if edit is not None:
                yield edit

    def _constant(self, use: Node) -> Edit | None:
        variable, part = self.kernel.lookup(text_of(use), use), use.parent
        if variable is None or not variable.is_parameter or not variable.is_scalar:
            return None
        number = self.value(use)
        if number is None or part is None or part.type != "binary_expression":
            return None
        other = next(c for c in named(part) if c != use)
        if operator_of(part) == "*" and number == 1 and _same_type(variable, other, self.kernel):
            return put(part, _operand(other))
        suffix = _SUFFIXES.get(variable.type)
        return None if suffix is None else put(use, f"{number}{suffix}")

    def value(self, node: Node) -> int | None:
        """What an expression is in all launches: an integer, 0 for null; None where it varies."""
        node = bare(node)
        match node.type:
            case "true" | "false":
                return int(node.type == "true")
            case "null":
                return 0
            case "identifier":
                return self._name(node)
            case "unary_expression" if operator_of(node) == "!":
                inner = self.value(field(node, "argument"))
                return None if inner is None else int(not inner)
            case "binary_expression":
                return self._binary(node)
        return integer_of(node)

    def _binary(self, node: Node) -> int | None:
        sides = (self.value(field(node, "left")), self.value(field(node, "right")))
        match operator_of(node):
            case "&&":
                return 0 if 0 in sides else (None if None in sides else 1)
            case "||":
                return 1 if any(sides) else (None if None in sides else 0)
        left, right = sides
        compare = _TRUTH.get(operator_of(node))
        if compare is None or left is None or right is None:
            return None
        return int(compare(left, right))

    def _name(self, node: Node) -> int | None:
        variable = self.kernel.lookup(text_of(node), node)
        if variable is None:
            return self._template(text_of(node))
        is_value = variable.is_scalar and variable.type in INTEGER_TYPES | {"bool", "auto"}
        if not (is_value or variable.is_pointer) or not self.kernel.is_constant(variable):
            return None
        if variable.is_parameter:
            at = [p.name for p in self.kernel.parameters].index(variable.name)
            return _agreed(_number(launch.value_at(at)) for launch in self._launches)
        is_known = variable.value is not None and not contains(variable.value, node)
        return self.value(variable.value) if is_known and variable.value is not None else None

    def _template(self, name: str) -> int | None:
        for number, parameter in enumerate(self.kernel.template):
            if parameter.name == name:
                return _agreed(
                    _number(each.template_args[number])
                    if number < len(each.template_args)
                    else _literal(parameter.default)
                    for each in self._launches
                )
        return None

    @property
    def _launches(self) -> list[Launch]:
        return list(self.source.launches_of(self.kernel))

    def _without(self, node: Node) -> Edit:
        parent = node.parent
        if parent is not None and parent.type == "compound_statement":
            return remove_statement(self.source.data, node)
        return put(node, "{}")

    def _statements(self, node: Node, taken: Node) -> str:
        """The side that is taken; without braces where its names mean nothing else around it."""
        data, indent = self.source.data, indentation(self.source.data, node)
        if taken.type != "compound_statement":
            return text_of(taken)
        parent, statements = node.parent, named(taken)
        opens = parent is not None and parent.type == "compound_statement"
        if not opens or self._names_of(statements) & self._names_around(node):
            return indented(dedented(data, node, text_of(taken)), indent).lstrip()
        inner = data[taken.start_byte + 1 : taken.end_byte - 1].decode().strip("\n").rstrip()
        if not statements:
            return "{}"
        deeper = indentation(data, statements[0])
        lines = [line.removeprefix(deeper) for line in inner.strip().split("\n")]
        return indented("\n".join(lines), indent).lstrip()

    def _names_of(self, statements: list[Node]) -> set[str]:
        declared = [s for s in statements if s.type == "declaration"]
        names = {v.name for s in declared for v in variables_of(s)}
        aliases = (s for s in statements if s.type == "alias_declaration")
        return names | {text_of(field(alias, "name")) for alias in aliases}

    def _names_around(self, node: Node) -> set[str]:
        kinds = ("identifier", "type_identifier")
        around = (n for n in of_type(self.kernel.node, *kinds) if not contains(node, n))
        return set(map(text_of, around))


def _agreed(values: Iterator[int | None]) -> int | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _number(given: Expression | Verbatim | None) -> int | None:
    match given:
        case Integer(value=value):
            return value
        case Verbatim(text=text):
            return _literal(text)
        case Name(id=name):
            return 0 if name == NULL else _literal(name)
    return None


def _literal(text: str) -> int | None:
    return int(TRUTH_VALUES[text]) if text in TRUTH_VALUES else integer_value(text)


def _same_type(factor: Variable, other: Node, kernel: Function) -> bool:
    """Whether a product has the type of one of its factors without the other."""
    other = bare(other)
    declared = kernel.lookup(text_of(other), other) if other.type == "identifier" else None
    if declared is not None and declared.type == factor.type:
        return True
    return type_of(other, kernel) in ("float", "double")


def _operand(node: Node) -> str:
    """An expression in the place of one that it was part of."""
    node = bare(node)
    kinds = ("identifier", "number_literal", "call_expression", "subscript_expression")
    return text_of(node) if node.type in kinds else f"({text_of(node)})"
