"""Where host code launches kernels, in each form in which launchers are written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tree_sitter import Node

from astra_tui.cuda_source.syntax import (
    ancestors,
    arguments_of,
    called_name,
    declarators,
    descendants,
    line_of,
    of_type,
    parse_expression,
    text_of,
    without_wrapping,
)
from astra_tui.drafting.expressions import AXES

_WITH_CONFIG = {"cudaLaunchKernelEx", "cudaLaunchKernelExC"}
_OCCUPANCY = "cudaOccupancyMaxActiveBlocksPerMultiprocessor"
_PURE = {"min", "max", "dim3", "ceil_div"}
_WITH_ARRAY = {"cudaLaunchKernel", "cudaLaunchCooperativeKernel"}
_BUILDER = re.compile(r"(?i)\bLaunch_?Kernel\b")
_CONFIG_FIELDS = ("gridDim", "blockDim", "dynamicSmemBytes")
_MAX_STEPS = 8
_LONGEST_VALUE = 2000
"""Characters of a variable's value that is followed; a launch plan takes 128 operators."""

_LOOPS = ("for_statement", "while_statement", "for_range_loop")


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
    given: Mapping[str, Node] = field(default_factory=dict)
    """Literals that the first caller passes, or that are defaults, by parameter of `function`."""
    inner: Mapping[str, Node] = field(default_factory=dict)
    """Values of names in the function that launches for `function`, where one does."""

    @property
    def line(self) -> int:
        """The line of the launch."""
        return line_of(self.call)


def launches_in(
    function: Node, functions: Mapping[str, Node], given: Mapping[str, Node]
) -> list[HostLaunch]:
    """The launches of a host function, in order; first those that `given` values lead to.

    `functions` are the source's by name: one of them may choose the kernel.
    """
    body = function.child_by_field_name("body")
    launches: list[HostLaunch] = []
    for call in of_type(body, "call_expression") if body is not None else ():
        found = _triple_angle(call) or _runtime_call(call, function) or _builder(call)
        if found is None:
            continue
        callee, configuration, arguments = found
        kernel = resolved_kernel(callee, call, function, functions)
        if kernel is not None:
            name, listed = kernel
            pdl = _can_overlap(call, function)
            launches.append(
                HostLaunch(name, listed, configuration, arguments, function, call, pdl, given)
            )
    return sorted(launches, key=lambda found: not is_reached(found.call, given))


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


def resolved_kernel(
    callee: Node, call: Node, function: Node, functions: Mapping[str, Node]
) -> tuple[str, tuple[Node, ...]] | None:
    """The kernel behind an expression: its name and template arguments.

    Followed are variables, templates of variables, and functions that return a kernel: of several
    kernels, the first.
    """
    for _ in range(_MAX_STEPS):
        callee = _without_address(callee)
        if callee.type == "identifier":
            value = definition_at(text_of(callee), call, function)
            if value is None:
                return text_of(callee), ()
            callee = value
            continue
        if callee.type == "call_expression":
            returned = _returned_kernel(callee, functions)
            if returned is None:
                return None
            callee, function = returned
            continue
        while callee.type in ("qualified_identifier", "dependent_name"):
            inner = callee.child_by_field_name("name") or callee.named_children[-1]
            callee = inner
        if callee.type in ("template_function", "template_method"):
            listed = callee.child_by_field_name("arguments")
            given = tuple(listed.named_children) if listed is not None else ()
            name = text_of(callee.child_by_field_name("name"))
            variable = _variable_template(name, function)
            if variable is None:
                return name, given
            callee = _with_template(variable[0], variable[1], given)
            continue
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


def _returned_kernel(call: Node, functions: Mapping[str, Node]) -> tuple[Node, Node] | None:
    """The first kernel that a called function returns, and the function."""
    function = functions.get(called_name(call))
    body = function.child_by_field_name("body") if function is not None else None
    if function is None or body is None:
        return None
    callee = call.child_by_field_name("function")
    listed = callee.child_by_field_name("arguments") if callee is not None else None
    given = tuple(listed.named_children) if listed is not None else ()
    for node in descendants(body):
        if node.type == "return_statement" and node.named_children:
            value = node.named_children[0]
            if text_of(value) != "nullptr":
                return _with_template(value, _template_parameters(function), given), function
    return None


def _variable_template(name: str, function: Node) -> tuple[Node, list[Node]] | None:
    """Value and template parameters of a class's `template <...> static constexpr auto name = `."""
    for field_ in _members_around(function):
        if field_.parent is not None and field_.parent.type == "template_declaration":
            value = dict(_member_values(field_)).get(name)
            if value is not None:
                return value, _template_parameters(field_)
    return None


def _template_parameters(declared: Node) -> list[Node]:
    above = declared.parent
    listed = above.child_by_field_name("parameters") if above is not None else None
    is_template = above is not None and above.type == "template_declaration"
    return (
        [c for c in listed.named_children if c.type != "comment"] if is_template and listed else []
    )


def _with_template(value: Node, parameters: list[Node], given: tuple[Node, ...]) -> Node:
    """An expression with template parameters replaced by what is given, or by their defaults."""
    new: dict[str, str] = {}
    for place, parameter in enumerate(parameters):
        declared, _, default = text_of(parameter).partition("=")
        names = re.findall(r"\w+", declared)
        if names:
            new[names[-1]] = text_of(given[place]) if place < len(given) else default.strip()

    def replaced(match: re.Match[str]) -> str:
        return new.get(match[0]) or match[0]

    text = re.sub(r"(?<!::)\b[A-Za-z_]\w*\b", replaced, text_of(value))
    return parse_expression(text) or value


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
    variable = name.partition(".")[0]
    for node, target in _set_in(function):
        if node.start_byte >= site.start_byte:
            break
        if target == name:
            found = node.child_by_field_name("right")
        elif not target and variable in text_of(node) and _is_visible(node, around):
            found = dict(initialised(node)).get(name, found)
    # Or a constant of the class around it: `static constexpr auto kernel =`.
    return found or class_constants(function).get(name)


@lru_cache(maxsize=16)
def _set_in(function: Node) -> tuple[tuple[Node, str], ...]:
    """The declarations and plain assignments of a function in order, with what is assigned to.

    Kept, since launchers are asked for name after name.
    """
    return tuple(
        (node, _assigned(node))
        for node in of_type(function, "declaration", "assignment_expression")
        if node.type == "declaration" or _assigned(node)
    )


def class_constants(function: Node) -> dict[str, Node]:
    """The values of the constants of the classes around a function; of two, the inner one's."""
    found: dict[str, Node] = {}
    for member in _members_around(function):
        for name, value in _member_values(member):
            found.setdefault(name, value)
    return found


def _members_around(function: Node) -> Iterator[Node]:
    """The members of the classes around a function, without `template <...>` before them."""
    for above, _ in ancestors(function):
        if above.type == "field_declaration_list":
            for child in above.named_children:
                inner = child.named_children[-1:] if child.type == "template_declaration" else []
                yield from inner or [child]


def _member_values(member: Node) -> Iterator[tuple[str, Node]]:
    if member.type == "declaration":
        yield from initialised(member)
    elif member.type == "field_declaration":
        value = member.child_by_field_name("default_value")
        for name, _ in declarators(member):
            if value is not None:
                yield name, value


# -- values that callers give ----------------------------------------------------------------------


def truth_of(node: Node, given: Mapping[str, Node]) -> bool | None:
    """Whether a condition holds where parameters have the given values; None where that is open."""
    node = without_wrapping(node)
    if node.type == "condition_clause":
        value = node.child_by_field_name("value")
        return truth_of(value, given) if value is not None else None
    text = text_of(given.get(text_of(node), node))
    if text in ("true", "false"):
        return text == "true"
    operator = text_of(node.child_by_field_name("operator"))
    if node.type == "unary_expression" and operator in ("!", "not"):
        inner = node.child_by_field_name("argument")
        found = truth_of(inner, given) if inner is not None else None
        return None if found is None else not found
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if node.type != "binary_expression" or left is None or right is None:
        return None
    if operator in ("==", "!=") and text_of(right) == "nullptr":
        pointer = given.get(text_of(left))
        return None if pointer is None else (text_of(pointer) == "nullptr") == (operator == "==")
    sides = (truth_of(left, given), truth_of(right, given))
    if operator in ("&&", "and"):
        return False if False in sides else None if None in sides else True
    if operator in ("||", "or"):
        return True if True in sides else None if None in sides else False
    return None


def is_reached(site: Node, given: Mapping[str, Node]) -> bool:
    """Whether no `if` around a place keeps the given values away from it."""
    for above, below in ancestors(site):
        condition = above.child_by_field_name("condition") if above.type == "if_statement" else None
        if condition is not None and condition != below:
            wanted = above.child_by_field_name("consequence") == below
            if truth_of(condition, given) is (not wanted):
                return False
    return True


def given_argument(argument: Node, given: Mapping[str, Node]) -> Node:
    """What an argument is where parameters have the given values: `nullptr`, or a side of `?:`."""
    plain = without_wrapping(argument)
    if plain.type == "conditional_expression":
        condition = plain.child_by_field_name("condition")
        truth = truth_of(condition, given) if condition is not None else None
        side = plain.child_by_field_name("consequence" if truth else "alternative")
        return given_argument(side, given) if truth is not None and side is not None else argument
    value = given.get(text_of(plain))
    return value if value is not None and text_of(value) == "nullptr" else argument


def local_values(launch: HostLaunch) -> dict[str, Node]:
    """What the host function says that its variables are, up to the launch, and its class.

    A variable whose address is taken gets its value elsewhere, so it is left out. A constant of a
    `case` that repeats the label is what the `switch` is over. Of a variable that some branch
    changes which the launch is not in, this has the value before.
    """
    found = {**class_constants(launch.function), **launch.given, **launch.inner}
    unknown: set[str] = set()
    around = {above.id for above, _ in ancestors(launch.call)}
    for node in _steps(launch.function):
        if node.start_byte >= launch.call.start_byte:
            break
        if node.type == "declaration":
            if _is_visible(node, around):
                found.update(initialised(node))
        elif node.type == "call_expression" and called_name(node) == _OCCUPANCY:
            given = arguments_of(node)
            if len(given) >= 3:  # By threads alone: what else limits it, only a compiler knows.
                blocks = parse_expression(f"maxThreadsPerMultiProcessor / ({text_of(given[2])})")
                found |= {text_of(given[0]).strip("& "): blocks} if blocks is not None else {}
        elif node.type == "call_expression" and called_name(node) not in _PURE:
            # A variable that is 0 only until a helper that takes it by reference sets it.
            passed = map(text_of, arguments_of(node))
            unknown |= {name for name in passed if text_of(found.get(name)) == "0"}
        elif node.type == "assignment_expression":
            target = text_of(node.child_by_field_name("left"))
            value = _after(node, found.get(target) or _part(target, found), around)
            found.pop(target, None)
            found |= {target: value} if value is not None else {}
        else:
            unknown.add(text_of(node.child_by_field_name("argument")))
    for label, condition, _ in _switches(launch.call):
        for name, value in found.items():
            if text_of(value) == label and any(a.id in around for a, _ in ancestors(value)):
                found[name] = condition
    return {name: value for name, value in found.items() if name not in unknown}


@lru_cache(maxsize=16)
def _steps(function: Node) -> tuple[Node, ...]:
    """What may give a variable of a function its value, in order.

    Kept, since a function with many launches is read up to each of them.
    """
    kinds = ("declaration", "call_expression", "assignment_expression", "pointer_expression")
    return tuple(
        node for node in of_type(function, *kinds)
        if node.type != "pointer_expression" or (_is_address(node) and not _is_passed_on(node))
    )  # fmt: skip


def unsure_names(launch: HostLaunch) -> set[str]:
    """Variables whose value at the launch may be another than `local_values` says.

    They are set in a branch, or initialised with a number and passed to a function that may set
    them.
    """
    around = {above.id for above, _ in ancestors(launch.call)}
    found: set[str] = set()
    numbers: set[str] = set()
    for node in descendants(launch.function):
        if node.start_byte >= launch.call.start_byte:
            break
        if node.type == "declaration" and "const" not in text_of(node.child_by_field_name("type")):
            plain = not text_of(node).startswith("const")
            values = initialised(node) if plain else ()
            numbers.update(name for name, value in values if value.type == "number_literal")
        elif (target := _assigned(node)) and not _is_visible(node, around):
            found.add(target)
        elif node.type == "call_expression":
            found.update(text_of(a) for a in arguments_of(node) if text_of(a) in numbers)
    return found


def _part(target: str, found: Mapping[str, Node]) -> Node | None:
    """The value that `block.x` has by `dim3 block(...)`."""
    name, _, axis = target.rpartition(".")
    given = arguments_of(found[name]) if name in found and axis in AXES else []
    place = AXES.index(axis) if given else 0
    return given[place] if place < len(given) else None


def _after(assignment: Node, before: Node | None, around: set[int]) -> Node | None:
    """The value of a variable after an assignment, which may use or, under an `if`, keep the old.

    None where it is not known.
    """
    target = text_of(assignment.child_by_field_name("left"))
    right = assignment.child_by_field_name("right")
    operator = text_of(assignment.child_by_field_name("operator"))
    if before is None:
        return right if operator == "=" else None
    old = f"({text_of(before)})"

    def with_old(node: Node | None) -> str:
        named = rf"(?<![\w.]){re.escape(target)}(?!\w)"
        return "(" + re.sub(named, lambda _: old, text_of(node)) + ")"

    text = with_old(right) if operator == "=" else f"({old} {operator[:-1]} {with_old(right)})"
    for above, below in _control_around(assignment):
        if above.id in around:
            break
        if above.type in _LOOPS:
            return None
        clause = above.child_by_field_name("condition")
        condition = clause.child_by_field_name("value") if clause is not None else None
        if below == above.child_by_field_name("consequence"):
            text = f"({with_old(condition)} ? {text} : {old})"
        elif below == above.child_by_field_name("alternative"):
            text = f"({with_old(condition)} ? {old} : {text})"
    if len(text) > _LONGEST_VALUE:  # Every level repeats what was there before.
        return None
    return right if text == f"({text_of(right)})" else parse_expression(text)


@lru_cache(maxsize=4096)
def _control_around(node: Node) -> tuple[tuple[Node, Node], ...]:
    """The loops and `if`s around a node, as `ancestors` gives them."""
    kinds = ("if_statement", *_LOOPS)
    return tuple((above, below) for above, below in ancestors(node) if above.type in kinds)


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
    block = _block_of(declaration)
    return block is None or block in around


@lru_cache(maxsize=16384)
def _block_of(declaration: Node) -> int | None:
    """The number of the block that a declaration is made in, None outside of all."""
    blocks = ("compound_statement", "case_statement")
    return next((above.id for above, _ in ancestors(declaration) if above.type in blocks), None)


def _is_passed_on(address: Node) -> bool:
    """Whether an address is only listed for a launch: `void* args[] = {&x, &y}`, `&config`."""
    above = address.parent
    while above is not None and above.type in ("cast_expression", "parenthesized_expression"):
        above = above.parent
    if above is not None and above.type == "initializer_list":
        return True
    call = above.parent if above is not None and above.type == "argument_list" else None
    return call is not None and called_name(call) in {
        *_WITH_CONFIG,
        "cudaFuncSetAttribute",
        _OCCUPANCY,
    }


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
