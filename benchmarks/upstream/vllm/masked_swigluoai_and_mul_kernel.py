"""Float64 reference of a clamped SwiGLU of interleaved pairs, for the tokens of experts."""

import torch


def reference(
    out: torch.Tensor,
    input: torch.Tensor,
    valid_token_counts: torch.Tensor,
    alpha: float,
    limit: float,
) -> dict[str, torch.Tensor]:
    """Computes the tokens that an expert has, and keeps the other rows."""
    gate = input[..., 0::2].clamp(max=limit)
    up = input[..., 1::2].clamp(-limit, limit)
    computed = gate * torch.sigmoid(alpha * gate) * (up + 1)
    has_token = torch.arange(out.shape[1]) < valid_token_counts.unsqueeze(1)
    return {"out": torch.where(has_token.unsqueeze(-1), computed, out)}
