"""Float64 reference of silu_and_mul."""

import torch


def reference(input: torch.Tensor, d: int) -> dict[str, torch.Tensor]:
    """Out = silu(gate) * up, with gate and up the halves of each input row."""
    gate, up = input[:, :d], input[:, d:]
    return {"out": gate / (1.0 + torch.exp(-gate)) * up}
