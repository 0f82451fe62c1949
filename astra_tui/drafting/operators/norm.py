"""RMSNorm and LayerNorm: plain, after an addition, with weight + 1, with a quantised result."""

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
    scalar,
    updates,
    writes,
)
from astra_tui.drafting.operators.quantise import (
    SCALES,
    SOURCE,
    quantised,
    shaped_scales,
    tolerances,
)
from astra_tui.model.dtypes import DType

_X = "x|in|inp|inputs?|src|hidden(_states?)?|a|data|row|x_in"
_OUT = "out|outputs?|o|y|dst|res(ult)?|normed(_out(put)?)?|out_normed|x_out|norm_out"
_RESIDUAL = "residual|res|r|residual_in"
_WEIGHT = "weights?|w|gamma|gemma|scale_weight|g|norm_weight"
_EPS = scalar("eps", "eps(ilon)?|norm_eps|variance_epsilon|rms_norm_eps")
_BIAS = scalar("weight_bias", "weight_bias|w_bias|weight_offset")
_RSTD = writes("rstd", "rstd|rrms|r_rms|inv_rms|rms_rcp|inv_std|rsigma", optional=True)
_ROOT = r"rsqrtf?|sqrtf?"
_ONE_MORE = r"\b1(\.0?)?f?\s*\+\s*\(?\s*((float|static_cast<\w+>)\s*\(?)?\s*(w|gamma|g)\w*\b"
DEFAULT_EPS = "1e-6"

_FUSED = r"(fused_?)?add\w*rms_?norm|rms_?norm\w*add|residual\w*rms_?norm|rms_?norm\w*residual"


def epsilon(b: Bound) -> tuple[str, tuple[str, ...]]:
    """The text of eps: the kernel's argument, else its constant, and what is to confirm."""
    if "eps" in b:
        return b["eps"], ()
    found = re.search(r"r?sqrtf?\s*\([^;]{0,200}?\+\s*([\w.+-]+?)[fF]?\s*\)", b.facts.body)
    text = found[1] if found else ""
    text = b.facts.constants.get(text, text).rstrip("fF")
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text):
        return text, (f"eps is taken to be {text}, which the body adds under the root; confirm",)
    asked = f"eps: the kernel takes none and shows none; reference.py adds {DEFAULT_EPS}, say which"
    return DEFAULT_EPS, (asked,)


def _rows(b: Bound, role: str) -> tuple[str, bool]:
    """A tensor as rows of the norm's length, and whether that is its own shape."""
    sizes = b.sizes(role)
    if "weight" not in b or b.sizes("weight") in (sizes, sizes[-1:]):
        return b[role], True
    return f"{b[role]}.reshape(-1, {b['weight']}.numel())", False


def _gain(b: Bound, one_more: bool) -> str:
    if "weight" not in b:
        return ""
    if "weight_bias" in b:
        return f" * ({b['weight_bias']} + {b['weight']})"
    return f" * (1.0 + {b['weight']})" if one_more else f" * {b['weight']}"


class _Norm:
    """The statements that all norms share; `normed` is the normalised row before its scaling."""

    def __init__(self, b: Bound):
        self.b = b
        self.eps, self.questions = epsilon(b)
        x, _ = _rows(b, "x")
        self.lines: list[str] = []
        self.outputs: dict[str, str] = {}
        self.total = x
        if "residual" in b:
            self.total = b.local("total")
            self.lines.append(f"{self.total} = {x} + {_rows(b, 'residual')[0]}")
            place = "residual_out" if "residual_out" in b else "residual"
            self.outputs[b[place]] = self.shaped(self.total, place)
        elif "." in x:
            self.total = b.local("rows")
            self.lines.append(f"{self.total} = {x}")

    def shaped(self, text: str, role: str) -> str:
        """A result over rows in the shape of the tensor in a role."""
        own = _rows(self.b, "x")[1] and self.b.sizes(role) == self.b.sizes("x")
        if own:
            return text
        self.b.require_same_size(role, self.b.sizes("x"))
        whole = text if re.fullmatch(r"\w+|\(.*\)", text) else f"({text})"
        return f"{whole}.reshape({self.b.shape(role)})"

    def root_mean_square(self) -> str:
        """Adds the factor of an RMSNorm, and gives the normalised row."""
        scale = self.b.local("scale")
        square = f"{self.total}.square().mean(dim=-1, keepdim=True)"
        self.lines.append(f"{scale} = torch.rsqrt({square} + {self.eps})")
        if "rstd" in self.b:
            self.outputs[self.b["rstd"]] = f"{scale}.reshape({self.b.shape('rstd')})"
        return f"{self.total} * {scale}"

    def limits(self) -> dict[str, float]:
        """Largest magnitudes whose squares still add up in float32, and whose sum float16 holds."""
        most = 30000.0 if "residual" in self.b else 60000.0
        usual = {"x": most, "residual": most, "weight": 100.0, "bias": 100.0}
        return {self.b[role]: limit for role, limit in usual.items() if role in self.b}

    def flops(self, each: int) -> str:
        """A number of operations for each element."""
        return f"{each} * {' * '.join(f'({s})' if ' ' in s else s for s in self.b.sizes('x'))}"


def _rms_norm(b: Bound, one_more: bool = False) -> Reference:
    norm = _Norm(b)
    place = b.target("out", "x")
    result = norm.root_mean_square() + _gain(b, one_more)
    outputs = {b[place]: norm.shaped(result, place), **norm.outputs}
    added = ", x being the exact sum with the residual" if "residual" in b else ""
    summary = f"x / sqrt(mean(x^2) + eps){_gain_words(b, one_more)}"
    return Reference(
        f"{summary}{added}.",
        tuple(norm.lines), outputs,
        limits=norm.limits(),
        flops=norm.flops(6 if "residual" in b else 4),
        questions=norm.questions,
    )  # fmt: skip


def _gain_words(b: Bound, one_more: bool) -> str:
    if "weight" not in b:
        return ""
    if "weight_bias" in b:
        return " * (weight_bias + weight)"
    return " * (1 + weight)" if one_more else " * weight"


def _static_quant(b: Bound) -> Reference:
    norm = _Norm(b)
    values = f"({norm.root_mean_square()}{_gain(b, False)}) / {b['quant_scale']}"
    text, _, asked = quantised(b, "out", values)
    outputs = {b["out"]: norm.shaped(text, "out"), **norm.outputs}
    return Reference(
        "The normalised row, divided by the one scale that is given, rounded to 8 bits.",
        tuple(norm.lines), outputs,
        values={b["quant_scale"]: '{ kind = "uniform", low = 0.01, high = 0.1 }'},
        tolerances=tolerances(b, "out"),
        tolerance_source=SOURCE,
        limits=norm.limits(),
        flops=norm.flops(8), questions=(*norm.questions, *filter(None, [asked])),
    )  # fmt: skip


def _dynamic_quant(b: Bound, grouped: bool) -> Reference | None:
    group = b.facts.size("group_size|block_size|quant_block_size") or ("128" if grouped else "")
    b.require_same_size("x", b.sizes("out"))
    if not group:
        b.require_same_size("x", (*b.sizes("scales"), b.sizes("x")[-1]))
    norm = _Norm(b)
    lines = norm.lines
    normed, rows, most = map(b.local, ("normed", "rows", "most"))
    scale, codes = b.local("row_scale"), b.local("codes")
    value = norm.root_mean_square() + _gain(b, False)
    lines.append(f"{normed} = {value}")
    lines.append(f"{rows} = {normed}.reshape(-1, {group or b.sizes('x')[-1]})")
    lines.append(f"{most} = {rows}.abs().amax(dim=-1, keepdim=True)")
    text, largest, asked = quantised(b, "out", codes)
    lines.append(f"{scale} = {most} / {largest}")
    lines.append(f"{codes} = torch.where({scale} > 0.0, {rows} / {scale}, 0.0)")
    lines.append(f"{codes} = {text}")
    outputs = {
        b["out"]: f"{codes}.reshape({b.shape('out')})",
        b["scales"]: shaped_scales(b, scale),
        **norm.outputs,
    }
    if "normed_out" in b:
        outputs[b["normed_out"]] = norm.shaped(normed, "normed_out")
    questions = [*norm.questions, *filter(None, [asked])]
    if group == "128":
        questions.append("the group of one scale is taken to be 128 elements; confirm")
    return Reference(
        f"An RMSNorm in 8 bits, with one scale for each {'group' if grouped else 'row'}.",
        tuple(lines), outputs,
        tolerances={**tolerances(b, "out"), DType.FLOAT32: (0.0, 1e-4)},
        tolerance_source=SOURCE,
        limits=norm.limits(),
        flops=norm.flops(8), questions=tuple(questions),
    )  # fmt: skip


def _layer_norm(b: Bound) -> Reference:
    norm = _Norm(b)
    mean, centred, rstd = b.local("mean"), b.local("centred"), b.local("rstd")
    place = b.target("out", "x")
    norm.lines.append(f"{mean} = {norm.total}.mean(dim=-1, keepdim=True)")
    norm.lines.append(f"{centred} = {norm.total} - {mean}")
    norm.lines.append(
        f"{rstd} = torch.rsqrt({centred}.square().mean(dim=-1, keepdim=True) + {norm.eps})"
    )
    text = f"{centred} * {rstd}{_gain(b, False)}" + (f" + {b['bias']}" if "bias" in b else "")
    outputs = {b[place]: norm.shaped(text, place), **norm.outputs}
    for role, value in (("mean", mean), ("rstd", rstd)):
        if role in b:
            outputs[b[role]] = f"{value}.reshape({b.shape(role)})"
    return Reference(
        "(x - mean) / sqrt(variance + eps)"
        + (" * weight" if "weight" in b else "") + (" + bias" if "bias" in b else "") + ".",
        tuple(norm.lines), outputs,
        limits=norm.limits(),
        flops=norm.flops(8), questions=norm.questions,
    )  # fmt: skip


def _qk_norm(b: Bound) -> Reference | None:
    eps, questions = epsilon(b)
    q, k = b["q"], b["k"]
    lines, outputs = [], {}
    for tensor, weight, role in ((q, b["q_weight"], "q"), (k, b["k_weight"], "k")):
        heads, scale = b.local(f"{role}_heads"), b.local(f"{role}_scale")
        lines.append(f"{heads} = {tensor}.reshape(-1, {weight}.numel())")
        lines.append(f"{scale} = torch.rsqrt({heads}.square().mean(dim=-1, keepdim=True) + {eps})")
        outputs[tensor] = f"({heads} * {scale} * {weight}).reshape({b.shape(role)})"
    return Reference(
        "Each head of q and of k by itself: x / sqrt(mean(x^2) + eps) * weight.",
        tuple(lines), outputs, questions=questions,
    )  # fmt: skip


def _two_norms(b: Bound) -> Reference:
    """Two rows, each with its own norm, next to each other."""
    eps, questions = epsilon(b)
    norm = b.local("norm")
    parts = [f"{norm}({b[x]}, {b[w]})" for x, w in (("x", "weight"), ("second", "second_weight"))]
    return Reference(
        "The RMSNorm of one tensor, then the RMSNorm of the other, in one row.",
        (
            "",
            f"def {norm}(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:",
            f"    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + {eps}) * weight",
            "",
        ),
        {b["out"]: f"torch.cat(({', '.join(parts)}), dim=-1)"},
        questions=questions,
    )


def _rms_slots(*more: Slot) -> tuple[Slot, ...]:
    return (
        reads_or_updates("x", _X), *more,
        reads("weight", _WEIGHT, optional=True), _EPS, _BIAS, _RSTD,
        writes("out", _OUT, optional=True),
    )  # fmt: skip


_ADDED = (
    Slot("residual", _RESIDUAL, reads_or_updates("", "").ways, is_index=False),
    writes("residual_out", "residual_(out(put)?|o)|res_out|out_residual", optional=True),
)
_QUANT_SCALE = reads("quant_scale", SCALES + "|scale_orig_quant_per_tensor")
_QUANTISED = writes("out", _OUT + "|normed_output_quant|q|output_q")

OPERATORS = (
    Operator(
        "RMSNorm",
        "rms_?norm|qk_?rms",
        _rms_slots(),
        _rms_norm,
        unlike="gemma|quant|add|silu|rope|gated|residual|qk_?norm|eh_norm|group",
        body=(_ROOT,),
        contrary=(_ONE_MORE,),
    ),
    Operator(
        "fused add and RMSNorm",
        _FUSED,
        _rms_slots(*_ADDED),
        _rms_norm,
        unlike="gemma|quant|rope",
        body=(_ROOT,),
        contrary=(_ONE_MORE,),
    ),
    Operator(
        "gemma RMSNorm",
        r"gemma\w*norm",
        _rms_slots(),
        partial(_rms_norm, one_more=True),
        unlike="quant|add|residual|group",
        body=(_ROOT, _ONE_MORE),
    ),
    Operator(
        "fused add and gemma RMSNorm",
        r"gemma\w*(add|residual)\w*norm|(add|residual)\w*gemma\w*norm",
        _rms_slots(*_ADDED),
        partial(_rms_norm, one_more=True),
        unlike="quant",
        body=(_ROOT, _ONE_MORE),
    ),
    Operator(
        "RMSNorm and quantisation with a given scale",
        r"rms_?norm\w*quant",
        (reads_or_updates("x", _X), _QUANT_SCALE, reads("weight", _WEIGHT, optional=True),
         _QUANTISED, _EPS, _BIAS),
        _static_quant,
        unlike="add|dynamic|per_token|group|block|residual",
    ),
    Operator(
        "fused add, RMSNorm and quantisation with a given scale",
        rf"({_FUSED})\w*quant",
        (reads_or_updates("x", _X), *_ADDED, _QUANT_SCALE,
         reads("weight", _WEIGHT, optional=True), _QUANTISED, _EPS, _BIAS),
        _static_quant,
        unlike="dynamic|per_token|group|block",
    ),
    Operator(
        "RMSNorm and per-token quantisation",
        r"rms_?norm\w*(dynamic|per_token)\w*quant",
        (reads_or_updates("x", _X), writes("scales", SCALES), reads("weight", _WEIGHT),
         _QUANTISED, _EPS, _BIAS),
        partial(_dynamic_quant, grouped=False),
        unlike="add|group|block|residual|static",
    ),
    Operator(
        "fused add, RMSNorm and group quantisation",
        rf"({_FUSED})\w*(group|block)\w*quant",
        (reads_or_updates("x", _X), *_ADDED, writes("scales", SCALES), reads("weight", _WEIGHT),
         writes("normed_out", "normed(_out(put)?)?", optional=True), _QUANTISED, _EPS, _BIAS),
        partial(_dynamic_quant, grouped=True),
    ),
    Operator(
        "LayerNorm",
        r"layer_?norm",
        (
            reads_or_updates("x", _X),
            reads("weight", _WEIGHT, optional=True),
            reads("bias", "bias|beta|b", optional=True),
            writes("mean", "mean|mu|row_mean", optional=True),
            _RSTD,
            _EPS,
            writes("out", _OUT, optional=True),
        ),
        _layer_norm,
        left_out="clamp|scale_orig_quant_per_(tensor|token)|sum_per_token|normed_output_quant|"
        "has_fp8_min_scaling",
        unlike="rms|backward|bwd|grad",
        body=(_ROOT, r"\bmean\w*|\bmu\b"),
    ),
    Operator(
        "RMSNorm of query and key heads",
        r"qk_?(rms_?)?norm",
        (
            updates("q", "q|query"),
            updates("k", "k|key"),
            reads("q_weight", "q_(norm_)?weight|weight_q"),
            reads("k_weight", "k_(norm_)?weight|weight_k"),
            _EPS,
        ),
        _qk_norm,
        unlike="rope",
        body=(_ROOT,),
    ),
    Operator(
        "two RMSNorms in one row",
        "eh_norm",
        (
            reads("x", "embeds?"),
            reads("second", "previous_hidden(_states)?|hidden"),
            reads("weight", "e_?norm_weight"),
            reads("second_weight", "h_?norm_weight"),
            _EPS,
            writes("out", _OUT),
        ),
        _two_norms,
    ),
)  # fmt: skip
