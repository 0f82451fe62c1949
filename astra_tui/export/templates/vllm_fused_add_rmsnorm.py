"""fused_add_rms_norm of vLLM's IR: the provider "astra", first in the order of its providers."""

# No postponed annotations here: vLLM reads a schema from those of the implementation.

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from . import _contract, _gpu, _operator  # type: ignore[attr-defined]  # one is generated
from ._pins import require_parameters, require_version

VERSION = "0.33.0"
require_version("vllm", VERSION)

from vllm import ir  # noqa: E402 - only after its version is known

API = "vllm.ir.ops.fused_add_rms_norm"
PROVIDER = "astra"

_op = ir.ops.fused_add_rms_norm
_native = _op.impls["native"].impl_fn
require_parameters(_native, "x, x_residual, weight, epsilon, variance_size=None")


def _supports(
    x: Tensor,
    x_residual: Tensor,
    weight: Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> bool:
    """What can be told without addresses, which a graph that is compiled does not have yet."""
    del epsilon
    return (
        not _operator.calls.off
        and weight is not None
        and variance_size is None
        and x.dim() == 2
        and x.shape == x_residual.shape
        and x.dtype == x_residual.dtype == weight.dtype
        and str(x.dtype).removeprefix("torch.") in _contract.DTYPES
        and _gpu.ordinal_of(x.device) is not None
    )


def _next(*arguments: Any) -> tuple[Tensor, Tensor]:
    """What vLLM's own order of providers gives the call to, without this one."""
    for implementation in (*_op._priority_impls, _op.impls["native"]):
        if implementation.provider != PROVIDER and implementation.supports_args(*arguments):
            found: tuple[Tensor, Tensor] = implementation.impl_fn(*arguments)
            return found
    raise RuntimeError("vLLM's native provider supports every call")


def fused_add_rms_norm(
    x: Tensor,
    x_residual: Tensor,
    weight: Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    """In place inside the guard; outside it, vLLM's next provider."""
    if torch.compiler.is_compiling():
        torch.ops.astra.fused_add_rmsnorm(x, x_residual, weight, epsilon)
        return x, x_residual
    assert weight is not None
    launch = _operator.take((), (x, x_residual, weight), (epsilon,))
    if launch is None:
        return _next(x, x_residual, weight, epsilon, variance_size)
    launch()
    return x, x_residual


def _fallback(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> None:
    for target, result in zip((x, residual), _next(x, residual, weight, eps), strict=True):
        if target.data_ptr() != result.data_ptr():
            target.copy_(result)


def install(widths: Iterable[int] = ()) -> None:
    """Registers the provider and puts it first; with the switch off it does nothing."""
    del widths
    plugin()
    _operator.load()


def plugin() -> None:
    """Installs it as one of vLLM's plugins, which each of its processes calls.

    CUDA stays untouched until a call: the process that starts the others may have no context.
    """
    if _operator.calls.off:
        return
    if PROVIDER not in _op.impls:
        _op.register_impl(PROVIDER, supports_args=_supports, inplace=True)(fused_add_rms_norm)
    _operator.set_fallback(_fallback)
    others = [name for name in _op.get_priority() if name != PROVIDER] or ["native"]
    _op.set_default([PROVIDER, *others])


def uninstall() -> None:
    """Puts vLLM's own order back."""
    _op.set_default([name for name in _op.get_priority() if name != PROVIDER])


def call(given: dict[str, Any]) -> dict[str, Tensor]:
    """One call through vLLM's operator, for proofs: what it writes, by the task's names."""
    arguments = (given["x"], given["residual"], given["weight"], given["eps"])
    x, residual = _op.maybe_inplace(*arguments)
    return {"x": x, "residual": residual}
