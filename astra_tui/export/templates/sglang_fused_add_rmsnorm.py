"""fused_add_rmsnorm of SGLang: a plugin backend for the layer RMSNorm, where it adds a residual."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from typing import Any

import torch

from . import _operator
from ._pins import require_parameters
from ._sglang import Attachment, Offer

layernorm = importlib.import_module("sglang.srt.layers.layernorm")
RMSNorm = layernorm.RMSNorm

API = "sglang.srt.layers.layernorm.RMSNorm"

require_parameters(
    RMSNorm.forward_cuda,
    "self, x, residual=None, post_residual_addition=None, quant_linear=None",
)


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
    if layernorm.is_batch_invariant_mode_enabled():
        # It asks for the same result of a row in any batch, which was not checked of this kernel.
        _operator.calls.fell_back("SGLang's batch-invariant mode")
        return None
    if not plain or x.numel() == 0:
        _operator.calls.fell_back("another form of the norm than x, residual and weight")
        return None
    launch = _operator.take((), (x, residual, op.weight.data), (op.variance_epsilon,))
    return None if launch is None else (launch, (x, residual))


_attachment = Attachment(RMSNorm, _offer)


def install(widths: Iterable[int] = ()) -> None:
    """Attaches the backend to RMSNorm; every width is inside.

    Call it before a model is made: a layer keeps what it chose at its first call.
    """
    del widths
    plugin()
    _operator.load()


def plugin() -> None:
    """Installs it as one of SGLang's plugins, which each of its processes calls.

    CUDA stays untouched until a call: the process that starts the others may have no context.
    """
    _attachment.attach()
    _layer.cache_clear()


def uninstall() -> None:
    """Ends it."""
    _attachment.detach()
    _layer.cache_clear()


@functools.cache
def _layer(width: int, eps: float, dtype: torch.dtype) -> Any:
    return RMSNorm(width, eps=eps, weight_dtype=dtype)


def call(given: dict[str, Any]) -> dict[str, torch.Tensor]:
    """One call through SGLang's layer, for proofs: what it writes, by the task's names."""
    weight = given["weight"]
    layer = _layer(weight.shape[0], given["eps"], weight.dtype)
    layer.weight.data = weight
    x, residual = layer(given["x"], given["residual"])
    return {"x": x, "residual": residual}
