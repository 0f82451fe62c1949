"""The Adler-32 checksum of blocks that stand one after the other, from theirs."""

import torch


def reference(
    in_a: torch.Tensor, in_b: torch.Tensor, in_len: torch.Tensor
) -> dict[str, torch.Tensor]:
    """A is 1 and the sum of the bytes, b the sum of all a, both modulo 65521."""
    a, b = 1, 0
    for next_a, next_b, length in zip(in_a.tolist(), in_b.tolist(), in_len.tolist(), strict=True):
        b = (b + next_b + length * (a - 1)) % 65521
        a = (a + next_a - 1) % 65521
    return {"output": torch.tensor([b << 16 | a])}
