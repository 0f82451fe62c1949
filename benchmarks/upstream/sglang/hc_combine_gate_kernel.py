"""Float64 reference of hc_combine_gate_kernel: dot products in 8 parts."""

import torch

SPLITS, LANES, WIDTH = 8, 32, 8


def reference(
    normed_residual: torch.Tensor, inject_weight: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Part s of normed . weight: of every 256 vectors of 8 elements, those from 32 s on."""
    rows = normed_residual.reshape(normed_residual.shape[0], -1, SPLITS, LANES * WIDTH)
    weights = inject_weight.reshape(inject_weight.shape[0], -1, SPLITS, LANES * WIDTH)
    return {"partials": torch.einsum("mjse,cjse->msc", rows, weights)}
