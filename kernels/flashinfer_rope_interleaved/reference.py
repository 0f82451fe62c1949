"""Float64 reference of flashinfer_rope_interleaved: rotary embedding out of place, GPT-J layout."""

import torch


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    pos_ids: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Turns the pairs (2 i, 2 i + 1) of each head by the angles of its position.

    A row of the cache is cosines, then sines.
    """
    half = cos_sin_cache.shape[-1] // 2
    cos, sin = cos_sin_cache[pos_ids].unsqueeze(1).chunk(2, dim=-1)

    def turn(heads: torch.Tensor) -> torch.Tensor:
        first, second = heads[..., 0 : 2 * half : 2], heads[..., 1 : 2 * half : 2]
        turned = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1)
        turned = turned.flatten(-2)
        return torch.cat((turned, heads[..., 2 * half :]), dim=-1)

    return {"q_rope": turn(q), "k_rope": turn(k)}
