"""Small steps through the syntax tree of a CUDA source."""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_cuda.language())

LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})


_UNKNOWN_TO_GRAMMAR = re.compile(rb"__align__\s*\(\s*\w+\s*\)")


def parse(source: bytes) -> Node:
    """The root of a source's tree; what the grammar does not understand is in ERROR nodes.

    Alignments of variables are blanked out for the grammar, which does not know them; places stay.
    """
    readable = _UNKNOWN_TO_GRAMMAR.sub(lambda m: b" " * len(m[0]), source)
    return Parser(_LANGUAGE).parse(readable).root_node


def text_of(node: Node | None) -> str:
    """The source text of a node, "" for none."""
    return (node.text or b"").decode(errors="replace") if node is not None else ""


def one_line(node: Node | None, most: int = 70) -> str:
    """A node's text for a sentence: blanks joined, cut after `most` characters."""
    joined = " ".join(text_of(node).split())
    return joined if len(joined) <= most else joined[: most - 3] + "..."


def line_of(node: Node) -> int:
    """The line where a node begins, from 1."""
    return int(node.start_point[0]) + 1


def last_line_of(node: Node) -> int:
    """The line where a node ends, from 1."""
    return int(node.end_point[0]) + 1


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, in the order of the text."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


def of_type(node: Node, *types: str) -> Iterator[Node]:
    """The nodes of some types at or below a node, in the order of the text."""
    return (n for n in walk(node) if n.type in types)


def ancestors(node: Node) -> Iterator[Node]:
    """The nodes above, from the inside out."""
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def contains(outer: Node, inner: Node) -> bool:
    """Whether a node lies within another, or is it."""
    return bool(outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte)


def field(node: Node, name: str) -> Node:
    """A child that the grammar always gives."""
    child = node.child_by_field_name(name)
    assert child is not None, f"{node.type} without {name}"
    return child


def named(node: Node) -> list[Node]:
    """The named children, without comments."""
    return [c for c in node.named_children if c.type != "comment"]


def bare(node: Node) -> Node:
    """An expression without the parentheses around it."""
    while node.type in ("parenthesized_expression", "condition_clause") and len(named(node)) == 1:
        node = named(node)[0]
    return node


def cast_of(node: Node) -> tuple[str, Node] | None:
    """The type and the operand of `(T)x`, `T(x)` for a built-in T, and `static_cast<T>(x)`."""
    if node.type == "cast_expression":
        return text_of(field(node, "type")), field(node, "value")
    if node.type != "call_expression" or len(arguments_of(node)) != 1:
        return None
    function = field(node, "function")
    if function.type == "template_function":
        if text_of(field(function, "name")) not in ("static_cast", "reinterpret_cast"):
            return None
        return text_of(field(function, "arguments"))[1:-1].strip(), arguments_of(node)[0]
    if function.type == "parenthesized_expression" and bare(function).type == "identifier":
        # The grammar takes `(T)(x)` for a call: it does not know that T is a type.
        return text_of(bare(function)), arguments_of(node)[0]
    if function.type == "primitive_type" or re.fullmatch(r"u?int\d+_t", text_of(function)):
        return text_of(function), arguments_of(node)[0]
    return None


def arguments_of(call: Node) -> list[Node]:
    """The arguments of a call."""
    listed = call.child_by_field_name("arguments")
    return named(listed) if listed is not None else []


def called_name(call: Node) -> str:
    """The name of the function that is called, without namespaces and template arguments."""
    name = text_of(call.child_by_field_name("function")).partition("<")[0]
    return name.rpartition("::")[2].strip()


def operator_of(node: Node) -> str:
    """The operator of a binary, unary, update or assignment expression."""
    return text_of(node.child_by_field_name("operator"))


def subscript_of(node: Node) -> tuple[Node, Node] | None:
    """The pointer and the index of `a[i]`, None for anything else."""
    if node.type != "subscript_expression":
        return None
    indices = named(field(node, "indices"))
    return (field(node, "argument"), indices[0]) if len(indices) == 1 else None


def integer_of(node: Node) -> int | None:
    """The value of an integer literal, None for anything else."""
    if node.type != "number_literal":
        return None
    match = re.fullmatch(r"(0[xX][0-9a-fA-F']+|[1-9][0-9']*|0)[uUlL]*", text_of(node))
    return int(match[1].replace("'", ""), 0) if match else None


def statements_of(body: Node) -> list[Node]:
    """The statements of a block; a body without braces is a single one."""
    return named(body) if body.type == "compound_statement" else [body]


def is_barrier(statement: Node) -> bool:
    """Whether a statement is `__syncthreads();`."""
    if statement.type != "expression_statement" or not named(statement):
        return False
    call = named(statement)[0]
    return call.type == "call_expression" and called_name(call) == "__syncthreads"


def identifiers_in(node: Node) -> set[str]:
    """Every name that is mentioned, CUDA's own included."""
    return {text_of(n) for n in of_type(node, "identifier")}


def same_code(a: Node, b: Node) -> bool:
    """Whether two pieces of code consist of the same tokens."""
    return _tokens(a) == _tokens(b)


def _tokens(node: Node) -> list[str]:
    return [text_of(n) for n in walk(node) if not n.children and n.type != "comment"]
