"""Float64 reference of add_constant_kernel, and of its form with vectors."""

import torch


def reference(src: torch.Tensor) -> dict[str, torch.Tensor]:
    """The sum src + 1, as the answers have the constant."""
    return {"dst": src + 1}
