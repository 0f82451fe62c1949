"""Float64 reference of flashinfer_layernorm: LayerNorm."""

import torch


def reference(
    input: torch.Tensor,
    gemma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
) -> dict[str, torch.Tensor]:
    """(x - mean) / sqrt(variance + eps) * weight + bias."""
    mean = input.mean(dim=-1, keepdim=True)
    centred = input - mean
    rstd = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + eps)
    return {"normed_output": centred * rstd * gemma + beta}
