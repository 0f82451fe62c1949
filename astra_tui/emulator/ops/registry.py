"""Collects the functions that decode instructions, by the opcode names of `opcodes.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astra_tui.emulator.operands import Decoder
from astra_tui.emulator.ptx.module import Instruction
from astra_tui.emulator.step import Step

Run = Callable[[dict[int, Any], Any], None]
"""Executes one instruction: registers and the group of lanes that run it."""
Handler = Callable[[Decoder, Instruction], Step | Run]

HANDLERS: dict[str, Handler] = {}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Registers a function that decodes the named opcodes.

    It returns either what to run, for instructions that simply continue with the next, or a Step.
    """

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register
