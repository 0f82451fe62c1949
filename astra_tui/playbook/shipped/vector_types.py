"""Types whose objects are loaded and stored whole by functions of their own.

A kernel's `v.load(p)` says nothing of memory to a reader of the kernel alone. Where each definition
of the function copies the only member of its type from `*p`, it is `v = *(const V*)p`, and where it
loads another type's vector and converts that, it is such a load and a `cast_from`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tree_sitter import Node

from astra_tui.cuda_source.functions import function_declarator
from astra_tui.cuda_source.syntax import declared_name, named, of_type, parse, text_of

_BLANKS = re.compile(r"\s+|#pragma[^\n]*\n")
_MEMBER = r"(?P<member>\w+)"
_THROUGH = r"\*(?:\(\((?P<cast>\w+)\*\)(?P<pointer>\w+)\)|(?P<plain>\w+))"
_EACH = r"\(\((?P<cast>\w+)\*\)(?P<pointer>\w+)\)\[(?P=turn)\]"
_TURNS = r"for\(\w+?(?P<turn>i)=0;(?P=turn)<(?P<count>[\w/*]+);(?:\+\+(?P=turn)|(?P=turn)\+\+)\)"
_COPIES = {
    "load": (
        re.compile(rf"{{{_MEMBER}={_THROUGH};}}"),
        re.compile(rf"{{{_TURNS}{{{_MEMBER}\[(?P=turn)\]={_EACH};}}}}"),
    ),
    "store": (
        re.compile(rf"{{{_THROUGH}={_MEMBER};}}"),
        re.compile(rf"{{{_TURNS}{{{_EACH}={_MEMBER}\[(?P=turn)\];}}}}"),
    ),
}
_CONVERTING = {
    "load": re.compile(r"{(?P<by>\w+)\(\*this,\w+\);}"),
    "store": re.compile(r"{(?P<by>\w+)\(\w+,\*this\);}"),
}
_CONVERSIONS = {
    "load": re.compile(
        r"{if(?:constexpr)?\(std::is_same_v<\w+,\w+>\){(?P<own>\w+)\.load\((?P<pointer>\w+)\);}"
        r"else{(?P<type>\w+)<(?P<element>\w+),\w+>(?P<new>\w+);(?P=new)\.load\((?P=pointer)\);"
        r"(?P=own)\.cast_from\((?P=new)\);}}"
    ),
    "store": re.compile(
        r"{if(?:constexpr)?\(std::is_same_v<\w+,\w+>\){(?P<own>\w+)\.store\((?P<pointer>\w+)\);}"
        r"else{(?P<type>\w+)<(?P<element>\w+),\w+>(?P<new>\w+);(?P=new)\.cast_from\((?P=own)\);"
        r"(?P=new)\.store\((?P=pointer)\);}}"
    ),
}


class Way(Enum):
    """What a function of a vector does with the memory at its argument."""

    LOAD = "load"
    STORE = "store"
    CONVERTING_LOAD = "cast_load"
    """Of elements that another type has, converted by `cast_from`."""
    CONVERTING_STORE = "cast_store"


@dataclass
class _Definitions:
    """All that a name of a type stands for: the members of its specialisations, and functions."""

    members: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    """By the type with its arguments: type, name and length of each member."""
    bodies: dict[tuple[str, str], str] = field(default_factory=dict)
    """By the type with its arguments and the function's name, without blanks."""


def vector_functions(name: str, texts: Mapping[str, str]) -> dict[str, Way]:
    """Which functions of a type template only load or store its objects; none for another type."""
    found = _Definitions()
    free: dict[str, str] = {}
    for text in (t for t in texts.values() if re.search(rf"\bstruct\s+{re.escape(name)}\b", t)):
        root = parse(text)
        _read_types(root, text.encode(), name, found)
        for function in of_type(root, "function_definition"):
            declarator = function_declarator(function)
            called = declarator and declarator.child_by_field_name("declarator")
            if called is not None and called.type == "identifier":
                free[text_of(called)] = _body(function)
    ways = {}
    for way in (Way.LOAD, Way.STORE):
        if _copies(found, way.value):
            ways[way.value] = way
    for way in (Way.CONVERTING_LOAD, Way.CONVERTING_STORE):
        plain = way.value.removeprefix("cast_")
        if plain in ways and _converts(found, way.value, plain, free, name):
            ways[way.value] = way
    return ways


def _read_types(root: Node, data: bytes, name: str, found: _Definitions) -> None:
    for struct in of_type(root, "struct_specifier"):
        title, body = struct.child_by_field_name("name"), struct.child_by_field_name("body")
        if body is None or _without_arguments(text_of(title)) != name:
            continue
        own = _bare(text_of(title))
        found.members[own] = []
        # An object that is aligned by itself wants more of a pointer than its functions do.
        is_plain = b"align" not in data[struct.start_byte : body.start_byte]
        for member in named(body):
            inner = member
            if member.type == "template_declaration":
                inner = named(member)[-1]
            if inner.type == "function_definition":
                found.bodies[own, _function_name(inner)] = _body(inner)
            elif is_plain and inner.type == "field_declaration" and not function_declarator(inner):
                found.members[own] += _fields(inner)
    for function in of_type(root, "function_definition"):
        declarator = function_declarator(function)
        path = declarator and declarator.child_by_field_name("declarator")
        if path is None or path.type != "qualified_identifier":
            continue
        owner, _, called = text_of(path).rpartition("::")
        if _without_arguments(owner) == name:
            found.bodies[_bare(owner), called] = _body(function)


def _fields(declaration: Node) -> Iterator[tuple[str, str, str]]:
    kind = _bare(text_of(declaration.child_by_field_name("type")))
    for child in declaration.children_by_field_name("declarator"):
        size = child.child_by_field_name("size") if child.type == "array_declarator" else None
        yield kind, declared_name(child), _bare(text_of(size))


def _copies(found: _Definitions, function: str) -> bool:
    """Whether a function copies the only member of its type, in every type that defines it."""
    bodies = {own: body for (own, called), body in found.bodies.items() if called == function}
    return bool(bodies) and all(
        any(
            _copies_member(p.fullmatch(body), found.members.get(own, [])) for p in _COPIES[function]
        )
        for own, body in bodies.items()
    )


def _copies_member(match: re.Match[str] | None, members: list[tuple[str, str, str]]) -> bool:
    if match is None or len(members) != 1:
        return False
    ((kind, name, length),) = members
    given = match.groupdict()
    cast = given.get("cast") or kind  # Without a cast the pointer has the type of the member.
    return (given["member"], cast, given.get("count") or "") == (name, kind, length)


def _converts(
    found: _Definitions, function: str, plain: str, free: Mapping[str, str], name: str
) -> bool:
    bodies = {body for (_, called), body in found.bodies.items() if called == function}
    for body in bodies:
        match = _CONVERTING[plain].fullmatch(body)
        inner = _CONVERSIONS[plain].fullmatch(free.get(match["by"], "")) if match else None
        if inner is None or inner["type"] != name:
            return False
    return bool(bodies)


def _function_name(function: Node) -> str:
    declarator = function_declarator(function)
    return text_of(declarator and declarator.child_by_field_name("declarator"))


def _body(function: Node) -> str:
    return _bare(text_of(function.child_by_field_name("body")))


def _bare(text: str) -> str:
    return _BLANKS.sub("", text)


def _without_arguments(text: str) -> str:
    return text.partition("<")[0].rpartition("::")[2].strip()
