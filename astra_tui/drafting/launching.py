"""How a kernel is launched, in the plan's language, and which of its numbers are sizes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from astra_tui.cuda_source.functions import function_name, parameters_of
from astra_tui.cuda_source.syntax import (
    all_of_type,
    ancestors,
    arguments_of,
    called_name,
    declarators,
    descendants,
    integer_value,
    one_line,
    parse_expression,
    template_arguments,
    text_of,
    without_wrapping,
)
from astra_tui.drafting import folding
from astra_tui.drafting.answers import Ask
from astra_tui.drafting.expressions import (
    AXES,
    PROPERTIES,
    Rewriter,
    SymbolTable,
    free_name,
    is_dim3,
    known_truth,
    printed,
)
from astra_tui.drafting.host_launches import (
    HostLaunch,
    local_values,
    switch_labels,
    unsure_names,
)
from astra_tui.drafting.reading import KernelFunction, SourceText, declared_types
from astra_tui.drafting.tensor_checks import (
    TensorCheck,
    checked_conditions,
    fixed_sizes,
    is_any,
    symbolic_sizes,
    tensor_checks,
)
from astra_tui.drafting.types import dtype_of, is_size_type
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import print_expression
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Compare,
    Expression,
    Integer,
    Name,
    names_in,
)
from astra_tui.model.launch.scope import DEVICE_ATTRIBUTES, ELEMENT_TYPE

_TYPE_NAMES = {ELEMENT_TYPE, *(d.value for d in DType)}
MAX_LABEL = 512
MAX_ALIGNMENT = 16
"""Bytes of the widest access of one thread."""
_METHODS = re.compile(r"[\w.\->]+(?:\.|->)(?:size|numel|shape|dim|unwrap)\s*\(")


@dataclass
class Sizes:
    """The sizes of a draft: names of the plan, with what the host code passes for them."""

    workload: dict[str, int | None] = field(default_factory=dict)
    leaves: dict[str, str] = field(default_factory=dict)
    """Text in host code to the name of the size."""
    arguments: dict[str, Expression] = field(default_factory=dict)
    """What is passed for each whole-number parameter of the kernel."""
    moved: dict[str, Expression] = field(default_factory=dict)
    """Pointers of the kernel that are passed from another place than a tensor's beginning."""

    def add(self, wanted: str, text: str = "", value: int | None = None) -> str:
        """A new size under a free name; the text in host code is the same from now on."""
        name = free_name(wanted)
        while name in self.workload or name in self.taken:
            name += "_"
        self.workload[name] = value
        if text:
            self.leaves[text] = name
        return name

    fixed: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Sizes that are template arguments, with the values to try."""

    accepted: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Sizes that the source accepts for template arguments that no call shows."""

    offered: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of such sizes those that Python passes, where it checks them."""

    assumed: dict[str, str] = field(default_factory=dict)
    """Sizes that are such template arguments, with their parameters."""

    taken: set[str] = field(default_factory=set)
    """Names of the kernel's tensors and scalars."""


class HostCode:
    """The host code of a launch."""

    def __init__(
        self, source: SourceText, kernel: KernelFunction, launch: HostLaunch, sizes: Sizes
    ):
        self.source = source
        self.kernel = kernel
        self.launch = launch
        self.sizes = sizes
        self.changed = frozenset(_changed_by_callees(source, launch))
        values = local_values(launch)
        self.values = {name: node for name, node in values.items() if name not in self.changed}
        self.tensors = tensors_of(kernel, launch, self.values)
        self.attributes = dict(self._attributes())
        self.queries = dict(_device_queries(source))
        types = declared_types(launch.function)
        self.grids = {name for name, kind in types.items() if kind == "dim3"}
        self.unread: dict[str, Node] = {}
        """Variables that became sizes because what they hold could not be read."""
        self.types: dict[str, str] = {}
        self.cpp_names: dict[str, str] = {}
        """Names of element types with what quoted C++ text of the plan has for them."""
        self.numbers: dict[str, int] = {}
        self.flags: dict[str, bool] = {}
        """Truth values of template parameters."""
        self.expressions: dict[str, Expression] = {}
        self.shapes: dict[str, tuple[str, ...]] = {}
        """Shapes of the kernel's tensors that the host code checks."""
        self.element_types: Mapping[str, str] = {}
        """The plan's names of the element types of the kernel's tensors."""
        self.alignments: dict[str, None] = {}
        """Conditions on addresses and strides that the host code checks."""

    # -- names -----------------------------------------------------------------------------------

    def symbols(self, leaves: Mapping[str, str] | None = None) -> SymbolTable:
        """What names in this host code stand for."""
        return SymbolTable(
            leaves=self.sizes.leaves if leaves is None else leaves,
            definitions=self.values,
            constants=self.source.constants,
            helpers=self.source.helpers,
            types=self.types,
            attributes=self.attributes,
            tensors=self.tensors,
            numbers=self.numbers,
            expressions=self.expressions,
            class_constants=self.source.class_constants,
            class_sizes=self.source.class_sizes,
            queries=self.queries,
        )

    def expression(self, node: Node) -> Expression | None:
        """A host expression over the sizes; names that it needs become sizes."""
        self._choose_leaves(node)
        return Rewriter(self.symbols()).expression(node)

    def geometry(self, node: Node) -> list[Expression] | None:
        """The parts of a grid or a block."""
        self._choose_leaves(node)
        return Rewriter(self.symbols()).sizes(node)

    def _attributes(self) -> Iterator[tuple[str, str]]:
        for node in all_of_type(self.launch.function, "call_expression"):
            if called_name(node) == "cudaDeviceGetAttribute":
                target = re.search(r"&\s*(\w+)", text_of(node))
                if target and "MultiProcessorCount" in text_of(node):
                    yield target[1], "sm_count"

    def read_properties(self, element_types: Mapping[str, str]) -> None:
        """Takes what is known of the launch's tensors by the plan's names of their types.

        A tensor that is asked for its rows has two dimensions, and one that is passed is there.
        """
        self.element_types = element_types
        text = text_of(self.launch.function)
        for host, name in self.tensors.items():
            kind = element_types.get(name)
            for mark in (".", "->"):
                for call in ("element_size()", "itemsize()"):
                    if kind is not None:
                        self.expressions[f"{host}{mark}{call}"] = Call("sizeof", (Name(kind),))
                self.expressions[f"{host}{mark}has_value()"] = Integer(1)
                self.expressions[f"{host}{mark}defined()"] = Integer(1)
            if f"{host}.numel()" in text and f"{host}.size(-1)" in text:
                self.expressions[f"{host}.dim()"] = Integer(2)
        for check in tensor_checks(self.launch):
            tensor = self.tensors.get(check.tensor)
            if check.type_variable and tensor is not None:
                asked = f"dtype_bytes({check.type_variable}.unwrap())"
                kind = element_types.get(tensor, ELEMENT_TYPE)  # What is not known is drafted so.
                self.expressions.setdefault(asked, Call("sizeof", (Name(kind),)))

    def read_modes(self) -> Iterator[str]:
        """Takes truth values that the host code asks a function without arguments as false.

        Yields the names of the variables.
        """
        for name, value in self.values.items():
            is_plain = re.fullmatch(r"[\w:]+\(\)", text_of(value)) is not None
            if is_plain and declared_types(self.launch.function).get(name) == "bool":
                self.numbers[name] = 0
                yield name

    def read_switches(self) -> None:
        """Takes the labels of a `switch` around the launch as the sizes of what it is over."""
        for condition, labels in switch_labels(self.launch.call):
            name = self.sizes.leaves.get(text_of(condition))
            values = tuple(v for text in labels if (v := integer_value(text)))
            if name is not None and values:
                self.sizes.fixed.setdefault(name, tuple(v for v in values if v <= MAX_LABEL))

    def read_checks(self) -> None:
        """Takes sizes, strides and shapes from the checks that the host code makes."""
        function = self.launch.function
        symbols, fixed = symbolic_sizes(function), fixed_sizes(function)
        checks = tuple(tensor_checks(self.launch))
        unchecked = {
            f"{check.tensor}.size({axis})"
            for check in checks for axis, text in enumerate(check.sizes) if is_any(text)
        }  # fmt: skip
        for name, node in fixed.items():
            found = self.expression(node)
            if found is not None:
                self.expressions[f"{name}.unwrap()"] = found
        for node, holds in checked_conditions(self.launch.call, self.launch.function):
            if holds:
                self._read_equality(node, symbols, unchecked)
        for check in checks:
            tensor = self.tensors.get(check.tensor)
            sizes = tuple(
                self._unchecked_size(check.tensor, axis)
                if is_any(text) else self._checked_size(text, symbols)
                for axis, text in enumerate(check.sizes)
            )  # fmt: skip
            if tensor is None:
                continue
            if all(sizes) and tensor not in self.shapes:
                self.shapes[tensor] = sizes
            self.alignments.update(dict.fromkeys(self._alignments(check, tensor, symbols)))
            for axis, text in enumerate(check.strides[:-1]):
                if text in symbols and f"{text}.unwrap()" not in self.sizes.leaves:
                    stride = Call("stride", (Name(tensor), Integer(axis)))
                    self.expressions.setdefault(f"{text}.unwrap()", stride)

    def _read_equality(
        self, node: Node, symbols: Mapping[str, str], unchecked: Collection[str]
    ) -> None:
        """Takes a size from a check such as `2 * n == D.unwrap()` or `x.size(1) * 2 == n`.

        `unchecked` are the sizes of tensors of which the checks of shapes say nothing.
        """
        node = without_wrapping(node)
        clause = node.child_by_field_name("value") if node.type == "condition_clause" else None
        node = without_wrapping(clause) if clause is not None else node
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        is_equality = text_of(node.child_by_field_name("operator")) == "=="
        if left is None or right is None or not is_equality:
            return
        for target, other in ((left, right), (right, left)):
            target, factor = _without_factor(without_wrapping(target))
            text = text_of(target)
            name = text.removesuffix(".unwrap()")
            is_symbol = name != text and name in symbols
            is_open = (is_symbol or text in unchecked) and text not in self.expressions
            if is_open and text not in self.sizes.leaves:
                for symbol in symbols:
                    if symbol != name and self._is_behind(f"{symbol}.unwrap()", other):
                        self._symbol(symbol, symbols)
                found = self.expression(other)
                by = self.expression(factor) if factor is not None else Integer(1)
                if found is not None and by is not None and not isinstance(found, Integer):
                    self.expressions[text] = _divided(found, by)
                    return

    def _is_behind(self, text: str, node: Node, depth: int = 0) -> bool:
        """Whether an expression has a text in it, or in what its variables stand for."""
        if text in text_of(node):
            return True
        names = {text_of(n) for n in self._names(node)} if depth < 8 else set()
        values = (self.values[n] for n in names if n in self.values)
        return any(self._is_behind(text, value, depth + 1) for value in values)

    def _symbol(self, symbol: str, symbols: Mapping[str, str]) -> str:
        """The size of a symbolic one, under the name that the source gives it."""
        unwrapped = f"{symbol}.unwrap()"
        if unwrapped in self.expressions:
            return printed(self.expressions[unwrapped])
        known = self.sizes.leaves.get(unwrapped)
        return known or self.sizes.add(symbols[symbol], unwrapped)

    def _alignments(
        self, check: TensorCheck, tensor: str, symbols: Mapping[str, str]
    ) -> Iterator[str]:
        """That a tensor's address and the strides of its rows are multiples of some bytes."""
        if check.alignment is None:
            return
        found = Rewriter(self.symbols()).expression(check.alignment)
        # A number that is not known is at most what one access may take.
        size = found.value if isinstance(found, Integer) else MAX_ALIGNMENT
        yield f"aligned({tensor}, {size})"
        kind = self.element_types.get(tensor, ELEMENT_TYPE)
        for axis, text in enumerate(check.strides[:-1]):
            # Axes behind the first whose strides are sizes lie without gaps.
            if axis and (text not in symbols or text in check.sizes):
                continue
            yield f"stride({tensor}, {axis}) * sizeof({kind}) % {size} == 0"

    def _unchecked_size(self, host: str, axis: int) -> str:
        """A size of a tensor that no check of its shape names, "" where the kernel has no such."""
        tensor, text = self.tensors.get(host), f"{host}.size({axis})"
        if text in self.expressions:
            return printed(self.expressions[text])
        name = f"{tensor}_size{axis}" if axis else f"{tensor}_rows"
        return self.sizes.leaves.get(text) or (self.sizes.add(name, text) if tensor else "")

    def _checked_size(self, text: str, symbols: Mapping[str, str]) -> str:
        """A size of a shape in the plan's language; a symbolic one gets its own name."""
        if text in symbols:
            return self._symbol(text, symbols)
        node = parse_expression(text)
        found = self.expression(node) if node is not None else None
        return printed(found) if found is not None else ""

    def conditions(self, ask: Ask) -> tuple[str, ...]:
        """Conditions on the sizes that hold where the kernel is launched.

        That a size is not 0 is no condition: launchers leave out such launches. A branch around
        the launch that says nothing of sizes becomes a point.
        """
        unsure = unsure_names(self.launch)
        sure = {name: value for name, value in self.values.items() if name not in unsure}
        rewriter = Rewriter(replace(self.symbols(), definitions=sure))
        found = dict(self.alignments)
        for node, holds in checked_conditions(self.launch.call, self.launch.function):
            for condition in rewriter.conditions(node, holds):
                text = printed(condition)
                nonzero = re.fullmatch(r"\w+ (!= 0|> 0|>= 1)|.* >= 0", text)
                if (
                    text
                    and not (nonzero or _is_always(condition))
                    and self._is_over_sizes_alone(condition)
                ):
                    found[f"({text})" if isinstance(condition, Binary) else text] = None
        for branch, below in ancestors(self.launch.call):
            decides = branch.child_by_field_name("condition")
            if branch.type != "if_statement" or decides is None:
                continue
            holds = below == branch.child_by_field_name("consequence")
            known = rewriter.conditions(decides, holds)
            if not any(self._is_over_sizes_alone(each) for each in known):
                shown = f"'{one_line(text_of(decides).strip('()'))}' is {str(holds).lower()}"
                ask(f"the draft follows the launch at line {self.launch.line}, where {shown}")
        return tuple(found)

    def _is_over_sizes_alone(self, expression: Expression) -> bool:
        names = names_in(expression) - _TYPE_NAMES
        return bool(names) and names <= set(self.sizes.workload)

    # -- which host names are sizes ----------------------------------------------------------------

    def bind_arguments(self) -> None:
        """Finds the sizes that are passed to the kernel, and what is passed for each parameter."""
        passed = {
            p.name: without_wrapping(a)
            for p, a in zip(self.kernel.parameters, self.launch.arguments, strict=False)
            if is_size_type(p, self.source.aliases)
        }
        bare = {n: node for n, node in passed.items() if self._is_leaf_text(node)}
        texts = {text_of(node) for node in bare.values()}
        for name, node in bare.items():
            text, value = text_of(node), self._known_value(node)
            known = text in {**self.sizes.leaves, **self.expressions, **self.launch.given}
            is_constant = value is not None and (value == 0 or self._has_callers())
            if not known and not is_constant and not self._follows(node, texts):
                self._note_unread(text, node)
                self.sizes.add(name, text, value)
        for name, node in passed.items():
            found = self.expression(node)
            is_given = text_of(node) in {**self.launch.given, **self.numbers}
            is_given |= self._is_leaf_text(node) and self._has_callers()
            is_number = isinstance(found, Integer) and found.value > 0
            if found is None or (is_number and not is_given):
                value = found.value if isinstance(found, Integer) else None
                found = Name(self.sizes.add(name, "", value))
            self.sizes.arguments[name] = found

    def _has_callers(self) -> bool:
        """Whether others call the host function with sizes, so that its numbers are constants."""
        function = self.launch.function
        return bool(parameters_of(function)) and function_name(function) != "main"

    def _is_leaf_text(self, node: Node) -> bool:
        if node.type == "call_expression":
            return bool(_METHODS.match(text_of(node)))
        return node.type in ("identifier", "field_expression")

    def _follows(self, node: Node, others: set[str]) -> bool:
        """Whether a variable is computed from other sizes that are passed, as in n = rows * d."""
        definition = self.values.get(text_of(node))
        if definition is None or text_of(node) in self.attributes:
            return text_of(node) in self.attributes
        if (known := self._over_names(definition, self.sizes.leaves)) is not None and (
            names_in(known) & set(self.sizes.leaves.values())
        ):
            return True
        rest = {text: free_name(text) for text in others - {text_of(node)}}
        found = self._over_names(definition, rest)
        if found is None:
            return False
        return bool(names_in(found) & set(rest.values())) or "stride(" in printed(found)

    def _over_names(self, node: Node, leaves: Mapping[str, str]) -> Expression | None:
        """A host expression with every name in it allowed."""
        return Rewriter(replace(self.symbols(leaves), known=lambda _name: True)).expression(node)

    def _known_value(self, node: Node) -> int | None:
        """The number that the host code gives a variable, as main() often does."""
        definition = self.values.get(text_of(node))
        found = (
            Rewriter(self.symbols({})).expression(definition) if definition is not None else None
        )
        return found.value if isinstance(found, Integer) else None

    def _choose_leaves(self, node: Node, depth: int = 0) -> None:
        """Makes sizes of the names in an expression that nothing known explains."""
        if depth > 8:
            return
        for part in list(self._names(node)):
            text = text_of(part)
            if text in self.sizes.leaves or text in self.attributes or text in self.numbers:
                continue
            if text in self.expressions or text in self.launch.given:
                continue
            if isinstance(Rewriter(self.symbols()).expression(part), Integer):
                continue
            definition = self.values.get(text)
            if definition is None and text in self.grids:
                for axis in AXES:  # Filled member by member.
                    if (member := self.values.get(f"{text}.{axis}")) is not None:
                        self._choose_leaves(member, depth + 1)
            elif definition is None:
                if self._is_unknown_number(part):
                    self._note_unread(text, part)
                    self.sizes.add(_named_after(text), text)
            elif definition.type == "identifier" and text_of(definition) != text:
                self._choose_leaves(definition, depth + 1)  # The `switch` over it, say.
            elif is_dim3(definition) or self._is_over(definition):
                self._choose_leaves(definition, depth + 1)
            elif self._known_value(part) is None and text not in self.grids:
                self._note_unread(text, part)
                self.sizes.add(text, text)

    def _note_unread(self, name: str, node: Node) -> None:
        """Remembers a variable whose value another function gives, or cannot be read."""
        definition = self.values.get(name)
        parts = self._names(definition) if definition is not None else ()
        asked = {text_of(part): free_name(text_of(part)) for part in parts}
        is_read = definition is None or self._over_names(definition, asked) is not None
        if name in self.changed or not is_read:
            self.unread[name] = node

    def _names(self, node: Node) -> Iterator[Node]:
        """Names and size calls of an expression, but not the functions that it calls."""
        stack = [node]
        while stack:
            current = stack.pop()
            if self._is_leaf_text(current) and current.type != "field_expression":
                yield current
                continue
            if current.type == "sizeof_expression" or text_of(current) in self.expressions:
                continue
            if current.type == "call_expression" and called_name(current) in self.queries:
                stack.extend(arguments_of(current)[1:2])
                continue
            skipped = current.child_by_field_name("function")
            if current.type == "field_expression":
                yield current
                continue
            stack.extend(c for c in reversed(current.named_children) if c != skipped)

    def _is_unknown_number(self, node: Node) -> bool:
        """Whether a name is a parameter, a member or a size call: something only a caller knows."""
        text = text_of(node)
        if node.type == "call_expression":
            return True
        if node.type == "field_expression":
            owner, part = (text_of(node.child_by_field_name(f)) for f in ("argument", "field"))
            return part not in PROPERTIES and owner not in self.values
        known = {**self.source.constants, **self.source.helpers, **self.source.functions}
        if text in known or text in DEVICE_ATTRIBUTES or text in PROPERTIES:
            return False
        return not any(
            text == name and declarator.type == "dim3" for name, declarator in self._all()
        )

    def _all(self) -> Iterator[tuple[str, Node]]:
        for node in all_of_type(self.launch.function, "declaration"):
            yield from declarators(node)

    def _is_over(self, definition: Node) -> bool:
        """Whether a definition is over known sizes, or over what the host function is passed."""
        if self._is_over_sizes(definition):
            return True
        passed = {p.name for p in parameters_of(self.launch.function) if not p.pointers}
        names = {text_of(n) for n in self._names(definition)}
        explained = passed | {n for n in names if self.values.get(n) is not None}
        # A product of what is passed is a size of its own; these are widths and counts of warps.
        is_derived = re.search(r"\bsizeof\b|\b(?:min|max)\b", text_of(definition)) is not None
        return (
            is_derived
            and bool(names)
            and names <= explained
            and self._over_names(definition, {}) is not None
        )

    def _is_over_sizes(self, definition: Node) -> bool:
        """Whether a definition uses sizes that are known already, or plain numbers alone."""
        known = dict(self.sizes.leaves)
        found = self._over_names(definition, known)
        if found is None:
            return False
        names = names_in(found) - _TYPE_NAMES - set(self.tensors.values())
        return not names or bool(names & (set(known.values()) | set(DEVICE_ATTRIBUTES)))

    def read_moved_pointers(self, ask: Ask) -> None:
        """Takes pointers that the launch passes from another place than a tensor's beginning."""
        for parameter, argument in zip(self.kernel.parameters, self.launch.arguments, strict=False):
            plain = without_wrapping(argument)
            plain = without_wrapping(self.values.get(text_of(plain), plain))
            moved = _moved_by(plain) if parameter.is_pointer else None
            if moved is None:
                continue
            sign, node, counts_bytes = moved
            name = free_name(parameter.name)
            if self._is_shared(argument):
                said = "the launch passes a part of a tensor that it passes elsewhere too"
                ask(f"{name}: {said}; the draft makes it a tensor of its own", f"args.{name}.shape")
                continue
            distance = self.expression(node)
            if distance is None:
                said = f"the launch passes '{one_line(text_of(plain), 80)}'"
                ask(f"{name}: {said}; the plan passes the tensor's beginning", f"plan.args.{name}")
                continue
            if counts_bytes:
                item = Call("sizeof", (Name(self.element_types.get(name, ELEMENT_TYPE)),))
                distance = folding.combined("//", distance, item)
            self.sizes.moved[parameter.name] = Binary(sign, Name(name), distance)
            if name not in self.shapes:
                said = "the shape follows from the kernel's indices, which begin there"
                ask(f"{name}: the launch passes a moved pointer; {said}", f"args.{name}.shape")

    def _is_shared(self, pointer: Node) -> bool:
        """Whether another argument of the launch points into the same tensor."""
        pairs = zip(self.kernel.parameters, self.launch.arguments, strict=False)
        owners = [self._owner(a) for p, a in pairs if p.is_pointer]
        return owners.count(self._owner(pointer)) > 1

    def _owner(self, pointer: Node) -> str:
        """The host name of the tensor that a pointer points into, "" for none."""
        name = ""
        for _ in range(8):
            found = _tensor_behind(pointer, self.values)
            value = self.values.get(found)
            if value is None or found == name:
                return found
            name, pointer = found, value
        return name

    # -- failures --------------------------------------------------------------------------------

    def described(self, node: Node) -> str:
        """A host expression for a message, with its line."""
        definition = self.values.get(text_of(node))
        text = text_of(definition if definition is not None else node)
        return f"'{one_line(text)}' at line {self.launch.line}"


def _without_factor(node: Node) -> tuple[Node, Node | None]:
    """The size of `2 * D.unwrap()` with its factor, any other expression as it is."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None or text_of(node.child_by_field_name("operator")) != "*":
        return node, None
    for size, factor in ((left, right), (right, left)):
        if re.fullmatch(r"\w+\.(unwrap\(\)|size\(\d+\))", text_of(size)):
            return size, factor
    return node, None


def _divided(total: Expression, by: Expression) -> Expression:
    """`n // by`, and n for `n * by // by`."""
    match total:
        case Binary(operator="*", left=left, right=right) if by in (left, right):
            return left if right == by else right
        case _:
            return folding.combined("//", total, by)


def _changed_by_callees(source: SourceText, launch: HostLaunch) -> Iterator[str]:
    """Variables that the host function passes by reference to functions of the source."""
    for node in all_of_type(launch.function, "call_expression"):
        if node.start_byte >= launch.call.start_byte:
            return
        callee = source.functions.get(called_name(node))
        if callee is not None:
            for parameter, argument in zip(parameters_of(callee), arguments_of(node), strict=False):
                if parameter.is_reference and not parameter.is_const:
                    yield text_of(argument)


def _device_queries(source: SourceText) -> Iterator[tuple[str, str]]:
    """Functions that ask a device for its SMs, or for the blocks that one of them runs at once.

    The latter depend on a kernel's registers too; a plan knows of the threads alone.
    """
    for name, function in source.functions.items():
        text = text_of(function.child_by_field_name("body"))
        if "MaxActiveBlocksPerMultiprocessor" in text:
            yield name, "max_threads_per_sm"
        elif "DevAttrMultiProcessorCount" in text:
            yield name, "sm_count"


def _tensor_behind(argument: Node, values: Mapping[str, Node]) -> str:
    """The host name of the tensor that a pointer is taken from, "" for none."""
    value = values.get(text_of(without_wrapping(argument)), argument)
    for node in (argument, value):
        match = re.search(r"\b(\w+)(?:\.|->)\w*data_ptr\b", text_of(node))
        if match:
            return match[1]
    names = (n for n in descendants(without_wrapping(argument)) if n.type == "identifier")
    return next(map(text_of, names), "")


def tensors_of(
    kernel: KernelFunction, launch: HostLaunch, values: Mapping[str, Node]
) -> dict[str, str]:
    """Host names of a launch's tensors with the draft's names for them."""
    pairs = zip(kernel.parameters, launch.arguments, strict=False)
    owners = ((_tensor_behind(a, values), p.name) for p, a in pairs if p.is_pointer)
    return {owner: free_name(name) for owner, name in owners if owner}


def with_checked_types(
    source: SourceText, kernel: KernelFunction, launch: HostLaunch
) -> KernelFunction:
    """A kernel whose `void*` have the element types that host code checks, the first of several."""
    found = list(kernel.parameters)
    untyped = [n for n, p in enumerate(found) if p.is_pointer and p.type == "void"]
    values = local_values(launch) if untyped else {}
    checked = {check.tensor: check.types for check in tensor_checks(launch)} if untyped else {}
    for place in (n for n in untyped if n < len(launch.arguments)):
        types = checked.get(_tensor_behind(launch.arguments[place], values), ())
        if types and dtype_of(types[0], source.aliases) is not None:
            found[place] = replace(found[place], type=types[0])
    return replace(kernel, parameters=tuple(found))


def _moved_by(pointer: Node) -> tuple[str, Node, bool] | None:
    """How `x + n`, `x - n` and `offset(x, n)` move a pointer: the sign, n, whether n counts bytes.

    None for a pointer that is passed as it is.
    """
    operator = text_of(pointer.child_by_field_name("operator"))
    right = pointer.child_by_field_name("right")
    if pointer.type == "binary_expression" and operator in ("+", "-") and right is not None:
        return operator, right, False
    if pointer.type == "call_expression" and called_name(pointer) == "offset":
        moved = arguments_of(pointer)[1:]
        return ("+", moved[0], not template_arguments(pointer)) if len(moved) == 1 else None
    return None


def _is_always(condition: Expression) -> bool:
    """Whether a condition says only that something equals itself."""
    match condition:
        case Compare(first=first, links=((("==" | "<=" | ">="), other),)):
            return print_expression(first) == print_expression(other)
        case _:
            return False


def can_run(source: SourceText, kernel: KernelFunction, launch: HostLaunch) -> bool:
    """Whether no condition around a launch is known to rule it out, as one for another GPU is."""
    host = HostCode(source, kernel, launch, Sizes())
    list(host.read_modes())
    for node, holds in checked_conditions(launch.call, launch.function):
        found = Rewriter(host.symbols()).truth(node)
        known = known_truth(found) if found is not None else None
        if known is not None and known != holds:
            return False
    return True


def _named_after(text: str) -> str:
    """A name for a size that host code asks a tensor for."""
    match = re.match(r"(?:.*?)(\w+)(?:\.|->)(size|numel|shape|dim)\s*\(\s*(-?\d*)", text)
    if match is None:
        return re.split(r"\.|->|::", text)[-1]
    if match[2] == "numel":
        return "n"
    return "rows" if match[3] == "0" else f"{match[1]}_{match[2]}{match[3].replace('-', '_')}"
