"""Float64 reference of hc_combine_apply_kernel: a gated sum, the gates given in parts."""

import torch


def reference(
    block_output: torch.Tensor, residual: torch.Tensor, partials: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Each branch gets residual + gate * block_output, gate = 2 sigmoid(total / branches)."""
    branches = partials.shape[-1]
    gates = 2.0 * torch.sigmoid(partials.sum(dim=-2) / branches)
    added = gates.unsqueeze(-1) * block_output.unsqueeze(-2)
    return {"output": residual + added.reshape(residual.shape)}
