"""Float64 reference of lightseq_adam: a step of Adam with decoupled weight decay."""

import torch


def reference(
    p: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    b1: float,
    b2: float,
    eps: float,
    grad_scale: float,
    step_size: float,
    decay: float,
    mode: int,
) -> dict[str, torch.Tensor]:
    """Mode 0 adds eps under the square root, mode 1 to it; step_size has the bias's correction."""
    gradient = g / grad_scale
    m = b1 * m + (1.0 - b1) * gradient
    v = b2 * v + (1.0 - b2) * gradient.square()
    root = torch.sqrt(v + eps) if mode == 0 else torch.sqrt(v) + eps
    p = p - step_size * (m / root + decay * p)
    return {"p": p, "p_copy": p, "m": m, "v": v}
