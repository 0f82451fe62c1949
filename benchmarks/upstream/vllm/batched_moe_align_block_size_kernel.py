"""Reference of vLLM's places of the tokens of batches, each padded to whole blocks."""

import torch


def reference(
    batch_num_tokens: torch.Tensor, num_batches: int, max_tokens_per_batch: int, block_size: int
) -> dict[str, torch.Tensor]:
    """Numbers tokens over all batches; places and blocks without one hold the sentinels."""
    blocks_each = -(-max_tokens_per_batch // block_size)
    sorted_ids = torch.full(
        (blocks_each * num_batches * block_size,), num_batches * max_tokens_per_batch
    )
    block_ids = torch.full((blocks_each * num_batches,), -1)
    at = 0
    for batch, count in enumerate(batch_num_tokens.long().tolist()):
        padded = -(-count // block_size) * block_size
        sorted_ids[at : at + count] = batch * max_tokens_per_batch + torch.arange(count)
        block_ids[at // block_size : (at + padded) // block_size] = batch
        at += padded
    return {
        "sorted_ids": sorted_ids,
        "block_ids": block_ids,
        "num_tokens_post_pad": torch.tensor([at]),
    }
