"""Float64 reference of flashinfer_fused_add_rmsnorm_quant: sum, RMSNorm, one scale."""

import torch


def reference(
    input: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    weight_bias: float,
    eps: float,
) -> dict[str, torch.Tensor]:
    """The normalised row, divided by the one scale that is given, rounded to 8 bits."""
    total = input + residual
    scale_ = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps)
    return {
        "output": ((total * scale_ * (weight_bias + weight)) / scale).clamp(-448.0, 448.0),
        "residual": total,
    }
