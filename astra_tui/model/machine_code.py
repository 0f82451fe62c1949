"""Machine code as a session stores it: a short text, read again only when someone looks at it."""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from collections.abc import Iterator

import msgspec

from astra_tui.model.sass import Disassembly, Instruction, InstructionClass, SassKernel
from astra_tui.model.verdict import Profile

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


class Profiled(msgspec.Struct, frozen=True):
    """What a profile step gives: the profile, and the machine code as `packed` writes it."""

    profile: Profile
    machine_code: str = ""
    """Empty where there is none; `profile.missing` says why."""


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


def classes_of(instructions: list[Instruction]) -> tuple[tuple[InstructionClass, int], ...]:
    """How many instructions of each class there are, in the order of `InstructionClass`."""
    counts = Counter(i.category for i in instructions)
    return tuple((c, counts[c]) for c in InstructionClass if counts[c])


def _that_run(kernels: tuple[SassKernel, ...]) -> Iterator[Instruction]:
    padding = InstructionClass.PADDING
    return (i for k in kernels for i in k.instructions if i.category is not padding)
