"""Float64 reference of store_kvcache_kernel: a cache write that leaves the padding slot out."""

import torch


def reference(
    k_arg: torch.Tensor,
    v_arg: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Row indices[i] of each cache gets row i, unless that is row 0."""
    kept = indices != 0
    keys, values = k_cache.clone(), v_cache.clone()
    keys[indices[kept]] = k_arg[kept]
    values[indices[kept]] = v_arg[kept]
    return {"k_cache": keys, "v_cache": values}
