"""Float64 reference of sglang_fused_add_rmsnorm: fused add and RMSNorm."""

import torch


def reference(
    input: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
) -> dict[str, torch.Tensor]:
    """The sum x with the residual: x / sqrt(mean(x^2) + eps) * weight."""
    total = input + residual
    scale = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps)
    return {"input": total * scale * weight, "residual": total}
