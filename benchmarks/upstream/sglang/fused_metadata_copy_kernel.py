"""Copies of lengths, offsets and page tables."""

import torch


def reference(
    src_cache_seqlens: torch.Tensor,
    src_cu_seqlens_k: torch.Tensor,
    page_indices: torch.Tensor,
    src_dsa_cache_seqlens: torch.Tensor,
    src_dsa_cu_seqlens_k: torch.Tensor,
    dst_cu_seqlens_k: torch.Tensor,
    dst_dsa_cu_seqlens_k: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """The first of the offsets is kept."""
    return {
        "dst_cache_seqlens": src_cache_seqlens,
        "dst_cu_seqlens_k": torch.cat((dst_cu_seqlens_k[:1], src_cu_seqlens_k[1:])),
        "page_table_1": page_indices,
        "dst_dsa_cache_seqlens": src_dsa_cache_seqlens,
        "dst_dsa_cu_seqlens_k": torch.cat((dst_dsa_cu_seqlens_k[:1], src_dsa_cu_seqlens_k[1:])),
    }
