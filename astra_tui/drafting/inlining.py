"""Launchers with lambdas, read with the lambdas' bodies in place.

`auto launch = [&](auto kernel, int threads) { ... }; launch(copy<4>, 32);` reads as if the body
stood before the call, with the parameters declared as what the call passes.

A number that a lambda chooses, `[&] { for (int n : {1, 2}) if (d <= n) return n; return 4; }()`,
reads as `(d <= 1 ? 1 : d <= 2 ? 2 : 4)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    ancestors,
    arguments_of,
    called_name,
    declarators,
    of_type,
    one_line,
    parse,
    text_of,
)

_LAUNCH = re.compile(
    r"<<<|\bcuda(?:Launch|LaunchCooperative)Kernel\w*\s*\(|\bLaunch_?Kernel\b", re.I
)
_CONSTANT_TYPE = re.compile(r"(?:std::)?(?:integral|bool)_constant<(?:[^<>,]*,)?\s*([^<>,]+)>\{\}")
_BLOCKS = ("compound_statement", "case_statement")
MAX_BODY = 20_000
"""Bytes of a lambda: what calls repeat stays small."""


@dataclass(frozen=True)
class _Lambda:
    """A local lambda that launches: `parameters` are types and names, `pack` the last one's."""

    node: Node
    parameters: tuple[tuple[str, str], ...]
    pack: str
    body: str


def with_lambdas_in_place(text: str) -> str:
    """The text with the body of each lambda that launches before each call of it, on one line."""
    edits: list[tuple[int, int, str]] = []
    for function in of_type(parse(text), "function_definition"):
        if _LAUNCH.search(text_of(function)):
            edits += _edits(function)
            edits += _choices(function)
    data = text.encode(errors="replace")
    for start, end, new in sorted(edits, reverse=True):
        data = data[:start] + new.encode() + data[end:]
    return data.decode(errors="replace")


def _edits(function: Node) -> Iterator[tuple[int, int, str]]:
    lambdas = dict(_lambdas(function))
    places = [(each.node.start_byte, each.node.end_byte) for each in lambdas.values()]
    called: set[str] = set()
    for call in of_type(function, "call_expression") if lambdas else ():
        if called_name(call) not in lambdas:
            continue
        statement, block = _statement(call)
        is_inside = any(start <= call.start_byte < end for start, end in places)
        if is_inside or statement is None:
            continue
        called.add(called_name(call))
        body = _with_arguments(lambdas[called_name(call)], list(map(text_of, arguments_of(call))))
        if block in _BLOCKS:
            yield statement.start_byte, statement.start_byte, body
        else:
            yield statement.start_byte, statement.start_byte, "{ " + body
            yield statement.end_byte, statement.end_byte, " }"
    for name in called:
        node = lambdas[name].node
        yield node.start_byte, node.end_byte, "nullptr" + "\n" * text_of(node).count("\n")


def _choices(function: Node) -> Iterator[tuple[int, int, str]]:
    """Lambdas that are called where they stand, as the conditional expressions that they are."""
    for call in of_type(function, "call_expression"):
        called = call.child_by_field_name("function")
        if called is None or called.type != "lambda_expression":
            continue
        body = called.child_by_field_name("body")
        found = chosen(body.named_children, {}) if body is not None else None
        if found is not None and not arguments_of(call):
            yield call.start_byte, call.end_byte, f"({found})"


def chosen(statements: Sequence[Node], known: Mapping[str, str]) -> str | None:
    """What statements return as one expression, None where they do more than choose."""
    if not statements:
        return None
    first, rest = statements[0], statements[1:]
    match first.type:
        case "comment":
            return chosen(rest, known)
        case "return_statement" if first.named_children:
            return _replaced(first.named_children[0], known)
        case "declaration":
            values = {n: d.child_by_field_name("value") for n, d in declarators(first)}
            given = {n: f"({_replaced(v, known)})" for n, v in values.items() if v is not None}
            return chosen(rest, {**known, **given}) if given else None
        case "if_statement" if first.child_by_field_name("alternative") is None:
            condition = first.child_by_field_name("condition")
            taken = chosen(_inside(first.child_by_field_name("consequence")), known)
            other = chosen(rest, known)
            if condition is None or taken is None or other is None:
                return None
            return f"{_replaced(condition, known)} ? {taken} : {other}"
        case "for_range_loop":
            return _first_chosen(first, rest, known)
        case _:
            return None


def _first_chosen(loop: Node, rest: Sequence[Node], known: Mapping[str, str]) -> str | None:
    """A loop over listed numbers that returns the first for which a condition holds."""
    name = text_of(loop.child_by_field_name("declarator"))
    listed = loop.child_by_field_name("right")
    found = chosen(rest, known)
    if listed is None or listed.type != "initializer_list":
        return None
    for number in reversed([n for n in listed.named_children if n.type != "comment"]):
        match [n for n in _inside(loop.child_by_field_name("body")) if n.type != "comment"]:
            case [Node(type="if_statement") as branch]:
                inner = {**known, name: text_of(number)}
                condition = branch.child_by_field_name("condition")
                taken = chosen(_inside(branch.child_by_field_name("consequence")), inner)
                if condition is None or taken is None or found is None:
                    return None
                found = f"{_replaced(condition, inner)} ? {taken} : {found}"
            case _:
                return None
    return found


def _inside(statement: Node | None) -> list[Node]:
    if statement is None:
        return []
    return statement.named_children if statement.type == "compound_statement" else [statement]


def _replaced(node: Node, known: Mapping[str, str]) -> str:
    """The text of an expression with the values of names that are known."""
    text = text_of(node)
    return re.sub(r"(?<![\w.>])[A-Za-z_]\w*", lambda m: known.get(m[0], m[0]), text)


def _lambdas(function: Node) -> Iterator[tuple[str, _Lambda]]:
    for declaration in of_type(function, "declaration"):
        for name, declarator in declarators(declaration):
            value = declarator.child_by_field_name("value")
            if value is None or value.type != "lambda_expression":
                continue
            body = text_of(value.child_by_field_name("body"))
            listed = next(of_type(value, "parameter_list"), None)
            if listed is None or len(body) > MAX_BODY or not _LAUNCH.search(body):
                continue
            given = [_parameter(p) for p in text_of(listed)[1:-1].split(",") if p.strip()]
            packs = [n for kind, n in given if kind == "..."]
            plain = tuple((kind, n) for kind, n in given if kind != "...")
            yield name, _Lambda(value, plain, packs[0] if packs else "", body)


def _parameter(text: str) -> tuple[str, str]:
    """Type and name of a lambda's parameter, `...` as the type of a pack."""
    words = re.findall(r"\w+", text)
    if "..." in text:
        return "...", words[-1]
    return re.sub(r"\s*&+\s*$", "", text[: text.rindex(words[-1])]).strip(), words[-1]


def _statement(call: Node) -> tuple[Node | None, str]:
    """The statement that a call stands in, and the type of the node that holds it."""
    for above, below in ancestors(call):
        if above.type in _BLOCKS:
            return below, above.type
        if below.type.endswith("_statement") and below.type != "parenthesized_expression":
            return below, above.type
    return None, ""


def _with_arguments(called: _Lambda, given: list[str]) -> str:
    """A lambda's body on one line, in braces with its parameters declared."""
    declared, body = "", re.sub(r"//[^\n]*", " ", called.body)
    for (kind, name), value in zip(called.parameters, given, strict=False):
        constant = _CONSTANT_TYPE.fullmatch(value)
        if constant is not None:  # A value that is passed as a type.
            named = rf"\bdecltype\({name}\)::value\b|\b{name}\.value\b|\b{name}\(\)"
            body = re.sub(named, f"({constant[1]})", body)
        elif value != name:
            declared += f"{kind} {name} = {value}; "
    if called.pack:
        rest = given[len(called.parameters) :]
        marked = re.compile(rf"(,?)\s*(&?)\s*\b{called.pack}\s*\.\.\.")

        def passed(match: re.Match[str]) -> str:
            listed = ", ".join(match[2] + each for each in rest)
            return f"{match[1]} {listed}" if listed else ""

        body = marked.sub(passed, body)
    return f"{{ {declared}{one_line(body, MAX_BODY)} }} "
