"""The type of an arithmetic expression, as far as a rewrite has to know it."""

from __future__ import annotations

import re

from tree_sitter import Node

from astra_tui.cuda_source.functions import TYPE, Function
from astra_tui.cuda_source.syntax import (
    bare,
    called_name,
    cast_of,
    field,
    operator_of,
    subscript_of,
    text_of,
)
from astra_tui.model.dtypes import OF_SPELLING

INTEGER_TYPES = frozenset(name for name, dtype in OF_SPELLING.items() if not dtype.is_float)
UNKNOWN = ""
INTEGER = "integer"
_FLOAT_CALL = re.compile(r"(__)?\w+f|rsqrt\w*|__half2float|__bfloat162float|__f\w+_r[nzud]")
_INTEGER_CALL = ("isinf", "isnan", "isfinite", "signbit", "sizeof")
_BUILTIN_FIELDS = ("threadIdx", "blockIdx", "blockDim", "gridDim")


def type_of(node: Node, function: Function) -> str:
    """Such as "float", "double", "integer" or another type's name; "" where it is not known."""
    node = bare(node)
    cast = cast_of(node)
    if cast is not None:
        return named_type(cast[0])
    match node.type:
        case "number_literal":
            return _literal(text_of(node))
        case "identifier":
            return _variable(node, function)
        case "field_expression":
            inside = text_of(field(node, "argument"))
            return INTEGER if inside in _BUILTIN_FIELDS else UNKNOWN
        case "subscript_expression":
            found = subscript_of(node)
            return _variable(found[0], function) if found else UNKNOWN
        case "unary_expression":
            return (
                INTEGER if operator_of(node) == "!" else type_of(field(node, "argument"), function)
            )
        case "binary_expression":
            return _binary(node, function)
        case "conditional_expression":
            branches = (field(node, "consequence"), field(node, "alternative"))
            return _common(*(type_of(b, function) for b in branches))
        case "call_expression":
            return _call(called_name(node))
    return UNKNOWN


def named_type(name: str) -> str:
    """A declared type in the words of `type_of`."""
    words = " ".join(re.sub(r"\b(const|volatile)\b", "", name).split())
    return INTEGER if words in INTEGER_TYPES else words


def is_float(node: Node, function: Function) -> bool:
    """Whether an expression is a float32 beyond caveat."""
    return type_of(node, function) == "float"


def _literal(text: str) -> str:
    if re.fullmatch(r"0[xX][0-9a-fA-F']+[uUlL]*|[0-9']+[uUlL]*", text):
        return INTEGER
    return "float" if text[-1] in "fF" else "double"


def _variable(node: Node, function: Function) -> str:
    if node.type != "identifier":
        return UNKNOWN
    if text_of(node) == "INFINITY":
        return "float"
    variable = function.lookup(text_of(node), node)
    if variable is None:
        values = {p.name for p in function.template if p.kind != TYPE}
        return INTEGER if text_of(node) in values else UNKNOWN
    if variable.type == "auto":
        return type_of(variable.value, function) if variable.value is not None else UNKNOWN
    return named_type(variable.type)


def _binary(node: Node, function: Function) -> str:
    if operator_of(node) in ("<", ">", "<=", ">=", "==", "!=", "&&", "||", "<<", ">>", "&", "|"):
        return INTEGER
    sides = (field(node, "left"), field(node, "right"))
    return _common(*(type_of(s, function) for s in sides))


def _common(left: str, right: str) -> str:
    known = ("double", "float", INTEGER)
    if left not in known or right not in known:
        return UNKNOWN
    return min(left, right, key=known.index)


def _call(name: str) -> str:
    if name in _INTEGER_CALL:
        return INTEGER
    return "float" if _FLOAT_CALL.fullmatch(name) else UNKNOWN
