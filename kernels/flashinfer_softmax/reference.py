"""Float64 reference of flashinfer_softmax: softmax."""

import torch


def reference(logits: torch.Tensor, temperature_arr: torch.Tensor) -> dict[str, torch.Tensor]:
    """exp(x) / sum(exp(x)), over the last dimension."""
    return {"output": torch.softmax(logits / temperature_arr.unsqueeze(-1), dim=-1)}
