"""New entries, written into a paged cache of compressed keys and values and of rotary keys."""

import torch


def reference(
    ckv_data: torch.Tensor,
    kpe_data: torch.Tensor,
    indices: torch.Tensor,
    indptr: torch.Tensor,
    append_ckv: torch.Tensor,
    append_kpe: torch.Tensor,
    batch_indices: torch.Tensor,
    positions: torch.Tensor,
    page_size: int,
) -> dict[str, torch.Tensor]:
    """Entry i goes to its position in its sequence, a list of pages; the rest is kept."""
    ckv, kpe = ckv_data.clone(), kpe_data.clone()
    pages, entries = indices[indptr[batch_indices] + positions // page_size], positions % page_size
    ckv[pages, entries], kpe[pages, entries] = append_ckv, append_kpe
    return {"ckv_data": ckv, "kpe_data": kpe}
