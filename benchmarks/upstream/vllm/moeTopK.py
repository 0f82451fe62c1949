"""Float64 reference of vLLM's choice of the k best experts of a token by corrected probability."""

import torch


def reference(
    inputs_after_softmax: torch.Tensor,
    bias: torch.Tensor,
    is_padding: torch.Tensor,
    k: int,
    renormalize: bool,
    routed_scaling_factor: float,
) -> dict[str, torch.Tensor]:
    """Weights are probabilities without the bias; a row of padding has no experts (-1)."""
    order = (inputs_after_softmax + bias).sort(dim=-1, descending=True, stable=True).indices
    chosen = order[:, :k]
    weights = inputs_after_softmax.gather(-1, chosen)
    if renormalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    rows = inputs_after_softmax.shape[0]
    return {
        "output": weights * routed_scaling_factor,
        "indices": torch.where(is_padding.bool().unsqueeze(-1), -1, chosen),
        "source_rows": torch.arange(k * rows).reshape(k, rows).t(),
    }
