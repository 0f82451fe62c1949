"""silu_and_mul of FlashInfer: `install()` replaces it inside the guard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from . import _operator
from ._flashinfer import Hook, Offer, flashinfer

API = "flashinfer.activation.silu_and_mul"


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(-1, tensor.shape[-1])


def _offer(
    input: torch.Tensor, out: torch.Tensor | None = None, enable_pdl: bool | None = None
) -> Offer | None:
    del enable_pdl  # How the plan launches is the plan's; the result is the same.
    if input.dim() < 2 or not input.is_contiguous() or input.shape[-1] % 2:
        _operator.calls.fell_back("the input is not rows of an even width without gaps")
        return None
    made = input.new_empty((*input.shape[:-1], input.shape[-1] // 2)) if out is None else out
    if made.shape[:-1] != input.shape[:-1] or not made.is_contiguous():
        _operator.calls.fell_back("out is not rows of half the width without gaps")
        return None
    rows, produced = _rows(input), _rows(made)
    launch = _operator.take((produced,), (rows,), ())
    return None if launch is None else Offer(launch, (rows, produced), produced, made)


def _compiled(
    input: torch.Tensor, out: torch.Tensor | None = None, enable_pdl: bool | None = None
) -> torch.Tensor:
    del enable_pdl
    rows = input.reshape(-1, input.shape[-1])
    made = torch.ops.astra.silu_and_mul(rows)
    made = made.view((*input.shape[:-1], input.shape[-1] // 2))
    return made if out is None else out.copy_(made)


_hook = Hook(
    "flashinfer.activation",
    "silu_and_mul",
    "input, out=None, enable_pdl=None",
    lambda width: f"silu_and_mul_h{2 * width}",
    _offer,
    _compiled,
)


def install(widths: Iterable[int]) -> None:
    """Replaces the function for results of these widths."""
    _hook.install(widths)
    _operator.set_fallback(lambda input: _hook.original(input))


def uninstall() -> None:
    """Ends it."""
    _hook.uninstall()


def call(given: dict[str, Any]) -> dict[str, torch.Tensor]:
    """One call through FlashInfer's function, for proofs: what it writes, by the task's names."""
    return {"out": flashinfer.activation.silu_and_mul(given["input"])}
