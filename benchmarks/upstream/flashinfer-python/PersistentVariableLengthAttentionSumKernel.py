"""The sum of the values of each position's index sets."""

import torch


def reference(V: torch.Tensor, indptr: torch.Tensor) -> dict[str, torch.Tensor]:
    """Sums over the sets between two offsets; zero for a position without a set."""
    ends = zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)
    return {"v_sum": torch.stack([V[first:end].sum(dim=0) for first, end in ends])}
