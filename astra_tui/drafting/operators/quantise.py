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
    updates,
    writes,
)
from astra_tui.model.dtypes import DType

X = "x|in|inp|inputs?|src|data|hidden_states?|a|act(ivations?)?"
OUT = "out|outputs?(_(q|quant))?|o|q|y|dst|res(ult)?|x_q|quantized|normed_output_quant"
SCALES = "scales?|scales?_(out|inv)|out(put)?_(s|scales?)|x_s|s|block_scales?|dst_scales?"
_FP8 = r"fp8|e4m3|float8"
_INT8 = r"int_?8|char|s8"
FP8_MAX = 448.0

_HALF_A_STEP = 0.501
SOURCE = "the rounding of the format: a value between two codes may fall on either side"


def quantised(bound: Bound, role: str, text: str) -> tuple[str, str, str]:
    """`text` divided by its scale already, as the 8-bit tensor in a role holds it.

    Numbers are not rounded, which is the judge's part; codes of fp8 in plain bytes are. Returns the
    expression, the largest magnitude of the format, and what to ask: "" where the
    source says which format it is.
    """
    tensor = bound.tensors[role]
    asked = ""
    shown = _shown_format(bound, tensor)
    if not shown:
        asked = f"{tensor.name}: the draft takes it for fp8 e4m3; say which 8-bit format it holds"
    whole = text if re.fullmatch(r"\w+", text) else f"({text})"
    if shown == "int8":
        return f"{whole}.clamp(-128.0, 127.0)", "127.0", asked
    clamped = f"{whole}.clamp(-{FP8_MAX}, {FP8_MAX})"
    if tensor.dtype is None or tensor.dtype.is_float:
        return clamped, f"{FP8_MAX}", asked
    return f"{clamped}.to(torch.float8_e4m3fn).view(torch.uint8)", f"{FP8_MAX}", asked


def tolerances(bound: Bound, role: str) -> dict[DType, tuple[float, float]]:
    """Half a step and a little of int8, and one code of fp8 in plain bytes."""
    dtype = bound.tensors[role].dtype
    if dtype is None or dtype.is_float:
        return {}
    return {dtype: (_HALF_A_STEP if dtype is DType.INT8 else 1.0, 0.0)}


def shaped_scales(b: Bound, scale: str) -> str:
    """One scale for each row of `scale` in the shape of the tensor for scales.

    A tensor that ends with the rows of x holds the scales of one group of all rows together.
    """
    sizes, rows = b.sizes("scales"), b.sizes("x")[0]
    if len(sizes) == 2 and sizes[1] == rows != sizes[0]:
        return f"{scale}.reshape({rows}, {sizes[0]}).t()"
    return f"{scale}.reshape({b.shape('scales')})"


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


def _scale(b: Bound) -> str | None:
    """The scale as it divides the input: one for all, one a row, or one a block of elements."""
    sizes, scale = b.sizes("scale"), b["scale"]
    if sizes in ((), ("1",)):
        return scale
    if sizes == b.sizes("x")[:-1]:
        return f"{scale}.unsqueeze(-1)"
    blocks = b.facts.dim("group_m"), b.facts.dim("group_n")
    if len(sizes) == 2 and all(blocks):
        rows, columns = (f"repeat_interleave({n}, dim={d})" for d, n in enumerate(blocks))
        last = b.sizes("x")
        return f"{scale}.{rows}.{columns}[:{last[0]}, :{last[-1]}]"
    return None


def _static(b: Bound) -> Reference | None:
    scale = _scale(b)
    if scale is None:
        return None
    values = f"{b['x']} / {scale}"
    if "azp" in b:
        values = f"{values} + {b['azp']}"
    text, _, asked = quantised(b, "out", values)
    return Reference(
        "The input divided by the scale that is given, rounded to 8 bits.",
        (),
        {b["out"]: b.shaped(text, "out", b.sizes("x"))},
        values={
            b["scale"]: '{ kind = "uniform", low = 0.01, high = 0.1 }',
            **({b["azp"]: '{ kind = "integers", low = -20, high = 20 }'} if "azp" in b else {}),
        },
        tolerances=tolerances(b, "out"),
        tolerance_source=SOURCE,
        questions=tuple(q for q in (asked,) if q),
    )


def _per_row(b: Bound, width: str, what: str) -> Reference | None:
    """One scale for each `width` elements that follow each other."""
    b.require_same_size("x", b.sizes("out"))
    dtype = b.tensors["scales"].dtype
    if dtype is not None and not dtype.is_float:
        return None
    row, most, scale, codes = map(b.local, ("rows", "most", "row_scale", "codes"))
    top = largest(b, "out")
    lines = [
        f"{row} = {b['x']}.reshape(-1, {width})",
        f"{most} = {row}.abs().amax(dim=-1, keepdim=True)",
    ]
    questions = []
    if "limit" in b:
        lines.append(f"{most} = torch.minimum({most}, {b['limit']})")
    if "eps" in b:
        lines.append(f"{most} = {most}.clamp(min={b['eps']})")
    lines.append(f"{scale} = {most} / {top}")
    if "eps" not in b and re.search(r"\b512\b|min_scal", b.facts.body):
        lines.append(f"{scale} = {scale}.clamp(min=1.0 / ({top} * 512.0))")
        questions.append(f"{b['scales']}: kept above 1 / ({top} * 512), as the body does; confirm")
    text, _, asked = quantised(b, "out", codes)
    shown = "true" if "ue8m0" in b.facts.kernel.lower() else b.facts.switch("ue8m0")
    if shown == "true":
        lines.append(f"{scale} = torch.exp2(torch.ceil(torch.log2({scale})))")
    elif shown == "?":
        questions.append(f"{b['scales']}: not rounded up to powers of two (ue8m0); confirm")
    lines.append(f"{codes} = torch.where({scale} > 0.0, {row} / {scale}, 0.0)")
    lines.append(f"{codes} = {text}")
    return Reference(
        f"The largest magnitude of each {what} becomes the largest of the 8-bit format.",
        tuple(lines),
        {
            b["out"]: f"{codes}.reshape({b.shape('out')})",
            b["scales"]: shaped_scales(b, scale),
        },
        tolerances={**tolerances(b, "out"), DType.FLOAT32: (0.0, 1e-5)},
        tolerance_source=SOURCE,
        questions=(*questions, *filter(None, [asked])),
    )


def _with_zero_point(b: Bound) -> Reference:
    """Each row's range is spread over all 256 codes."""
    rows, low, high, scale, zero = map(b.local, ("rows", "low", "high", "row_scale", "zero"))
    return Reference(
        "Each row's smallest value becomes -128 and its largest 127; azp is the code of zero.",
        (
            f"{rows} = {b['x']}.reshape(-1, {b.sizes('x')[-1]})",
            f"{low}, {high} = {rows}.amin(dim=-1, keepdim=True), {rows}.amax(dim=-1, keepdim=True)",
            f"{scale} = ({high} - {low}) / 255.0",
            f"{zero} = -128.0 - {low} / {scale}",
            f"{b.local('codes')} = ({rows} / {scale} + torch.round({zero})).clamp(-128.0, 127.0)",
        ),
        {
            b["out"]: f"{b.local('codes')}.reshape({b.shape('out')})",
            b["scales"]: f"{scale}.reshape({b.shape('scales')})",
            b["azp"]: f"{zero}.reshape({b.shape('azp')})",
        },
        tolerances={
            DType.INT8: (_HALF_A_STEP, 0.0),
            DType.INT32: (_HALF_A_STEP, 0.0),
            DType.FLOAT32: (0.0, 1e-5),
        },
        tolerance_source=SOURCE,
        questions=(f"{b['x']}: a row of equal values has no scale; say what holds there",),
    )


def _largest(b: Bound) -> Reference:
    """The scale that a whole tensor needs, never below what it was."""
    scale = b["scales"]
    return Reference(
        "The larger of the scale and the largest magnitude over the largest of fp8 e4m3.",
        (),
        {scale: f"torch.maximum({scale}, {b['x']}.abs().max() / {FP8_MAX})"},
        values={scale: '{ kind = "constant", low = 0.0 }'},
        tolerances={DType.FLOAT32: (0.0, 1e-5)},
        tolerance_source="the one division may round",
        questions=(f"the format is taken to be fp8 e4m3, whose largest is {FP8_MAX}; confirm",),
    )


def _per_token(b: Bound) -> Reference | None:
    width = b.sizes("x")[-1]
    b.require_same_size("x", (*b.sizes("scales"), width))
    return _per_row(b, width, "row")


def _per_group(b: Bound) -> Reference | None:
    size = b.facts.size("group_size|block_size|quant_block_size|group")
    return _per_row(b, size, "group") if size else None


OPERATORS = (
    Operator(
        "quantisation with a given scale",
        r"scaled_\w*quant|quant\w*_(per_)?tensor|per_tensor\w*_quant|static\w*quant",
        (
            reads("x", X),
            reads("scale", SCALES),
            writes("out", OUT),
            reads("azp", "azp|zero_points?|zp", optional=True, is_index=True),
        ),
        _static,
        unlike="norm|rope|act|silu|mul|(?<!strided_)dynamic|per_token|cache",
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
        "per-token quantisation with a zero point",
        r"dynamic\w*azp\w*quant|asym\w*quant",
        (
            reads("x", X),
            writes("out", OUT),
            writes("scales", SCALES),
            writes("azp", "azp(_out)?|zero_points?|zp", is_index=True),
        ),
        _with_zero_point,
        unlike="norm|rope|group",
    ),
    Operator(
        "scale of a tensor",
        r"(abs_?max|max)_reduction|compute_scale",
        (reads("x", X), updates("scales", SCALES)),
        _largest,
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
        unlike="norm|rope|act_|silu|mul|cache|situ|scaled_fp8_quant",
    ),
)
