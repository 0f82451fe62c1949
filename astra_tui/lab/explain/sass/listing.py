"""Reads what `nvdisasm -c -gi` prints. Total: any text gives functions or a problem, no error.

The format is that of CUDA 13's nvdisasm (CUDA Binary Utilities, "nvdisasm"). Its JSON output has
neither source lines nor branch targets, which is why the listing is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from astra_tui.model.compilation import is_own, upstream_place

_SECTION = re.compile(r"\s*\.section\s+(\.text\.[^,\s]+)")
_KERNEL_MARK = re.compile(r'\s*\.other\s+(\S+?)\s*,\s*@"[^"]*STO_CUDA_ENTRY')
_LABEL = re.compile(r"([.$\w]+):\s*$")
_PLACE = re.compile(r'\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,16})\*/\s+(.*?)\s*;\s*(?:/\*.*\*/)?\s*$")
_BODY = re.compile(r"(?:(@!?\w+)\s+)?([A-Z]\w*(?:\.\w+)*)(?:\s+(.*))?$")
_TARGET_TABLE = re.compile(r'\(\*"BRANCH_TARGETS\s+([^"]*)"\*\)')
NAMED_LABEL = re.compile(r"`\(([^()]+)\)")
"""A label where an operand names it."""

_OPENING, _CLOSING = "([{", ")]}"
_COMPILER_ROUTINE = "$__internal"
"""Start of the names of routines that ptxas adds, such as slow paths of division."""


@dataclass(frozen=True)
class RawInstruction:
    """One instruction as printed; `labels` are those that it may go to."""

    address: int
    predicate: str
    opcode: str
    operands: tuple[str, ...]
    line: int
    labels: tuple[str, ...]
    header: str = ""


@dataclass(frozen=True)
class RawFunction:
    """One code section: a kernel with its subroutines, or a function called by several."""

    symbol: str
    is_kernel: bool
    instructions: tuple[RawInstruction, ...]
    labels: dict[str, int]
    """Addresses of labels, subroutines' names among them."""


@dataclass(frozen=True)
class Listing:
    """The functions of a listing; `problem` says what could not be read."""

    functions: tuple[RawFunction, ...]
    problem: str = ""


@dataclass
class _Section:
    """A code section while it is read."""

    symbol: str
    is_kernel: bool = False
    instructions: list[RawInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    line: int = 0
    header: str = ""
    places: list[tuple[str, int]] = field(default_factory=list)
    """Files and lines that were named since the last instruction, innermost first."""

    def add_label(self, label: str) -> None:
        self.waiting.append(label)
        if label.startswith(_COMPILER_ROUTINE):
            # It has no lines, and must not inherit those of the code before it.
            self.line, self.header = 0, ""

    def add(self, instruction: RawInstruction) -> None:
        for label in self.waiting:
            self.labels[label] = instruction.address
        self.waiting = []
        self.instructions.append(instruction)

    def settle_place(self) -> None:
        """Takes the place of the next instruction: it holds until another one is named.

        `line` is the innermost in the own file, `header` the innermost upstream file below it.
        """
        if not self.places:
            return
        own = next((n for n, (file, _) in enumerate(self.places) if is_own(file)), None)
        self.line = 0 if own is None else self.places[own][1]
        below = (upstream_place(*place) for place in self.places[:own])
        self.header = next(filter(None, below), "")
        self.places = []

    def finished(self) -> RawFunction:
        return RawFunction(self.symbol, self.is_kernel, tuple(self.instructions), dict(self.labels))


def parse_listing(text: str) -> Listing:
    """The functions of a listing.

    An instruction of an inlined function gets the innermost line that is in the source's own file.
    """
    sections: list[_Section] = []
    for number, line in enumerate(text.splitlines(), 1):
        if section := _SECTION.match(line):
            sections.append(_Section(section[1].removeprefix(".text.")))
        elif sections and not _read_line(sections[-1], line):
            shown = line.strip()[:80]
            return Listing((), f"line {number} of the listing cannot be read: {shown}")
    functions = tuple(s.finished() for s in sections if s.instructions)
    return Listing(functions, "" if functions else "the listing has no code")


def _read_line(section: _Section, line: str) -> bool:
    """Takes one line into the section; False when it is none that a listing has."""
    if instruction := _INSTRUCTION.match(line):
        return _read_instruction(section, int(instruction[1], 16), instruction[2])
    if place := _PLACE.match(line):
        named = ((place[1], place[2]), (place[3], place[4]))
        section.places += [(file, int(number)) for file, number in named if file]
    elif label := _LABEL.match(line):
        section.add_label(label[1])
    elif mark := _KERNEL_MARK.match(line):
        section.is_kernel = section.is_kernel or mark[1] == section.symbol
    else:
        bare = line.strip()
        return not bare or bare.startswith((".", "//"))
    return True


def _read_instruction(section: _Section, address: int, body: str) -> bool:
    table = _TARGET_TABLE.search(body)
    targets = [label.strip() for label in table[1].split(",")] if table else []
    parts = _BODY.match(_TARGET_TABLE.sub("", body).strip())
    if parts is None:
        return False
    operands = split_operands(parts[3] or "")
    named = [label for operand in operands for label in NAMED_LABEL.findall(operand)]
    section.settle_place()
    section.add(
        RawInstruction(
            address=address,
            predicate=parts[1] or "",
            opcode=parts[2],
            operands=operands,
            line=section.line,
            labels=tuple(dict.fromkeys([*named, *targets])),
            header=section.header,
        )
    )
    return True


def split_operands(text: str) -> tuple[str, ...]:
    """The operands between commas that are not inside brackets."""
    parts = [""]
    depth = 0
    for character in text:
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(part.strip() for part in parts if part.strip())
