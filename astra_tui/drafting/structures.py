"""Structures that kernels take by value, read as if each member were a parameter of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    declarators,
    declared_name,
    descendants,
    of_type,
    parse,
    parse_expression,
    text_of,
    without_wrapping,
)
from astra_tui.drafting.host_launches import HostLaunch, definition_at
from astra_tui.model.dtypes import OF_SPELLING, DType

MAX_MEMBERS = 64
MAX_DEPTH = 4
POWERS = tuple(2**n for n in range(9))
"""The divisors for which the members of CUDA's precomputed division are written."""

_FAST_DIVISION = re.compile(r"(?:::)?cuda::fast_mod_div<\s*(?:uint32_t|unsigned int|unsigned)\s*>")
_LOG2 = " else ".join(f"{n} if # == {power}" for n, power in enumerate(POWERS)) + " else 0"
_INTEGERS = {n: d for n, d in OF_SPELLING.items() if not d.is_float and d is not DType.BOOL}


@dataclass(frozen=True)
class Member:
    """One number or pointer of a structure: its type as it is written, its path (`src.x` for one of
    a structure in it), and the name of its parameter.
    """

    type: str
    name: str
    parameter: str
    layout: str = ""
    """How the plan writes a class that is made of one integer, with `#` for it."""

    @property
    def divisors(self) -> tuple[int, ...]:
        """The values that the layout is written for, () where it is for all."""
        return POWERS if _LOG2 in self.layout else ()


@dataclass(frozen=True)
class _Class:
    """A class of the source: its template parameters, types and names of its members."""

    template: tuple[str, ...]
    members: tuple[tuple[str, str], ...]
    is_integer: bool
    """Whether it converts to one."""


@dataclass(frozen=True)
class Structure:
    """A parameter that is a structure by value; `parameter` is its name in the source.

    `members` are all numbers and pointers in it, those of structures in it among them.
    """

    type: str
    parameter: str
    members: tuple[Member, ...]

    def braced(self, values: Sequence[str]) -> str:
        """The values of the members with braces around them and around each structure in it."""
        text = ""
        above: tuple[str, ...] = ()
        for member, value in zip(self.members, values, strict=True):
            own = tuple(member.name.split(".")[:-1])
            pairs = zip(above, own, strict=False)
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            text += "}" * (len(above) - shared) + (", " if text else "")
            text += "{" * (len(own) - shared) + value
            above = own
        return "{" + text + "}" * (len(above) + 1)


Structures = Mapping[str, Mapping[int, Structure]]
"""By kernel and number of the parameter."""


def with_members_as_parameters(text: str) -> tuple[Node, Structures]:
    """The tree of a source whose kernels take members in place of structures."""
    root = parse(text)
    types = _types(root)
    found: dict[str, dict[int, Structure]] = {}
    edits: list[tuple[int, int, str]] = []
    for function in of_type(root, "function_definition"):
        if not _is_kernel(function):
            continue
        for number, node in enumerate(_parameters(function)):
            structure = _structure(node, function, types, root)
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


_Types = Mapping[str, _Class]


def _types(root: Node) -> _Types:
    """The plain classes of a source; others are left out."""
    return {
        text_of(node.child_by_field_name("name")): found
        for node in of_type(root, "struct_specifier", "class_specifier")
        if (found := _class_of(node)) is not None
    }


def _class_of(node: Node) -> _Class | None:
    body = node.child_by_field_name("body")
    members = _members(body) if body is not None else None
    if not members:
        return None
    converts = re.search(r"\boperator\s+([\w ]+?)\s*\(", text_of(body))
    is_integer = converts is not None and converts[1] in _INTEGERS
    return _Class(_template_names(node), members, is_integer)


def _template_names(declared: Node) -> tuple[str, ...]:
    """The names of a template's parameters, () for what is no template."""
    above = declared.parent
    listed = above.child_by_field_name("parameters") if above is not None else None
    if above is None or above.type != "template_declaration" or listed is None:
        return ()
    texts = (text_of(n).partition("=")[0] for n in listed.named_children)
    return tuple(re.findall(r"\w+", text)[-1] for text in texts if re.search(r"\w", text))


def _class_name(kind: str) -> str:
    return kind.partition("<")[0].rpartition("::")[2].strip()


def _flat(kind: str, types: _Types, depth: int = 0) -> Iterator[Member]:
    """The members of a type, with those of structures in it in their place, by their paths."""
    found = types[_class_name(kind)]
    listed = re.sub(r"^[^<]*<|>\s*$", "", kind) if "<" in kind else ""
    given = dict(zip(found.template, map(str.strip, listed.split(",")), strict=False))
    for written, name in found.members:
        member = re.sub(r"[A-Za-z_]\w*", lambda m: given.get(m[0], m[0]), written)
        if "*" in member or _class_name(member) not in types or depth >= MAX_DEPTH:
            yield Member(member, name, name)
        elif layout := _layout(member, types):
            yield Member("uint32_t", name, name, layout)
        else:
            for inner in _flat(member, types, depth + 1):
                yield replace(inner, name=f"{name}.{inner.name}")


def _layout(kind: str, types: _Types) -> str:
    """How a plan writes a type that is made of one integer `#`, "" for another type."""
    if kind in _INTEGERS:
        return f"{_INTEGERS[kind].value} #"
    if _FAST_DIVISION.fullmatch(kind):
        return f"{{uint32 #, uint32 0, uint32 0, int32 {_LOG2}}}"  # Divisor, factor, add, shift.
    found = types.get(_class_name(kind))
    if found is None or not found.is_integer:
        return ""
    parts = [_layout(member, types) for member, _ in found.members]
    return f"{{{', '.join(parts)}}}" if all(parts) else ""


def _launched_with(kind: str, function: Node, root: Node) -> str:
    """What the first use of a kernel template passes for its type parameter, "" for none."""
    names = _template_names(function)
    if kind not in names:
        return ""
    place = names.index(kind)
    for node in descendants(root):
        named = text_of(node.child_by_field_name("name"))
        if node.type == "template_function" and named == _name(function):
            arguments = node.child_by_field_name("arguments")
            given = arguments.named_children if arguments is not None else []
            return text_of(given[place]) if place < len(given) else ""
    return ""


def _members(body: Node) -> tuple[tuple[str, str], ...] | None:
    """Type and name of each member, None where one is no number, pointer or structure."""
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


def _structure(node: Node, function: Node, types: _Types, root: Node) -> Structure | None:
    named, declarator = (
        node.child_by_field_name("type"),
        node.child_by_field_name("declarator"),
    )
    if declarator is None or declarator.type != "identifier":
        return None
    kind = _launched_with(text_of(named), function, root) or text_of(named)
    members = tuple(_flat(kind, types)) if _class_name(kind) in types else ()
    if not 0 < len(members) <= MAX_MEMBERS:
        return None
    body = function.child_by_field_name("body")
    used = set(_declared(body)) if body is not None else set()
    used |= {declared_name(p.child_by_field_name("declarator")) for p in _parameters(function)}
    plain = [m.name.rpartition(".")[2] for m in members]
    found: list[Member] = []
    for member, own in zip(members, plain, strict=True):
        name = own if plain.count(own) == 1 else member.name.replace(".", "_")
        found.append(replace(member, parameter=f"{name}_arg" if name in used else name))
    return Structure(kind, text_of(declarator), tuple(found))


def _declared(body: Node) -> Iterator[str]:
    """Names that a body declares, but for those of structured bindings."""
    for node in descendants(body):
        if node.type == "declaration":
            yield from (name for name, _ in declarators(node))


def _uses(function: Node, structure: Structure) -> Iterator[tuple[int, int, str]]:
    """Edits that make `params.x`, `auto [x, y] = params` and `auto& part = params.part` the
    members' parameters.
    """
    body = function.child_by_field_name("body")
    parameters = {m.name: m.parameter for m in structure.members}
    inner = {path.rpartition(".")[0] for path in parameters} - {""}
    inner |= {
        ".".join(path.split(".")[:n]) for path in inner for n in range(1, path.count(".") + 1)
    }
    known = {structure.parameter: ""}
    done = -1
    for node in descendants(body) if body is not None else ():
        if node.start_byte < done:
            continue
        if node.type == "field_expression":
            path = _path(text_of(node), known)
            if path in parameters:
                yield node.start_byte, node.end_byte, parameters[path]
                done = node.end_byte
        elif node.type == "declaration":
            value = next((c for c in node.named_children if c.type == "init_declarator"), None)
            given = value.child_by_field_name("value") if value is not None else None
            path = _path(text_of(given), known)
            if path is None or path not in {"", *inner}:
                continue
            bound = next((n for n in descendants(node) if n.type.startswith("structured_b")), None)
            if bound is None:
                known.update((name, path) for name, _ in declarators(node))
                yield node.start_byte, node.end_byte, ""
            else:
                text = ""
                for name, member in zip(_names(bound), _direct(path, parameters), strict=False):
                    if member in inner:
                        known[name] = member
                    elif name != parameters[member]:
                        text += f"auto {name} = {parameters[member]}; "
                yield node.start_byte, node.end_byte, text.rstrip()
            done = node.end_byte


def _path(text: str, known: Mapping[str, str]) -> str | None:
    """The path of `params.src.x`, where `known` names structures; None for anything else."""
    owner, _, rest = "".join(text.split()).partition(".")
    if owner not in known:
        return None
    return ".".join(part for part in (known[owner], rest) if part)


def _names(bound: Node) -> list[str]:
    return [text_of(n) for n in bound.named_children if n.type != "comment"]


def _direct(path: str, members: Mapping[str, str]) -> list[str]:
    """The paths of the members of one structure, in order."""
    prefix = f"{path}." if path else ""
    below = (m.removeprefix(prefix) for m in members if m.startswith(prefix))
    return list(dict.fromkeys(prefix + m.partition(".")[0] for m in below))


# -- launches --------------------------------------------------------------------------------------


def _values(node: Node, structure: Structure, launch: HostLaunch) -> Iterator[Node]:
    """What a launch passes for each member, in order."""
    for member in structure.members:
        value: Node | None = without_wrapping(node)
        path = member.name.split(".")
        for depth, name in enumerate(path):
            value, is_listed = _member_of(value, name, path, depth, structure, launch)
            if value is None:
                is_pointer = "*" in member.type and is_listed
                value = parse_expression("nullptr" if is_pointer else path[-1])
                break
        if value is not None:
            yield value


def _member_of(
    whole: Node | None,
    name: str,
    path: Sequence[str],
    depth: int,
    structure: Structure,
    launch: HostLaunch,
) -> tuple[Node | None, bool]:
    """The value of one member of a structure that is passed, and whether others are listed."""
    written = text_of(whole)
    value = definition_at(f"{written}.{name}", launch.call, launch.function)
    if whole is not None and whole.type == "identifier":
        whole = definition_at(written, launch.call, launch.function)
    listed = _listed(whole)
    members = _direct(".".join(path[:depth]), {m.name: m.parameter for m in structure.members})
    place = members.index(".".join(path[: depth + 1]))
    return value or listed.get(name) or listed.get(str(place)), bool(listed)


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
