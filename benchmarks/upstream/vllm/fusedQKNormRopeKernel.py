"""Float64 reference of an RMSNorm of each head of q and k, then their rotation (neox layout)."""

import torch


def reference(
    qkv_void: torch.Tensor,
    q_weight_void: torch.Tensor,
    k_weight_void: torch.Tensor,
    cos_sin_cache_void: torch.Tensor,
    position_ids: torch.Tensor,
    num_heads_q: int,
    num_heads_k: int,
    eps: float,
) -> dict[str, torch.Tensor]:
    """Element i of a head turns with element i + rotary_dim / 2; v is kept."""
    heads = qkv_void.unflatten(-1, (-1, q_weight_void.numel()))
    q, k, v = heads.tensor_split((num_heads_q, num_heads_q + num_heads_k), dim=1)
    angles = cos_sin_cache_void[position_ids].unsqueeze(1)

    def turned(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight
        cos, sin = angles.chunk(2, dim=-1)
        half = cos.shape[-1]
        first, second, rest = x.tensor_split((half, 2 * half), dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), dim=-1)

    parts = (turned(q, q_weight_void), turned(k, k_weight_void), v)
    return {"qkv_void": torch.cat(parts, dim=1).flatten(1)}
