"""Reference of vllm_moe_align: where the tokens of each expert go, padded to whole blocks."""

import torch


def reference(
    batch_num_tokens: torch.Tensor, num_batches: int, max_tokens_per_batch: int, block_size: int
) -> dict[str, torch.Tensor]:
    """Tokens are numbered over all batches; empty places hold the number of all, blocks -1."""
    blocks_each = -(-max_tokens_per_batch // block_size)
    tokens = num_batches * max_tokens_per_batch
    sorted_ids = torch.full((blocks_each * num_batches * block_size,), tokens)
    block_ids = torch.full((blocks_each * num_batches,), -1)
    at = 0
    for batch, count in enumerate(batch_num_tokens.long().tolist()):
        end = at + -(-count // block_size) * block_size
        sorted_ids[at : at + count] = batch * max_tokens_per_batch + torch.arange(count)
        block_ids[at // block_size : end // block_size] = batch
        at = end
    return {
        "sorted_ids": sorted_ids,
        "block_ids": block_ids,
        "num_tokens_post_pad": torch.tensor([at]),
    }
