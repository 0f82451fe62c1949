"""New entries, written into a paged cache of keys and values."""

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
    page_size: int,
) -> dict[str, torch.Tensor]:
    """Entry i goes to its position in its sequence, a list of pages; the rest is kept."""
    keys, values = k_data.clone(), v_data.clone()
    pages, entries = indices[indptr[batch_indices] + positions // page_size], positions % page_size
    keys[pages, entries], values[pages, entries] = append_key, append_value
    return {"k_data": keys, "v_data": values}
