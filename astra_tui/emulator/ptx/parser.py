"""Reads the PTX that NVRTC writes. Strict: what it does not understand is a PtxError."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace

from astra_tui.emulator.ptx.module import (
    Address,
    Function,
    Immediate,
    Instruction,
    Location,
    Module,
    Negated,
    Operand,
    Pair,
    Param,
    PtxError,
    Register,
    Symbol,
    Variable,
    Vector,
)
from astra_tui.model.compilation import SOURCE_NAME, is_own, upstream_place

TYPE_SIZES = {
    "b8": 1, "u8": 1, "s8": 1,
    "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8,
    "b128": 16,
}  # fmt: skip

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SECTION = re.compile(r"\.section\s+\S+\s*\{.*?\}", re.DOTALL)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"\n]+)"', re.MULTILINE)
_HEADER = re.compile(r"^\s*\.(?:version|target|address_size|file)\b[^\n]*$", re.MULTILINE)
_FUNCTION = re.compile(
    r"(?:\.(?:visible|weak|extern|common)\s+)*\.(?P<kind>entry|func)\b\s*"
    r"(?:\((?P<returns>[^)]*)\)\s*)?(?P<name>[\w$]+)\s*(?:\((?P<params>[^)]*)\))?"
    r"(?P<attributes>[^{;]*)(?P<end>[{;])",
    re.DOTALL,
)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)"
    r"(?:\s+\.ptr(?:\s+\.\w+)*?(?:\s+\.align\s+\d+)?)?\s+(?P<name>[\w$]+)(?:\[(?P<count>\d+)\])?"
)
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?P<space>shared|global|const|local|param)\s+"
    r"(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(?P<align>\d+)\s+)?(?:\.v(?P<vector>\d)\s+)?"
    r"\.(?P<type>\w+)\s+(?P<name>[\w$]+)(?P<dims>(?:\s*\[\d*\])*)\s*(?:=\s*(?P<initial>.*))?$",
    re.DOTALL,
)
_INITIAL_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[fFdD][0-9a-fA-F]+|\d+)U?")
_INITIAL_ADDRESS = re.compile(
    r"(?:generic\((?P<generic>[A-Za-z_$][\w$]*)\)|(?P<plain>[A-Za-z_$][\w$]*))(?P<after>[+-]\d+)?"
)
_ADDRESS_BYTES = 8
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:,\s*function_name\s+\S+?,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
    r"[^\n]*"
)
_LABEL = re.compile(r"([$\w]+):")
_BRACE_OR_LABEL = re.compile(r"[{}]|(?<![\w$:.])([$\w]+):(?!:)")
_BLANK = re.compile(r"\s+")
_GUARD = re.compile(r"@(!?)\s*(%?[\w$]+)\s+")
_OPCODE = re.compile(r"([a-z][a-z0-9]*)((?:\.[\w:]+)*)\s*(.*)$", re.DOTALL)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s][^,]*")
_REGISTERS = re.compile(r"(%?[\w$]+)<(\d+)>$")
_CONSTANTS = {"WARP_SZ": Immediate(32)}
"""Names of PTX itself that stand for numbers (PTX ISA, constants)."""


def parse_ptx(text: str) -> Module:
    """Parses a PTX module."""
    files = {int(match[1]): match[2] for match in _FILE.finditer(text)} or {1: SOURCE_NAME}
    text = _COMMENT.sub("", text)
    text = _SECTION.sub("", text)
    functions: dict[str, Function] = {}
    outside: list[str] = []
    position = 0
    for match in _FUNCTION.finditer(text):
        if match.start() < position:
            continue
        outside.append(text[position : match.start()])
        position = match.end()
        if match["end"] == "{":
            position = _closing_brace(text, match.end())
            function = _function(match, text[match.end() : position - 1], files)
            functions[function.name] = function
    outside.append(text[position:])
    rest = _HEADER.sub("", "".join(outside))
    variables = [_variable(s) for s in _statements(rest) if not s.startswith((".pragma", ".alias"))]
    return Module(functions, tuple(variables))


def _closing_brace(text: str, begin: int) -> int:
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, begin):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    raise PtxError("a function is never closed")


def _statements(text: str) -> Iterator[str]:
    for piece in text.split(";"):
        statement = piece.strip()
        if statement:
            yield statement


def _params(text: str) -> tuple[Param, ...]:
    params = []
    offset = 0
    for match in _PARAM.finditer(text):
        size = TYPE_SIZES[match["type"]] * int(match["count"] or 1)
        alignment = int(match["align"] or TYPE_SIZES[match["type"]])
        offset = -(-offset // alignment) * alignment
        params.append(Param(match["name"], offset, size))
        offset += size
    return tuple(params)


def _variable(statement: str) -> Variable:
    match = _VARIABLE.match(statement)
    if match is None:
        raise PtxError(f"cannot read the PTX declaration: {statement[:100]}")
    item = TYPE_SIZES[match["type"]]
    counts = re.findall(r"\[(\d*)\]", match["dims"])
    size = item * int(match["vector"] or 1)
    for count in counts:
        size *= int(count or 0)
    initial: bytes | None = None
    addresses: tuple[tuple[int, str, int], ...] = ()
    if match["initial"] is not None:
        initial, addresses = _initial_value(match["initial"], item, size)
    return Variable(
        name=match["name"],
        space=match["space"],
        alignment=int(match["align"] or item),
        size=size,
        initial=initial,
        unsized="" in counts,
        addresses=addresses,
    )


def _initial_value(
    text: str, item: int, size: int
) -> tuple[bytes, tuple[tuple[int, str, int], ...]]:
    """The bytes of an initial value of items of a size, and the addresses that stand in it."""
    data = bytearray()
    addresses = []
    for word in re.findall(r"[^\s,{}]+", text):
        address = _INITIAL_ADDRESS.fullmatch(word) if item == _ADDRESS_BYTES else None
        if address:
            name = address["generic"] or address["plain"]
            addresses.append((len(data), name, int(address["after"] or 0)))
            data += bytes(item)
        elif _INITIAL_NUMBER.fullmatch(word):
            data += (_number(word).value & ((1 << (8 * item)) - 1)).to_bytes(item, "little")
        else:
            raise PtxError(f"cannot read the initial value '{word[:40]}' of a variable")
    return bytes(data[:size].ljust(size, b"\0")), tuple(addresses)


def _function(match: re.Match[str], body: str, files: Mapping[int, str]) -> Function:
    reader = _BodyReader(body, files)
    reader.read()
    return Function(
        name=match["name"],
        params=_params(match["params"] or ""),
        returns=_params(match["returns"] or ""),
        registers=reader.registers,
        variables=tuple(reader.variables),
        instructions=tuple(reader.instructions),
        labels=reader.labels,
        tables=reader.tables,
    )


def _labels_within(text: str, begin: int) -> Iterator[str]:
    """The labels of a block that begins after its brace, those of blocks within it left out."""
    depth = 1
    for match in _BRACE_OR_LABEL.finditer(text, begin):
        if match[1] is None:
            depth += 1 if match[0] == "{" else -1
            if depth == 0:
                return
        elif depth == 1:
            yield match[1]


class _BodyReader:
    """Reads one function body; names declared inside `{ }` get names of their own."""

    def __init__(self, text: str, files: Mapping[int, str]):
        self.text = text
        self.files = files
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        self.location = Location()
        self.places: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        self.scopes: list[dict[str, str]] = []
        self.scope_count = 0

    def read(self) -> None:
        text, position = self.text, 0
        while position < len(text):
            blank = _BLANK.match(text, position)
            if blank:
                position = blank.end()
                continue
            character = text[position]
            if character == "{":
                self.scope_count += 1
                labels = _labels_within(text, position + 1)
                self.scopes.append({name: f"{name}@{self.scope_count}" for name in labels})
                position += 1
            elif character == "}":
                self.scopes.pop()
                position += 1
            elif character == ";":
                position += 1
            elif match := _LOC.match(text, position):
                self._set_location(match)
                position = match.end()
            elif (match := _LABEL.match(text, position)) and "::" not in text[
                position : match.end() + 1
            ]:
                self.labels[self._scoped(match[1])] = len(self.instructions)
                position = match.end()
                if re.match(r"\s*\.branchtargets\b", text[position:]):
                    end = text.index(";", position)
                    names = text[position:end].split("branchtargets", 1)[1]
                    self.tables[match[1]] = tuple(self._scoped(n.strip()) for n in names.split(","))
                    position = end + 1
            else:
                end = text.find(";", position)
                if end < 0:
                    raise PtxError(f"a PTX statement is not ended: {text[position:][:80]}")
                self._statement(" ".join(text[position:end].split()))
                position = end + 1

    def _statement(self, statement: str) -> None:
        if statement.startswith(".reg"):
            self._declare_registers(statement)
        elif statement.startswith((".pragma", ".maxn", ".minn", ".reqn", ".callprototype")):
            pass
        elif statement.startswith("."):
            variable = _variable(statement)
            if self.scopes:
                name = f"{variable.name}@{self.scope_count}"
                self.scopes[-1][variable.name] = name
                variable = replace(variable, name=name)
            self.variables.append(variable)
        else:
            self.instructions.append(self._instruction(statement))

    def _declare_registers(self, statement: str) -> None:
        match = re.match(r"\.reg\s*\.(\w+)\s+(.*)$", statement)
        if match is None:
            raise PtxError(f"cannot read the PTX declaration: {statement[:100]}")
        for word in match[2].split(","):
            name = word.strip()
            many = _REGISTERS.match(name)
            for one in (f"{many[1]}{n}" for n in range(int(many[2]))) if many else (name,):
                unique = one
                if self.scopes:
                    unique = f"{one}@{self.scope_count}"
                    self.scopes[-1][one] = unique
                self.registers[unique] = match[1]

    def _scoped(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _set_location(self, match: re.Match[str]) -> None:
        """Follows `inlined_at` to the lines of the candidate's own file."""
        file, line, column = int(match[1]), int(match[2]), int(match[3])
        here = (file, line, column)
        parent = (int(match[4]), int(match[5]), int(match[6])) if match[4] else None
        if parent is not None:
            self.places[here] = parent
        elif is_own(self.files.get(file, "")):
            self.places.pop(here, None)
        chain = [here]
        while parent is not None and parent not in chain:
            chain.append(parent)
            parent = self.places.get(parent)
        own: list[int] = []
        headers: list[str] = []
        for number, line, _ in chain:
            name = self.files.get(number, "")
            if line and is_own(name):
                own.append(line)
            elif not own:
                headers += filter(None, [upstream_place(name, line)])
        if own or headers:
            header, outer = (headers[0], tuple(headers[1:])) if headers else ("", ())
            line = own[0] if own else 0
            self.location = Location(line, tuple(own[1:]), header, () if own else outer)

    def _instruction(self, statement: str) -> Instruction:
        rest, predicate, negated = statement, None, False
        guard = _GUARD.match(statement)
        if guard:
            predicate, negated = Register(self._scoped(guard[2])), bool(guard[1])
            rest = statement[guard.end() :]
        match = _OPCODE.match(rest)
        if match is None:
            raise PtxError(f"cannot read the PTX instruction: {statement[:100]}")
        modifiers = tuple(part for part in match[2].split(".") if part)
        operands = tuple(self._operand(word.strip()) for word in _OPERAND.findall(match[3]))
        return Instruction(
            match[1], modifiers, operands, predicate, negated, self.location, statement
        )

    def _operand(self, text: str) -> Operand:
        if text[0] in "{(":
            inner = text[1:-1].strip()
            return Vector(tuple(self._single(w.strip()) for w in inner.split(",")) if inner else ())
        if text[0] == "[":
            return self._address(text[1:-1].strip())
        if text[0] == "!":
            return Negated(Register(self._scoped(text[1:].strip())))
        if "|" in text:
            first, second = text.split("|")
            return Pair(
                Register(self._scoped(first.strip())), Register(self._scoped(second.strip()))
            )
        return self._single(text)

    def _single(self, text: str) -> Register | Immediate | Symbol:
        if text[0].isdigit() or text[0] == "-":
            return _number(text)
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        name = self._scoped(text)
        if name[0] == "%" or name == "_" or name in self.registers:
            return Register(name)
        return Symbol(name)

    def _address(self, text: str) -> Address:
        match = re.match(r"([^\s+\-]+)\s*(?:([+-])\s*(-?\w+))?$", text)
        if match is None:
            raise PtxError(f"cannot read the address [{text[:60]}]")
        offset = int(match[3], 0) * (-1 if match[2] == "-" else 1) if match[3] else 0
        return Address(self._single(match[1]), offset)


def _number(text: str) -> Immediate:
    prefix = text[:2].lower()
    if prefix == "0f":
        return Immediate(int(text[2:], 16), 4)
    if prefix == "0d":
        return Immediate(int(text[2:], 16), 8)
    digits = text.rstrip("U")
    try:
        octal = re.fullmatch(r"-?0[0-7]+", digits)
        return Immediate(int(digits, 8 if octal else 0))
    except ValueError:
        raise PtxError(f"cannot read the number '{text[:40]}'") from None


def float_value(immediate: Immediate) -> float:
    """The value of a floating-point constant."""
    if immediate.float_bytes == 4:
        return float(struct.unpack("<f", struct.pack("<I", immediate.value))[0])
    return float(struct.unpack("<d", struct.pack("<Q", immediate.value))[0])
