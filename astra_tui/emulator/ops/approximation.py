"""How far approximate instructions may be from the truth, and results at that distance.

Hardware errs by less, in a way that differs between generations. A candidate has to be right for
whatever is documented, so a run can have every result moved to the edge.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.emulator.lanes import Group
from astra_tui.emulator.numerics import bf16_to_f32, flush
from astra_tui.emulator.operands import Decoder, Run, type_of
from astra_tui.emulator.ops.arithmetic import join_halves, pack_half, unpack_half
from astra_tui.emulator.ptx.module import Instruction
from astra_tui.model.device import APPROXIMATE

_SPACING = {"f32": (2.0**-149, 23), "f16": (2.0**-24, 10), "bf16": (2.0**-133, 7)}
"""The smallest number of each type, and the bits of its fraction."""


@dataclass(frozen=True)
class Bound:
    """A documented error: in units in the last place of the rounded result, relative, absolute."""

    ulp: float = 0.0
    relative: float = 0.0
    absolute: Callable[[Any], Any] | None = None
    """From the (first) operand."""


def _of_sine(angle: Any) -> Any:
    """Beyond 100 pi nothing is promised: there the results stay as they are."""
    size = np.abs(angle)
    far = np.where(size <= 100 * np.pi, 2.0**-14.7, 0.0)
    return np.where(size <= 2 * np.pi, 2.0**-20.5, far)


def _of_logarithm(value: Any) -> Any:
    inside = (value > 0.5) & (value < 2)
    return np.where(inside, 2.0**-22, 2.0**-22 * np.abs(np.log2(np.abs(value))))


BOUNDS: dict[tuple[str, str], Bound] = {
    ("rcp", "f32"): Bound(ulp=1),
    ("sqrt", "f32"): Bound(relative=2.0**-23),
    ("rsqrt", "f32"): Bound(relative=2.0**-22.9),
    ("ex2", "f32"): Bound(ulp=2),
    ("ex2", "f16"): Bound(relative=2.0**-9.9),
    ("ex2", "bf16"): Bound(relative=2.0**-7),
    ("lg2", "f32"): Bound(absolute=_of_logarithm),
    ("sin", "f32"): Bound(absolute=_of_sine),
    ("cos", "f32"): Bound(absolute=_of_sine),
    ("tanh", "f32"): Bound(relative=2.0**-11),
    ("tanh", "f16"): Bound(absolute=lambda a: np.full(np.shape(a), 2.0**-10.987)),
    ("tanh", "bf16"): Bound(absolute=lambda a: np.full(np.shape(a), 2.0**-8)),
    ("div", "f32"): Bound(ulp=2),
}
"""PTX ISA 9.x, "Floating Point Instructions" and "Half Precision Floating Point Instructions",
under Notes of each. `rcp.approx.ftz.f64` and `rsqrt.approx.f64` start Newton iterations of CUDA's
own double arithmetic; no error is documented that a caller could meet, and they stay exact."""

_WITHIN_ONE = ("tanh", "sin", "cos")


def at_error_bound(
    decoder: Decoder, instruction: Instruction, function: Callable[..., Any], exact: Run
) -> Run:
    """An approximate instruction: `exact`, or moved by its documented error in runs at the edge.

    `function` computes in float64.
    """
    kind = type_of(instruction)
    half = kind.removesuffix("x2")
    bound = BOUNDS.get((instruction.operation, half))
    if bound is None or not {"approx", "full"} & set(instruction.modifiers):
        return exact
    decoder.traits.add(APPROXIMATE)
    line, code = instruction.location.line, zlib.crc32(f"{instruction.operation}.{half}".encode())
    sources = [decoder.read(operand, kind) for operand in instruction.operands[1:]]
    target = decoder.read(instruction.operands[0], kind)
    write = decoder.write(instruction.operands[0], kind)
    flushed = "ftz" in instruction.modifiers and kind == "f32"
    limit = 1.0 if instruction.operation in _WITHIN_ONE else np.inf

    def moved(result: Any, operands: list[Any], group: Group, edges: int) -> Any:
        """Bit patterns of `half` next to the exact result; `result` is the rounded one."""
        wide = [_widened(o, half) for o in operands]
        signs = _signs(group, code + edges, [_bits(o, half) for o in operands])
        return _moved(bound, half, function(*wide), _bits(result, half), wide[0], signs, limit)

    def run(regs: dict[int, Any], group: Group) -> None:
        variation = group.chunk.launch.variation
        edges = variation.error_bounds
        if not edges or variation.error_bounds_line not in (0, line):
            exact(regs, group)
            return
        operands = [read(regs) for read in sources]
        if flushed:
            operands = [flush(o) for o in operands]
        exact(regs, group)
        result = target(regs)
        if kind == half:
            bits = moved(result, operands, group, edges)
            value = bits if half == "bf16" else bits.view(f"f{bits.itemsize}")
            write(regs, flush(value) if flushed else value)
            return
        shifts = (np.uint32(0), np.uint32(16))
        low, high = (
            moved(_part(result, s), [_part(o, s) for o in operands], group, edges) for s in shifts
        )
        write(regs, join_halves(low, high))

    return run


def _part(packed: Any, shift: Any) -> Any:
    return ((np.asarray(packed) >> shift) & np.uint32(0xFFFF)).astype(np.uint16)


def _widened(value: Any, kind: str) -> Any:
    if kind == "bf16":
        return np.asarray(bf16_to_f32(value)).astype(np.float64)
    if kind == "f16":
        return unpack_half(np.asarray(value).view(np.uint16), "f16")
    return np.asarray(value).astype(np.float64)


def _bits(value: Any, kind: str) -> Any:
    return np.asarray(value).view(np.uint32 if kind == "f32" else np.uint16)


def _moved(
    bound: Bound, kind: str, exact: Any, bits: Any, operand: Any, signs: Any, limit: float
) -> Any:
    """Moves rounded results as far from the exact ones as the bound allows, never further.

    Zeros, infinities and NaNs stay: PTX lists them. So does what would leave the finite numbers.
    """
    rounded = _value(bits, kind)
    if bound.absolute is not None:
        error, centre = bound.absolute(operand), exact
    elif bound.relative:
        error, centre = bound.relative * np.abs(exact), exact
    else:
        smallest, fraction = _SPACING[kind]
        _, exponent = np.frexp(rounded)
        spacing = np.maximum(np.ldexp(1.0, exponent - 1 - fraction), smallest)
        error, centre = bound.ulp * spacing, rounded
    goal = np.clip(centre + signs * error, -limit, limit)
    found = _rounded(goal, kind)
    value = _value(found, kind)
    # One step back towards the middle where rounding went over the edge.
    beyond = np.abs(value - centre) > error
    towards_zero = np.abs(value) > np.abs(centre)
    one = found.dtype.type(1)
    back = np.where(towards_zero, found - one, found + one)
    found = np.where(beyond & (value != 0), back, found)
    value = _value(found, kind)
    stays = ~np.isfinite(exact) | (exact == 0) | (rounded == 0) | ~np.isfinite(rounded)
    stays |= ~np.isfinite(value) | (np.abs(value - centre) > error)
    return np.where(stays, np.broadcast_to(bits, found.shape), found)


def _value(bits: Any, kind: str) -> Any:
    if kind == "f32":
        return np.asarray(bits).view(np.float32).astype(np.float64)
    return unpack_half(bits, kind)


def _rounded(value: Any, kind: str) -> Any:
    if kind == "f32":
        return np.asarray(value).astype(np.float32).view(np.uint32)
    return np.asarray(pack_half(value, kind))


def _signs(group: Group, seed: int, operands: list[Any]) -> Any:
    """+1 or -1 for each lane.

    In one block of four all are +1, in another all are -1, so that errors add up in sums. In the
    others operation and operands decide: hardware gives equals the same result, and kernels that
    compare results, such as a top-k of exponentials, rely on it.
    """
    block = (group.block_index + seed) & 3
    mixed = np.uint64(seed)
    with np.errstate(over="ignore"):
        for bits in operands:
            mixed = (mixed ^ bits.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    drawn = np.where((mixed >> np.uint64(40)) & np.uint64(1), 1.0, -1.0)
    return np.where(block == 0, 1.0, np.where(block == 1, -1.0, drawn))
