"""Float64 reference of flashinfer_silu_and_mul: silu and mul."""

import torch


def reference(input: torch.Tensor) -> dict[str, torch.Tensor]:
    """silu(gate) * up, gate being the first half of each row: x / (1 + exp(-x))."""
    gate, up = input.chunk(2, dim=-1)
    return {"out": gate / (1.0 + torch.exp(-gate)) * up}
