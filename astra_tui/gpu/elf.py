"""Reads a cubin: its kernels and their parameters, variables they can write, what is loaded.

A cubin is an ELF file (System V ABI, "Object Files") of 64 bits, little-endian. A `__device__`
variable keeps its value between launches, so that a candidate could store results there.

What a launch needs to know of a kernel is in the section `.nv.info.KERNEL`, a list of attributes:
a byte each for format and name, two for a value or for the size of what follows. NVIDIA does not
document it; `cuobjdump -elf` prints it, and the parameters here are what it prints.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_MAGIC = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<40xQ10xHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2
_NO_BITS = 8
_LOADED = 0b10
_WRITABLE_IN_MEMORY = 0b11
_OBJECT, _TYPE_MASK = 1, 0xF
_PER_BLOCK_OR_THREAD = (".nv.shared", ".nv.local")
_INFO = ".nv.info."
_ATTRIBUTE = struct.Struct("<BBH")
_SIZED = 0x04
_BLOCK, _PARAMETER_INFO, _CLUSTER = 0x10, 0x17, 0x3D
_PARAMETER = struct.Struct("<IHHI")
_SIZE_SHIFT = 18
_SIZES = struct.Struct("<III")


STRING_LITERAL = "$str"
"""How the names begin that the compiler gives to string literals."""


class ElfError(ValueError):
    """The bytes are not a cubin that can be read."""


@dataclass(frozen=True)
class Symbol:
    """One global variable. `section` is ".nv.global", or ".nv.global.init" for one with a value."""

    name: str
    size: int
    section: str


@dataclass(frozen=True, order=True)
class ParameterPlace:
    """Where a kernel parameter lies in the parameter buffer, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class LaunchFacts:
    """What a cubin says of the launch of a kernel: parameters in their order, and fixed sizes.

    `block` and `cluster` are None where the launch chooses them.
    """

    parameters: tuple[ParameterPlace, ...]
    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int

    def content(self, cubin: bytes) -> bytes:
        return cubin[self.offset : self.offset + self.size]


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ElfError(f"the cubin cannot be read: {error}") from None


@_reading()
def writable_globals(cubin: bytes) -> tuple[Symbol, ...]:
    """Variables in global memory that kernels of a cubin can write, with their sizes in bytes.

    Bytes of a writable section that no symbol claims are listed under the name of the section.
    String literals, such as those of printf, are among them: the compiler puts them there under
    names that begin with "$str". Raises ElfError.
    """
    return tuple(_writable(cubin))


@_reading()
def loaded_sections(cubin: bytes) -> dict[str, bytes]:
    """What of a cubin reaches a GPU, by section: code, constants, sizes, and facts for launches.

    Two cubins that agree in it are the same program; tables for debuggers and names of files are
    left out. Raises ElfError.
    """
    return {
        s.name: s.size.to_bytes(8, "little") if s.kind == _NO_BITS else s.content(cubin)
        for s in _sections(cubin)
        if s.flags & _LOADED or s.name.startswith(".nv.info")
    }


@_reading()
def launch_facts(cubin: bytes) -> dict[str, LaunchFacts]:
    """What has to be known to launch every kernel of a cubin, by symbol. Raises ElfError."""
    return {
        section.name.removeprefix(_INFO): _launch_facts(section.content(cubin))
        for section in _sections(cubin)
        if section.name.startswith(_INFO)
    }


def _launch_facts(info: bytes) -> LaunchFacts:
    parameters, sizes = [], {}
    for name, at in _sized_attributes(info):
        if name == _PARAMETER_INFO:
            _, _, offset, packed = _PARAMETER.unpack_from(info, at)
            parameters.append(ParameterPlace(offset, packed >> _SIZE_SHIFT))
        elif name in (_BLOCK, _CLUSTER):
            sizes[name] = _SIZES.unpack_from(info, at)
    return LaunchFacts(tuple(sorted(parameters)), sizes.get(_BLOCK), sizes.get(_CLUSTER))


def _sized_attributes(info: bytes) -> Iterator[tuple[int, int]]:
    """Name and place of every attribute that has content of its own."""
    at = 0
    while at < len(info):
        form, name, value = _ATTRIBUTE.unpack_from(info, at)
        at += _ATTRIBUTE.size
        if form == _SIZED:
            yield name, at
            at += value


def _writable(cubin: bytes) -> Iterator[Symbol]:
    sections = _sections(cubin)
    symbols = list(_symbols(cubin, sections))
    for index, section in enumerate(sections):
        lasting = not section.name.startswith(_PER_BLOCK_OR_THREAD)
        if section.flags & _WRITABLE_IN_MEMORY != _WRITABLE_IN_MEMORY or not lasting:
            continue
        here = [Symbol(text, size, section.name) for text, size, at in symbols if at == index]
        yield from here
        unclaimed = section.size - sum(symbol.size for symbol in here)
        if unclaimed > 0:
            yield Symbol(section.name, unclaimed, section.name)


def _sections(cubin: bytes) -> list[_Section]:
    if not cubin.startswith(_MAGIC):
        raise ElfError("this is not a 64-bit little-endian ELF file")
    start, entry_size, count, names_at = _HEADER.unpack_from(cubin)
    if entry_size < _SECTION.size:
        raise ElfError(f"section headers of {entry_size} bytes are too small")
    headers = [_SECTION.unpack_from(cubin, start + i * entry_size) for i in range(count)]
    names = headers[names_at][4]
    return [
        _Section(_text(cubin, names + name_at), kind, flags, offset, size, link)
        for name_at, kind, flags, _, offset, size, link, *_ in headers
    ]


def _symbols(cubin: bytes, sections: list[_Section]) -> Iterator[tuple[str, int, int]]:
    """Name, size and section of every data symbol."""
    for table in sections:
        if table.kind != _SYMBOL_TABLE:
            continue
        for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
            name_at, info, _, place, _, size = _SYMBOL.unpack_from(cubin, at)
            if info & _TYPE_MASK == _OBJECT:
                yield _text(cubin, sections[table.link].offset + name_at), size, place


def _text(cubin: bytes, start: int) -> str:
    end = cubin.find(b"\0", start)
    if end < 0:
        raise ElfError("a name lies outside of the file")
    return cubin[start:end].decode()
