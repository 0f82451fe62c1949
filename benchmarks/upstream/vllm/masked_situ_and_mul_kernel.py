"""Float64 reference of SiTU, a gate between two bounds, for the tokens of experts."""

import torch


def reference(
    out: torch.Tensor,
    input: torch.Tensor,
    valid_token_counts: torch.Tensor,
    beta: float,
    linear_beta: float,
) -> dict[str, torch.Tensor]:
    """Computes the tokens that an expert has, and keeps the other rows."""
    gate, up = input.chunk(2, dim=-1)
    gated = beta * torch.tanh(gate / beta) * torch.sigmoid(gate)
    computed = gated * (linear_beta * torch.tanh(up / linear_beta) if linear_beta > 0 else up)
    has_token = torch.arange(out.shape[1]) < valid_token_counts.unsqueeze(1)
    return {"out": torch.where(has_token.unsqueeze(-1), computed, out)}
