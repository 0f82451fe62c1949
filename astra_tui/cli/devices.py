"""Opens what a command needs to run kernels: the compiler, and the device that `--device` names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from astra_tui.cli.failures import UnavailableHere
from astra_tui.lab.device import Device
from astra_tui.model.errors import UserError, nearest

if TYPE_CHECKING:
    from astra_tui.lab.compiler import Compiler

DEVICES = ("auto", "emulator")


@contextmanager
def open_device(name: str) -> Iterator[Device]:
    """The device by name; `auto` is the best there is. Raises UserError for an unknown one."""
    if name not in DEVICES:
        raise UserError(f"there is no device '{name}'", hint=nearest(name, DEVICES))
    from astra_tui.lab.emulator.device import Emulator

    yield Emulator()


@contextmanager
def open_compiler() -> Iterator[Compiler]:
    """The compiler. Raises UnavailableHere from the block when there is none."""
    from astra_tui.lab.compiler import Compiler, CompilerUnavailable

    try:
        with Compiler() as compiler:
            yield compiler
    except CompilerUnavailable as error:
        reason = str(error).strip().splitlines()[-1]
        raise UnavailableHere(
            f"the compiler does not work here: {reason}", hint="see: astra-tui doctor"
        ) from None
