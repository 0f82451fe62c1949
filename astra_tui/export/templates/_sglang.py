"""Gives fused operators of SGLang the backend `plugin`, ahead of their own, for calls it takes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from . import _operator
from ._pins import require_version

VERSION = "0.5.23"
require_version("sglang", VERSION)

from sglang.kernels.fused_op import BaseFusedOp  # noqa: E402 - only after its version is known
from sglang.kernels.spec import CUDA_ONLY, KernelBackend  # noqa: E402

Offer = tuple[Callable[[], None], Any]
"""What makes a call, and what the caller gets."""

_NAMES = ("capabilities", "priority", "backend_eligible", "forward_plugin")


class Attachment:
    """One class of fused operators and what stands in for its best backend.

    `offer` gets the operator and the arguments of a call. It returns None for what the guard
    refuses; SGLang then asks its next backend, or takes the path for the platform, as before.
    """

    def __init__(self, op_class: type[Any], offer: Callable[..., Offer | None]):
        self._class, self._offer = op_class, offer
        self._local = threading.local()
        self._kept: dict[str, Any] | None = None

    def attach(self) -> None:
        """Puts the backend first; with the switch off it does nothing."""
        if self._kept is not None or _operator.calls.off:
            return
        own = vars(self._class)
        self._kept = {name: own[name] for name in _NAMES if name in own}
        eligible = self._class.backend_eligible

        def backend_eligible(op: Any, backend: Any, *args: Any, **kwargs: Any) -> bool:
            if backend is not KernelBackend.PLUGIN:
                return bool(eligible(op, backend, *args, **kwargs))
            if torch.compiler.is_compiling():  # The guard needs addresses.
                return False
            self._local.offer = self._offer(op, *args, **kwargs)
            return self._local.offer is not None

        def forward_plugin(op: Any, *args: Any, **kwargs: Any) -> Any:
            offer, self._local.offer = getattr(self._local, "offer", None), None
            if offer is None:  # It was asked for by name.
                offer = self._offer(op, *args, **kwargs)
            if offer is None:
                raise NotImplementedError("the adapter's guard refuses this call")
            launch, result = offer
            launch()
            return result

        others = tuple(b for b in self._class.priority if b is not KernelBackend.PLUGIN)
        self._class.priority = (KernelBackend.PLUGIN, *others)
        self._class.capabilities = {**self._class.capabilities, KernelBackend.PLUGIN: CUDA_ONLY}
        self._class.backend_eligible = backend_eligible
        self._class.forward_plugin = forward_plugin

    def detach(self) -> None:
        """Puts the class back as it was."""
        if self._kept is None:
            return
        for name in _NAMES:
            if name in self._kept:
                setattr(self._class, name, self._kept[name])
            else:
                delattr(self._class, name)
        self._kept = None


def forget_choices(*roots: Any) -> None:
    """Operators made before choose again: SGLang keeps what each chose at its first call."""
    for root in roots:
        for module in root.modules():
            if isinstance(module, BaseFusedOp) and not module.is_torch_compile:
                module._forward_method = None
