"""Float64 reference of hc_combine_kernel: a gated sum of a residual and a block's output."""

import torch


def reference(
    block_output: torch.Tensor,
    residual: torch.Tensor,
    normed_residual: torch.Tensor,
    inject_weight: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Each branch gets residual + 2 sigmoid(normed . weight / branches) * block_output."""
    branches = inject_weight.shape[0]
    gates = 2.0 * torch.sigmoid(normed_residual @ inject_weight.T / branches)
    added = gates.unsqueeze(-1) * block_output.unsqueeze(-2)
    return {"output": residual + added.reshape(residual.shape)}
