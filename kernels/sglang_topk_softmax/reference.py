"""Float64 reference of sglang_topk_softmax: the likeliest experts of each token, their weights."""

import torch


def reference(
    gating_output: torch.Tensor, renormalize: bool, moe_softcapping: float, topk: int
) -> dict[str, torch.Tensor]:
    """Of equals the first comes first; a cap of zero is none."""
    logits = gating_output
    if moe_softcapping != 0.0:
        logits = torch.tanh(logits / moe_softcapping) * moe_softcapping
    order = logits.sort(dim=-1, descending=True, stable=True).indices[:, :topk]
    weights = torch.softmax(logits, dim=-1).gather(-1, order)
    if renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return {"topk_weights": weights, "topk_indices": order}
