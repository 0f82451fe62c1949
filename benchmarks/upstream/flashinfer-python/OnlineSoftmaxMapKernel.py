"""The softmax's maximum and sum of each slice of a row."""

import torch


def reference(logits: torch.Tensor, temperature_val: float, d: int) -> dict[str, torch.Tensor]:
    """Slices have as many columns each, rounded up to vectors of 16 bytes at most."""
    slices = -(-d // 8192)
    vector = next(n for n in (4, 2, 1) if d % n == 0)
    width = -(-d // (slices * vector)) * vector
    found = []
    for part in (logits / temperature_val).split(width, dim=-1):
        largest = part.amax(dim=-1)
        found.append(torch.stack((largest, (part - largest.unsqueeze(-1)).exp().sum(-1)), dim=-1))
    return {"partial_results": torch.stack(found, dim=1)}
