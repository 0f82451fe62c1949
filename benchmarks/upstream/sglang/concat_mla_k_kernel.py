"""Float64 reference of concat_mla_k_kernel: each head's own part, then the one that all share."""

import torch


def reference(k_nope: torch.Tensor, k_rope: torch.Tensor) -> dict[str, torch.Tensor]:
    """k[t, h] = k_nope[t, h], k_rope[t]."""
    shared = k_rope.reshape(k_rope.shape[0], 1, -1).expand(-1, k_nope.shape[1], -1)
    return {"k": torch.cat((k_nope, shared), dim=-1)}
