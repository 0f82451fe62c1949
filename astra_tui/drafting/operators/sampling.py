"""Probabilities cut to their likeliest and renormalised, and logits masked the same way."""

from __future__ import annotations

from astra_tui.drafting.operators.matching import (
    Bound,
    Operator,
    Reference,
    indices,
    reads,
    scalar,
    updates,
    writes,
)

_PROBS = "probs?|probabilities|x|in|input"
_OUT = "renormed_probs?|out|outputs?|renorm_probs?|probs_out|y"
_STATES = "row_states|workspace|states"
_UNIFORM = '{ kind = "uniform", low = 0.0, high = 1.0 }'
_DISTRIBUTION = '{ kind = "distribution" }'


def _top_p(b: Bound) -> Reference:
    probs = b["probs"]
    ordered, before, least, kept = map(b.local, ("ordered", "before", "least", "kept"))
    share = b["shares"] + ".reshape(-1, 1)" if "shares" in b else b["share"]
    return Reference(
        "The fewest of the likeliest that add up to at least p, and their equals, over their sum.",
        (
            f"{ordered} = {probs}.sort(dim=-1, descending=True).values",
            f"{before} = {ordered}.cumsum(dim=-1) - {ordered}",
            f"{least} = {ordered}.masked_fill({before} >= {share}, 2.0).amin(dim=-1, keepdim=True)",
            f"{kept} = torch.where({probs} >= {least}, {probs}, 0.0)",
        ),
        {b["out"]: f"{kept} / {kept}.sum(dim=-1, keepdim=True)"},
        values={probs: _DISTRIBUTION, **_values(b, "shares", _UNIFORM)},
        choices={b["share"]: (0.9, 0.5)} if "share" in b else {},
    )


def _values(b: Bound, role: str, values: str) -> dict[str, str]:
    return {b[role]: values} if role in b else {}


def _kth(b: Bound, x: str) -> tuple[list[str], str]:
    """Statements for the k-th largest of each row."""
    ordered, least = b.local("ordered"), b.local("least")
    lines = [f"{ordered} = {x}.sort(dim=-1, descending=True).values"]
    if "counts" in b:
        places = f"({b['counts']}.reshape(-1, 1) - 1).clamp(0, {x}.shape[-1] - 1)"
        return [*lines, f"{least} = {ordered}.gather(-1, {places})"], least
    k = b["count"] if "count" in b else b.facts.dim("(top_?)?k|top_k_val")
    return [*lines, f"{least} = {ordered}[..., min({k}, {x}.shape[-1]) - 1].unsqueeze(-1)"], least


def _top_k(b: Bound) -> Reference | None:
    if not ("counts" in b or "count" in b or b.facts.dim("(top_?)?k|top_k_val")):
        return None
    probs, kept = b["probs"], b.local("kept")
    lines, least = _kth(b, probs)
    return Reference(
        "The k likeliest of each row, and what equals the last of them, over their sum.",
        (*lines, f"{kept} = torch.where({probs} >= {least}, {probs}, 0.0)"),
        {b["out"]: f"{kept} / {kept}.sum(dim=-1, keepdim=True)"},
        values={
            probs: _DISTRIBUTION,
            **_values(b, "counts", indices(b.sizes("probs")[-1], low=1)),
        },
        choices={b["count"]: (1, 8)} if "count" in b else {},
    )


def _mask_logits(b: Bound) -> Reference | None:
    if not ("counts" in b or "count" in b or b.facts.dim("(top_?)?k|top_k_val")):
        return None
    lines, least = _kth(b, b["logits"])
    return Reference(
        "Logits below the k-th largest of their row become -inf.",
        tuple(lines),
        {b["out"]: f"torch.where({b['logits']} >= {least}, {b['logits']}, -math.inf)"},
        values=_values(b, "counts", indices(b.sizes("logits")[-1], low=1)),
        choices={b["count"]: (1, 8)} if "count" in b else {},
    )


def _penalties(b: Bound) -> Reference:
    logits, seen, penalty = b["logits"], b.local("seen"), b.local("penalty")
    return Reference(
        "Logits of tokens that were seen: divided by the penalty above 0, else multiplied by it.",
        (
            f"{seen} = ({b['prompt_mask']} != 0) | ({b['output_mask']} != 0)",
            f"{penalty} = torch.where({seen}, {b['penalties']}.reshape(-1, 1), 1.0)",
        ),
        {logits: f"torch.where({logits} > 0.0, {logits} / {penalty}, {logits} * {penalty})"},
        values={b["penalties"]: '{ kind = "uniform", low = 0.5, high = 2.0 }'},
    )


_COUNTS = (
    reads("counts", "top_ks?|ks?|counts", optional=True, is_index=True),
    scalar("count", "top_k_val|top_?k|k"),
)

OPERATORS = (
    Operator(
        "top-p renormalisation",
        r"top_?p\w*renorm|renorm\w*top_?p",
        (
            reads("probs", _PROBS),
            reads("shares", "top_ps?|ps?", optional=True),
            scalar("share", "top_p(_val)?|p"),
            writes("out", _OUT),
        ),
        _top_p,
    ),
    Operator(
        "top-k renormalisation",
        r"top_?k\w*renorm|renorm\w*top_?k",
        (reads("probs", _PROBS), *_COUNTS, writes("out", _OUT)),
        _top_k,
        left_out=_STATES,
    ),
    Operator(
        "top-k mask of logits",
        r"top_?k\w*mask|mask\w*top_?k",
        (
            reads("logits", "logits?|x|in|input"),
            *_COUNTS,
            writes("out", "masked_logits|out|outputs?|y|logits_out"),
        ),
        _mask_logits,
        left_out=_STATES,
    ),
    Operator(
        "repetition penalties",
        "repetition_penalt",
        (
            updates("logits", "logits?"),
            reads("prompt_mask", "prompt_mask", is_index=True),
            reads("output_mask", "output_mask", is_index=True),
            reads("penalties", "(repetition_)?penalt(y|ies)"),
        ),
        _penalties,
    ),
)
