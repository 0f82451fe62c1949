"""Float64 reference of set_mla_kv_buffer_kernel: a latent and a rotary part, written by slot."""

import torch


def reference(
    k_nope: torch.Tensor,
    k_rope: torch.Tensor,
    kv_buffer: torch.Tensor,
    loc_arg: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Row loc_arg[i] begins with the parts of token i, unless that is row 0."""
    kept = loc_arg != 0
    rows = torch.cat((k_nope, k_rope), dim=-1)[kept]
    stored = kv_buffer.clone()
    stored[loc_arg[kept], : rows.shape[-1]] = rows
    return {"kv_buffer": stored}
