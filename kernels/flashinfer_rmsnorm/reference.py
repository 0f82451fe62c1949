"""Float64 reference of flashinfer_rmsnorm: RMSNorm."""

import torch


def reference(
    input: torch.Tensor,
    weight: torch.Tensor,
    weight_bias: float,
    eps: float,
) -> dict[str, torch.Tensor]:
    """Each row: x / sqrt(mean(x^2) + eps) * (weight_bias + weight)."""
    scale = torch.rsqrt(input.square().mean(dim=-1, keepdim=True) + eps)
    return {"output": input * scale * (weight_bias + weight)}
