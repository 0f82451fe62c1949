"""Float64 reference of vLLM's sum over the experts of a token, where some experts are elsewhere."""

import torch


def reference(
    input: torch.Tensor, topk_ids: torch.Tensor, expert_map: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Sums what the chosen experts gave; one that no token has, or that is not here, gives none."""
    is_here = (topk_ids >= 0) & (expert_map[topk_ids.clamp(min=0)] >= 0)
    return {"out": torch.where(is_here.unsqueeze(-1), input, 0.0).sum(dim=1)}
