"""The attention states of each position's index sets, merged; s is a log-sum-exp of base 2."""

import math

import torch


def reference(V: torch.Tensor, S: torch.Tensor, indptr: torch.Tensor) -> dict[str, torch.Tensor]:
    """Values weighted by 2^s over the sum of 2^s; zero and -inf for a position without a set."""
    merged, logs = [], []
    for first, end in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
        s = S[first:end] * math.log(2.0)
        merged.append((torch.softmax(s, dim=0).unsqueeze(-1) * V[first:end]).sum(dim=0))
        logs.append(torch.logsumexp(s, dim=0) / math.log(2.0))
    return {"v_merged": torch.stack(merged), "s_merged": torch.stack(logs)}
