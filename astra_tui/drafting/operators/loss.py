"""Cross entropy, of logits and of probabilities."""

from __future__ import annotations

from functools import partial

from astra_tui.drafting.operators.matching import Bound, Operator, Reference, reads, writes

_TARGETS = reads("targets", "targets?|labels?|y|ix|target_ids", is_index=True)
_LOSSES = writes("losses", "loss(es)?|out|output|nll")


def _cross_entropy(b: Bound, of_logits: bool) -> Reference:
    rows, chosen = b.local("rows"), b.local("chosen")
    x = b["x"]
    text = f"{rows}.gather(-1, {b['targets']}.reshape(-1, 1)).squeeze(-1)"
    value = f"torch.logsumexp({rows}, dim=-1) - {chosen}" if of_logits else f"-{chosen}.log()"
    return Reference(
        "log(sum(exp(x))) - x[target]" if of_logits else "-log(probabilities[target])",
        (f"{rows} = {x}.reshape(-1, {b.sizes('x')[-1]})", f"{chosen} = {text}"),
        {b["losses"]: f"({value}).reshape({b.shape('losses')})"},
        values={} if of_logits else {x: '{ kind = "uniform", low = 0.01, high = 1.0 }'},
        questions=(f"{b['targets']}: each below the columns of {x}, none is left out; confirm",),
    )


OPERATORS = tuple(
    Operator(
        f"cross entropy of {name}",
        r"cross_?entropy|nll_?loss",
        (reads("x", names), _TARGETS, _LOSSES),
        partial(_cross_entropy, of_logits=name == "logits"),
        unlike="backward|bwd|grad",
        body=body,
    )
    for name, names, body in (
        ("logits", "logits?|x|in|input|scores?", (r"__expf|expf?\b", r"(__)?logf?\b")),
        ("probabilities", "probs?|probabilities|p", (r"(__)?logf?\b",)),
    )
)
