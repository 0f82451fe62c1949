"""Float64 reference of lightseq_cross_entropy: cross entropy with smoothed labels, by token."""

import torch


def reference(
    inputs: torch.Tensor,
    targets: torch.Tensor,
    padding_idx: int,
    epsilon: float,
    vocab_size: int,
) -> dict[str, torch.Tensor]:
    """All words but the target share epsilon; the loss of padding is zero."""
    losses = -torch.log_softmax(inputs, dim=-1)
    of_target = losses.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    share = epsilon / (vocab_size - 1)
    smoothed = (1.0 - epsilon) * of_target + share * (losses.sum(dim=-1) - of_target)
    is_padding = targets == padding_idx
    return {
        "outputs": smoothed.masked_fill(is_padding, 0.0),
        "nll_loss_outputs": of_target.masked_fill(is_padding, 0.0),
    }
