"""Gates of mixtures of experts: scores of a row, the k largest, renormalised if asked."""

from __future__ import annotations

from functools import partial

from astra_tui.drafting.operators.matching import Bound, Operator, Reference, reads, scalar, writes

_X = "x|in|inp|inputs?|gating(_outputs?)?|gate(_logits)?|logits|router_logits|scores?"
_WEIGHTS = "out|outputs?|topk_(weights?|values?)|weights?|values?|topk_scores"
_INDICES = "indices|topk_(ids?|indices|idx)|ids?|idx|experts?|expert_ids?"


def _top_k(b: Bound, score: str) -> Reference:
    scores, order, chosen, weights = map(b.local, ("scores", "order", "chosen", "top_weights"))
    k = b.sizes("weights")[-1]
    text = {
        "softmax": f"torch.softmax({b['x']}, dim=-1)",
        "sigmoid": f"torch.sigmoid({b['x']})",
        "scores": b["x"],
    }[score]
    lines = [f"{scores} = {text}"]
    ranked = scores
    if "bias" in b:
        ranked = f"({scores} + {b['bias']})"
    lines += [
        f"{order} = {ranked}.sort(dim=-1, descending=True, stable=True).indices",
        f"{chosen} = {order}[..., :{k}]",
        f"{weights} = {scores}.gather(-1, {chosen})",
    ]
    if "renormalize" in b:
        lines += [
            f"if {b['renormalize']}:",
            f"    {weights} = {weights} / {weights}.sum(dim=-1, keepdim=True)",
        ]
    questions = ["of equal scores the smaller index is chosen first; confirm"]
    if "scaling" in b:
        lines.append(f"{weights} = {weights} * {b['scaling']}")
    if "renormalize" not in b:
        questions.append(f"{b['weights']}: not renormalised over the chosen ones; confirm")
    outputs = {
        b["weights"]: f"{weights}.reshape({b.shape('weights')})",
        b["indices"]: f"{chosen}.reshape({b.shape('indices')})",
    }
    if "rows" in b:
        rows = f"{b['x']}.shape[0]"
        lines.append(f"{b.local('source')} = torch.arange({rows} * {k}).reshape({k}, -1).t()")
        outputs[b["rows"]] = f"{b.local('source')}.reshape({b.shape('rows')})"
    return Reference(
        f"The {k} largest of each row's {score} with their places, the largest first.",
        tuple(lines),
        outputs,
        accepts=(f"{k} <= {b.sizes('x')[-1]}",),
        questions=tuple(questions),
    )


OPERATORS = tuple(
    Operator(
        f"top-k of {score}",
        like,
        (
            reads("x", _X + ("|inputs_after_softmax" if score == "scores" else "")),
            reads("bias", "bias|correction_bias|e_score_correction_bias", optional=True),
            writes("weights", _WEIGHTS, is_index=False),
            writes("indices", _INDICES, is_index=True),
            writes("rows", "source_rows?", optional=True),
            scalar("renormalize", "renormali[sz]e|need_renorm"),
            scalar("scaling", "routed_scaling_factor|scaling_factor"),
        ),
        partial(_top_k, score=score),
        unlike="grouped?|sampling|page|radix|renorm|mask",
        body=body,
        contrary=contrary,
    )
    for score, like, body, contrary in (
        (
            "softmax",
            r"top_?k\w*softmax|softmax\w*top_?k|top_?k_?gating|gating",
            (r"exp2?f?\b",),
            (),
        ),
        ("sigmoid", r"top_?k\w*sigmoid|sigmoid\w*top_?k", (r"exp2?f?\b", "sigmoid"), ()),
        ("scores", r"top_?k$|top_?k_kernel$|moe_top_?k", ("top_?k|TopK",), (r"\bexp2?f?\(",)),
    )
)
