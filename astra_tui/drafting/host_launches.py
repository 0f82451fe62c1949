"""Where host code launches kernels, in each form in which launchers are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    ancestors,
    arguments_of,
    called_name,
    declarators,
    descendants,
    line_of,
    parse_expression,
    text_of,
    without_wrapping,
)

_WITH_CONFIG = {"cudaLaunchKernelEx", "cudaLaunchKernelExC"}
_WITH_ARRAY = {"cudaLaunchKernel", "cudaLaunchCooperativeKernel"}
_BUILDER = re.compile(r"(?i)\bLaunch_?Kernel\b")
_CONFIG_FIELDS = ("gridDim", "blockDim", "dynamicSmemBytes")
_MAX_STEPS = 8


@dataclass(frozen=True)
class HostLaunch:
    """One launch of a kernel, and the host function that it stands in."""

    kernel: str
    template_args: tuple[Node, ...]
    configuration: tuple[Node, ...]
    """Grid, block and, where they are given, dynamic shared memory and stream."""
    arguments: tuple[Node, ...]
    function: Node
    call: Node
    pdl: bool = False
    """Whether the launcher can ask for programmatic dependent launch."""

    @property
    def line(self) -> int:
        """The line of the launch."""
        return line_of(self.call)


def launches_in(function: Node) -> Iterator[HostLaunch]:
    """The launches of a host function, in order."""
    body = function.child_by_field_name("body")
    for call in descendants(body) if body is not None else ():
        if call.type != "call_expression":
            continue
        found = _triple_angle(call) or _runtime_call(call, function) or _builder(call)
        if found is None:
            continue
        callee, configuration, arguments = found
        kernel = _resolved(callee, call, function)
        if kernel is not None:
            name, given = kernel
            pdl = _can_overlap(call, function)
            yield HostLaunch(name, given, configuration, arguments, function, call, pdl)


_Found = tuple[Node, tuple[Node, ...], tuple[Node, ...]]


def _triple_angle(call: Node) -> _Found | None:
    """`kernel<<<grid, block, shared, stream>>>(...)`."""
    configured = next((c for c in call.children if c.type == "kernel_call_syntax"), None)
    if configured is None:
        return None
    return call.children[0], tuple(configured.named_children), tuple(arguments_of(call))


def _runtime_call(call: Node, function: Node) -> _Found | None:
    """`cudaLaunchKernelEx(&config, kernel, ...)` and `cudaLaunchKernel(kernel, grid, ...)`."""
    name, given = called_name(call), arguments_of(call)
    if name in _WITH_CONFIG and len(given) >= 2:
        config = text_of(given[0]).strip("()&* ")
        fields = _config_fields(config, call, function)
        return (given[1], fields, tuple(given[2:])) if fields else None
    if name in _WITH_ARRAY and len(given) >= 4:
        listed = definition_at(text_of(without_wrapping(given[3])), call, function)
        passed = arguments_of(listed) if listed is not None else []
        values = tuple(_without_address(node) for node in passed)
        return given[0], tuple(given[1:3]) + tuple(given[4:6]), values
    return None


def _builder(call: Node) -> _Found | None:
    """`LaunchKernel(grid, block, device, shared).enable_pdl(true)(kernel, ...)`."""
    function, given = call.child_by_field_name("function"), arguments_of(call)
    if function is None or function.type != "call_expression" or not given:
        return None
    inner: Node | None = function
    while inner is not None:
        if inner.type == "call_expression" and _BUILDER.fullmatch(called_name(inner)):
            parts = arguments_of(inner)
            geometry = tuple(parts[:2]) + tuple(parts[3:4])
            return (given[0], geometry, tuple(given[1:])) if len(parts) >= 2 else None
        inner = inner.child_by_field_name("function") or inner.child_by_field_name("argument")
    return None


def _config_fields(config: str, call: Node, function: Node) -> tuple[Node, ...]:
    """Grid, block and shared memory of a cudaLaunchConfig_t, () when a grid is not given."""
    values = [definition_at(f"{config}.{field}", call, function) for field in _CONFIG_FIELDS]
    whole = definition_at(config, call, function)
    if whole is not None and whole.type == "initializer_list":
        named = {
            text_of(pair.named_children[0]).strip(". "): pair.named_children[-1]
            for pair in whole.named_children
            if pair.type == "initializer_pair"
        }
        plain = [] if named else whole.named_children
        for place, field in enumerate(_CONFIG_FIELDS):
            other = plain[place] if place < len(plain) else named.get(field)
            values[place] = values[place] or other
    grid, block, shared = values
    if grid is None or block is None:
        return ()
    return (grid, block, shared) if shared is not None else (grid, block)


def _without_address(node: Node) -> Node:
    """`x` of `&x` and of `(void*)&x`."""
    plain = without_wrapping(node)
    operand = plain.child_by_field_name("argument")
    return operand if _is_address(plain) and operand is not None else plain


def _resolved(callee: Node, call: Node, function: Node) -> tuple[str, tuple[Node, ...]] | None:
    """The kernel behind an expression: its name and template arguments."""
    for _ in range(_MAX_STEPS):
        callee = _without_address(callee)
        if callee.type == "identifier":
            value = definition_at(text_of(callee), call, function)
            if value is None or value.type == "call_expression":
                return text_of(callee), ()
            callee = value
            continue
        while callee.type == "qualified_identifier":
            inner = callee.child_by_field_name("name")
            if inner is None:
                return None
            callee = inner
        if callee.type == "template_function":
            listed = callee.child_by_field_name("arguments")
            given = tuple(listed.named_children) if listed is not None else ()
            return text_of(callee.child_by_field_name("name")), given
        if callee.type == "conditional_expression":
            first = callee.child_by_field_name("consequence")
            if first is None:
                return None
            callee = first
            continue
        if callee.type in ("identifier", "type_identifier"):
            return text_of(callee), ()
        return None
    return None


def _can_overlap(call: Node, function: Node) -> bool:
    """Whether a launcher has the attribute of programmatic dependent launch."""
    text = text_of(call)
    if "enable_pdl(" in text and "enable_pdl(false)" not in text:
        return True
    return called_name(call) in _WITH_CONFIG and "ProgrammaticStreamSerialization" in text_of(
        function
    )


# -- names of host code ----------------------------------------------------------------------------


def definition_at(name: str, site: Node, function: Node) -> Node | None:
    """The value that a name, or a field written `config.gridDim`, has at a place."""
    found: Node | None = None
    around = {above.id for above, _ in ancestors(site)} | {site.id}
    for node in descendants(function):
        if node.start_byte >= site.start_byte:
            break
        if node.type == "declaration" and _is_visible(node, around):
            found = dict(initialised(node)).get(name, found)
        elif _assigned(node) == name:
            found = node.child_by_field_name("right")
    return found or _member_value(name, function)


def _member_value(name: str, function: Node) -> Node | None:
    """The value of a constant of the class around a function: `static constexpr auto kernel =`."""
    for above, _ in ancestors(function):
        if above.type == "field_declaration_list":
            for field in above.named_children:
                if field.type == "field_declaration":
                    for number, child in enumerate(field.children):
                        is_name = field.field_name_for_child(number) == "declarator"
                        if is_name and text_of(child) == name:
                            return field.child_by_field_name("default_value")
    return None


def local_values(launch: HostLaunch) -> dict[str, Node]:
    """What the host function says that its variables are, up to the launch.

    A variable whose address is taken gets its value elsewhere, so it is left out. A constant of a
    `case` that repeats the label is what the `switch` is over.
    """
    found: dict[str, Node] = {}
    unknown: set[str] = set()
    around = {above.id for above, _ in ancestors(launch.call)}
    for node in descendants(launch.function):
        if node.start_byte >= launch.call.start_byte:
            break
        if node.type == "declaration" and _is_visible(node, around):
            found.update(initialised(node))
        elif target := _assigned(node):
            value = node.child_by_field_name("right")
            if value is not None:
                found[target] = value
        elif _is_address(node) and not _is_passed_on(node):
            unknown.add(text_of(node.child_by_field_name("argument")))
    for label, condition, _ in _switches(launch.call):
        for name, value in found.items():
            if text_of(value) == label and any(a.id in around for a, _ in ancestors(value)):
                found[name] = condition
    return {name: value for name, value in found.items() if name not in unknown}


def _assigned(node: Node) -> str:
    """What a plain assignment sets, "" for any other node."""
    is_plain = node.type == "assignment_expression" and text_of(node.children[1]) == "="
    return text_of(node.child_by_field_name("left")) if is_plain else ""


def _is_address(node: Node) -> bool:
    return node.type == "pointer_expression" and text_of(node).startswith("&")


def initialised(declaration: Node) -> Iterator[tuple[str, Node]]:
    """The names that a declaration gives a value, with the value."""
    is_dim3 = text_of(declaration.child_by_field_name("type")) == "dim3"
    for name, declarator in declarators(declaration):
        value = declarator.child_by_field_name("value")
        if is_dim3 and declarator.type == "function_declarator":
            # `dim3 grid(rows)` reads like the declaration of a function.
            listed = text_of(declarator.child_by_field_name("parameters"))
            value = parse_expression(f"dim3{listed}")
        if value is not None:
            yield name, value
            fields = value.child_by_field_name("value")
            for pair in fields.named_children if fields is not None else ():
                if pair.type == "initializer_pair":  # `P{.count = n}` says what `p.count` is.
                    yield f"{name}{text_of(pair.named_children[0])}", pair.named_children[-1]


def _is_visible(declaration: Node, around: set[int]) -> bool:
    """Whether a declaration's block is one of those around the place."""
    above = declaration.parent
    while above is not None and above.type not in ("compound_statement", "case_statement"):
        above = above.parent
    return above is None or above.id in around


def _is_passed_on(address: Node) -> bool:
    """Whether an address is only listed for a launch: `void* args[] = {&x, &y}`, `&config`."""
    above = address.parent
    while above is not None and above.type in ("cast_expression", "parenthesized_expression"):
        above = above.parent
    if above is not None and above.type == "initializer_list":
        return True
    call = above.parent if above is not None and above.type == "argument_list" else None
    return call is not None and called_name(call) in _WITH_CONFIG | {"cudaFuncSetAttribute"}


def switch_labels(site: Node) -> Iterator[tuple[Node, list[str]]]:
    """What each `switch` around a place is over, with all its labels."""
    for _, condition, labels in _switches(site):
        yield condition, labels


def _switches(site: Node) -> Iterator[tuple[str, Node, list[str]]]:
    """Of each `switch` around a place: the label of its `case`, its condition, all its labels."""
    label = ""
    for above, _ in ancestors(site):
        if above.type == "case_statement":
            label = text_of(above.child_by_field_name("value"))
        elif above.type == "switch_statement" and label:
            clause = above.child_by_field_name("condition")
            condition = clause.child_by_field_name("value") if clause is not None else None
            body = above.child_by_field_name("body")
            cases = body.named_children if body is not None else []
            labels = [text_of(c.child_by_field_name("value")) for c in cases]
            if condition is not None:
                yield label, condition, labels
            label = ""
