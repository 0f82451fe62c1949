"""Variables in which a kernel could keep something from one launch to the next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from astra_tui.gpu.elf import STRING_LITERAL, ElfError, writable_globals
from astra_tui.model.compilation import Compilation
from astra_tui.model.findings import Finding, FindingKind

_VARIABLE = re.compile(r"^\s*(?:\.\w+\s+)?\.global\b[^;]*;", re.MULTILINE)
_FUNCTION = re.compile(r"^(?=[^\n]*\.(?:entry|func)\b)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INSTRUCTION = re.compile(r"(?:@!?%\w+\s+)?\b(?<![.%$])([a-z]\w*(?:[.:]+\w+)*)\s+([^;]*);")
_NAME = re.compile(r"[%$\w]+")
_COMPUTES = {
    *("mov", "cvta", "cvt", "add", "sub", "mul", "mad", "mul24", "mad24", "shl", "shr", "shf"),
    *("and", "or", "xor", "not", "neg", "abs", "min", "max", "selp", "set", "szext"),
    *("bfe", "bfi", "prmt", "lop3"),
}
"""Instructions whose result may be an address that they were given."""
_READS = {"ld", "ldu", "prefetch", "prefetchu", "isspacep", "setp", "bra"}
"""Instructions that leave alone what they are given an address of."""
_READERS = ("__assertfail", "vprintf")
"""Functions of the driver that leave alone what they are passed: they are declared, not defined."""
_HEAD = re.compile(r"^([^\n]*)\.func\b\s*(?:\([^)]*\))?\s*([%$\w]+)", re.MULTILINE)


@lru_cache(maxsize=8)
def hidden_state(compilation: Compilation) -> tuple[Finding, ...]:
    """A finding for each variable that would carry something from one launch to the next.

    A cubin does not tell constants of namespaces and functions (`constexpr`) from variables; the
    instructions do, which only read them.
    """
    try:
        symbols = writable_globals(compilation.cubin)
    except ElfError:  # The driver will not load it either.
        return ()
    named = [s for s in symbols if not s.name.startswith(STRING_LITERAL)]
    read_only = only_read(compilation.ptx, [s.name for s in named])
    return tuple(
        Finding(
            FindingKind.HIDDEN_STATE,
            f"__device__ variable {symbol.name} of {symbol.size} bytes can be written",
        )
        for symbol in named
        if symbol.name not in read_only
    )


def only_read(ptx: str, variables: Iterable[str]) -> frozenset[str]:
    """Those of some global variables that no instruction can write.

    The address of such a variable is loaded from or computed with, in any function, and nothing
    else: it is not stored, the initial value of another variable, or passed on but to what prints
    it. What is not understood counts as a write.
    """
    names = frozenset(variables)
    if not names:
        return names
    text = _COMMENT.sub("", ptx)
    declared = [word for variable in _VARIABLE.findall(text) for word in _NAME.findall(variable)]
    once = frozenset(name for name in names if declared.count(name) == 1)
    readers = _declared_readers(text)
    functions = _FUNCTION.split(_VARIABLE.sub("", text))
    return once.difference(*(_written(function, once, readers) for function in functions))


def _declared_readers(ptx: str) -> frozenset[str]:
    heads = _HEAD.findall(ptx)
    defined = {name for words, name in heads if ".extern" not in words}
    return frozenset(name for _, name in heads if name in _READERS) - defined


def _written(function: str, names: frozenset[str], readers: frozenset[str]) -> set[str]:
    """Variables that a function may write or pass on."""
    if names.isdisjoint(_NAME.findall(function)):
        return set()
    instructions = [(_opcode(m[1]), m[2]) for m in _INSTRUCTION.finditer(function)]
    held = _held(instructions, names)
    found: set[str] = set()
    passed: set[str] = set()
    for opcode, operands in instructions:
        words = _NAME.findall(operands)
        if opcode == "call" and not readers.isdisjoint(words):
            passed.clear()
        elif opcode == "st.param":
            passed.update(*(held.get(word, ()) for word in words))
        elif opcode not in _COMPUTES | _READS:
            found.update(passed, *(held.get(word, ()) for word in words))
    found |= passed
    understood = sum(1 for _, operands in instructions for word in _words(operands, names))
    if understood != sum(1 for word in _words(function, names)):
        found |= names
    return found


def _held(instructions: list[tuple[str, str]], names: frozenset[str]) -> dict[str, set[str]]:
    """The variables whose addresses a register may hold; a variable holds its own."""
    held = {name: {name} for name in names}
    computed = [
        (set(_NAME.findall(to)), _NAME.findall(given))
        for opcode, operands in instructions
        if opcode in _COMPUTES
        for to, given in [_split(operands)]
    ]
    is_new = True
    while is_new:
        is_new = False
        for results, given in computed:
            addresses = set[str]().union(*(held.get(word, ()) for word in given))
            for result in results if addresses else ():
                known = held.setdefault(result, set())
                is_new |= not addresses <= known
                known |= addresses
    return held


def _opcode(instruction: str) -> str:
    return "st.param" if instruction.startswith("st.param.") else instruction.split(".")[0]


def _split(operands: str) -> tuple[str, str]:
    """Destination, which may be a vector in braces, and the rest."""
    end = operands.find("}") if operands.startswith("{") else 0
    at = operands.find(",", max(end, 0))
    return (operands[:at], operands[at:]) if at >= 0 else (operands, "")


def _words(text: str, names: frozenset[str]) -> Iterator[str]:
    return (word for word in _NAME.findall(text) if word in names)
