"""PTX as immutable data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class PtxError(Exception):
    """PTX that the parser does not understand."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the candidate's file, and the lines it was inlined into, innermost first.

    `header` is the place in the task's upstream files, `upstream/a/b.cuh:12`, of code that comes
    from there; `line` is then the candidate's line that led there, 0 for a kernel of such a file.
    """

    line: int = 0
    callers: tuple[int, ...] = ()
    header: str = ""
    outer: tuple[str, ...] = ()
    """Of a kernel of such a file, the places in it that led to `header`, innermost first."""

    @property
    def frames(self) -> tuple[tuple[int, str], ...]:
        """The place in the kernel itself, and those in functions that led on from it; each as in
        `AccessCount.place`.
        """
        if self.line:
            return tuple((line, "") for line in (*reversed(self.callers), self.line))
        return tuple((0, place) for place in (*reversed(self.outer), self.header))

    @property
    def here(self) -> str:
        """The innermost place, in words."""
        return self.header or f"line {self.line}"

    def of(self, message: str) -> str:
        """A message with the place before it, as far as it is known."""
        text = f"{self.header}: {message}" if self.header else message
        return f"line {self.line}: {text}" if self.line else text


@dataclass(frozen=True, slots=True)
class Register:
    """A register, special register (`%tid.x`) or the sink `_`."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant in the instruction; floats keep their bits and their width in bytes."""

    value: int
    float_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, label or function."""

    name: str


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`."""

    items: tuple[Register | Immediate | Symbol, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`; the base is a register, a symbol or an absolute number."""

    base: Register | Symbol | Immediate
    offset: int


@dataclass(frozen=True, slots=True)
class Negated:
    """`!%p`."""

    register: Register


@dataclass(frozen=True, slots=True)
class Pair:
    """`%p|%q`: two destinations."""

    first: Register
    second: Register


Operand = Register | Immediate | Symbol | Vector | Address | Negated | Pair


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `modifiers` are the words after the dots; `text` is the PTX itself."""

    operation: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: Register | None
    negated: bool
    location: Location
    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space; `initial` holds its bytes where PTX gives them.

    `addresses` are the variables whose addresses it begins with: an offset in it, a name, and how
    far after that variable's first byte.
    """

    name: str
    space: str
    alignment: int
    size: int
    initial: bytes | None = None
    unsized: bool = False
    addresses: tuple[tuple[int, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of an entry or function, at its offset in the packed buffer."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Function:
    """An entry or device function: instructions, and where its labels point."""

    name: str
    params: tuple[Param, ...]
    returns: tuple[Param, ...]
    registers: Mapping[str, str]
    variables: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    tables: Mapping[str, tuple[str, ...]]
    """Branch targets of `brx.idx`, by the table's name."""


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX file."""

    functions: Mapping[str, Function]
    variables: tuple[Variable, ...]
