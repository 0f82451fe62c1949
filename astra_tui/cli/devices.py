"""Opens the device that `--device` names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from astra_tui.lab.device import Device
from astra_tui.model.errors import UserError, nearest

DEVICES = ("auto", "emulator")


@contextmanager
def open_device(name: str) -> Iterator[Device]:
    """The device by name; `auto` is the best there is. Raises UserError for an unknown one."""
    if name not in DEVICES:
        raise UserError(f"there is no device '{name}'", hint=nearest(name, DEVICES))
    from astra_tui.lab.emulator.device import Emulator

    yield Emulator()
