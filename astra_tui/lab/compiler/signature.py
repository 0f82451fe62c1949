"""Reads a kernel's parameter types out of its mangled name: PTX knows only their widths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import itanium_demangler as demangler
import msgspec

from astra_tui.model.c_layout import POINTER_BYTES, Extent, place
from astra_tui.model.compilation import Parameter
from astra_tui.model.dtypes import NUMBERS, OF_CPP_TYPE, DType, NumberKind

_MAX_NODES = 200
"""How many parts a type may have to be spelled out; short mangled names can stand for huge ones."""


_FUNCTION = "L_Z"
"""What begins a function, or a variable, as a template argument."""

_TEMPLATE_PARAMETER = re.compile(r"T\d*_")
_OPERATOR = re.compile(
    r"(?P<one>ng|nt|co|ps|de|ad|nx|sz|az)|(?P<type>st|at)"
    r"|(?P<two>pl|mi|ml|dv|rm|an|or|eo|ls|rs|eq|ne|lt|gt|le|ge|aa|oo)|(?P<three>qu)"
)
"""Operators of an <expression> of the Itanium C++ ABI, by what they take."""

_DECLARATION = re.compile(
    r"\.param(?:\s+\.align\s+(\d+))?\s+\.([busf])(\d+)(\s+\.ptr[^,\[]*)?[^,\[]*(?:\[(\d+)\])?"
)


class SignatureError(Exception):
    """A kernel whose parameters a launch plan cannot pass; the message says why."""


_PARAMETER_KINDS = {
    NumberKind.FLOAT: "float",
    NumberKind.SIGNED: "integer",
    NumberKind.UNSIGNED: "integer",
    NumberKind.BOOL: "bool",
}

_OF_ENUMERATION = {1: DType.INT8, 2: DType.INT16, 4: DType.INT32, 8: DType.INT64}
"""By the size of an enumeration: its name does not say whether it has a sign."""

_NAMED = ("name", "qual_name")


def parse_parameters(symbol: str, ptx: str = "") -> tuple[tuple[Parameter, ...], int]:
    """The parameters of a mangled kernel name, and the size of their packed buffer in bytes.

    Raises SignatureError for names that carry no types, for types that a plan cannot fill, and
    where `ptx` declares other sizes: then the name was not made by the compiler.
    """
    if not symbol.startswith("_Z"):
        raise SignatureError(
            f'{symbol} is declared extern "C", so its name does not say which types it takes; '
            'remove extern "C"'
        )
    try:
        types = _parameter_types(symbol)
        declared = _declared(symbol, ptx)
        known = declared if declared and types and len(declared) == len(types) else None
        unplaced = [
            _parameter(each, number, known[number - 1] if known else None)
            for number, each in enumerate(types or (), 1)
        ]
    except SignatureError:
        raise
    except Exception:  # The demangler raises all kinds for what it does not know.
        types = None
    if types is None:
        raise SignatureError(f"the types of {symbol} could not be read")
    placed = place(Extent(p.size, p.alignment or p.size) for p in unplaced)
    parameters = tuple(
        msgspec.structs.replace(parameter, offset=offset)
        for parameter, offset in zip(unplaced, placed.offsets, strict=True)
    )
    if declared is not None and [d.extent.size for d in declared] != [p.size for p in parameters]:
        raise SignatureError(f'{symbol} does not take what its name says; remove extern "C"')
    return parameters, placed.end


@dataclass(frozen=True)
class _Type:
    """A node of the demangler, and the template arguments that its {T0}, {T1}... stand for."""

    node: Any
    arguments: tuple[Any, ...]

    def bare(self) -> tuple[bool, _Type]:
        """Whether the type is const, and the type without qualifiers."""
        if self.node.kind == "tpl_param" and self.node.value < len(self.arguments):
            return _Type(self.arguments[self.node.value], ()).bare()
        if self.node.kind == "cv_qual":
            const, inner = _Type(self.node.value, self.arguments).bare()
            return const or "const" in self.node.qual, inner
        return False, self

    def __str__(self) -> str:
        if self.node.kind == "expand_arg_pack":
            return "(a parameter pack)"
        if _weight(self.node, self.arguments, {}) > _MAX_NODES:
            return "(a very long name)"
        return str(_filled(self.node, self.arguments))


def _parameter_types(symbol: str) -> list[_Type] | None:
    """The parameter types of a function, or None where the name is not one of a function.

    The demangler's own `parse` copies template arguments into every place that names them, which
    takes hours for a type such as pair<A, A> nested thirty times. This leaves them in place.
    """
    cursor = demangler._Cursor(symbol)
    cursor.accept("_Z")
    name = _function_name(cursor) if _FUNCTION in symbol else demangler._parse_name(cursor)
    if name is None or cursor.at_end():
        return None
    arguments: tuple[Any, ...] = ()
    if name.kind == "qual_name" and name.value[-1].kind == "tpl_args":
        arguments = name.value[-1].value
        if not _skip_returned(cursor):
            return None
    types: list[_Type] = []
    while not cursor.at_end():
        node = demangler._parse_type(cursor)
        if node is None:
            return None
        types += _expanded(_Type(node, arguments))
    if len(types) == 1 and _is_void(types[0].node):
        return []
    return types or None


def _skip_returned(cursor: Any) -> bool:
    """Reads over the type that a template returns: `enable_if<width == 0, void>::type`, say.

    A kernel's is void, but later types may refer to parts of how it is written.
    """
    if cursor._raw[cursor._pos] != "N":
        return demangler._parse_type(cursor) is not None
    name = _function_name(cursor)
    if name is not None:
        cursor.add_subst(name)
    return name is not None


def _expanded(written: _Type) -> list[_Type]:
    """The parameters that `A... a` stands for; any other type is itself."""
    pack = written.node.value if written.node.kind == "expand_arg_pack" else None
    if pack is None or pack.kind != "tpl_param" or pack.value >= len(written.arguments):
        return [written]
    given = written.arguments[pack.value]
    return [_Type(node, ()) for node in given.value] if given.kind == "tpl_arg_pack" else [written]


def _function_name(cursor: Any) -> Any:
    """A function's name whose template arguments may be functions, which the demangler refuses.

    `name` or `name<arguments>`, or parts of such a name between N and E; see <encoding> and
    <expr-primary> of the Itanium C++ ABI. None where it is no such name.
    """
    if not cursor.accept("N"):
        name = demangler._parse_name(cursor, is_nested=True)
        if name is None or not cursor.accept("I"):
            return name
        cursor.add_subst(name)
        arguments = _template_arguments(cursor)
        return arguments and demangler.Node("qual_name", (name, arguments))
    parts: tuple[Any, ...] = ()
    while not cursor.accept("E"):
        if parts and parts[-1].kind != "tpl_param":
            cursor.add_subst(demangler.Node("qual_name", parts))
        nested = cursor.accept("I")
        part = _template_arguments(cursor) if nested else demangler._parse_name(cursor, True)
        if part is None:
            return None
        parts += part.value if part.kind == "qual_name" else (part,)
    return demangler.Node("qual_name", parts) if parts else None


def _template_arguments(cursor: Any) -> Any:
    """What stands between I and E, or None."""
    arguments = []
    while not cursor.accept("E"):
        if cursor.accept("Xad" + _FUNCTION):
            argument, ended = _function_argument(cursor), cursor.accept("E")
        elif cursor.accept(_FUNCTION):
            argument, ended = _function_argument(cursor), True
        elif cursor.accept("X"):
            argument, ended = _expression(cursor), cursor.accept("E")
        else:
            argument, ended = demangler._parse_type(cursor), True
        if argument is None or not ended:
            return None
        arguments.append(argument)
    return demangler.Node("tpl_args", tuple(arguments))


def _function_argument(cursor: Any) -> Any:
    """The name of a function or variable; its types are read: later ones may refer to them."""
    name = _function_name(cursor)
    while name is not None and not cursor.accept("E"):
        if demangler._parse_type(cursor) is None:
            return None
    return name


def _expression(cursor: Any) -> Any:
    """A node for an expression, without its value; None for a form that is not known."""
    begin = cursor._pos
    operator = cursor.match(_OPERATOR)
    if operator is not None:
        operands = {"one": 1, "two": 2, "three": 3}.get(operator.lastgroup, 0)
        parts = [_expression(cursor) for _ in range(operands)]
        known = None not in parts if parts else demangler._parse_type(cursor) is not None
    elif cursor.accept("sr"):
        known = _skip_qualified(cursor)
    elif cursor._raw.startswith("L", begin):
        known = demangler._parse_expr_primary(cursor) is not None
    else:
        known = cursor.match(_TEMPLATE_PARAMETER) is not None
    return demangler.Node("name", cursor._raw[begin : cursor._pos]) if known else None


def _skip_qualified(cursor: Any) -> bool:
    """Reads over what follows `sr`: a type, or the parts of its name up to E, and a member."""
    if cursor._raw.startswith(("S", "T"), cursor._pos):
        return None not in (demangler._parse_type(cursor), demangler._parse_name(cursor, True))
    while not cursor.accept("E"):
        if demangler._parse_name(cursor, True) is None:
            return False
        if cursor.accept("I") and _template_arguments(cursor) is None:
            return False
    return demangler._parse_name(cursor, True) is not None


def _is_void(node: Any) -> bool:
    return bool(node.kind == "builtin" and node.value == "void")


@dataclass(frozen=True)
class _Declared:
    """What PTX says of a parameter: its extent, and whether it is bytes or a whole number."""

    extent: Extent
    is_bytes: bool
    is_integer: bool


def _parameter(of: _Type, number: int, declared: _Declared | None) -> Parameter:
    _, bare = of.bare()
    if bare.node.kind == "pointer":
        const, pointee = _Type(bare.node.value, bare.arguments).bare()
        if pointee.node.kind not in ("func", "data", "method"):
            name = str(pointee)
            return Parameter("pointer", name, POINTER_BYTES, 0, OF_CPP_TYPE.get(name), const)
    name = str(bare)
    dtype = OF_CPP_TYPE.get(name)
    if dtype is None or dtype.value not in NUMBERS:
        if declared is not None and declared.is_bytes:
            extent = declared.extent
            return Parameter("struct", name, extent.size, 0, alignment=extent.alignment)
        if declared is not None and declared.is_integer and bare.node.kind in _NAMED:
            size = declared.extent.size
            return Parameter("integer", name, size, 0, _OF_ENUMERATION[size])
        raise SignatureError(
            f"parameter {number} has the type '{name}'; a launch plan passes pointers, numbers and "
            "structures"
        )
    return Parameter(_PARAMETER_KINDS[dtype.kind], name, dtype.size, 0, dtype)


def _weight(node: Any, arguments: tuple[Any, ...], known: dict[int, int]) -> int:
    """How many parts a type has when it is spelled out; a shared part is looked at once."""
    if not isinstance(node, tuple):
        return 1
    if id(node) not in known:
        known[id(node)] = 1 + sum(
            _weight(part, arguments, known) for part in _parts(node, arguments)
        )
    return known[id(node)]


def _parts(node: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    if getattr(node, "kind", "") == "tpl_param" and node.value < len(arguments):
        return (arguments[node.value],)
    return tuple(node)


def _filled(node: Any, arguments: tuple[Any, ...]) -> Any:
    if node.kind == "tpl_param" and node.value < len(arguments):
        return arguments[node.value]
    return node.map(lambda part: _filled(part, arguments))


def _declared(symbol: str, ptx: str) -> list[_Declared] | None:
    """The parameters of a kernel by its PTX, or None where it is not there."""
    entry = re.search(rf"\.entry\s+{re.escape(symbol)}\s*\(([^)]*)\)", ptx)
    if entry is None:
        return None
    return [
        _Declared(
            Extent(int(bits) // 8 * int(count or 1), int(alignment or int(bits) // 8)),
            bool(count),
            kind in "us" and not (count or pointer),
        )
        for alignment, kind, bits, pointer, count in _DECLARATION.findall(entry[1])
    ]
