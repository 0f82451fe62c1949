"""Float64 reference of add3_kernel: the sum of three tensors."""

import torch


def reference(
    a_arg: torch.Tensor, b_arg: torch.Tensor, c_arg: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The sum a + b + c."""
    return {"out_arg": a_arg + b_arg + c_arg}
