"""A yardstick: a kernel that others ship, launched as they launch it, on a task's arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from astra_tui.model.c_layout import Extent, place
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place
from astra_tui.model.launch import LaunchPlan, parse_plan
from astra_tui.model.launch.expression import Integer
from astra_tui.model.pin import Pin

KERNEL = "shipped"
"""What the kernel is called in a yardstick's plan, whatever its symbol is."""


class ParameterType(StrEnum):
    """What a kernel parameter, or a member of a structure, may be."""

    POINTER = "pointer"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT32 = "float32"

    @property
    def size(self) -> int:
        """Bytes, which are its alignment as well."""
        return 4 if self.value.endswith("32") else 8


ParameterTypes = tuple["ParameterType | ParameterTypes", ...]
"""A kernel's parameters in order; a nested tuple is a structure that is passed by value."""


@dataclass(frozen=True)
class MachineCode:
    """A kernel in a library of the package: the file, and the mangled symbol by element type."""

    file: str
    symbols: Mapping[DType, str]


@dataclass(frozen=True)
class ShippedSource:
    """A kernel that is compiled from the package's headers.

    `text` includes them and adds what the package generates; `kernel` is a C++ name expression in
    which `T` is the element type; `include` are folders of the wheel. `stand_ins` are headers by
    name that only the host side needs, or that the package does not carry.
    """

    text: str
    kernel: str
    include: tuple[str, ...]
    flags: tuple[str, ...]
    stand_ins: Mapping[str, str]
    dtypes: tuple[DType, ...]


class Generator(StrEnum):
    """What compiles the kernels that Python code of a package describes."""

    TRITON = "triton"
    CUTE_DSL = "cute_dsl"


@dataclass(frozen=True)
class Generated:
    """A kernel that Python code of the package describes, compiled on the machine by a generator.

    `text` imports that code and defines `generate(T, ...)`: it takes the name of an element type
    and, by name, the dimensions in `constants`, which the kernel has compiled in; it gives what the
    generator compiled, and whole numbers by name, those in `numbers`, for the launch. `stand_ins`
    are modules by name that only the host side needs.
    """

    by: Generator
    text: str
    constants: tuple[str, ...]
    numbers: tuple[str, ...]
    stand_ins: Mapping[str, str]
    dtypes: tuple[DType, ...]


@dataclass(frozen=True)
class OutOfReach:
    """A kernel that is shipped and cannot be had here, so that no other is called the fastest."""

    reason: str
    dtypes: tuple[DType, ...]


Code = MachineCode | ShippedSource | Generated | OutOfReach


class Variant(NamedTuple):
    """What is compiled into a kernel; nothing where one file serves all shapes and types."""

    dtype: DType | None = None
    constants: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Leaf:
    """A parameter, or a member of one that is a structure, at its place in the parameter buffer."""

    type: ParameterType
    offset: int


@dataclass(frozen=True)
class Yardstick:
    """One kernel that a package ships, and its launch.

    `launch` and `requires` are texts in the language of launch plans; `arch` is the architecture
    that the code is for, as in "sm_90a"; `pdl` says whether it ships with programmatic dependent
    launch.
    """

    name: str
    about: str
    package: Pin
    arch: str
    launch: str
    requires: str
    parameters: ParameterTypes
    pdl: bool
    code: Code

    @property
    def kind(self) -> str:
        """How it is shipped: "machine code", "source", "triton", "cute_dsl"; or "out of reach"."""
        match self.code:
            case Generated():
                return self.code.by.value
            case MachineCode():
                return "machine code"
            case ShippedSource():
                return "source"
            case OutOfReach():
                return "out of reach"

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The element types that it serves."""
        return tuple(self.code.symbols) if isinstance(self.code, MachineCode) else self.code.dtypes

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names in its launch for numbers that its package computes while it compiles."""
        return self.code.numbers if isinstance(self.code, Generated) else ()

    def variant(self, dtype: DType, dims: Mapping[str, int]) -> Variant:
        """Which of its kernels serves a shape: those of one text differ by what is compiled in."""
        if not isinstance(self.code, Generated):
            return Variant()
        return Variant(dtype, tuple((name, dims[name]) for name in self.code.constants))

    def version(self, pdl: bool) -> str:
        """What it is called where it is timed, with or without programmatic dependent launch."""
        return f"{self.name} + pdl" if pdl else self.name

    @property
    def launches(self) -> dict[str, str]:
        """How each version of it is launched, by what that is called."""
        launch = " ".join(self.launch.split())
        with_pdl = {self.version(True): f"{launch} pdl=true"} if self.pdl else {}
        return {self.version(False): launch, **with_pdl}

    def plan_text(self, pdl: bool, numbers: Mapping[str, int] | None = None) -> str:
        """Its launch plan, with or without programmatic dependent launch.

        `numbers` are those that `generate` gave; each is 1 as long as they are not known.
        """
        known = numbers or dict.fromkeys(self.numbers, 1)
        lets = [f"let {name} = {value}" for name, value in known.items()]
        launch = f"{KERNEL}<T> {' '.join(self.launch.split())}" + " pdl=true" * pdl
        served = " or ".join(f"T == {dtype.value}" for dtype in self.dtypes)
        condition = f"({served}) and ({' '.join(self.requires.split()) or 'true'})"
        refusal = f'refuse "{self._refusal}"'
        steps = [f"when {condition}:", f"    {launch}", "otherwise:", f"    {refusal}"]
        return "\n".join([*lets, *steps])

    def plan(self, pdl: bool, numbers: Mapping[str, int] | None = None) -> LaunchPlan:
        """Its parsed launch plan. Raises PlanError."""
        return parse_plan(self.plan_text(pdl, numbers), Place(1, 1), self.name)

    @property
    def _refusal(self) -> str:
        types = " and ".join(d.value for d in self.dtypes)
        where = f" where {' '.join(self.requires.split())}" if self.requires else ""
        return f"{self.name} serves {types}{where}".replace('"', "'")

    def leaves(self) -> tuple[Leaf, ...]:
        """Every number and pointer that a launch passes, structures taken apart, in order."""
        return tuple(_leaves(self.parameters, 0))

    def places(self) -> tuple[tuple[int, int], ...]:
        """Offset and size in bytes of each parameter, by the natural layout of C."""
        extents = tuple(map(_extent, self.parameters))
        offsets = place(extents).offsets
        return tuple((o, extent.size) for o, extent in zip(offsets, extents, strict=True))

    @property
    def nulls(self) -> frozenset[int]:
        """The leaves, by number, that are null pointers: the launch passes 0."""
        arguments = next(self.plan(False).launches()).args
        return frozenset(
            number
            for number, (leaf, value) in enumerate(zip(self.leaves(), arguments, strict=True))
            if leaf.type is ParameterType.POINTER and value == Integer(0)
        )


def _extent(parameter: ParameterType | ParameterTypes) -> Extent:
    if isinstance(parameter, ParameterType):
        return Extent(parameter.size, parameter.size)
    return place(map(_extent, parameter)).extent


def _leaves(parameters: ParameterTypes, begin: int) -> Iterator[Leaf]:
    for parameter, offset in zip(parameters, place(map(_extent, parameters)).offsets, strict=True):
        if isinstance(parameter, ParameterType):
            yield Leaf(parameter, begin + offset)
        else:
            yield from _leaves(parameter, begin + offset)
