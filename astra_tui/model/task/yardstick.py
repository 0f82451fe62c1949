"""A yardstick: a kernel that others ship, launched as they launch it, on a task's arguments.

yardsticks.toml is read as strictly as task.toml: errors name file, line, key and nearest name. It
is a file of its own because a task's hash covers what correctness means, and what others ship
changes every month.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from astra_tui.model.c_layout import Extent, place
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place, nearest
from astra_tui.model.launch import LaunchPlan, PlanError, parse_plan, validate_plan
from astra_tui.model.launch.expression import Integer
from astra_tui.model.pin import Pin, is_safe
from astra_tui.model.task.table import Table, TaskError
from astra_tui.model.task.task import KernelTask
from astra_tui.model.task.upstream import take_pin

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


MAX_FILE_BYTES = 1 << 20
_MAX_DEPTH = 4
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_ARCH = re.compile(r"sm_\d{2,3}[af]?")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$.]*", re.ASCII)
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_FLAG = re.compile(
    r"--use_fast_math|--fmad=(?:true|false)|--std=c\+\+(?:17|20)|-D[A-Za-z_]\w*(?:=\w+)?"
)


def load_yardsticks(task: KernelTask) -> tuple[Yardstick, ...]:
    """The yardsticks of a task; none where it has no yardsticks.toml. Raises TaskError."""
    file = task.yardsticks_file
    if not file.is_file():
        return ()
    if file.stat().st_size > MAX_FILE_BYTES:
        raise TaskError(f"larger than {MAX_FILE_BYTES} bytes", file=str(file))
    return parse_yardsticks(file.read_text(encoding="utf-8", errors="replace"), task)


def parse_yardsticks(text: str, task: KernelTask) -> tuple[Yardstick, ...]:
    """Parses the text of a task's yardsticks.toml. Raises TaskError."""
    file = str(task.yardsticks_file)
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        line = re.search(r"line (\d+)", str(error))
        place = Place(int(line[1])) if line else Place()
        raise TaskError(f"not valid TOML: {error}", file=file, place=place) from None
    return _Loader(Table(data, (), file, text), task).yardsticks()


class _Loader:
    def __init__(self, top: Table, task: KernelTask):
        self.top = top
        self.task = task

    def yardsticks(self) -> tuple[Yardstick, ...]:
        pins = self._packages(self.top.table("packages"))
        found: dict[str, Yardstick] = {}
        for entry in self.top.tables("yardsticks"):
            yardstick = self._yardstick(entry, pins)
            entry.close()
            if yardstick.name in found:
                entry.fail(f"two yardsticks are named '{yardstick.name}'", "name")
            self._check_launch(entry, yardstick)
            found[yardstick.name] = yardstick
        self.top.close()
        return tuple(found.values())

    def _packages(self, table: Table) -> dict[str, Pin]:
        pins = {}
        for name, entry in table.entries("package"):
            pins[name] = take_pin(entry, name)
        return pins

    def _yardstick(self, entry: Table, pins: Mapping[str, Pin]) -> Yardstick:
        name = entry.take("name", str)
        if not _NAME.fullmatch(name):
            entry.fail(
                f"{name[:80]!r} is not a name: small letters, digits and underscores", "name"
            )
        arch = entry.take("arch", str)
        if not _ARCH.fullmatch(arch):
            entry.fail(f"{arch[:80]!r} is no architecture such as sm_90a", "arch")
        code = self._code(entry)
        is_launched = not isinstance(code, OutOfReach)
        return Yardstick(
            name=name,
            about=entry.take("about", str),
            package=entry.choice("package", pins),
            arch=arch,
            launch=entry.take("launch", str) if is_launched else "grid=1 block=1 args=()",
            requires=entry.take("requires", str, ""),
            parameters=(
                _parameters(entry, entry.take("parameters", list), 1) if is_launched else ()
            ),
            pdl=entry.take("pdl", bool, False),
            code=code,
        )

    def _code(self, entry: Table) -> Code:
        readers: dict[str, Callable[[Table], Code]] = {
            "machine_code": self._machine_code,
            "source": self._source,
            "generated": self._generated,
            "out_of_reach": self._out_of_reach,
        }
        kinds = [key for key in readers if key in entry.data]
        if len(kinds) != 1:
            entry.fail(f"should have one of {', '.join(f'[yardsticks.{key}]' for key in readers)}")
        code = entry.table(kinds[0])
        found = readers[kinds[0]](code)
        code.close()
        return found

    def _out_of_reach(self, code: Table) -> OutOfReach:
        return OutOfReach(code.take("reason", str), self._dtypes(code))

    def _dtypes(self, code: Table) -> tuple[DType, ...]:
        names = code.strings("dtypes", [d.value for d in self.task.dtypes])
        return tuple(self._dtype(code, "dtypes", n) for n in names)

    def _machine_code(self, code: Table) -> MachineCode:
        symbols = code.table("symbols")
        found = {}
        for name in symbols.data:
            dtype = self._dtype(symbols, name, name)
            found[dtype] = symbols.take(name, str)
            if not _SYMBOL.fullmatch(found[dtype]):
                symbols.fail("should be the mangled name of a kernel", name)
        if not found:
            symbols.fail("names no kernel", hint='write: float16 = "_Z..."')
        return MachineCode(_path(code, "file", code.take("file", str)), found)

    def _source(self, code: Table) -> ShippedSource:
        stand_ins = code.table("stand_ins", required=False)
        headers = {_path(stand_ins, n, n): stand_ins.take(n, str) for n in stand_ins.data}
        flags = code.strings("flags", [])
        for flag in flags:
            if not _FLAG.fullmatch(flag):
                code.fail(
                    f"the flag {flag[:80]!r} is refused", "flags", f"allowed: {_FLAG.pattern}"
                )
        kernel = code.take("kernel", str)
        if not kernel.strip() or not kernel.isprintable():
            code.fail("should be one line of C++ that names a kernel", "kernel")
        return ShippedSource(
            text=code.take("text", str),
            kernel=kernel,
            include=tuple(_path(code, "include", n) for n in code.strings("include")),
            flags=flags,
            stand_ins=headers,
            dtypes=self._dtypes(code),
        )

    def _generated(self, code: Table) -> Generated:
        generators = {g.value: g for g in Generator}
        constants = code.strings("constants", [])
        for name in constants:
            if name not in self.task.dims:
                hint = nearest(name, self.task.dims)
                code.fail(f"the task has no dimension '{name}'", "constants", hint)
        numbers = code.strings("numbers", [])
        for name in numbers:
            if not _NAME.fullmatch(name):
                code.fail(f"{name[:80]!r} is not a name", "numbers")
        stand_ins = code.table("stand_ins", required=False)
        for name in stand_ins.data:
            if not _MODULE.fullmatch(name):
                stand_ins.fail(f"{name[:80]!r} is not the name of a module", name)
        return Generated(
            by=code.choice("by", generators),
            text=code.take("text", str),
            constants=constants,
            numbers=numbers,
            stand_ins={n: stand_ins.take(n, str) for n in stand_ins.data},
            dtypes=self._dtypes(code),
        )

    def _dtype(self, table: Table, key: str, name: str) -> DType:
        known = {d.value: d for d in self.task.dtypes}
        if name not in known:
            table.fail(f"the task has no type '{name}'", key, nearest(name, known))
        return known[name]

    def _check_launch(self, entry: Table, yardstick: Yardstick) -> None:
        """The plan is valid for the task, and passes what the parameters take."""
        try:
            plan = yardstick.plan(True)
            validate_plan(plan, self.task.scope)
        except PlanError as error:
            in_condition = yardstick.requires and error.place.line == 1 + len(yardstick.numbers)
            entry.fail(error.message, "requires" if in_condition else "launch", error.hint)
        taken, passed = len(yardstick.leaves()), len(next(plan.launches()).args)
        if taken != passed:
            entry.fail(f"the launch passes {passed} values, the parameters take {taken}", "launch")


def _parameters(entry: Table, items: list[Any], depth: int) -> ParameterTypes:
    types = {t.value: t for t in ParameterType}
    found: list[ParameterType | ParameterTypes] = []
    for item in items:
        if isinstance(item, list) and item and depth < _MAX_DEPTH:
            found.append(_parameters(entry, item, depth + 1))
        elif isinstance(item, str) and item in types:
            found.append(types[item])
        else:
            hint = nearest(item, types) if isinstance(item, str) else "a list is a structure"
            entry.fail(f"{str(item)[:80]!r} is no parameter type", "parameters", hint)
    return tuple(found)


def _path(table: Table, key: str, path: str) -> str:
    if not is_safe(path) and path != ".":
        table.fail(f"{path[:80]!r} is no path inside of a package", key)
    return path
