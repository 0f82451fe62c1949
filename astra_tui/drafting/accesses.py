"""Every place where a kernel touches its tensors: the index, whether it reads or writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tree_sitter import Node

from astra_tui.cuda_source.functions import parameters_of, template_of
from astra_tui.cuda_source.polynomial import of_atom
from astra_tui.cuda_source.syntax import arguments_of, called_name, descendants, is_cast, text_of
from astra_tui.drafting.body import Body, Bound, Facts, Pointer
from astra_tui.drafting.polynomial import Atom, Polynomial
from astra_tui.drafting.reading import local_aliases

MAX_CALLS = 4

_STORES = {"__stcg", "__stcs", "__stwb", "__stwt"}
_LOADS = {"__ldg", "__ldcg", "__ldca", "__ldcs", "__ldlu", "__ldcv"}
_COPIES = {"memcpy_async", "__pipeline_memcpy_async", "memcpy"}
_WAIT = re.compile(r"(?i)cudaGridDependencySynchronize|griddepcontrol\.wait|gdc_wait|pdl_?wait\w*")

READ, WRITE, UPDATE, UNKNOWN = "read", "write", "update", "unknown"


@dataclass(frozen=True)
class Access:
    """One access. `order` sorts accesses as they happen; `text` is how it is written."""

    tensor: str
    index: Polynomial
    width: int
    vector: str
    kind: str
    bounds: tuple[Bound, ...]
    order: tuple[int, ...]
    text: str
    line: int
    lanes: Polynomial | None = None
    """The width where it is no number."""


def accesses_of(
    function: Node, values: Mapping[str, Polynomial | Pointer], facts: Facts
) -> list[Access]:
    """The accesses of a function to the tensors that its parameters point to, in order."""
    return sorted(_Walk(function, values, facts, (), ()).found(), key=lambda a: a.order)


class _Walk:
    def __init__(
        self,
        function: Node,
        values: Mapping[str, Polynomial | Pointer],
        facts: Facts,
        outer: tuple[Bound, ...],
        order: tuple[int, ...],
    ):
        self.function = function
        self.body = Body(function, values, facts)
        self.outer = outer
        self.order = order

    def found(self) -> Iterator[Access]:
        block = self.function.child_by_field_name("body")
        for node in descendants(block) if block is not None else ():
            if node.type in ("subscript_expression", "pointer_expression"):
                place = None if _is_address(node) else self.body.element(node)
                if place is not None:
                    yield self._access(place, node, node, _use(node))
            elif node.type == "call_expression" and not is_cast(node):
                yield from self._call(node)

    def _access(self, place: Pointer, site: Node, written: Node, kind: str) -> Access:
        # An assignment happens after its right side was read.
        moment = _assignment(site).end_byte if kind == WRITE else site.start_byte
        return Access(
            place.tensor,
            place.offset,
            place.width,
            place.vector,
            kind,
            (*self.body.bounds_at(site), *self.outer),
            (*self.order, moment),
            " ".join(text_of(written).split()),
            int(site.start_point[0]) + 1,
            place.lanes,
        )

    def _call(self, call: Node) -> Iterator[Access]:
        name = called_name(call)
        arguments = arguments_of(call)
        pointers = {n: self.body.pointer(a) for n, a in enumerate(arguments)}
        given = {n: p for n, p in pointers.items() if p is not None}
        callee = self.body.facts.functions.get(name)
        if given and callee is not None and name not in _COPIES and len(self.order) < MAX_CALLS:
            yield from self._inside(call, callee, arguments, given)
            return
        called = call.child_by_field_name("function")
        for number, pointer in given.items():
            kind = _kind(name, number)
            if ")." in name:
                # `BlockLoad(storage).Load(pointer, ...)`: a block's part, of a size not seen here.
                part = of_atom(Atom("variable", f"part@{call.start_byte}"))
                pointer = self.body.moved(pointer, part)
            elif "." in name or "->" in name:
                pointer = self._through(call, name, pointer, arguments[number + 1 :])
            elif "<" in (owner := text_of(called).rpartition("::")[0]):
                pointer = self.body.viewed(pointer, owner)  # A static method of a vector.
            yield self._access(pointer, call, arguments[number], kind)

    def _through(self, call: Node, name: str, pointer: Pointer, rest: list[Node]) -> Pointer:
        """Where a vector's method `v.load(pointer)` or `v.load(pointer, n)` goes."""
        owner = re.split(r"\.|->|\[", name)[0]
        kind = self.body.declared_type(owner, call)
        made = self.body.function.value_at(owner, call)
        is_maker = isinstance(made, Node) and ("<" not in kind or text_of(made).startswith(kind))
        if is_maker and isinstance(made, Node):
            kind = text_of(made).partition("(")[0]  # `const auto rows = Memory<Vec>::warp()`.
        is_vector = "<" in kind or kind in self.body.facts.aliases
        viewed = self.body.viewed(pointer, kind) if is_vector else pointer
        if not rest and is_maker:
            # Made for a group of threads: which part is whose is not seen.
            return replace(viewed, width=0, lanes=None)
        if len(rest) != 1:
            return viewed
        return self.body.moved(viewed, self.body.integer(rest[0]))

    def _inside(
        self, call: Node, callee: Node, arguments: list[Node], given: dict[int, Pointer]
    ) -> Iterator[Access]:
        """The accesses of a function that is called with pointers into tensors."""
        values: dict[str, Polynomial | Pointer] = {}
        for number, parameter in enumerate(parameters_of(callee)[: len(arguments)]):
            if number in given:
                viewed = self.body.viewed(given[number], parameter.type)
                is_known = viewed.width or viewed.lanes is not None
                known = re.fullmatch(r"\w+", parameter.type) and is_known
                values[parameter.name] = viewed if known else given[number]
            elif not parameter.pointers:
                values[parameter.name] = self.body.integer(arguments[number])
        bounds = (*self.body.bounds_at(call), *self.outer)
        order = (*self.order, call.start_byte)
        facts = self._facts_inside(call, callee, next(iter(given.values())).tensor)
        for access in _Walk(callee, values, facts, bounds, order).found():
            yield replace(access, line=int(call.start_point[0]) + 1)

    def _facts_inside(self, call: Node, callee: Node, tensor: str) -> Facts:
        """The facts with the callee's types, and those that a call names: `load_as<vec_t>(x)`."""
        facts = self.body.facts
        function = call.child_by_field_name("function")
        inside = descendants(function) if function is not None else iter(())
        listed = next((n for n in inside if n.type == "template_argument_list"), None)
        named = zip(template_of(callee), listed.named_children if listed else (), strict=False)
        sizes = {
            name: self.body.bytes_of(text_of(node), tensor)
            for (kind, name, _), node in named
            if kind == "typename"
        }
        return replace(
            facts,
            aliases={**facts.aliases, **local_aliases(callee)},
            type_bytes={**facts.type_bytes, **sizes},
        )


def wait_in(function: Node) -> int | None:
    """Where a kernel waits for the launches before it, None where it does not."""
    for node in descendants(function):
        is_call = node.type == "call_expression" and _WAIT.fullmatch(called_name(node))
        if is_call or (node.type == "gnu_asm_expression" and _WAIT.search(text_of(node))):
            return int(node.start_byte)
    return None


def _kind(name: str, number: int) -> str:
    """What a function that is not to be seen does with its argument of that number."""
    plain = re.split(r"\.|->", name)[-1].lower()
    if name.startswith("atomic"):
        return UPDATE
    if name in _LOADS:
        return READ
    if name in _STORES or name in _COPIES:
        return READ if number else WRITE
    if re.search(r"load|read|ldg|prefetch", plain):
        return READ
    return WRITE if re.search(r"store|write|stg", plain) else UNKNOWN


def _is_address(node: Node) -> bool:
    """Whether an element is named only to take its address, or the node itself takes one."""
    if node.type == "pointer_expression" and text_of(node).startswith("&"):
        return True
    above = node.parent
    while above is not None and above.type == "parenthesized_expression":
        above = above.parent
    return (
        above is not None and above.type == "pointer_expression" and text_of(above).startswith("&")
    )


def _target(node: Node) -> Node:
    """The whole left side that an element is part of, as in `p[i].x` and `(p[i])`."""
    while node.parent is not None:
        above = node.parent
        part = above.type in ("field_expression", "subscript_expression")
        inner = part and above.child_by_field_name("argument") == node
        if not inner and above.type != "parenthesized_expression":
            break
        node = above
    return node


def _assignment(node: Node) -> Node:
    above = _target(node).parent
    return above if above is not None else node


def _use(node: Node) -> str:
    """Whether an element is read, written or both."""
    target = _target(node)
    above = target.parent
    if above is None:
        return READ
    if above.type == "update_expression":
        return UPDATE
    if above.type == "assignment_expression" and above.child_by_field_name("left") == target:
        return WRITE if text_of(above.children[1]) == "=" else UPDATE
    return READ
