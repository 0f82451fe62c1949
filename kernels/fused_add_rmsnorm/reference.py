"""Float64 reference of fused_add_rmsnorm."""

import torch


def reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> dict[str, torch.Tensor]:
    """The norm is taken of the exact sum, not of the rounded residual."""
    total = x + residual
    scale = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps)
    return {"x": total * scale * weight, "residual": total}
