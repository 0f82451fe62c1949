"""Rotary position embedding: both layouts, from a cache of cosines and sines."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from astra_tui.drafting.operators.matching import (
    Bound,
    Operator,
    Reference,
    Slot,
    indices,
    reads,
    reads_or_updates,
    scalar,
    updates,
    writes,
)
from astra_tui.drafting.operators.norm import epsilon

_POSITIONS = reads("positions", "positions?|pos|pos_ids|position_ids", is_index=True)
_CACHE = reads("cache", "cos_sin(_cache)?|rope_cache|freqs|cache|cos_sin_table")
_HALVES = r"half_?(dim|rot|size)|(embed|rot(ary)?|rope)_?(dim|size)\s*/\s*2|is_?neox"
_PAIRS = r"2\s*\*\s*\w+\s*(\+\s*1\b|\])|\.y\b|is_?interleaved?"
_HEAD = "head_size|head_dim|hd|dim_head|size_per_head|d_head|head"
_HEADS = "num_(qo_|kv_|q_|k_)?heads|heads?_num|n_?heads?|heads|nh"
POSITIONS = 64
"""Positions that are drawn where no cache bounds them."""


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


def _angles(b: Bound) -> list[str]:
    """Statements that give half, cos and sin, of a cache or by the formula of Llama 3.1."""
    half, cos, sin = map(b.local, ("half", "cos", "sin"))
    if "cache" in b:
        lines = [
            f"{half} = {b['cache']}.shape[-1] // 2",
            f"{cos}, {sin} = {b['cache']}[{b['positions']}].unsqueeze(1).chunk(2, dim=-1)",
        ]
        return [*lines, f"{sin} = -{sin} if {b['inverse']} else {sin}"] if "inverse" in b else lines
    size = b.facts.dim("(rotary|rot|rope)_dim")
    rate, smooth, angle = map(b.local, ("rate", "smooth", "angle"))
    return [
        f"{half} = {size} // 2",
        f"{rate} = {b['rate']} ** (torch.arange({half}, dtype=torch.float64) / {half})",
        f"{smooth} = ({rate} * {b['smooth_a']} + {b['smooth_b']}).clamp(0.0, 1.0)",
        f"{rate} = (1.0 - {smooth}) * {rate} * {b['scale']} + {smooth} * {rate}",
        f"{angle} = ({b['positions']}.unsqueeze(-1) * {rate}).unsqueeze(1)",
        f"{cos}, {sin} = torch.cos({angle}), torch.sin({angle})",
    ]


def _turning(b: Bound, interleaved: bool) -> list[str]:
    """Statements that define `turn`, which turns heads by cos and sin."""
    half, cos, sin, turn = map(b.local, ("half", "cos", "sin", "turn"))
    parts = ("0 : 2 * {half} : 2", "1 : 2 * {half} : 2") if interleaved else (
        ":{half}", "{half} : 2 * {half}"
    )  # fmt: skip
    pair = "(first * {cos} - second * {sin}, second * {cos} + first * {sin})"
    joined = (
        f"torch.stack({pair}, dim=-1).flatten(-2)" if interleaved else f"torch.cat({pair}, dim=-1)"
    )
    names = {"half": half, "cos": cos, "sin": sin}
    return [
        "",
        f"def {turn}(heads: torch.Tensor) -> torch.Tensor:",
        "    first, second = " + ", ".join(f"heads[..., {p}]" for p in parts).format(**names),
        "    turned = " + joined.format(**names),
        f"    return torch.cat((turned, heads[..., 2 * {half} :]), dim=-1)",
        "",
    ]


def _is_other_layout(b: Bound, interleaved: bool) -> bool:
    """Whether a template argument says that the pairs lie otherwise."""
    switches = b.facts.switch("interleav"), b.facts.switch("neox")
    return switches[0] == str(not interleaved).lower() or switches[1] == str(interleaved).lower()


def _rope(b: Bound, interleaved: bool) -> Reference | None:
    """Both q and k may be in place, or have tensors of their own for the result."""
    if _is_other_layout(b, interleaved):
        return None
    positions, turn = b["positions"], b.local("turn")
    rot_dim = b.sizes("cache")[-1] if "cache" in b else b.facts.dim("(rotary|rot|rope)_dim")
    if len(b.sizes("positions")) != 1 or not rot_dim:
        return None
    outputs, accepts = {}, []
    if "cache" in b and len(b.sizes("cache")) != 2:
        return None
    drawn = b.sizes("cache")[0] if "cache" in b else str(POSITIONS)
    if offset := b.facts.dim("(rope|rotary)_(dim_)?offset"):
        accepts.append(f"{offset} == 0")
    lines = [*_angles(b), *_turning(b, interleaved)]
    for role in (r for r in ("q", "k") if r in b):
        size = _head_size(b, role)
        if not size:
            return None
        accepts.append(f"{rot_dim} <= {size}")
        place = b.target(f"{role}_out", role)
        flat = len(b.sizes(role)) != 3
        heads = f"{b[role]}.unflatten(-1, (-1, {size}))" if flat else b[role]
        text = f"{turn}({heads})" + ".flatten(1)" * flat
        outputs[b[place]] = b.shaped(text, place, b.sizes(role))
    pairs = "(2 i, 2 i + 1)" if interleaved else "(i, i + half)"
    layout = "interleaved (2 i with 2 i + 1)" if interleaved else "neox (i with i + half)"
    return Reference(
        f"Turns the pairs {pairs} of each head by the angles of its position"
        + ("; a row of the cache is cosines, then sines." if "cache" in b else "."),
        tuple(lines),
        outputs,
        values={positions: indices(drawn)},
        limits={b[r]: limit for r, limit in _LIMITS.items() if r in b},
        accepts=tuple(dict.fromkeys(accepts)),
        choices={b[r]: v for r, v in _USUAL.items() if r in b},
        questions=(
            f"layout: {layout}; confirm it against the model, not against the kernel",
            f"{positions}: drawn below {drawn}; confirm",
        ),
    )


def _qk_norm_rope(b: Bound, interleaved: bool) -> Reference | None:
    """q, k and v of a token lie in one row; q and k are normalised by heads, then turned."""
    if _is_other_layout(b, interleaved):
        return None
    q_heads, k_heads = (
        b.facts.dim("num_(q_heads|heads_q)"),
        b.facts.dim("num_(kv?_heads|heads_kv?)"),
    )
    if not (q_heads and k_heads) or len(b.sizes("cache")) != 2:
        return None
    eps, questions = epsilon(b)
    heads, normed, parts = map(b.local, ("heads", "norm", "parts"))
    size = f"{b['q_weight']}.numel()"
    first, last = q_heads, f"{q_heads} + {k_heads}"
    lines = [
        *_angles(b),
        *_turning(b, interleaved),
        f"def {normed}(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:",
        f"    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + {eps}) * weight",
        "",
        f"{heads} = {b['qkv']}.reshape({b['positions']}.numel(), -1, {size})",
        f"{parts} = [",
        f"    {b.local('turn')}({normed}({heads}[:, :{first}], {b['q_weight']})),",
        f"    {b.local('turn')}({normed}({heads}[:, {first} : {last}], {b['k_weight']})),",
        f"    {heads}[:, {last} :],",
        "]",
    ]
    joined = f"torch.cat({parts}, dim=1).reshape({b.shape('qkv')})"
    layout = "interleaved" if interleaved else "neox"
    return Reference(
        "An RMSNorm of each head of q and k, then their rotation; v is kept.",
        tuple(lines),
        {b["qkv"]: joined},
        values={b["positions"]: indices(b.sizes("cache")[0])},
        questions=(*questions, f"layout: {layout}; confirm it against the model"),
    )


_LIMITS = {"cache": 1.0, "q": 100.0, "k": 100.0}
"""The two terms of a rotation cancel, so that an error is one of the larger of them."""
_USUAL = {
    "rate": (1e-4,), "scale": (1.0, 0.125), "smooth_a": (0.0,), "smooth_b": (0.0,),
    "inverse": (0, 1),
}  # fmt: skip
_LIKE = r"rope(?!_?quant)|rotary|pos_enc"
_UNLIKE = "quant|norm|store|append|grad|backward|bwd"


def _layouts(
    name: str,
    slots: tuple[Slot, ...],
    write: Callable[..., Reference | None] = _rope,
    like: str = _LIKE,
    unlike: str = _UNLIKE,
) -> tuple[Operator, ...]:
    return tuple(
        Operator(
            f"{name}, {layout} layout",
            like,
            slots,
            partial(write, interleaved=interleaved),
            unlike=f"{unlike}|{other}",
            body=(body,),
        )
        for layout, interleaved, other, body in (
            ("neox", False, "interleaved?|gptj", _HALVES),
            ("interleaved", True, "neox", _PAIRS),
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
            scalar("inverse", "inverse|is_inverse"),
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
    *_layouts(
        "rotary embedding by formula",
        (
            _POSITIONS,
            reads("q", "q|query"),
            reads("k", "k|key"),
            writes("q_out", "q_rope|q_out|query_out|q_embed"),
            writes("k_out", "k_rope|k_out|key_out|k_embed"),
            scalar("smooth_a", "smooth_a", optional=False),
            scalar("smooth_b", "smooth_b", optional=False),
            scalar("scale", "rope_rcp_scale", optional=False),
            scalar("rate", "rope_rcp_theta", optional=False),
        ),
    ),
    *_layouts(
        "RMSNorm of query and key heads, then rotary embedding",
        (
            updates("qkv", "qkv"),
            reads("q_weight", "q_(norm_)?weight"),
            reads("k_weight", "k_(norm_)?weight"),
            _CACHE,
            _POSITIONS,
            scalar("eps", "eps(ilon)?"),
        ),
        _qk_norm_rope,
        r"qk_?norm_?rope",
        "quant|store|append",
    ),
)
