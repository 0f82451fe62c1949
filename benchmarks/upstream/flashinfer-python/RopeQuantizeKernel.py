"""Rotary embedding of a part of each head, both parts scaled and stored in 8 bits."""

import torch


def reference(
    q_rope_in: torch.Tensor,
    k_rope_in: torch.Tensor,
    q_nope_in: torch.Tensor,
    k_nope_in: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    pos_ids: torch.Tensor,
    quant_scale_q: float,
    quant_scale_kv: float,
) -> dict[str, torch.Tensor]:
    """The neox layout: number i turns with number i + half by the angle of its position."""
    cos, sin = cos_sin_cache[pos_ids].unsqueeze(1).chunk(2, dim=-1)

    def turned(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    return {
        "q_rope_out": (quant_scale_q * turned(q_rope_in)).clamp(-448.0, 448.0),
        "k_rope_out": (quant_scale_kv * turned(k_rope_in)).clamp(-448.0, 448.0),
        "q_nope_out": (quant_scale_q * q_nope_in).clamp(-448.0, 448.0),
        "k_nope_out": (quant_scale_kv * k_nope_in).clamp(-448.0, 448.0),
    }
