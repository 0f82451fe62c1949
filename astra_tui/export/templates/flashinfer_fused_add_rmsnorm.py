"""fused_add_rmsnorm of FlashInfer: `install()` replaces it inside the guard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from . import _operator
from ._flashinfer import Hook, Offer, flashinfer

API = "flashinfer.norm.fused_add_rmsnorm"


def _offer(
    input: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    enable_pdl: bool | None = None,
) -> Offer | None:
    del enable_pdl  # How the plan launches is the plan's; the result is the same.
    launch = _operator.take((), (input, residual, weight), (eps,))
    arguments = (input, residual, weight, eps)
    return None if launch is None else Offer(launch, arguments, (input, residual), None)


def _compiled(
    input: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    enable_pdl: bool | None = None,
) -> None:
    del enable_pdl
    torch.ops.astra.fused_add_rmsnorm(input, residual, weight, eps)


_hook = Hook(
    "flashinfer.norm",
    "fused_add_rmsnorm",
    "input, residual, weight, eps=1e-06, enable_pdl=None",
    lambda width: f"fused_add_rmsnorm_h{width}",
    _offer,
    _compiled,
)


def install(widths: Iterable[int]) -> None:
    """Replaces the function for rows of these widths."""
    _hook.install(widths)
    _operator.set_fallback(lambda *arguments: _hook.original(*arguments))


def uninstall() -> None:
    """Ends it."""
    _hook.uninstall()


def call(given: dict[str, Any]) -> dict[str, torch.Tensor]:
    """One call through FlashInfer's function, for proofs: what it writes, by the task's names."""
    flashinfer.norm.fused_add_rmsnorm(given["x"], given["residual"], given["weight"], given["eps"])
    return {"x": given["x"], "residual": given["residual"]}
