"""Float64 reference of flashinfer_top_p_renorm: top-p renormalisation."""

import torch


def reference(probs: torch.Tensor, top_p_arr: torch.Tensor) -> dict[str, torch.Tensor]:
    """The fewest of the likeliest that add up to at least p, and their equals, over their sum.

    From p = 1 on all are kept.
    """
    ordered = probs.sort(dim=-1, descending=True).values
    before = ordered.cumsum(dim=-1) - ordered
    p = top_p_arr.reshape(-1, 1)
    beyond = (before >= p) & (p < 1.0)
    least = ordered.masked_fill(beyond, 2.0).amin(dim=-1, keepdim=True)
    kept = torch.where(probs >= least, probs, 0.0)
    return {"renormed_prob": kept / kept.sum(dim=-1, keepdim=True)}
