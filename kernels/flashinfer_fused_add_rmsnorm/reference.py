"""Float64 reference of flashinfer_fused_add_rmsnorm: fused add and RMSNorm."""

import torch


def reference(
    input: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    weight_bias: float,
    eps: float,
) -> dict[str, torch.Tensor]:
    """The sum x with the residual: x / sqrt(mean(x^2) + eps) * (weight_bias + weight)."""
    total = input + residual
    scale = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps)
    return {"input": total * scale * (weight_bias + weight), "residual": total}
