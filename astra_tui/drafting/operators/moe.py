"""Mixtures of experts: the order of tokens by expert, and the sum over chosen experts."""

from __future__ import annotations

from astra_tui.drafting.operators.matching import Bound, Operator, Reference, indices, reads, writes


def _sum(b: Bound) -> Reference | None:
    """[tokens, k, d] becomes [tokens, d]."""
    x, out = b.sizes("x"), b.sizes("out")
    if len(x) == 3 and (x[0], x[2]) == out:
        return Reference(
            "The sum over the chosen experts of each token.", (), {b["out"]: f"{b['x']}.sum(dim=1)"}
        )
    if len(out) != 2:
        return None
    k = b.facts.dim("top_?k") or "-1"
    text = f"{b['x']}.reshape({out[0]}, {k}, {out[1]}).sum(dim=1)"
    return Reference("The sum over the chosen experts of each token.", (), {b["out"]: text})


def _align(b: Bound) -> Reference | None:
    experts, block = b.facts.dim("(num_)?experts|num_expert"), b.facts.dim("block_size(_m)?|block")
    if not experts or not block:
        return None
    ids, order, at, counts = b["ids"], b.local("order"), b.local("at"), b.local("count")
    padded, blocks, expert = b.local("padded"), b.local("blocks"), b.local("expert")
    sorted_ids, block_experts = b.local("sorted_ids"), b.local("block_experts")
    outputs = {b["sorted"]: sorted_ids, b["blocks"]: block_experts}
    lines = [
        f"{order} = {ids}.reshape(-1)",
        f"{sorted_ids} = torch.full(({b.shape('sorted')},), {order}.numel(), dtype=torch.int64)",
        f"{block_experts} = torch.zeros(({b.shape('blocks')},), dtype=torch.int64)",
        f"{at} = 0",
        f"for {expert} in range({experts}):",
        f"    {counts} = torch.nonzero({order} == {expert}).flatten()",
        f"    {padded} = -(-{counts}.numel() // {block}) * {block}",
        f"    {sorted_ids}[{at} : {at} + {counts}.numel()] = {counts}",
        f"    {blocks} = slice({at} // {block}, ({at} + {padded}) // {block})",
        f"    {block_experts}[{blocks}] = {expert}",
        f"    {at} += {padded}",
    ]
    if "total" in b:
        outputs[b["total"]] = f"torch.tensor([{at}]).reshape({b.shape('total')})"
    return Reference(
        "Places of tokens by expert, each expert's padded with numel to whole blocks.",
        tuple(lines),
        outputs,
        values={ids: indices(experts)},
        questions=(
            f"{b['sorted']}: the order within one expert is that of the tokens; confirm",
            f"{b['blocks']}: 0 for blocks past the last; confirm",
        ),
    )


_IDS = reads("ids", "topk_ids|expert_ids_in|ids|indices", is_index=True)

OPERATORS = (
    Operator(
        "sum over experts",
        "moe_(sum|reduce)",
        (
            reads("x", "x|in|inp|inputs?"),
            writes("out", "out|outputs?|y"),
        ),
        _sum,
        left_out="topk_ids|expert_map",
    ),
    Operator(
        "alignment of tokens by expert",
        "moe_align_block_size",
        (
            _IDS,
            writes("sorted", "sorted_(token_)?ids", is_index=True),
            writes("blocks", "expert_ids|experts|block_ids|block_experts", is_index=True),
            writes("total", "(total_tokens|num_tokens)_post_pad(ded)?", optional=True),
        ),
        _align,
        unlike="lora|batched",
        left_out="expert_map|has_expert_map|scatter_idx",
    ),
)
