"""Float64 reference of flashinfer_merge_state: merge of two attention states, log2."""

import math

import torch


def reference(
    v_a: torch.Tensor,
    s_a: torch.Tensor,
    v_b: torch.Tensor,
    s_b: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Two partial results, weighted by 2^s over the sum of both; s is log base 2."""
    top = torch.maximum(s_a, s_b)
    top = torch.where(top == -math.inf, 0.0, top)
    a, b = torch.exp2(s_a - top), torch.exp2(s_b - top)
    total = a + b
    weight_a = torch.where(total > 0.0, a / total, 0.0).unsqueeze(-1)
    weight_b = torch.where(total > 0.0, b / total, 0.0).unsqueeze(-1)
    return {"v_merged": weight_a * v_a + weight_b * v_b, "s_merged": top + torch.log2(total)}
