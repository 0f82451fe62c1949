"""Rotary embedding of query and key heads, out of place, with angles by formula."""

import torch


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    indptr: torch.Tensor,
    offsets: torch.Tensor,
    rope_rcp_scale: float,
    rope_rcp_theta: float,
    rotary_dim: int,
) -> dict[str, torch.Tensor]:
    """The neox layout: number i turns with number i + half; the rest of a head is kept."""
    lengths = indptr[1:] - indptr[:-1]
    starts = torch.repeat_interleave(offsets - indptr[:-1], lengths)
    positions = starts + torch.arange(len(starts))
    half = rotary_dim // 2
    rates = rope_rcp_theta ** (torch.arange(half, dtype=torch.float64) / half) * rope_rcp_scale
    angles = (positions.unsqueeze(-1) * rates).unsqueeze(1)
    cos, sin = torch.cos(angles), torch.sin(angles)

    def turned(x: torch.Tensor) -> torch.Tensor:
        first, second, rest = x.split((half, half, x.shape[-1] - rotary_dim), dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), dim=-1)

    return {"q_rope": turned(q), "k_rope": turned(k)}
