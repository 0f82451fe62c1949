"""fused_add_rmsnorm of SGLang: a plugin backend for the layer RMSNorm, where it adds a residual."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import torch

from . import _operator
from ._pins import require_parameters
from ._sglang import Attachment, Offer

API = "sglang.srt.layers.layernorm.RMSNorm"
_PARAMETERS = "self, x, residual=None, post_residual_addition=None, quant_linear=None"


def _offer(
    op: Any,
    x: torch.Tensor,
    residual: torch.Tensor | None = None,
    post_residual_addition: torch.Tensor | None = None,
    quant_linear: Any = None,
) -> Offer | None:
    plain = (
        residual is not None
        and post_residual_addition is None
        and quant_linear is None
        and op._quant_linear is None
        and op.variance_size_override is None
        and not op.cast_x_before_out_mul
        and not op.fp32_residual
    )
    if not plain or x.numel() == 0:
        _operator.calls.fell_back("another form of the norm than x, residual and weight")
        return None
    launch = _operator.take((), (x, residual, op.weight.data), (op.variance_epsilon,))
    return None if launch is None else (launch, (x, residual))


_attachments: list[Attachment] = []


def attach_layer(layer: type[Any]) -> None:
    """Attaches the backend to a class with the fields and the forward of RMSNorm."""
    require_parameters(layer.forward_cuda, _PARAMETERS)
    _attachments.append(Attachment(layer, _offer))
    _attachments[-1].attach()


def install(widths: Iterable[int] = ()) -> None:
    """Attaches the backend to RMSNorm. Call it before a model is made.

    SGLang's batch-invariant mode wants one result for a row in any batch, which was not checked of
    these kernels: do not install them there.
    """
    del widths
    if not _attachments:
        attach_layer(importlib.import_module("sglang.srt.layers.layernorm").RMSNorm)
    for attachment in _attachments:
        attachment.attach()


def uninstall() -> None:
    """Ends it."""
    for attachment in _attachments:
        attachment.detach()


def call(given: dict[str, Any]) -> dict[str, torch.Tensor]:
    """One call through SGLang's layer, for proofs: what it writes, by the task's names."""
    layer = importlib.import_module("sglang.srt.layers.layernorm").RMSNorm
    op = layer(given["weight"].shape[0], eps=given["eps"], weight_dtype=given["weight"].dtype)
    op.weight.data = given["weight"]
    x, residual = op(given["x"], given["residual"])
    return {"x": x, "residual": residual}
