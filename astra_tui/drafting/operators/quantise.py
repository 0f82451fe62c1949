"""Quantisation to 8 bits: with a given scale, one scale a token, one scale a group."""

from __future__ import annotations

import re

from astra_tui.drafting.operators import TensorFacts, snake_case
from astra_tui.drafting.operators.matching import (
    Bound,
    Operator,
    Reference,
    reads,
    scalar,
    writes,
)
from astra_tui.model.dtypes import DType

X = "x|in|inp|inputs?|src|data|hidden_states?|a|act(ivations?)?"
OUT = "out|outputs?(_(q|quant))?|o|q|y|dst|res(ult)?|x_q|quantized|normed_output_quant"
SCALES = "scales?|scales?_(out|inv)|out(put)?_(s|scales?)|x_s|s|block_scales?|dst_scales?"
_FP8 = r"fp8|e4m3|float8"
_INT8 = r"int_?8|char|s8"
FP8_MAX = 448.0

_SOURCE = "one code: a value on a rounding boundary may fall on either side"


def quantised(bound: Bound, role: str, text: str) -> tuple[str, str, str]:
    """`text` divided by its scale already, as the 8-bit tensor in a role holds it.

    Returns the expression, the largest magnitude of the format, and what to ask: "" where the
    source says which format it is.
    """
    tensor = bound.tensors[role]
    asked = ""
    shown = _shown_format(bound, tensor)
    if not shown:
        asked = f"{tensor.name}: the draft takes it for fp8 e4m3; say which 8-bit format it holds"
    if shown == "int8":
        return f"torch.round({text}).clamp(-128.0, 127.0)", "127.0", asked
    whole = text if re.fullmatch(r"\w+", text) else f"({text})"
    clamped = f"{whole}.clamp(-{FP8_MAX}, {FP8_MAX})"
    if tensor.dtype is None or tensor.dtype.is_float:
        return clamped, f"{FP8_MAX}", asked
    return f"{clamped}.to(torch.float8_e4m3fn).view(torch.uint8)", f"{FP8_MAX}", asked


def tolerances(bound: Bound, role: str) -> dict[DType, tuple[float, float]]:
    """One code of an integer format, and one step of e4m3 where it is an element type."""
    dtype = bound.tensors[role].dtype
    if dtype is None:
        return {}
    return {dtype: (2.0**-9, 0.125)} if dtype.is_float else {dtype: (1.0, 0.0)}


def largest(bound: Bound, role: str) -> str:
    """The largest magnitude of the format of the tensor in a role, as text."""
    return quantised(bound, role, "")[1]


def _shown_format(bound: Bound, tensor: TensorFacts) -> str:
    """The format that element type, type name, template argument or kernel name shows."""
    if tensor.dtype is DType.INT8 and not re.search(_FP8, tensor.type.lower()):
        return "int8"
    shown = (tensor.type, bound.facts.template.get(tensor.type, ""), bound.facts.kernel)
    for text in map(snake_case, shown):
        if re.search(_FP8, text):
            return "fp8"
        if re.search(_INT8, text) and not re.search(r"u_?int", text):
            return "int8"
    return "fp8" if tensor.dtype is not None and "float8" in tensor.dtype.value else ""


def _static(b: Bound) -> Reference:
    text, _, asked = quantised(b, "out", f"{b['x']} / {b['scale']}")
    return Reference(
        "The input divided by the one scale that is given, rounded to 8 bits.",
        (),
        {b["out"]: b.shaped(text, "out", b.sizes("x"))},
        values={b["scale"]: '{ kind = "uniform", low = 0.01, high = 0.1 }'},
        tolerances=tolerances(b, "out"),
        tolerance_source=_SOURCE,
        questions=tuple(q for q in (asked,) if q),
    )


def _per_row(b: Bound, rows: str, what: str) -> Reference:
    row, most, scale, codes = map(b.local, ("rows", "most", "row_scale", "codes"))
    top = largest(b, "out")
    lines = [f"{row} = {rows}", f"{most} = {row}.abs().amax(dim=-1, keepdim=True)"]
    questions = []
    if "limit" in b:
        lines.append(f"{most} = torch.minimum({most}, {b['limit']})")
    if "eps" in b:
        lines.append(f"{most} = {most}.clamp(min={b['eps']})")
    lines.append(f"{scale} = {most} / {top}")
    if "eps" not in b and re.search(r"\b512\b|min_scal", b.facts.body):
        lines.append(f"{scale} = {scale}.clamp(min=1.0 / ({top} * 512.0))")
        questions.append(f"{b['scales']}: kept above 1 / ({top} * 512), as the body does; confirm")
    lines.append(f"{codes} = torch.where({scale} > 0.0, {row} / {scale}, 0.0)")
    text, _, asked = quantised(b, "out", codes)
    lines.append(f"{codes} = {text}")
    return Reference(
        f"The largest magnitude of each {what} becomes the largest of the 8-bit format.",
        tuple(lines),
        {
            b["out"]: f"{codes}.reshape({b.shape('out')})",
            b["scales"]: f"{scale}.reshape({b.shape('scales')})",
        },
        tolerances={**tolerances(b, "out"), DType.FLOAT32: (0.0, 1e-5)},
        tolerance_source=_SOURCE,
        questions=(*questions, *filter(None, [asked])),
    )


def _per_token(b: Bound) -> Reference:
    return _per_row(b, f"{b['x']}.reshape(-1, {b.sizes('x')[-1]})", "row")


def _per_group(b: Bound) -> Reference | None:
    size = b.facts.dim("group_size|block_size|quant_block_size|group")
    return _per_row(b, f"{b['x']}.reshape(-1, {size})", "group") if size else None


OPERATORS = (
    Operator(
        "quantisation with a given scale",
        r"scaled_\w*quant|quant\w*_(per_)?tensor|per_tensor\w*_quant|static\w*quant",
        (reads("x", X), reads("scale", SCALES), writes("out", OUT)),
        _static,
        unlike="norm|rope|act|silu|mul|dynamic|per_token|cache|azp|group",
    ),
    Operator(
        "per-token quantisation",
        r"per_token\w*quant|dynamic\w*quant|quant\w*per_token",
        (
            reads("x", X),
            writes("out", OUT),
            writes("scales", SCALES),
            reads("limit", "scale_ub|upper_bound|scale_limit", optional=True),
            scalar("eps", "eps(ilon)?"),
        ),
        _per_token,
        unlike="norm|rope|act_|silu|mul|cache|azp|group|append",
    ),
    Operator(
        "group quantisation",
        r"group\w*quant|quant\w*group|block\w*quant",
        (
            reads("x", X),
            writes("out", OUT),
            writes("scales", SCALES),
            scalar("eps", "eps(ilon)?"),
            scalar("low", r"min_(8bit|val|value)|(q|fp8|int8)_?min"),
            scalar("high", r"max_(8bit|val|value)|(q|fp8|int8)_?max"),
        ),
        _per_group,
        unlike="norm|rope|act_|silu|mul|cache|situ",
    ),
)
