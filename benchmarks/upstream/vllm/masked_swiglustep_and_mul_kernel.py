"""Float64 reference of a clamped SiLU times a clamped half, for the tokens of experts."""

import torch


def reference(
    out: torch.Tensor, input: torch.Tensor, valid_token_counts: torch.Tensor, limit: float
) -> dict[str, torch.Tensor]:
    """Computes the tokens that an expert has, and keeps the other rows."""
    gate, up = input.chunk(2, dim=-1)
    computed = torch.nn.functional.silu(gate).clamp(max=limit) * up.clamp(-limit, limit)
    has_token = torch.arange(out.shape[1]) < valid_token_counts.unsqueeze(1)
    return {"out": torch.where(has_token.unsqueeze(-1), computed, out)}
