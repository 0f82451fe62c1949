"""Rotary position embedding: both layouts, from a cache of cosines and sines."""

from __future__ import annotations

import re
from functools import partial

from astra_tui.drafting.operators.matching import (
    Bound,
    Operator,
    Reference,
    Slot,
    reads,
    reads_or_updates,
    updates,
    writes,
)

_POSITIONS = reads("positions", "positions?|pos|pos_ids|position_ids", is_index=True)
_CACHE = reads("cache", "cos_sin(_cache)?|rope_cache|freqs|cache|cos_sin_table")
_HALVES = r"half_?(dim|rot|size)|(embed|rot(ary)?|rope)_?(dim|size)\s*/\s*2|is_?neox"
_PAIRS = r"2\s*\*\s*\w+\s*(\+\s*1\b|\])|\.y\b|is_?interleaved?"
_HEAD = "head_size|head_dim|hd|dim_head|size_per_head|d_head|head"
_HEADS = "num_(qo_|kv_|q_|k_)?heads|heads?_num|n_?heads?|heads|nh"
HIGHEST = 63
"""The largest position that is drawn: caches are longer in all cases."""


def _head_size(b: Bound, role: str) -> str:
    """The size of one head: a size of its own, a dimension's name, or a quotient; "" if unknown."""
    sizes = b.sizes(role)
    if len(sizes) >= 3:
        return sizes[-1]
    named = b.facts.dim(_HEAD)
    if named and re.search(rf"\b{named}\b", sizes[-1]):
        return named
    heads = next((d for d in b.facts.dims if re.fullmatch(_HEADS, d.lower())), "")
    if heads and re.search(rf"\b{heads}\b", sizes[-1]):
        whole = sizes[-1] if sizes[-1].isidentifier() else f"({sizes[-1]})"
        return f"{whole} // {heads}"
    return ""


def _rope(b: Bound, interleaved: bool) -> Reference | None:
    """Q and k may be in place, or have tensors of their own for the result."""
    positions, cache = b["positions"], b["cache"]
    if len(b.sizes("positions")) != 1 or len(b.sizes("cache")) != 2:
        return None
    half, cos, sin, turn = map(b.local, ("half", "cos", "sin", "turn"))
    parts = ("0 : 2 * {half} : 2", "1 : 2 * {half} : 2") if interleaved else (
        ":{half}", "{half} : 2 * {half}"
    )  # fmt: skip
    pair = "(first * {cos} - second * {sin}, second * {cos} + first * {sin})"
    joined = (
        f"torch.stack({pair}, dim=-1).flatten(-2)" if interleaved else f"torch.cat({pair}, dim=-1)"
    )
    names = {"half": half, "cos": cos, "sin": sin}
    lines = [
        f"{half} = {cache}.shape[-1] // 2",
        f"{cos}, {sin} = {cache}[{positions}].unsqueeze(1).chunk(2, dim=-1)",
        "",
        f"def {turn}(heads: torch.Tensor) -> torch.Tensor:",
        "    first, second = " + ", ".join(f"heads[..., {p}]" for p in parts).format(**names),
        "    turned = " + joined.format(**names),
        f"    return torch.cat((turned, heads[..., 2 * {half} :]), dim=-1)",
        "",
    ]
    outputs, accepts = {}, [f"{b.sizes('cache')[0]} >= {HIGHEST + 1}"]
    for role in (r for r in ("q", "k") if r in b):
        size = _head_size(b, role)
        if not size:
            return None
        accepts.append(f"{b.sizes('cache')[1]} <= {size}")
        place = b.target(f"{role}_out", role)
        flat = len(b.sizes(role)) != 3
        heads = f"{b[role]}.unflatten(-1, (-1, {size}))" if flat else b[role]
        text = f"{turn}({heads})" + ".flatten(1)" * flat
        outputs[b[place]] = b.shaped(text, place, b.sizes(role))
    pairs = "(2 i, 2 i + 1)" if interleaved else "(i, i + half)"
    layout = "interleaved (2 i with 2 i + 1)" if interleaved else "neox (i with i + half)"
    return Reference(
        f"Turns the pairs {pairs} of each head; rows of {cache} hold cosines, then sines.",
        tuple(lines),
        outputs,
        values={positions: f'{{ kind = "integers", low = 0, high = {HIGHEST} }}'},
        accepts=tuple(dict.fromkeys(accepts)),
        questions=(
            f"layout: {layout}; confirm it against the model, not against the kernel",
            f"{positions}: drawn from 0 to {HIGHEST}, below the rows of {cache}; confirm",
        ),
    )


_LIKE = r"rope(?!_?quant)|rotary|pos_enc"
_UNLIKE = "quant|norm|store|append|grad|backward|bwd"


def _layouts(name: str, slots: tuple[Slot, ...]) -> tuple[Operator, ...]:
    return tuple(
        Operator(
            f"{name}, {layout} layout",
            _LIKE if not own else rf"({_LIKE})\w*({own})|({own})\w*({_LIKE})|{_LIKE}",
            slots,
            partial(_rope, interleaved=interleaved),
            unlike=f"{_UNLIKE}|{other}",
            body=(body,),
        )
        for layout, interleaved, own, other, body in (
            ("neox", False, "neox", "interleaved?|gptj", _HALVES),
            ("interleaved", True, "interleaved?|gptj", "neox", _PAIRS),
        )
    )


OPERATORS = (
    *_layouts(
        "rotary embedding",
        (
            _POSITIONS,
            reads_or_updates("q", "q|query|queries|x|data|in|input|qk|arr|tensor"),
            updates("k", "k|key|keys", optional=True),
            _CACHE,
            writes("q_out", "out|output|q_(rope|out)|query_out|y|o", optional=True),
        ),
    ),
    *_layouts(
        "rotary embedding out of place",
        (
            _POSITIONS,
            reads("q", "q|query"),
            reads("k", "k|key"),
            _CACHE,
            writes("q_out", "q_rope|q_out|query_out|q_embed"),
            writes("k_out", "k_rope|k_out|key_out|k_embed"),
        ),
    ),
)
