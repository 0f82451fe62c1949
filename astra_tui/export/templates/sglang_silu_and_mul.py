"""silu_and_mul of SGLang: a plugin backend for its fused operator and for its layer."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import torch

from . import _operator
from ._pins import require_parameters
from ._sglang import Attachment, Offer, forget_choices

activation = importlib.import_module("sglang.kernels.ops.activation")

API = "sglang.kernels.ops.activation.silu_and_mul"

require_parameters(activation.SiluAndMulOp.forward_native, "self, input, out=None")


def _offer(op: Any, input: torch.Tensor, out: torch.Tensor | None = None) -> Offer | None:
    del op
    if input.dim() < 2 or not input.is_contiguous() or input.shape[-1] % 2:
        _operator.calls.fell_back("the input is not rows of an even width without gaps")
        return None
    made = input.new_empty((*input.shape[:-1], input.shape[-1] // 2)) if out is None else out
    if made.shape[:-1] != input.shape[:-1] or not made.is_contiguous():
        _operator.calls.fell_back("out is not rows of half the width without gaps")
        return None
    rows, produced = (t.view(-1, t.shape[-1]) for t in (input, made))
    launch = _operator.take((produced,), (rows,), ())
    return None if launch is None else (launch, made)


_attachments = [Attachment(activation.SiluAndMulOp, _offer)]


def _attach_layer() -> None:
    """Adds SGLang's layer, which models use and which does not go through the fused operator."""
    layer = importlib.import_module("sglang.srt.layers.activation").SiluAndMul
    require_parameters(layer.forward_cuda, "self, x")
    _attachments.append(Attachment(layer, lambda op, x: _offer(op, x)))


def install(widths: Iterable[int] = ()) -> None:
    """Attaches the backend to the fused operator and to the layer; every width is inside.

    Call it before a model is made: a layer keeps what it chose at its first call.
    """
    del widths
    plugin()
    _operator.load()


def plugin() -> None:
    """Installs it as one of SGLang's plugins, which each of its processes calls.

    CUDA stays untouched until a call: the process that starts the others may have no context.
    """
    if len(_attachments) == 1:
        _attach_layer()
    for attachment in _attachments:
        attachment.attach()
    forget_choices(activation._SILU_AND_MUL)


def uninstall() -> None:
    """Ends it."""
    for attachment in _attachments:
        attachment.detach()
    forget_choices(activation._SILU_AND_MUL)


def call(given: dict[str, Any]) -> dict[str, torch.Tensor]:
    """One call through SGLang's function, for proofs: what it writes, by the task's names."""
    return {"out": activation.silu_and_mul(given["input"])}
