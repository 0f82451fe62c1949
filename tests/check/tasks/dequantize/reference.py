"""Float64 reference of dequantize."""

import torch


def reference(x: torch.Tensor, scales: torch.Tensor) -> dict[str, torch.Tensor]:
    """The oracle hands fp8 over as the numbers that it stands for."""
    return {"y": x * scales.unsqueeze(-1)}
