"""RMSNorm of a sum, in bfloat16 and in float8_e4m3fn with a scale for each 128 numbers."""

import torch


def reference(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> dict[str, torch.Tensor]:
    """Rows are rounded before they are quantised; scales lie by column, at least 1e-4 / 448."""
    total = input + residual
    exact = total * torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps) * weight
    blocks = exact.to(torch.bfloat16).double().unflatten(-1, (-1, 128))
    scales = blocks.abs().amax(dim=-1).clamp(min=1e-4) / 448.0
    codes = (blocks / scales.unsqueeze(-1)).clamp(-448.0, 448.0)
    return {
        "output": codes.flatten(-2),
        "block_scale": scales.t(),
        "residual": total,
        "normed_out": exact,
    }
