"""Gates of mixtures of experts: scores of a row, the k largest, renormalised if asked."""

from __future__ import annotations

from functools import partial

from astra_tui.drafting.operators.matching import (
    Bound,
    Operator,
    Reference,
    reads,
    reads_or_updates,
    scalar,
    writes,
)

_X = "x|in|inp|inputs?|gating(_outputs?)?|gate(_logits)?|logits|router_logits|scores?"
_WEIGHTS = "out|outputs?|topk_(weights?|values?)|weights?|values?|topk_scores"
_INDICES = "indices|topk_(ids?|indices|idx)|ids?|idx|experts?|expert_ids?"


def _all_experts(b: Bound) -> list[str]:
    """Conditions under which a kernel that may hold a part of the experts holds all of them."""
    first, end = b.facts.dim("start_expert"), b.facts.dim("end_expert")
    return [f"{first} == 0", f"{end} == {b.sizes('x')[-1]}"] if first and end else []


def _group_limit(b: Bound, ranked: str, groups: str, chosen: str) -> list[str]:
    """Statements that leave only the groups with the highest sums of their two best."""
    best, kept, scores = map(b.local, ("group_scores", "kept", "limited"))
    return [
        f"{scores} = {ranked}.unflatten(-1, ({groups}, -1))",
        f"{best} = {scores}.topk(min(2, {scores}.shape[-1]), dim=-1).values.sum(dim=-1)",
        f"{kept} = {best}.sort(dim=-1, descending=True, stable=True).indices[..., :{chosen}]",
        f"{kept} = torch.zeros_like({best}).scatter(-1, {kept}, 1.0).unsqueeze(-1)",
        f"{scores} = {scores}.masked_fill({kept} == 0.0, -math.inf).flatten(-2)",
    ]


def _top_k(b: Bound, score: str, grouped: bool = False) -> Reference | None:
    scores, order, chosen, weights = map(b.local, ("scores", "order", "chosen", "top_weights"))
    k = b.sizes("weights")[-1]
    groups = b.facts.dim("(n|num)_(expert_)?groups?")
    chosen_groups = b.facts.dim("top_?k_groups?")
    if grouped and not (groups and chosen_groups):
        return None
    text = {
        "softmax": f"torch.softmax({b['x']}, dim=-1)",
        "sigmoid": f"torch.sigmoid({b['x']})",
        "scores": b["x"],
    }[score]
    lines = [f"{scores} = {text}"]
    ranked = scores
    if "bias" in b:
        ranked = f"({scores} + {b['bias']})"
    if grouped:
        lines += _group_limit(b, ranked, groups, chosen_groups)
        ranked = b.local("limited")
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
        accepts=(f"{k} <= {b.sizes('x')[-1]}", *_all_experts(b)),
        questions=tuple(questions),
    )


_SLOTS = (
    reads("bias", "(routing_)?bias|(e_score_)?correction_bias", optional=True),
    writes("weights", _WEIGHTS, is_index=False),
    writes("indices", _INDICES, is_index=True),
    writes("rows", "source_rows?", optional=True),
    scalar("renormalize", "renormali[sz]e|need_renorm"),
    scalar("scaling", "routed_scaling_factor|scaling_factor"),
)

OPERATORS = (
    *(
        Operator(
            f"top-k of {score}",
            like,
            (
                reads("x", _X + ("|inputs_after_softmax" if score == "scores" else "")),
                *_SLOTS,
            ),
            partial(_top_k, score=score),
            unlike="(?<!single_)grouped?|sampling|page|radix|renorm|mask|"
            + ("sigmoid" if score == "softmax" else "softmax"),
            left_out="finished|is_padding|enable_pdl",
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
            (
                "sigmoid",
                r"top_?k\w*sigmoid|sigmoid\w*top_?k|single_group_top_?k|top_?k_?gating",
                (r"exp2?f?\b|tanh|sigmoid", "(?i)sigmoid"),
                (),
            ),
            (
                "scores",
                r"top_?k$|top_?k_kernel$|moe_top_?k|single_group_top_?k",
                ("top_?k|TopK",),
                (r"\bexp2?f?\(",),
            ),
        )
    ),
    *(
        Operator(
            f"grouped top-k of {score}",
            r"grouped_top_?k|top_?k_group",
            (reads_or_updates("x", _X), *_SLOTS),
            partial(_top_k, score=score, grouped=True),
            unlike="single_group",
            body=(body,),
            left_out="enable_pdl",
        )
        for score, body in (("sigmoid", "(?i)sigmoid"), ("scores", "SCORING_NONE"))
    ),
)
