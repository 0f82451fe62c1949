"""Float64 reference of vllm_rotary_embedding: rotary embedding in place, neox layout."""

import torch


def reference(
    positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor, cos_sin_cache: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Turns the pairs (i, i + half) of each head by the angles of its position."""
    half = cos_sin_cache.shape[-1] // 2
    cos, sin = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)

    def turn(heads: torch.Tensor) -> torch.Tensor:
        first, second, rest = heads.split((half, half, heads.shape[-1] - 2 * half), dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), dim=-1)

    return {"query": turn(query), "key": turn(key)}
