"""Float64 reference of grouped_gemma_rmsnorm_kernel: RMSNorm over each group of a row."""

import torch


def reference(
    input: torch.Tensor, weight: torch.Tensor, eps: float, group_size: int
) -> dict[str, torch.Tensor]:
    """Rows are x / sqrt(mean(x^2) + eps) * (1 + weight), the mean over the group that x lies in."""
    groups = input.reshape(*input.shape[:-1], -1, group_size)
    scale = torch.rsqrt(groups.square().mean(dim=-1, keepdim=True) + eps)
    return {"output": (groups * scale).reshape(input.shape) * (1.0 + weight)}
