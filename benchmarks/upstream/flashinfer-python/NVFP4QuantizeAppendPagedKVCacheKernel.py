"""New keys and values, quantised to NVFP4 and written into a paged cache."""

import torch


def reference(
    k_data: torch.Tensor,
    v_data: torch.Tensor,
    indices: torch.Tensor,
    indptr: torch.Tensor,
    append_key: torch.Tensor,
    append_value: torch.Tensor,
    batch_indices: torch.Tensor,
    positions: torch.Tensor,
    k_scale_cache: torch.Tensor,
    v_scale_cache: torch.Tensor,
    k_scale: float,
    v_scale: float,
    page_size: int,
) -> dict[str, torch.Tensor]:
    """Entry i goes to its position in its sequence, a list of pages; the rest is kept."""
    pages = indices[indptr[batch_indices] + positions // page_size]
    place = pages, positions % page_size
    outputs = {}
    for x, scale, name, scales_name, codes, scales in (
        (append_key, k_scale, "k_data", "k_scale_cache", k_data, k_scale_cache),
        (append_value, v_scale, "v_data", "v_scale_cache", v_data, v_scale_cache),
    ):
        outputs[name], outputs[scales_name] = codes.clone(), scales.clone()
        outputs[name][place], outputs[scales_name][place] = _quantised(x, scale)
    return outputs


def _quantised(x: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """NVFP4 of rows: packed codes, the lower number first, and the scales of 16 numbers each.

    Scales are rounded to float8_e4m3fn, numbers to the nearest of E2M1, ties to the even code.
    """
    blocks = x.float().unflatten(-1, (-1, 16))
    given = torch.tensor(scale, dtype=torch.float32)
    scales = (blocks.abs().amax(dim=-1) / (6.0 * given)).to(torch.float8_e4m3fn)
    known = scales.float() * given
    inverse = torch.where(known > 0.0, 1.0 / known, 0.0)
    scaled = blocks * inverse.unsqueeze(-1)
    size = scaled.abs()
    codes = (size > 0.25).long()
    for end, is_reached in zip((0.75, 1.25, 1.75, 2.5, 3.5, 5.0), 3 * (True, False), strict=True):
        codes += (size >= end) if is_reached else (size > end)
    codes += 8 * torch.signbit(scaled)
    pairs = codes.flatten(-2).unflatten(-1, (-1, 2))
    return pairs[..., 0] + 16 * pairs[..., 1], scales.view(torch.uint8).long()
