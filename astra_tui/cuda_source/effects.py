"""What evaluating a piece of code does: what it reads and writes, and which names it takes."""

from __future__ import annotations

from tree_sitter import Node

from astra_tui.cuda_source.functions import is_written
from astra_tui.cuda_source.syntax import (
    arguments_of,
    bare,
    called_name,
    cast_of,
    field,
    identifiers_in,
    of_type,
    operator_of,
    text_of,
)

BUILTIN_OBJECTS = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})

_FLOAT_FUNCTIONS = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "cbrt",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
    "atan2",
    "pow",
    "fabs",
    "floor",
    "ceil",
    "round",
    "trunc",
    "rint",
    "fmax",
    "fmin",
    "fma",
    "fmod",
    "copysign",
    "erf",
    "erfc",
]
_INTRINSICS = [
    "__expf",
    "__exp10f",
    "__logf",
    "__log2f",
    "__log10f",
    "__powf",
    "__sinf",
    "__cosf",
    "__tanf",
    "__fdividef",
    "__frcp_rn",
    "__frcp_rz",
    "__fsqrt_rn",
    "__frsqrt_rn",
    "__fmaf_rn",
    "__fadd_rn",
    "__fmul_rn",
    "__fdiv_rn",
    "__saturatef",
    "__half2float",
    "__float2half",
    "__float2half_rn",
    "__bfloat162float",
    "__float2bfloat16",
    "__float2bfloat16_rn",
    "__int_as_float",
    "__float_as_int",
    "__ldg",
    "__ldcs",
]
PURE_FUNCTIONS = frozenset(
    {
        *_FLOAT_FUNCTIONS,
        *(f"{name}f" for name in _FLOAT_FUNCTIONS),
        *_INTRINSICS,
        *("min", "max", "abs", "isinf", "isnan", "isfinite", "signbit", "sizeof"),
    }
)
"""CUDA's functions without effects; the result depends on the arguments alone (or on memory)."""


def written_names(node: Node) -> set[str]:
    """The plain variables that something assigns to, or whose address it takes."""
    return {text_of(n) for n in of_type(node, "identifier") if is_written(n)}


def stores_in(node: Node) -> list[Node]:
    """The assignments and increments of memory: the left side is no plain name."""
    found = []
    for change in of_type(node, "assignment_expression", "update_expression"):
        target = bare(change.child_by_field_name("left") or field(change, "argument"))
        if target.type != "identifier":
            found.append(change)
    return found


def is_pure(node: Node) -> bool:
    """Whether evaluating an expression changes nothing and calls only what is known."""
    for part in of_type(
        node, "assignment_expression", "update_expression", "call_expression", "new_expression",
        "lambda_expression", "delete_expression",
    ):  # fmt: skip
        if part.type != "call_expression":
            return False
        if cast_of(part) is None and called_name(part) not in PURE_FUNCTIONS:
            return False
    return True


def reads_memory(node: Node) -> list[Node]:
    """The loads in an expression: `a[i]`, `*p`, and loads through intrinsics."""
    found = list(of_type(node, "subscript_expression"))
    for part in of_type(node, "pointer_expression"):
        if operator_of(part) == "*":
            found.append(part)
    found += [
        c for c in of_type(node, "call_expression")
        if called_name(c) in ("__ldg", "__ldcs") and arguments_of(c)
    ]  # fmt: skip
    return found


def fresh_name(wanted: str, taken: set[str]) -> str:
    """A name that the source does not use, made from a wanted one; it counts as taken then."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name


def all_names(root: Node) -> set[str]:
    """Every identifier, type and field name of a source."""
    kinds = ("type_identifier", "field_identifier", "namespace_identifier", "primitive_type")
    return identifiers_in(root) | {text_of(n) for n in of_type(root, *kinds)}
