"""Reference of vllm_reshape_and_cache: keys and values in their slots, the rest as it was."""

import torch


def reference(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """A slot is a page times its size plus a place in it."""

    def written(cache: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        slots = cache.clone().flatten(0, 1)
        slots[slot_mapping] = rows
        return slots.reshape(cache.shape)

    return {"key_cache": written(key_cache, key), "value_cache": written(value_cache, value)}
