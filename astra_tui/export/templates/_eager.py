"""Puts PyTorch's own operators behind the guard of an operator of torch.library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from . import _operator
from ._pins import require_version

require_version("torch", "2.1[1-9].*")


class Hook:
    """An operator whose calls outside the guard get `fallback`, written in PyTorch's operators."""

    def __init__(self, fallback: Callable[..., Any]):
        self._fallback = fallback

    def install(self, widths: Iterable[int] = ()) -> None:
        """Launches what lies inside the guard; every width does. The switch stays what it is."""
        del widths
        _operator.set_fallback(self._fallback)
        _operator.calls.off = _operator.calls.switched_off
        _operator.load()

    def uninstall(self) -> None:
        """Every call gets the fallback."""
        _operator.set_fallback(self._fallback)
        _operator.calls.off = True
