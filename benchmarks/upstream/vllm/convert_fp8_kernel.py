"""Float64 reference of vLLM's conversion of a cache to fp8 e4m3, as bytes."""

import torch


def reference(src_cache: torch.Tensor, scale: float) -> dict[str, torch.Tensor]:
    """Divides by the scale and rounds to the nearest code, to the largest beyond it."""
    values = (src_cache / scale).clamp(-448.0, 448.0).to(torch.float32)
    return {"dst_cache": values.to(torch.float8_e4m3fn).view(torch.uint8)}
