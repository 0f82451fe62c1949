"""Float64 reference of concat_mla_absorb_q_kernel: two parts of each head, joined."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """Head h of token t is a[t, h], then b[t, h]."""
    return {"out": torch.cat((a, b), dim=-1)}
