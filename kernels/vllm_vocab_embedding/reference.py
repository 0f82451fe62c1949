"""Reference of vllm_vocab_embedding: rows of a table, zeros for words that are not in it."""

import torch


def reference(
    input_ids: torch.Tensor, weight: torch.Tensor, first_row: int, rows_here: int
) -> dict[str, torch.Tensor]:
    """Word i is row i - first_row of the table, if it has that row."""
    row = input_ids - first_row
    here = (row >= 0) & (row < rows_here)
    found = weight[row.clamp(0, rows_here - 1)]
    return {"out": torch.where(here.unsqueeze(-1), found, 0)}
