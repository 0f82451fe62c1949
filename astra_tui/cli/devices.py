"""Opens what a command needs to run kernels: the compiler, and the device that `--device` names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from astra_tui.cli.failures import UnavailableHere
from astra_tui.model.settings import check_device_name

if TYPE_CHECKING:
    from astra_tui.lab.compiler import Compiler
    from astra_tui.lab.devices import Opened


@contextmanager
def open_device(name: str, compiler: Compiler) -> Iterator[Opened]:
    """The device by name; the compiler compiles for it from now on.

    Raises UserError for a device that is not there, UnavailableHere without a compiler.
    """
    from astra_tui.lab import devices

    check_device_name(name)
    with devices.open_device(name, compiler) as opened:
        yield opened


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
