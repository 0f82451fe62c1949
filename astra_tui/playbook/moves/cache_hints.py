"""Marks data that is touched once, so that it does not push reused data out of the caches."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tree_sitter import Node

from astra_tui.cuda_source.effects import fresh_name
from astra_tui.cuda_source.functions import TYPE, Function
from astra_tui.cuda_source.syntax import (
    LOOPS,
    ancestors,
    contains,
    field,
    identifiers_in,
    line_of,
    of_type,
    operator_of,
    text_of,
)
from astra_tui.model.dtypes import DType, NumberKind
from astra_tui.model.launch.expression import Name
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.model.task import ArgumentRole, KernelTask
from astra_tui.playbook.accesses import Access, accesses_in, pointer_in, unknown_accesses
from astra_tui.playbook.api import Evidence, MoveKind, NotApplicable, Proposal, settable
from astra_tui.playbook.edits import Edit, insert_above
from astra_tui.playbook.evidence import evidence_of, lines_text, places_of
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.launching import template_values
from astra_tui.playbook.loops import loops_of

_HINTABLE = frozenset(
    name
    for dtype in DType
    if dtype.kind is not NumberKind.BOOL and not dtype.is_narrow
    for name in dtype.spellings
)
"""Types of elements that CUDA's loads with a hint take."""

_VECTORS = re.compile(r"(?:u?(?:char|short|int|longlong)|float|double)[24]")
_LOAD = """// Loads a pack that is read once: caches give it up first.
template <typename {type}>
__device__ __forceinline__ {type} {name}(const {type}* from) {{
  const auto by = [=](auto bytes) {{
    bytes = __ldcs(reinterpret_cast<const decltype(bytes)*>(from));
    {type} pack;
    memcpy(&pack, &bytes, sizeof(pack));
    return pack;
  }};
"""
_STORE = """// Stores a pack that is not read again: caches give it up first.
template <typename {type}>
__device__ __forceinline__ void {name}({type}* to, const {type}& pack) {{
  const auto by = [&](auto bytes) {{
    memcpy(&bytes, &pack, sizeof(pack));
    __stcs(reinterpret_cast<decltype(bytes)*>(to), bytes);
  }};
"""
_BY_SIZE = """  constexpr int size = alignof({type}) == sizeof({type}) ? sizeof({type}) : 0;
  if constexpr (size == 16) {{
    return by(uint4());
  }} else if constexpr (size == 8) {{
    return by(uint2());
  }} else if constexpr (size == 4) {{
    return by(0u);
  }} else {{
    {plain};
  }}
}}
"""


class CacheHints:
    """__ldcs for streamed loads and __stcs for results that the kernel never reads."""

    name = "cache_hints"
    summary = "streaming loads and stores for data that is touched once"
    kind = MoveKind.CODE
    needs_gpu = "needs a GPU: counters do not show what a cache keeps"
    gain = (0.98, 1.01)

    def propose(self, source: KernelText, evidence: Evidence) -> Proposal | NotApplicable:
        """Every access of a single element or of a pack, in each kernel, that no thread repeats."""
        hinted: list[tuple[Node, list[Edit]]] = []
        reasons: list[str] = []
        helpers = _Helpers(source)
        for kernel in source.kernels:
            unknown = _unknown(kernel)
            if unknown:
                reasons.append(f"line {line_of(unknown[0])}: an access that cannot be followed")
                continue
            found = _streamed(source, kernel, evidence)
            hinted += [(a.node, _hinted(a, source, kernel, helpers)) for a in found]
        hinted = [(node, edits) for node, edits in hinted if edits]
        if not hinted:
            return NotApplicable(
                self.name,
                "; ".join(reasons) or "no elements or packs that are read or written only once",
            )
        lines = evidence.lines(node for node, _ in hinted)
        hinted = [(node, edits) for node, edits in hinted if line_of(node) in lines.chosen]
        nodes = [node for node, _ in hinted]
        edits = [e for _, edits in hinted for e in edits]
        plan = Plan(
            title="Stream what is touched once",
            bottleneck="data that nothing reads again takes the place of data that is reused",
            evidence=evidence_of(evidence.counters, nodes, Counter.SECTORS),
            change=f"{lines_text(nodes)}: loads by __ldcs and stores by __stcs, which caches "
            "give up first; packs where they have 16, 8 or 4 bytes. Neither results nor counters "
            "change.",
            prediction=Prediction(1.0, 1.05, Counter.SECTORS, 1.0),
            risk=Risk.LOW,
            places=places_of(nodes),
            move=self.name,
            parameters=settable(lines),
        )
        return Proposal(plan, source.changed([*helpers.defined(edits), *edits]))


def _unknown(kernel: Function) -> list[Node]:
    """Accesses that may be of memory that is loaded elsewhere: not those of a local array."""

    def is_local(node: Node) -> bool:
        pointer = pointer_in(field(node, "argument"), kernel) if _is_subscript(node) else None
        return pointer is not None and pointer.is_array

    return [n for n in unknown_accesses(kernel.body, kernel) if not is_local(n)]


def _is_subscript(node: Node) -> bool:
    return node.type == "subscript_expression"


class _Helpers:
    """Functions for packs, of which the bytes differ from launch to launch."""

    def __init__(self, source: KernelText):
        self._source = source
        taken = source.names()
        self.load = fresh_name("load_once", taken)
        self.store = fresh_name("store_once", taken)
        self._type = fresh_name("E", taken)

    def defined(self, edits: list[Edit]) -> Iterator[Edit]:
        """What defines the functions that edits call, above all functions of the source."""
        top = min(f.outer.start_byte for f in self._source.functions)
        first = next(n for n in self._source.root.children if n.end_byte > top)
        ways = (
            (self.load, _LOAD, "return *from"),
            (self.store, _STORE, "*to = pack"),
        )
        for name, begin, plain in ways:
            if any(f"{name}(" in edit.text for edit in edits):
                text = (begin + _BY_SIZE).format(type=self._type, name=name, plain=plain)
                yield insert_above(self._source.data, first, text)


def _streamed(source: KernelText, kernel: Function, evidence: Evidence) -> list[Access]:
    accesses = [a for a in accesses_in(kernel.body, kernel) if not a.root.is_array]
    found = []
    for access in accesses:
        same = [a for a in accesses if a.root == access.root]
        buffers = source.buffers(kernel, access.root)
        if not _can_hint(access, kernel, source, buffers, evidence.task):
            continue
        if not _is_once(access, kernel) or (access.is_store and access.is_load):
            continue
        roles = {_role(evidence, b) for b in buffers}
        loads = not access.is_store and bool(roles) and roles <= _READ and _are_loaded_once(same)
        stores = access.is_store and roles == {ArgumentRole.OUT} and all(a.is_store for a in same)
        if loads or stores:
            found.append(access)
    return found


_READ = {ArgumentRole.IN, ArgumentRole.INOUT}


def _role(evidence: Evidence, name: str) -> ArgumentRole | None:
    argument = evidence.task.args.get(name)
    return argument.role if argument is not None else None


def _are_loaded_once(accesses: list[Access]) -> bool:
    """Whether accesses of one buffer load each place once, and store only to such places, later.

    Loads with a hint are volatile assembly to the compiler, so that stores stay after them.
    """
    loads = [a for a in accesses if not a.is_store]
    stores = [a for a in accesses if a.is_store]
    if any(a.is_load for a in stores) or len(loads) != len(_places(loads)):
        return False
    last = max(a.node.end_byte for a in loads)
    return _places(stores) <= _places(loads) and all(a.node.start_byte > last for a in stores)


def _places(accesses: list[Access]) -> set[tuple[str, str, str]]:
    """Where accesses are, in the words of the source."""
    return {(text_of(a.pointer), text_of(a.index), a.element) for a in accesses}


def _can_hint(
    access: Access,
    kernel: Function,
    source: KernelText,
    buffers: Collection[str],
    task: KernelTask,
) -> bool:
    """Whether there are loads and stores with a hint for all that the element's type stands for."""
    if _is_pack(access.element, source):
        return _is_whole(access)
    if not _is_subscript(access.node):
        return False
    if access.element in _HINTABLE:
        return True
    if access.element not in {p.name for p in kernel.template if p.kind == TYPE}:
        return False
    launches = source.launches_of(kernel)
    given = (template_values(kernel, launch).get(access.element) for launch in launches)
    if not all(isinstance(value, Name) for value in given):
        return False  # A type of others, by C++ text.
    arguments = [task.args[name] for name in buffers if name in task.args]
    return not any(dtype.is_narrow for a in arguments for dtype in task.dtypes_of(a))


def _is_pack(element: str, source: KernelText) -> bool:
    """Whether a type is a vector of CUDA's, a struct of the source that is aligned as a whole, or
    an alias of one.
    """
    aliases = of_type(source.root, "alias_declaration")
    stands_for = [a for a in aliases if text_of(a.child_by_field_name("name")) == element]
    types = {element, *(text_of(a.child_by_field_name("type")) for a in stands_for)}
    names = {name.partition("<")[0].strip() for name in types}
    return any(map(_VECTORS.fullmatch, names)) or any(
        text_of(struct.child_by_field_name("name")) in names
        and re.search(r"\balignas\b|__align__", text_of(struct).partition("{")[0])
        for struct in of_type(source.root, "struct_specifier")
    )


def _is_whole(access: Access) -> bool:
    """Whether a pack is loaded as the value of a variable, or stored by an assignment."""
    parent = access.node.parent
    if parent is None or parent.type not in ("init_declarator", "assignment_expression"):
        return False
    declared = parent.child_by_field_name("declarator")
    return declared is None or declared.type == "identifier"


def _is_once(access: Access, kernel: Function) -> bool:
    """Whether each block and each iteration of the loops around it touches another element; what
    blocks share is worth keeping.
    """
    names = _names_behind(access, kernel)
    loops = [a for a, _ in ancestors(access.node) if a.type in LOOPS]
    turning = {v.name for v in kernel.locals if any(contains(n, v.declaration) for n in loops)}
    turning |= {loop.name for loop in loops_of(kernel) if loop.node in loops}
    return "blockIdx" in names and bool(names & {"threadIdx", *turning})


def _names_behind(access: Access, kernel: Function) -> set[str]:
    """The names that the address of an access follows from; a local that keeps its first value
    stands for what that is made of.
    """
    waiting = [*identifiers_in(access.pointer), *identifiers_in(access.index)]
    seen, names = set(waiting), set(waiting)
    for name in waiting:  # Grows by what the values of locals name.
        variable = kernel.local(name, access.node)
        if variable is None or variable.value is None:
            continue
        if kernel.is_constant(variable):
            names.discard(name)
        new = identifiers_in(variable.value) - seen
        seen |= new
        names |= new
        waiting += new
    return names


def _hinted(access: Access, source: KernelText, kernel: Function, helpers: _Helpers) -> list[Edit]:
    is_pack = _is_pack(access.element, source)
    node, change = access.node, access.node.parent
    begin, address = node.start_byte, "&"
    if node.type == "pointer_expression":
        begin, address = field(node, "argument").start_byte, ""
    if not access.is_store:
        load = helpers.load if is_pack else "__ldcs"
        return [
            Edit(node.start_byte, begin, f"{load}({address}"),
            Edit(node.end_byte, node.end_byte, ")"),
        ]
    if change is None or change.type != "assignment_expression" or operator_of(change) != "=":
        return []
    value = field(change, "right")
    if is_pack and not _has_type(value, access.element, kernel):
        return []
    return [
        Edit(node.start_byte, begin, f"{helpers.store if is_pack else '__stcs'}({address}"),
        Edit(node.end_byte, value.start_byte, ", "),
        Edit(value.end_byte, value.end_byte, ")"),
    ]


def _has_type(value: Node, element: str, kernel: Function) -> bool:
    variable = kernel.lookup(text_of(value), value)
    return variable is not None and variable.is_scalar and variable.type == element
