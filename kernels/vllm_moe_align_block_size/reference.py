"""Reference of vllm_moe_align_block_size: choices by expert, each expert's in whole blocks."""

import torch


def reference(
    topk_ids: torch.Tensor, num_tokens: int, topk: int, num_experts: int, block_size: int
) -> dict[str, torch.Tensor]:
    """Choices are numbered token by token; empty places hold the number of all, blocks -1."""
    choices = num_tokens * topk
    room = choices + num_experts * (block_size - 1)
    sorted_token_ids = torch.full((room,), choices)
    experts_ids = torch.full((-(-room // block_size),), -1)
    at = 0
    for expert in range(num_experts):
        own = (topk_ids.flatten() == expert).nonzero().flatten()
        end = at + -(-len(own) // block_size) * block_size
        sorted_token_ids[at : at + len(own)] = own
        experts_ids[at // block_size : end // block_size] = expert
        at = end
    return {
        "sorted_token_ids": sorted_token_ids,
        "experts_ids": experts_ids,
        "num_tokens_post_pad": torch.tensor([at]),
    }
