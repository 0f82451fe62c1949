"""Reference of vLLM's places of choices, sorted by expert and padded to whole blocks."""

import torch


def reference(
    topk_ids: torch.Tensor,
    numel: int,
    num_experts: int,
    block_size: int,
    max_num_tokens_padded: int,
) -> dict[str, torch.Tensor]:
    """Empty places hold the number of choices, and blocks without an expert -1."""
    sorted_ids = torch.full((max_num_tokens_padded,), numel)
    experts = torch.full((-(-max_num_tokens_padded // block_size),), -1)
    at = 0
    for expert in range(num_experts):
        own = (topk_ids == expert).nonzero().flatten()
        blocks = -(-len(own) // block_size)
        sorted_ids[at * block_size : at * block_size + len(own)] = own
        experts[at : at + blocks] = expert
        at += blocks
    return {
        "sorted_token_ids": sorted_ids,
        "expert_ids": experts,
        "total_tokens_post_pad": torch.tensor([at * block_size]),
    }
