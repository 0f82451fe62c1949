"""Roles and shapes of a draft's tensors, from the accesses in the kernel's body."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from astra_tui.cuda_source.functions import Variable
from astra_tui.cuda_source.polynomial import constant
from astra_tui.cuda_source.syntax import one_line
from astra_tui.drafting.accesses import READ, UNKNOWN, UPDATE, WRITE, Access, accesses_of, wait_in
from astra_tui.drafting.answers import Ask
from astra_tui.drafting.body import Facts, Pointer
from astra_tui.drafting.elements import ElementTypes
from astra_tui.drafting.expressions import free_name, plan_expression
from astra_tui.drafting.geometry import LaunchDraft, limits
from astra_tui.drafting.launching import MAX_ALIGNMENT, Sizes
from astra_tui.drafting.polynomial import Polynomial, from_expression, rounds_up
from astra_tui.drafting.reading import KernelFunction, SourceText, local_aliases
from astra_tui.drafting.shapes import Geometry, Shape, is_stride, shape_of
from astra_tui.drafting.types import DTYPE_BYTES
from astra_tui.model.dtypes import DType
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Compare,
    Expression,
    Integer,
    Name,
    names_in,
)
from astra_tui.model.launch.scope import ELEMENT_TYPE
from astra_tui.model.task import ArgumentRole


@dataclass(frozen=True)
class TensorDraft:
    """One tensor. `dtype` None means T; `sizes` are expressions over the dimensions."""

    name: str
    role: ArgumentRole
    dtype: DType | None
    sizes: tuple[str, ...]
    is_read: bool = True
    """Whether the sizes were read from the source; otherwise they are a guess."""
    strided: bool = False
    choices: str = ""
    """The dimension that its elements choose from, when it holds indices."""
    is_role_read: bool = True
    """Whether the role was read from the source; otherwise it is a guess."""
    values: str = ""
    """How its elements are drawn, as task.toml writes it; "" for the rule of its type."""

    limit: float | None = None
    """The largest magnitude that has to work, where the operator suggests one."""

    is_stable: bool = False
    """Whether the kernel reads it before it waits for the launches before."""

    has_neighbours: bool = False
    """Whether an element is read with the one after it, as of offsets."""

    @property
    def is_input(self) -> bool:
        """Whether the operator reads what is in it."""
        return self.role.is_input


@dataclass(frozen=True)
class TensorsDraft:
    """All tensors, and the conditions on sizes under which their shapes hold."""

    tensors: tuple[TensorDraft, ...]
    conditions: tuple[str, ...]


def read_accesses(
    source: SourceText,
    kernel: KernelFunction,
    launch: LaunchDraft,
    elements: ElementTypes,
    sizes: Sizes,
) -> list[Access]:
    """Every access of the kernel to its tensors, in order."""
    values: dict[str, Polynomial | Pointer] = {
        name: from_expression(value) for name, value in sizes.arguments.items()
    }
    element_bytes: dict[str, int] = {}
    for parameter in kernel.parameters:
        if parameter.is_pointer:
            dtype, width = elements.of(parameter)
            values[parameter.name] = Pointer(parameter.name, Polynomial(), width)
            element_bytes[parameter.name] = dtype.size if dtype is not None else 0
    grid: tuple[Polynomial | None, ...] = (None, None, None)
    facts = Facts(
        constants=source.constants,
        numbers=launch.numbers,
        sizes=_sizes_of_template(kernel, launch),
        block=limits(launch.block),
        grid=grid if launch.grid is None else limits(launch.grid),
        functions=source.functions,
        helpers=source.helpers,
        aliases={**source.aliases, **local_aliases(kernel.node)},
        element_bytes=element_bytes,
        type_bytes={
            **DTYPE_BYTES,
            **dict.fromkeys(elements.generic, elements.task[0].size),
            **{name: dtype.size for name, dtype in elements.fixed.items()},
        },
    )
    return accesses_of(kernel.node, values, facts)


def _sizes_of_template(kernel: KernelFunction, launch: LaunchDraft) -> dict[str, Polynomial]:
    """Template parameters that follow from the sizes."""
    found = {}
    for (kind, name, _), text in zip(kernel.template, launch.template, strict=False):
        value = plan_expression(text)
        if kind != "typename" and name not in launch.numbers and value is not None:
            found[name] = from_expression(value)
    return found


class TensorReader:
    """Turns accesses into tensors; what it cannot read becomes an open point."""

    def __init__(
        self,
        kernel: KernelFunction,
        elements: ElementTypes,
        sizes: Sizes,
        accesses: Sequence[Access],
        ask: Ask,
    ):
        self.kernel = kernel
        self.elements = elements
        self.sizes = sizes
        self.accesses = accesses
        self.ask = ask
        self.conditions: dict[str, None] = {}
        self.pdl = False
        self.checked: frozenset[str] = frozenset()
        """What the launcher itself requires to be whole, for the first of the element types."""
        self.choices: dict[str, str] = {}
        self.scattered: dict[str, str] = {}
        """Tensors that are written where the numbers of another say."""

    def read(self, launch: LaunchDraft) -> TensorsDraft:
        """The tensors of the kernel's parameters, in order."""
        pointers = [
            p for p in self.kernel.parameters if p.is_pointer and p.name not in launch.nulls
        ]
        geometry = Geometry(
            limits(launch.grid or ()), limits(launch.block), tuple(self.sizes.workload)
        )
        self.pdl = launch.pdl
        self.checked = frozenset(map(self._of_first_type, launch.conditions))
        shapes = {
            p.name: launch.shapes.get(free_name(p.name)) or self._shape(p, geometry)
            for p in pointers
        }
        self._require_whole_parts()
        if not self.sizes.workload:
            self.sizes.add("n")
            self.ask("the kernel takes no size; the draft assumes one dimension n")
        guess = max(shapes.values(), key=len, default=()) or tuple(self.sizes.workload)[:3]
        tensors = tuple(self._tensor(p, shapes[p.name], guess) for p in pointers)
        for parameter, tensor in zip(pointers, tensors, strict=True):
            self._require_alignment(parameter, tensor)
            for access in self._of(parameter):
                self._require_whole_items(access)
        return TensorsDraft(tensors, tuple(self.conditions))

    def _require_alignment(self, parameter: Variable, tensor: TensorDraft) -> None:
        """Vectors are loaded and stored whole: from addresses that are multiples of their size."""
        dtype, _ = self.elements.of(parameter)
        accesses = self._of(parameter)
        # Of vectors of unknown width a thread loads as much as it can at once.
        widths = (a.width if a.width and a.lanes is None else MAX_ALIGNMENT for a in accesses)
        width = max(widths, default=1)
        size = min(width * dtype.size, MAX_ALIGNMENT) if dtype is not None else 0
        if width > 1 and size & (size - 1) == 0 and size > 1:
            self.conditions[f"aligned({tensor.name}, {size})"] = None
            if tensor.strided:
                kind = tensor.dtype.value if tensor.dtype is not None else "T"
                for axis in range(len(tensor.sizes) - 1):
                    text = f"stride({tensor.name}, {axis}) * sizeof({kind}) % {size} == 0"
                    self.conditions[text] = None

    def _of(self, parameter: Variable) -> list[Access]:
        return [a for a in self.accesses if a.tensor == parameter.name]

    # -- shapes ----------------------------------------------------------------------------------

    def _shape(self, parameter: Variable, geometry: Geometry) -> tuple[str, ...]:
        """The sizes as text, () when they could not be read."""
        shape = shape_of(self._of(parameter), geometry)
        if shape is None:
            return ()
        for total, by in shape.multiples:
            self._require(f"{_operand(total)} % {_operand(by)} == 0")
        found = tuple(
            self._size_text(size) if size is not None else self._new_size(parameter)
            for size in shape.sizes
        )
        self._note_choices(parameter, shape, found)
        rival = ", ".join(filter(None, map(self._size_text, shape.rival)))
        if rival and rival != ", ".join(found):
            name = free_name(parameter.name)
            text = f"{name} is read or written as [{', '.join(found)}] and as [{rival}]"
            self.ask(f"{text}: the draft says the first", f"args.{name}.shape")
        return found if all(found) else ()

    def _require_whole_items(self, access: Access) -> None:
        """Vectors lie at multiples of their width, so every row begins at one."""
        lanes = access.lanes or constant(access.width)
        for monomial, factor in access.index.terms.items() if lanes.number not in (0, 1) else ():
            rows = Polynomial({tuple(a for a in monomial if a.is_size): factor})
            is_plain = rows.number is not None or is_stride(rows)
            if not is_plain and rows.divided(lanes) is None:
                self._require(f"{_operand(rows)} % {_operand(lanes)} == 0")

    def _require_whole_parts(self) -> None:
        """An index over `d / 2` is meant for even d: the rest of the row would be left out."""
        for atom in (atom for access in self.accesses for atom in access.index.atoms()):
            for part in (atom, *(inner for total in atom.parts for inner in total.atoms())):
                is_quotient = part.kind == "value" and len(part.parts) == 2
                if is_quotient and part.parts[1].number and not rounds_up(*part.parts):
                    self._require(f"{_operand(part.parts[0])} % {part.parts[1].number} == 0")

    def _of_first_type(self, condition: str) -> str:
        """`d % (16 // sizeof(T)) == 0` as `d % 8 == 0`; other conditions as they are."""
        size = self.elements.task[0].size
        match plan_expression(condition.replace(f"sizeof({ELEMENT_TYPE})", str(size))):
            case Compare(first=Binary(operator="%", left=total, right=by), links=(("==", _),)):
                parts = _operand(from_expression(total)), _operand(from_expression(by))
                return f"{parts[0]} % {parts[1]} == 0"
            case _:
                return condition

    def _require(self, condition: str) -> None:
        expression = plan_expression(condition)
        if condition in self.checked or expression is None:
            return
        if names_in(expression) - {ELEMENT_TYPE} <= set(self.sizes.workload):
            self.conditions[condition] = None

    def _new_size(self, parameter: Variable) -> str:
        name = f"{free_name(parameter.name)}_rows"
        return self.sizes.leaves.get(name) or self.sizes.add(name, name)

    def _size_text(self, size: Polynomial) -> str:
        text = size.text()
        expression = plan_expression(text)
        usable = expression is not None and self._is_over_sizes(expression)
        return text if usable and size.number != 0 else ""

    def _is_over_sizes(self, expression: Expression) -> bool:
        return names_in(expression) <= set(self.sizes.workload)

    def _note_choices(self, parameter: Variable, shape: Shape, sizes: tuple[str, ...]) -> None:
        if shape.gather is None or not sizes:
            return
        self.choices[shape.gather.numbers] = sizes[0]
        if any(access.kind in (WRITE, UPDATE) for access in self._of(parameter)):
            self.scattered[parameter.name] = shape.gather.numbers

    def _values(self, parameter: Variable, sizes: tuple[str, ...]) -> str:
        """How numbers are drawn that choose where a kernel writes: no two are alike."""
        chosen = self.choices.get(parameter.name, "")
        if parameter.name not in self.scattered.values() or not chosen:
            return ""
        whole = chosen if chosen.isidentifier() else f"({chosen})"
        drawn = f'kind = "integers", low = 0, high = "{whole} - 1"'
        over = plan_expression(f"{product(sizes)} - {whole}")
        beyond = from_expression(over).number if over is not None else None
        if beyond is not None and beyond > 0:
            name = free_name(parameter.name)
            said = f"there are more of them than of {chosen}: some are alike"
            self.ask(f"{name} chooses where the kernel writes, and {said}", f"args.{name}.values")
            return f"{{ {drawn} }}"
        self._require(f"{product(sizes)} <= {chosen}")
        return f'{{ {drawn}, distinct = "tensor" }}'

    # -- roles -----------------------------------------------------------------------------------

    def _tensor(
        self, parameter: Variable, shape: tuple[str, ...], guess: tuple[str, ...]
    ) -> TensorDraft:
        dtype, _ = self.elements.of(parameter)
        name = free_name(parameter.name)
        if dtype is None:
            self.ask(
                f"{name} points to {parameter.type}: say which element type it holds",
                f"args.{name}.dtype",
            )
        role, evidence = self._role(parameter)
        sizes = shape or guess
        axes = self._strides(name)
        for axis in range(len(sizes), max(axes, default=0) + 1):
            sizes = (*sizes, "1" if shape else self.sizes.add(f"{name}_size{axis}"))
        strided = 0 in axes and len(sizes) > 1
        if strided and len(axes) == 1:
            # Only the distance of whole rows is passed: what is inside of one lies together.
            sizes = (sizes[0], product(sizes[1:]))
        how = "" if shape else " is a guess: no index in the body shows it"
        shown = f"{name}: role {role.value} ({evidence}), shape [{', '.join(sizes)}]{how}"
        accesses = self._of(parameter)
        line = accesses[0].line if accesses else 0
        self.ask(shown, f"args.{name}.shape" if how else f"args.{name}", line)
        return TensorDraft(
            name,
            role,
            self.elements.written(parameter),
            sizes,
            bool(shape),
            strided,
            self.choices.get(parameter.name, ""),
            not evidence.startswith("a guess"),
            self._values(parameter, sizes),
            is_stable=role is ArgumentRole.IN and self._is_read_early(parameter),
            has_neighbours=self._has_neighbours(parameter),
        )

    def _has_neighbours(self, parameter: Variable) -> bool:
        read = {a.index for a in self._of(parameter) if a.kind == READ}
        return any((one - other).number == 1 for one in read for other in read)

    def _is_read_early(self, parameter: Variable) -> bool:
        """Whether a kernel with programmatic dependent launch reads a tensor before it waits."""
        wait = wait_in(self.kernel.node) if self.pdl else None
        early = [a for a in self._of(parameter) if wait is not None and a.order[0] < wait]
        if early:
            self.ask(
                f"{parameter.name} is read before the kernel waits for the launches before it "
                f"(line {early[0].line}): stable = true says that none of them writes it; confirm",
                f"args.{free_name(parameter.name)}",
                early[0].line,
            )
        return bool(early)

    def _role(self, parameter: Variable) -> tuple[ArgumentRole, str]:
        """The role, and what in the source shows it."""
        if parameter.is_const:
            return ArgumentRole.IN, "const"
        accesses = self._of(parameter)
        if not accesses:
            return ArgumentRole.OUT, "a guess: the body shows no access"
        kinds = {a.kind for a in accesses}
        first = accesses[0]
        shown = f"'{one_line(first.text, 40)}' at line {first.line}"
        if UNKNOWN in kinds:
            return (
                ArgumentRole.INOUT,
                "a guess: it is passed to a function that the file does not show",
            )
        written = {a.index for a in accesses if a.kind == WRITE}
        is_set_first = first.kind == WRITE and all(a.index in written for a in accesses)
        if UPDATE in kinds and not is_set_first:
            return ArgumentRole.INOUT, "updated in place"
        if WRITE not in kinds:
            return ArgumentRole.IN, f"only read: {shown}"
        if parameter.name in self.scattered:
            numbers = self.scattered[parameter.name]
            return ArgumentRole.INOUT, f"written where {numbers} says, the rest is kept: {shown}"
        if kinds == {WRITE}:
            return ArgumentRole.OUT, f"only written: {shown}"
        if is_set_first:
            return ArgumentRole.OUT, f"written before it is read: {shown}"
        return ArgumentRole.INOUT, f"read and written, first {shown}"

    def _strides(self, name: str) -> set[int]:
        """The axes of a tensor along which the kernel is told the distance of its elements."""
        return set().union(*(_strides_in(value, name) for value in self.sizes.arguments.values()))


def _strides_in(expression: Expression, name: str) -> set[int]:
    match expression:
        case Call(function="stride", args=(Name(id=tensor), Integer(value=axis))):
            return {axis} if tensor == name else set()
        case Call(args=args):
            return set().union(*(_strides_in(a, name) for a in args))
        case Binary(left=left, right=right):
            return _strides_in(left, name) | _strides_in(right, name)
        case _:
            return set()


def _operand(value: Polynomial) -> str:
    text = value.text()
    return text if re.fullmatch(r"\w+|\(([^()]|\([^()]*\))*\)", text) else f"({text})"


def product(sizes: Sequence[str]) -> str:
    """The number of elements of a shape, in the plan's language."""
    if len(sizes) == 1:
        return sizes[0]
    return " * ".join(s if s.isdecimal() or s.isidentifier() else f"({s})" for s in sizes)
