"""silu_and_mul as PyTorch's own operators write it: the fallback outside the guard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from . import _operator
from ._pins import require_version

require_version("torch", "2.1[1-9].*")

API = "torch.ops.astra.silu_and_mul"


def silu_and_mul(input: torch.Tensor) -> torch.Tensor:
    """The operator without the kernels."""
    d = input.shape[-1] // 2
    return torch.nn.functional.silu(input[..., :d]) * input[..., d:]


def install(widths: Iterable[int] = ()) -> None:
    """Calls outside the guard get `silu_and_mul` above; every width is inside."""
    del widths
    _operator.set_fallback(silu_and_mul)
    _operator.calls.off = False


def uninstall() -> None:
    """Every call gets it."""
    _operator.set_fallback(silu_and_mul)
    _operator.calls.off = True


def call(given: dict[str, Any]) -> dict[str, torch.Tensor]:
    """One call of the operator, for proofs: what it writes, by the task's names."""
    return {"out": torch.ops.astra.silu_and_mul(given["input"])}
