"""Float64 reference of flashinfer_rmsnorm_quant: RMSNorm and quantisation with a given scale."""

import torch


def reference(
    input: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    weight_bias: float,
    eps: float,
) -> dict[str, torch.Tensor]:
    """The normalised row, divided by the one scale that is given, rounded to 8 bits."""
    scale_ = torch.rsqrt(input.square().mean(dim=-1, keepdim=True) + eps)
    return {"output": ((input * scale_ * (weight_bias + weight)) / scale).clamp(-448.0, 448.0)}
