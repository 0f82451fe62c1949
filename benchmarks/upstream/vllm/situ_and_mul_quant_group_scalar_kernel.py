"""Float64 reference of vLLM's gate between two bounds with group quantisation to fp8 e4m3."""

import torch


def reference(
    out: torch.Tensor,
    input: torch.Tensor,
    num_valid_tokens_ptr: torch.Tensor,
    topk: int,
    group_size: int,
    beta: float,
    linear_beta: float,
) -> dict[str, torch.Tensor]:
    """Quantises the valid rows; the scale of the others is 1, and their codes are kept."""
    gate, up = input.chunk(2, dim=-1)
    gated = beta * torch.tanh(gate / beta) * torch.sigmoid(gate)
    product = gated * (linear_beta * torch.tanh(up / linear_beta) if linear_beta > 0 else up)
    groups = product.unflatten(-1, (-1, group_size))
    scale = groups.abs().amax(dim=-1).clamp(min=1e-30) / 448.0
    codes = (groups / scale.unsqueeze(-1)).flatten(-2)
    is_valid = (torch.arange(out.shape[0]) < num_valid_tokens_ptr * topk).unsqueeze(-1)
    return {
        "out": torch.where(is_valid, codes, out),
        "scale_out": torch.where(is_valid, scale, 1.0),
    }
