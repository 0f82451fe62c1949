"""Float64 reference of vllm_gelu_new: gelu_tanh."""

import math

import torch


def reference(input: torch.Tensor) -> dict[str, torch.Tensor]:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    return {
        "out": 0.5
        * input
        * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (input + 0.044715 * input**3))),
    }
