"""Machine code (SASS) of a compiled source as data: instructions, histograms, differences.

A session stores it as a short text, which is read again only when someone looks at it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from astra_tui.model.compilation import Compilation


class InstructionClass(StrEnum):
    """What an instruction is for. Every instruction is in exactly one class."""

    GLOBAL_LOAD = "global load"
    GLOBAL_STORE = "global store"
    SHARED_LOAD = "shared load"
    SHARED_STORE = "shared store"
    LOCAL_LOAD = "local load"
    LOCAL_STORE = "local store"
    GENERIC_LOAD = "generic load"
    """Through an address whose space the compiler could not tell."""
    GENERIC_STORE = "generic store"
    CONSTANT_LOAD = "constant load"
    ASYNC_COPY = "asynchronous copy"
    ATOMIC = "atomic"
    TEXTURE = "texture and surface"
    CACHE = "cache control"
    SPECIAL_FUNCTION = "special function"
    CONVERSION = "conversion"
    FLOAT64 = "float64"
    FLOAT32 = "float32"
    HALF = "half precision"
    """Arithmetic in float16 or bfloat16: results carry its rounding."""
    TENSOR = "tensor core"
    SHUFFLE = "shuffle"
    WARP = "vote and reduce"
    BARRIER = "barrier and fence"
    INTEGER = "integer"
    PREDICATE = "predicate"
    MOVE = "move"
    BRANCH = "branch"
    PADDING = "padding"
    """What follows the last instruction that can run."""
    OTHER = "other"
    """Opcodes that are not in our table, each counted under its own name."""


class Instruction(msgspec.Struct, frozen=True, omit_defaults=True):
    """One machine instruction. `line` is in the candidate's own source, 0 where it has none.

    `header` is the place in an upstream file of the task, where the code comes from one.
    """

    address: int
    """Bytes from the start of the kernel."""
    opcode: str
    """With its modifiers, as in "LDG.E.128.CONSTANT"."""
    operands: tuple[str, ...]
    """As the disassembler prints them; the first ones are the results."""
    category: InstructionClass
    name: str
    """The row of the histogram that counts it, as in "LDG.128"."""
    predicate: str = ""
    """Such as "@!P0"."""
    line: int = 0
    loop_depth: int = 0
    """Loops around it within the kernel, with those around the calls of its subroutine."""
    targets: tuple[int, ...] = ()
    """Addresses of the labels that it names; all of them for a branch by table."""
    header: str = ""

    @property
    def text(self) -> str:
        """The instruction as the disassembler writes it."""
        words = (self.predicate, self.opcode, ", ".join(self.operands))
        return " ".join(word for word in words if word)


class HistogramRow(msgspec.Struct, frozen=True):
    """How many instructions of one kernel have one name: static counts, not executions."""

    category: InstructionClass
    name: str
    count: int
    in_loops: int
    """Those of `count` that are inside at least one loop."""


class Subroutine(msgspec.Struct, frozen=True):
    """A function that was not inlined, in the code of the kernel that calls it."""

    address: int
    symbol: str


class SassKernel(msgspec.Struct, frozen=True):
    """The machine code of one kernel, in the order of addresses."""

    name: str
    """The C++ name that the launch plan asked for; the symbol where it asked for none."""
    symbol: str
    instructions: tuple[Instruction, ...]
    histogram: tuple[HistogramRow, ...]
    """In the order of `InstructionClass`, then by name. Counts add up to all instructions."""
    subroutines: tuple[Subroutine, ...] = ()

    def count(self, category: InstructionClass, *, in_loops: bool = False) -> int:
        """Instructions of one class, in all or inside loops."""
        rows = (row for row in self.histogram if row.category is category)
        return sum(row.in_loops if in_loops else row.count for row in rows)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of opcodes that our table of classes lacks."""
        other = InstructionClass.OTHER
        return tuple(row.name for row in self.histogram if row.category is other)


class Disassembly(msgspec.Struct, frozen=True):
    """The machine code of one compiled source, or why there is none."""

    kernels: tuple[SassKernel, ...]
    arch: str
    tool: str = ""
    """The disassembler with its version, as in "nvdisasm V13.5.37"."""
    problem: str = ""
    """Why there is no machine code; empty when there is."""
    remedy: str = ""
    """What to do about the problem, where something can be done."""

    @property
    def available(self) -> bool:
        """Whether there is machine code to look at."""
        return not self.problem


class HistogramChange(msgspec.Struct, frozen=True):
    """One row of two histograms, side by side."""

    category: InstructionClass
    name: str
    before: int
    after: int
    before_in_loops: int
    after_in_loops: int

    @property
    def changed(self) -> bool:
        """Whether a count differs."""
        return (self.before, self.before_in_loops) != (self.after, self.after_in_loops)


class ListingStep(msgspec.Struct, frozen=True):
    """One row of two aligned listings: indices into the instructions, None where one has none.

    Both are there when the instructions are the same but for the numbers of registers and labels.
    """

    before: int | None
    after: int | None


class KernelDiff(msgspec.Struct, frozen=True):
    """How the machine code of a kernel changed. `before` and `after` are the kernels' names."""

    before: str
    after: str
    histogram: tuple[HistogramChange, ...]
    """All rows of both, changed or not."""
    listing: tuple[ListingStep, ...]

    @property
    def same(self) -> bool:
        """Whether every instruction has its equal in the other kernel, in the same order."""
        return all(s.before is not None and s.after is not None for s in self.listing)


class SassDiff(msgspec.Struct, frozen=True):
    """Two versions of a source, kernel by kernel."""

    kernels: tuple[KernelDiff, ...]
    only_before: tuple[str, ...] = ()
    """Kernels that have no counterpart in the other version."""
    only_after: tuple[str, ...] = ()


class Disassembled(msgspec.Struct, frozen=True):
    """One version of a source: its text, what its compiler made of it, and its machine code."""

    file: str
    text: str
    compilation: Compilation
    disassembly: Disassembly

    @property
    def name(self) -> str:
        """The file without its folders."""
        return self.file.rpartition("/")[2]

    def kernel(self, name: str) -> SassKernel:
        """A kernel by the name that a diff gives."""
        return next(k for k in self.disassembly.kernels if k.name == name)

    def place(self, instruction: Instruction, before: Instruction | None) -> str:
        """The source line of an instruction, where it is not that of the one before."""
        at, header = instruction.line, instruction.header
        if (at, header) == ((before.line, before.header) if before else (0, "")):
            return ""
        lines = self.text.splitlines()
        text = f"{at:5}  {lines[at - 1].strip()}" if 0 < at <= len(lines) else ""
        return f"{text:5}  {header}" if header else text


_LARGEST = 64 << 20
"""Bytes of unpacked JSON; a stranger's text must not fill the memory."""

_WITHOUT_HYPHENS = str.maketrans("-_", ".,")
_WITH_HYPHENS = str.maketrans(".,", "-_")
"""Keys of services have "-" or "_" in them. A text without them never looks as if it held one, by
chance, which would be taken out of what a session stores.
"""

_BROKEN = "this text is no machine code that this program has written"
_decoder = msgspec.json.Decoder(Disassembly)


class MalformedMachineCode(ValueError):
    """A text that `packed` did not write."""


def packed(disassembly: Disassembly) -> str:
    """JSON, compressed, as printable characters: a sixth of the JSON's size.

    Empty where there is no machine code, or more than 64 MiB of it.
    """
    content = msgspec.json.encode(disassembly)
    if not disassembly.available or len(content) > _LARGEST:
        return ""
    return base64.b85encode(zlib.compress(content, 9)).decode().translate(_WITHOUT_HYPHENS)


def unpacked(text: str) -> Disassembly:
    """What `packed` was given. Raises MalformedMachineCode."""
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(base64.b85decode(text.translate(_WITH_HYPHENS)), _LARGEST)
        if not inflater.eof:
            raise MalformedMachineCode(_BROKEN)
        return _decoder.decode(content)
    except (ValueError, zlib.error, msgspec.MsgspecError, RecursionError):
        raise MalformedMachineCode(_BROKEN) from None


def instructions_by_line(kernels: tuple[SassKernel, ...]) -> dict[int, list[Instruction]]:
    """The instructions of every source line in the order of addresses, kernel after kernel.

    Padding is left out; line 0 holds those of no line of the source, as in inlined headers.
    """
    lines: dict[int, list[Instruction]] = {}
    for instruction in _that_run(kernels):
        lines.setdefault(instruction.line, []).append(instruction)
    return lines


def _that_run(kernels: tuple[SassKernel, ...]) -> Iterator[Instruction]:
    padding = InstructionClass.PADDING
    return (i for k in kernels for i in k.instructions if i.category is not padding)
