"""Float64 reference of merge_attn_states_lse."""

import math

import torch


def reference(
    v_a: torch.Tensor, s_a: torch.Tensor, v_b: torch.Tensor, s_b: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Weights are exp(s - logaddexp(s_a, s_b)). An empty side has s = -inf (or +inf)."""
    s_a = torch.where(s_a == math.inf, -math.inf, s_a)
    s_b = torch.where(s_b == math.inf, -math.inf, s_b)
    s_out = torch.logaddexp(s_a, s_b)
    empty = s_out == -math.inf
    weight_a = torch.where(empty, 0.0, torch.exp(s_a - s_out)).unsqueeze(-1)
    weight_b = torch.where(empty, 0.0, torch.exp(s_b - s_out)).unsqueeze(-1)
    return {"v_out": weight_a * v_a + weight_b * v_b, "s_out": s_out}
