"""Sums, products, differences, bounds and scalings of elements."""

from __future__ import annotations

from functools import partial

from astra_tui.drafting.operators.matching import (
    Bound,
    Operator,
    Reference,
    Slot,
    reads,
    reads_or_updates,
    scalar,
    writes,
)

_OUT = writes("out", "c|out|outputs?|o|y|z|dst|res(ult)?|sums?|d", optional=True)
_UNLIKE = (
    r"norm|_(and|silu|gelu|relu)_|silu|gelu|act|quant|rope|soft|loss|reduce|attn|attention|"
    "embed|matmul|gemm|mm|bias|rotary|grad|backward|bwd|penalt|mask|multi|mult(iprocess|iple)"
)


def _pointwise(b: Bound, sign: str) -> Reference | None:
    roles = [role for role in ("x", "y", "z") if role in b]
    place = b.target("out", "x")
    sizes = [b.sizes(role) for role in roles]
    if any(s != sizes[0][-len(s) :] for s in sizes):
        return None
    text = f" {sign} ".join(b[role] for role in roles)
    return Reference(
        f"{text}.", (), {b[place]: b.shaped(text, place, sizes[0])}, flops=_count(sizes[0])
    )


def _count(sizes: tuple[str, ...]) -> str:
    return " * ".join(f"({s})" if " " in s else s for s in sizes)


def _clamp(b: Bound) -> Reference | None:
    if "low" not in b and "high" not in b:
        return None
    place = b.target("out", "x")
    bounds = [f"{w}={b[r]}" for w, r in (("min", "low"), ("max", "high")) if r in b]
    choices = {b[r]: (v,) for r, v in (("low", -0.5), ("high", 0.5)) if r in b}
    return Reference(
        "Each element within its bounds.",
        (),
        {b[place]: b.shaped(f"{b['x']}.clamp({', '.join(bounds)})", place, b.sizes("x"))},
        choices=choices,
    )


def _positions(b: Bound) -> Reference:
    return Reference(
        "The last position of each sequence, 0 for an empty one.",
        (),
        {b["out"]: f"({b['x']} - 1).clamp(min=0)"},
    )


def _scaled(b: Bound) -> Reference:
    place = b.target("out", "x")
    text = f"{b['x']} * {b['factor']}"
    return Reference(
        "Each element times the factor.", (), {b[place]: b.shaped(text, place, b.sizes("x"))}
    )


_X = "a|x|in|inp|inputs?|src|lhs|data|x1|in1|input1"
_Y = "b|y|other|residual|res|rhs|x2|in2|input2"


def _operator(name: str, like: str, slots: tuple[Slot, ...], sign: str, body: str) -> Operator:
    return Operator(name, like, slots, partial(_pointwise, sign=sign), _UNLIKE, (body,))


_THREE = (
    reads_or_updates("x", _X), reads("y", _Y), reads("z", "c|z|third|x3"),
    writes("out", "d|out|outputs?|o|y|dst|res(ult)?"),
)  # fmt: skip
_TWO = (reads_or_updates("x", _X), reads("y", _Y), _OUT)

OPERATORS = (
    _operator("elementwise sum", r"(^|_)(vec(tor)?_?)?add(_|$)|vadd|residual", _TWO, "+",
              r"\w\s*\+\s*\(?\w+(\[|\()|__hadd2?"),
    _operator("elementwise sum of three", r"add_?3", _THREE, "+", r"\+"),
    _operator("elementwise product", r"(^|_)(vec(tor)?_?)?mul(tiply)?(_|$)|vmul|hadamard", _TWO,
              "*", r"\w\]\s*\*\s*\(?\w+(\[|\()|__hmul2?"),
    Operator(
        "clamp",
        r"(?<!no_)clamp|clip",
        (
            reads_or_updates("x", _X),
            scalar("low", r"lo|low(er)?|min(_val(ue)?)?|lower_bound"),
            scalar("high", r"hi|high|upper|max(_val(ue)?)?|upper_bound"),
            _OUT,
        ),
        _clamp,
        unlike="grad|position|act|norm|quant",
    ),
    Operator(
        "positions of sequences",
        "clamp_position",
        (reads("x", "seq_lens|lens|lengths", is_index=True), writes("out", "dst|out|positions")),
        _positions,
    ),
    Operator(
        "scaling by a number",
        r"(^|_)(scale|scal)(_|$)",
        (
            reads_or_updates("x", _X),
            scalar("factor", "alpha|scale|factor|s|a", optional=False),
            _OUT,
        ),
        _scaled,
        unlike=_UNLIKE,
    ),
)  # fmt: skip
