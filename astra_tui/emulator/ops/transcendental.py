"""Quotients, roots, exponentials and their kin, in full precision of the result's type."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.numerics import f64_to_f32
from astra_tui.emulator.operands import Decoder, Run, opcode, type_of
from astra_tui.emulator.ops.approximation import at_error_bound
from astra_tui.emulator.ops.arithmetic import (
    Function,
    approximate_quotient,
    elementwise,
    exact_division,
    rounding,
)
from astra_tui.emulator.ptx.module import Instruction


def _through_f64(function: Function) -> Function:
    """Evaluates in float64 and rounds once to the operand's own type."""

    def apply(value: Any) -> Any:
        value = np.asarray(value)
        return function(value.astype(np.float64)).astype(value.dtype)[()]

    return apply


def _rsqrt(value: Any) -> Any:
    return 1.0 / np.sqrt(value)


_FUNCTIONS: dict[str, Function] = {
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@opcode(*_FUNCTIONS)
def _function(decoder: Decoder, instruction: Instruction) -> Run:
    function = _FUNCTIONS[instruction.operation]
    return at_error_bound(decoder, instruction, function, _exact(decoder, instruction, function))


@opcode("div")
def _div(decoder: Decoder, instruction: Instruction) -> Run:
    if "approx" in instruction.modifiers:
        exact = elementwise(decoder, instruction, approximate_quotient)
    else:
        exact = exact_division(decoder, instruction)
    return at_error_bound(decoder, instruction, np.divide, exact)


def _exact(decoder: Decoder, instruction: Instruction, function: Function) -> Run:
    kind, mode = type_of(instruction), rounding(instruction)
    if kind == "f32" and mode != "rn":
        return elementwise(
            decoder,
            instruction,
            lambda a: f64_to_f32(function(np.asarray(a).astype(np.float64)), mode),
        )
    exact_in_place = instruction.operation in ("rcp", "sqrt") and kind in ("f32", "f64")
    if exact_in_place or kind in ("f64", "bf16", "f16x2", "bf16x2"):
        return elementwise(decoder, instruction, function)
    return elementwise(decoder, instruction, _through_f64(function))
