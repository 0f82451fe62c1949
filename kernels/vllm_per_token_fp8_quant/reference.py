"""Float64 reference of vllm_per_token_fp8_quant: quantisation with a scale for each token."""

import torch


def reference(input: torch.Tensor, scale_ub: torch.Tensor) -> dict[str, torch.Tensor]:
    """The largest magnitude of a token, scale_ub at most, becomes 448; scales have a least one."""
    most = torch.minimum(input.abs().amax(dim=-1), scale_ub)
    scales = (most / 448.0).clamp(min=1.0 / (448.0 * 512.0))
    return {"out": (input / scales.unsqueeze(-1)).clamp(-448.0, 448.0), "scale": scales}
