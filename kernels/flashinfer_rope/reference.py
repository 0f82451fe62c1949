"""Float64 reference of flashinfer_rope: rotary embedding out of place, neox layout."""

import torch


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    pos_ids: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Turns the pairs (i, i + half) of each head by the angles of its position.

    A row of the cache is cosines, then sines.
    """
    half = cos_sin_cache.shape[-1] // 2
    cos, sin = cos_sin_cache[pos_ids].unsqueeze(1).chunk(2, dim=-1)

    def turn(heads: torch.Tensor) -> torch.Tensor:
        first, second = heads[..., :half], heads[..., half : 2 * half]
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        return torch.cat((turned, heads[..., 2 * half :]), dim=-1)

    return {"q_rope": turn(q), "k_rope": turn(k)}
