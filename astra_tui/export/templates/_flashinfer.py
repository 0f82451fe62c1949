"""Puts an operator behind a function of FlashInfer, by FlashInfer's own Trace Apply.

Trace Apply routes calls by the constant axes of a trace, and hands a solution the inputs that the
trace names. That leaves out numbers such as `eps`, buffers such as `out`, and more than two axes.
So each function also gets a cover above Trace Apply: it looks at the call, goes to FlashInfer's
own function where the guard refuses it, and else leaves the launch for the solution to make.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from . import _operator
from ._pins import require_parameters, require_version

VERSION = "0.7.2.post1"
require_version("flashinfer-python", VERSION)

import flashinfer  # noqa: E402 - only after its version is known
from flashinfer.trace_apply import apply, disable_apply, enable_apply  # noqa: E402

__all__ = ["Hook", "Offer", "flashinfer"]

_NOT_ROUTED = "Trace Apply has no solution for this width, or met it first in a graph's capture"


@dataclass(frozen=True)
class Offer:
    """A call that the guard admits: what makes it, and how Trace Apply and the caller see it."""

    launch: Callable[[], None]
    arguments: tuple[Any, ...]
    """For Trace Apply: tensors of two axes."""
    produced: Any
    """What a solution returns."""
    result: Any
    """What the caller gets."""


class Hook:
    """One function of FlashInfer and what stands in for it."""

    def __init__(
        self,
        module: str,
        name: str,
        parameters: str,
        definition: Callable[[int], str],
        offer: Callable[..., Offer | None],
        compiled: Callable[..., Any],
    ):
        self._module, self._name = module, name
        self._parameters = parameters
        self._definition, self._offer, self._compiled = definition, offer, compiled
        self._widths: tuple[int, ...] = ()
        self._local = threading.local()
        self.original = self.current
        require_parameters(self.original, parameters)

    @property
    def current(self) -> Callable[..., Any]:
        """What FlashInfer's name stands for now."""
        found: Callable[..., Any] = getattr(importlib.import_module(self._module), self._name)
        return found

    def install(self, widths: Iterable[int]) -> None:
        """Routes calls with rows of these widths; with the switch off it does nothing."""
        if _operator.calls.off:
            return
        _operator.load()
        self._widths = tuple(widths)
        _hooks()[f"{self._module}.{self._name}"] = self
        _apply_all()

    def uninstall(self) -> None:
        """Gives the function back to FlashInfer."""
        _hooks().pop(f"{self._module}.{self._name}", None)
        _apply_all()

    def solutions(self) -> dict[str, Callable[..., Any]]:
        """What Trace Apply gets, by names of definitions."""
        return {self._definition(width): self._solution for width in self._widths}

    def cover(self) -> None:
        """Covers what Trace Apply has put in place of the function, wherever it is named."""
        routed: Any = self.current
        self.original = routed.__wrapped__

        @functools.wraps(self.original)
        def covered(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return self._compiled(*args, **kwargs)
            offer = self._offer(*args, **kwargs)
            if offer is None:
                return self.original(*args, **kwargs)
            self._local.offer = offer
            try:
                routed(*offer.arguments)
            finally:
                if self._local.offer is not None:
                    self._local.offer = None
                    _operator.calls.fell_back(_NOT_ROUTED)
            return offer.result

        for module in _modules():
            for name, value in list(vars(module).items()):
                if value is routed:
                    setattr(module, name, covered)

    def _solution(self, **inputs: Any) -> Any:
        offer, self._local.offer = getattr(self._local, "offer", None), None
        if offer is None:
            raise RuntimeError(f"{self._name} was called below its cover, with {sorted(inputs)}")
        offer.launch()
        return offer.produced


def _hooks() -> dict[str, Hook]:
    """The hooks of every such package in this process: Trace Apply holds one mapping for all."""
    found: dict[str, Hook] = vars(flashinfer).setdefault("_astra_hooks", {})
    return found


def _apply_all() -> None:
    hooks = tuple(_hooks().values())
    ours = {"_solution"}
    others = {
        name: solution
        for name, solution in apply._solutions.items()
        if getattr(solution, "__name__", "") not in ours
    }
    apply._unfired.clear()  # These are not lost, but set again below.
    disable_apply()
    wanted = {**others, **{n: s for hook in hooks for n, s in hook.solutions().items()}}
    if wanted:
        enable_apply(wanted)
    for hook in hooks:
        hook.cover()


def _modules() -> list[Any]:
    return [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "flashinfer" and getattr(module, "__dict__", None)
    ]
