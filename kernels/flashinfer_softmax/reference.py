"""Float64 reference of flashinfer_softmax: softmax of logits over temperatures."""

import torch


def reference(logits: torch.Tensor, temperature_arr: torch.Tensor) -> dict[str, torch.Tensor]:
    """exp(x) / sum(exp(x)), over the last dimension; at a temperature of 0 all are alike."""
    inverse = torch.where(temperature_arr == 0.0, 0.0, 1.0 / temperature_arr)
    return {"output": torch.softmax(logits * inverse.unsqueeze(-1), dim=-1)}
