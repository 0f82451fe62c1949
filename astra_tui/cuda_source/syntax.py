"""Small steps through the syntax tree of a CUDA source, as tree-sitter gives it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser, Query, QueryCursor

_LANGUAGE = Language(tree_sitter_cuda.language())
_ERROR = 0xFFFF
"""The number of what the grammar does not understand."""

LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})

_CASTS = {"static_cast", "reinterpret_cast", "const_cast"}
_BUILT_IN = re.compile(r"u?int\d+_t|size_t")
_JOINS = {"&&", "||", "and", "or"}
_MAX_READINGS = 16
"""Of a text in which one misreading hides another; some sources are written to be slow."""

_NAME_TYPES = ("identifier", "field_identifier", "type_identifier")


_UNKNOWN_TO_GRAMMAR = re.compile(
    rb"__align__\s*\((?:[^()]|\([^()]*\))*\)|(?<=\])\s*__device__(?=\s*\()"
)
_BOUNDS = re.compile(rb"(?<=__global__)\s+\w{3,}_LAUNCH_BOUNDS\s*\((?=[^()]*\)\s*void\b)")
"""A macro that gives a kernel's launch bounds, up to its arguments."""
_CAST_TO_POINTER = (
    "(cast_expression type: (type_descriptor declarator: (abstract_pointer_declarator) @pointer))"
)


@lru_cache(maxsize=2)
def parse(text: str) -> Node:
    """The root of a text's tree; what the grammar does not understand is in ERROR nodes.

    Kept for the last texts, which steps that change nothing hand on as they are. Alignments, and
    `__device__` of a lambda, are blanked out for the grammar, which does not know them, a macro for
    launch bounds reads as these, and `(a * (b)) + c` is no cast of `+c`; places stay.
    """
    return _parsed(text.encode(errors="replace"))


def _parsed(data: bytes) -> Node:
    readable = _UNKNOWN_TO_GRAMMAR.sub(lambda m: b" " * len(m[0]), data)
    readable = _BOUNDS.sub(lambda m: b" __launch_bounds__(".rjust(len(m[0])), readable)
    shown = bytearray(readable)
    for _ in range(_MAX_READINGS):
        root = Parser(_LANGUAGE).parse(shown).root_node
        stars = list(_stars_of_products(root))
        if not stars:
            break
        for place in stars:
            shown[place] = ord("%")  # Which no type has; the precedence is the same.
    shown[:] = readable  # The tree tells its text from this.
    return root


def _stars_of_products(root: Node) -> Iterator[int]:
    """Where the grammar takes `a * (b)` for a function with a pointer as its result."""
    for pointer in QueryCursor(_casts_to_pointers()).captures(root).get("pointer", []):
        inner: Node | None = pointer
        while inner is not None and inner.type == "abstract_pointer_declarator":
            inner = inner.child_by_field_name("declarator")
        if inner is not None and inner.type == "abstract_function_declarator":
            yield pointer.start_byte


@cache
def _casts_to_pointers() -> Query:
    """Made where a text is parsed: that takes half as long as all imports here."""
    return Query(_LANGUAGE, _CAST_TO_POINTER)


def parse_comparisons(text: str) -> Node:
    """The tree of a text for a reader of conditions: `a < b && c > (d)` is no call of a template.

    The grammar cannot know which names are templates. Where arguments of what this text does not
    declare as one would be joined by `&&` or `||`, the `<` before them is another sign of
    comparison in the tree; all else, and every place, is as it is written.
    """
    data = bytearray(text.encode(errors="replace"))
    root = _parsed(bytes(data))
    templates: set[str] = set()
    for _ in range(_MAX_READINGS):
        misread = []
        templates |= set(_templates(root))
        # Not by Node.parent, which goes down from the root each time.
        stack = [(root, False)]
        while stack:
            node, is_qualified = stack.pop()
            arguments = node.child_by_field_name("arguments")
            if arguments is not None and not is_qualified:
                name = text_of(node.child_by_field_name("name"))
                if name not in templates and _joins_comparisons(arguments):
                    misread.append(arguments.start_byte)
            inside = node.type == "qualified_identifier"
            stack += [(child, inside) for child in node.named_children]
        if not misread:
            break
        for place in misread:
            data[place : place + 1] = b">"
        root = _parsed(bytes(data))
    return root


def _templates(root: Node) -> Iterator[str]:
    """The names that a text declares as templates."""
    for declaration in descendants(root):
        if declaration.type == "template_declaration":
            for node in declaration.named_children:
                yield declared_name(node.child_by_field_name("declarator"))
                yield text_of(node.child_by_field_name("name"))


def _joins_comparisons(arguments: Node) -> bool:
    return arguments.type == "template_argument_list" and any(
        n.type == "binary_expression" and text_of(n.child_by_field_name("operator")) in _JOINS
        for n in arguments.named_children
    )


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Node | None:
    """The tree of one C++ expression, or None when the text is something else."""
    root = _parsed(f"auto _ = (\n{text}\n);".encode(errors="replace"))
    declarator = next((n for n in descendants(root) if n.type == "init_declarator"), None)
    value = declarator.child_by_field_name("value") if declarator else None
    if root.has_error or root.named_child_count != 1 or value is None:
        return None
    whole = value.type == "parenthesized_expression" and value.named_child_count == 1
    return value.named_children[0] if whole else None


def text_of(node: Node | None) -> str:
    """The source text of a node, "" for none."""
    return (node.text or b"").decode(errors="replace") if node is not None else ""


def one_line(text: str, most: int = 60) -> str:
    """A text for a message: blanks joined, cut after `most` characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= most else joined[: most - 3] + "..."


def line_of(node: Node) -> int:
    """The line where a node begins, from 1."""
    return int(node.start_point[0]) + 1


def descendants(node: Node) -> Iterator[Node]:
    """The node and everything below it, in order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack += current.children[::-1]


def ancestors(node: Node) -> Iterator[tuple[Node, Node]]:
    """Each node above with the child through which the way led, from the inside out."""
    below = node
    while below.parent is not None:
        yield below.parent, below
        below = below.parent


def declared_name(declarator: Node | None) -> str:
    """The name inside of a declarator such as `*x`, `x[4]` or `x = 1`, "" for `[x, y] = p`."""
    while declarator is not None and declarator.type not in _NAME_TYPES:
        if declarator.type == "structured_binding_declarator":
            return ""
        inner = declarator.child_by_field_name("declarator")
        if inner is None:
            inner = next(
                (
                    c
                    for c in declarator.named_children
                    if "declarator" in c.type or c.type in _NAME_TYPES
                ),
                None,
            )
        declarator = inner
    return text_of(declarator)


def declarators(declaration: Node) -> Iterator[tuple[str, Node]]:
    """The names that a declaration declares, each with its declarator."""
    for number, child in enumerate(declaration.children):
        if declaration.field_name_for_child(number) == "declarator":
            name = declared_name(child)
            if name:
                yield name, child


def without_wrapping(node: Node) -> Node:
    """An expression without the parentheses and casts around it."""
    while True:
        cast = cast_of(node)
        if cast is not None:
            node = cast[1]
        elif node.type == "parenthesized_expression" and node.named_child_count == 1:
            node = node.named_children[0]
        else:
            return node


def cast_of(node: Node) -> tuple[str, Node] | None:
    """The type and the operand of `(T)x`, `T(x)` for a built-in T, and `static_cast<T>(x)`."""
    if node.type == "cast_expression":
        value = node.child_by_field_name("value")
        return (text_of(field(node, "type")), value) if value is not None else None
    if node.type != "call_expression" or len(arguments_of(node)) != 1:
        return None
    function, operand = node.child_by_field_name("function"), arguments_of(node)[0]
    if function is None:
        return None
    if function.type == "template_function":
        if text_of(field(function, "name")) not in _CASTS:
            return None
        return text_of(field(function, "arguments"))[1:-1].strip(), operand
    if function.type == "parenthesized_expression" and bare(function).type == "identifier":
        # The grammar takes `(T)(x)` for a call: it does not know that T is a type.
        return text_of(bare(function)), operand
    if function.type == "primitive_type" or _BUILT_IN.fullmatch(text_of(function)):
        return text_of(function), operand
    return None


def is_cast(call: Node) -> bool:
    """Whether a call is `static_cast<T>(x)`, `int(x)` and the like."""
    return cast_of(call) is not None


def cast_type(node: Node) -> str:
    """The type that a cast names, "" when the node is no cast."""
    cast = cast_of(node)
    return cast[0] if cast is not None else ""


def arguments_of(call: Node) -> list[Node]:
    """The arguments of a call, of a dim3 or of an initialiser list."""
    listed = call.child_by_field_name("arguments")
    if listed is None and call.type in ("argument_list", "initializer_list"):
        listed = call
    if listed is None:
        listed = next((c for c in call.children if c.type == "argument_list"), None)
    return [c for c in listed.named_children if c.type != "comment"] if listed is not None else []


def template_arguments(call: Node) -> list[Node]:
    """The template arguments that a call is written with."""
    function = call.child_by_field_name("function")
    while function is not None and function.type in ("qualified_identifier", "dependent_name"):
        function = function.child_by_field_name("name") or function.named_children[-1]
    listed = function.child_by_field_name("arguments") if function is not None else None
    return [c for c in listed.named_children if c.type != "comment"] if listed is not None else []


def called_name(call: Node) -> str:
    """The name of the function that is called, without namespaces and template arguments."""
    function = call.child_by_field_name("function")
    while function is not None and function.type == "qualified_identifier":
        function = function.child_by_field_name("name")
    text = text_of(function).partition("<")[0]
    return text.rpartition("::")[2].strip()


def integer_value(text: str) -> int | None:
    """The value of a C++ integer literal, or None."""
    match = re.fullmatch(r"(0[xX][0-9a-fA-F']+|0[bB][01']+|[0-9][0-9']*)[uUlLzZ]*", text)
    if match is None:
        return None
    digits = match[1].replace("'", "")
    if len(digits) > 24:
        return None
    try:
        octal = len(digits) > 1 and digits.startswith("0") and digits[1] not in "xXbB"
        return int(digits, 8 if octal else 0)
    except ValueError:
        return None


def last_line_of(node: Node) -> int:
    """The line where a node ends, from 1."""
    return int(node.end_point[0]) + 1


def of_type(node: Node, *types: str) -> Iterator[Node]:
    """The nodes of some types at or below a node, in the order of the text."""
    kinds = _kinds(types)
    return (n for kind, n in _with_kinds(node) if kind in kinds)


@lru_cache(maxsize=32)
def _with_kinds(node: Node) -> tuple[tuple[int, Node], ...]:
    """A node's descendants: a step down the tree costs more than looking through all again."""
    return tuple((n.kind_id, n) for n in descendants(node))


@lru_cache(maxsize=64)
def all_of_type(node: Node, *types: str) -> tuple[Node, ...]:
    """As `of_type`, looked for once in a function that is asked again for each of its launches."""
    return tuple(of_type(node, *types))


@lru_cache
def _kinds(types: tuple[str, ...]) -> frozenset[int]:
    """The grammar's numbers of some types of node, which are quicker to compare."""
    known = {n for n in range(_LANGUAGE.node_kind_count) if _LANGUAGE.node_kind_for_id(n) in types}
    return frozenset(known | {_ERROR} if "ERROR" in types else known)


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
    return integer_value(text_of(node)) if node.type == "number_literal" else None


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
    return [text_of(n) for n in descendants(node) if not n.children and n.type != "comment"]
