"""Where the tokens of each expert begin once they are padded to whole blocks."""

import torch


def reference(
    topk_ids: torch.Tensor, num_experts: int, block_size: int, max_num_tokens_padded: int
) -> dict[str, torch.Tensor]:
    """Ids outside of the experts count for none; blocks without an expert are -1."""
    counts = torch.bincount(topk_ids, minlength=num_experts + 1)[:num_experts]
    blocks = -(-counts // block_size)
    ends = (blocks * block_size).cumsum(0)
    experts = torch.full((-(-max_num_tokens_padded // block_size),), -1)
    experts[: int(blocks.sum())] = torch.arange(num_experts).repeat_interleave(blocks)
    return {
        "sorted_token_ids": torch.full((max_num_tokens_padded,), len(topk_ids)),
        "expert_ids": experts,
        "total_tokens_post_pad": ends[-1:],
        "cumsum": torch.cat((torch.zeros(1, dtype=torch.int64), ends)),
    }
