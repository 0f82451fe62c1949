"""Structures that kernels take by value, read as if each member were a parameter of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    declarators,
    descendants,
    parse,
    parse_expression,
    text_of,
    without_wrapping,
)
from astra_tui.drafting.host_launches import HostLaunch, definition_at

MAX_MEMBERS = 64


@dataclass(frozen=True)
class Member:
    """One member of a structure: its type as it is written, and the name of its parameter."""

    type: str
    name: str
    parameter: str


@dataclass(frozen=True)
class Structure:
    """A parameter that is a structure by value; `parameter` is its name in the source."""

    type: str
    parameter: str
    members: tuple[Member, ...]


Structures = Mapping[str, Mapping[int, Structure]]
"""By kernel and number of the parameter."""


def with_members_as_parameters(text: str) -> tuple[Node, Structures]:
    """The tree of a source whose kernels take members in place of structures."""
    root = parse(text)
    types = dict(_types(root))
    found: dict[str, dict[int, Structure]] = {}
    edits: list[tuple[int, int, str]] = []
    for function in descendants(root):
        if function.type != "function_definition" or not _is_kernel(function):
            continue
        for number, node in enumerate(_parameters(function)):
            structure = _structure(node, function, types)
            if structure is not None:
                found.setdefault(_name(function), {})[number] = structure
                listed = ", ".join(f"{m.type} {m.parameter}" for m in structure.members)
                edits.append((node.start_byte, node.end_byte, listed))
                edits += _uses(function, structure)
    if not edits:
        return root, {}
    data = text.encode(errors="replace")
    for start, end, new in sorted(edits, reverse=True):
        data = data[:start] + new.encode() + data[end:]
    return parse(data.decode(errors="replace")), found


def with_members_as_arguments(launch: HostLaunch, structures: Structures) -> HostLaunch:
    """A launch that passes the members' values; one that is not found is passed by its name."""
    given: list[Node] = []
    for number, node in enumerate(launch.arguments):
        structure = structures.get(launch.kernel, {}).get(number)
        given += _values(node, structure, launch) if structure is not None else [node]
    return replace(launch, arguments=tuple(given))


# -- kernels ---------------------------------------------------------------------------------------


def _is_kernel(function: Node) -> bool:
    declarator = next((c for c in function.children if c.type == "function_declarator"), None)
    end = declarator.start_byte if declarator is not None else function.start_byte
    head = (function.text or b"")[: end - function.start_byte]
    return b"__global__" in head


def _name(function: Node) -> str:
    declarator = next(c for c in function.children if c.type == "function_declarator")
    return text_of(declarator.child_by_field_name("declarator")).partition("<")[0]


def _parameters(function: Node) -> list[Node]:
    declarator = next(c for c in function.children if c.type == "function_declarator")
    listed = declarator.child_by_field_name("parameters")
    return [c for c in listed.named_children if c.type != "comment"] if listed is not None else []


def _types(root: Node) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """The members of each plain structure of a source; others are left out."""
    for node in descendants(root):
        if node.type in ("struct_specifier", "class_specifier"):
            body = node.child_by_field_name("body")
            members = _members(body) if body is not None else None
            if members and len(members) <= MAX_MEMBERS:
                yield text_of(node.child_by_field_name("name")), members


def _members(body: Node) -> tuple[tuple[str, str], ...] | None:
    """Type and name of each member, None where one is no number and no pointer to elements."""
    found: list[tuple[str, str]] = []
    for field in body.named_children:
        text = text_of(field)
        if field.type != "field_declaration" or text.startswith("static"):
            continue
        base = re.sub(r"\b(mutable|struct)\b", "", text_of(field.child_by_field_name("type")))
        const = "const " if re.match(r"const\b", text) else ""
        for name, declarator in declarators(field):
            if declarator.type not in ("field_identifier", "pointer_declarator"):
                return None
            pointers = text_of(declarator).count("*")
            found.append((f"{const}{base.strip()}{' ' if pointers else ''}{'*' * pointers}", name))
    return tuple(found)


def _structure(
    node: Node, function: Node, types: Mapping[str, tuple[tuple[str, str], ...]]
) -> Structure | None:
    named, declarator = (
        node.child_by_field_name("type"),
        node.child_by_field_name("declarator"),
    )
    if declarator is None or declarator.type != "identifier":
        return None
    kind = text_of(named)
    members = types.get(kind.partition("<")[0].rpartition("::")[2])
    if not members:
        return None
    body = function.child_by_field_name("body")
    used = set(_declared(body)) if body is not None else set()
    used |= {text_of(p.child_by_field_name("declarator")) for p in _parameters(function)}
    named_members = (
        Member(kind, name, f"{name}_arg" if name in used else name) for kind, name in members
    )
    return Structure(kind, text_of(declarator), tuple(named_members))


def _declared(body: Node) -> Iterator[str]:
    """Names that a body declares, but for those of structured bindings."""
    for node in descendants(body):
        if node.type == "declaration":
            yield from (name for name, _ in declarators(node))


def _uses(function: Node, structure: Structure) -> Iterator[tuple[int, int, str]]:
    """Edits that make `params.x` and `auto [x, y] = params` the members' parameters."""
    body = function.child_by_field_name("body")
    parameters = {m.name: m.parameter for m in structure.members}
    for node in descendants(body) if body is not None else ():
        if node.type == "field_expression":
            owner, field = node.child_by_field_name("argument"), node.child_by_field_name("field")
            if text_of(owner) == structure.parameter and text_of(field) in parameters:
                yield node.start_byte, node.end_byte, parameters[text_of(field)]
        elif node.type == "declaration":
            bound = next((n for n in descendants(node) if n.type.startswith("structured_b")), None)
            value = next((c for c in node.named_children if c.type == "init_declarator"), None)
            given = value.child_by_field_name("value") if value is not None else None
            if bound is not None and text_of(given) == structure.parameter:
                names = [text_of(n) for n in bound.named_children]
                pairs = zip(names, structure.members, strict=False)
                text = " ".join(f"auto {n} = {m.parameter};" for n, m in pairs if n != m.parameter)
                yield node.start_byte, node.end_byte, text


# -- launches --------------------------------------------------------------------------------------


def _values(node: Node, structure: Structure, launch: HostLaunch) -> Iterator[Node]:
    """What a launch passes for each member, in order."""
    plain = without_wrapping(node)
    name = text_of(plain)
    whole: Node | None = plain
    if plain.type == "identifier":
        whole = definition_at(name, launch.call, launch.function)
    listed = _listed(whole)
    for place, member in enumerate(structure.members):
        value = definition_at(f"{name}.{member.name}", launch.call, launch.function)
        value = value or listed.get(member.name) or listed.get(str(place))
        if value is None:
            value = parse_expression("nullptr" if "*" in member.type and listed else member.name)
        if value is not None:
            yield value


def _listed(value: Node | None) -> dict[str, Node]:
    """The values of `P{.x = 1}` by name, of `P{1, 2}` by place."""
    if value is None:
        return {}
    listed = value if value.type == "initializer_list" else value.child_by_field_name("value")
    if listed is None or listed.type != "initializer_list":
        return {}
    found: dict[str, Node] = {}
    for place, item in enumerate(c for c in listed.named_children if c.type != "comment"):
        if item.type == "initializer_pair":
            name = text_of(item.named_children[0]).strip(". ")
            found[name] = item.named_children[-1]
        else:
            found[str(place)] = item
    return found
