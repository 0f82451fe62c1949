"""Float64 reference of fused_eh_norm_kernel: two RMSNorms, one row beside the other."""

import torch


def _normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight


def reference(
    embeds_arg: torch.Tensor,
    previous_hidden_arg: torch.Tensor,
    enorm_weight_arg: torch.Tensor,
    hnorm_weight_arg: torch.Tensor,
    eps: float,
) -> dict[str, torch.Tensor]:
    """The normalised embedding, then the normalised hidden state of the token before."""
    parts = (
        _normed(embeds_arg, enorm_weight_arg, eps),
        _normed(previous_hidden_arg, hnorm_weight_arg, eps),
    )
    return {"output_arg": torch.cat(parts, dim=-1)}
