"""Eight truth values a byte in each segment, the first in the highest bit."""

import torch


def reference(
    input: torch.Tensor, input_indptr: torch.Tensor, output_indptr: torch.Tensor, batch_size: int
) -> dict[str, torch.Tensor]:
    """Each segment begins a byte of its own, at its offset in the output."""
    weights = 1 << (7 - torch.arange(8))
    output = torch.zeros(batch_size, dtype=torch.int64)
    for segment in range(batch_size):
        bits = (input[input_indptr[segment] : input_indptr[segment + 1]] != 0).long()
        packed = torch.nn.functional.pad(bits, (0, -len(bits) % 8)).reshape(-1, 8) @ weights
        output[output_indptr[segment] : output_indptr[segment] + len(packed)] = packed
    return {"output": output}
