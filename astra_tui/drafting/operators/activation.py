"""Activations: elementwise, after a bias, and gated (one half of a row gates the other)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

from astra_tui.drafting.operators import snake_case
from astra_tui.drafting.operators.matching import (
    Bound,
    Operator,
    Reference,
    Slot,
    Unfit,
    reads,
    reads_or_updates,
    scalar,
    writes,
)

_X = "x|in|inp|inputs?|src|data|a|gate_up|gate_up_proj|xy|hidden_states?"
_OUT = "out|outputs?|o|y|dst|res(ult)?|act_out"

_FILTERS = "expert_ids|expert_step|sorted_token_ids|num_tokens_post_padded|num_valid_tokens"
_MAX_OF_ZERO = r"max[fl]?\s*\([^;]{0,200}?\b0(\.0?)?f?\b"
_EXP = r"__expf|expf?\b|hexp|h2exp"


@dataclass(frozen=True)
class _Function:
    """An activation: its name, patterns for names and for bodies, and its text over `{x}`."""

    name: str
    like: str
    body: tuple[str, ...]
    text: str
    formula: str
    contrary: tuple[str, ...] = ()


_TANH_GELU = (
    "0.5 * {x} * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * ({x} + 0.044715 * {x} ** 3)))"
)
_FUNCTIONS = (
    _Function("silu", "silu|swish|swiglu(?!oai|step)", (_EXP,), "{x} / (1.0 + torch.exp(-{x}))",
              "x / (1 + exp(-x))", ("1.702", "tanhf?", "erff?")),
    _Function("gelu_tanh", "gelu_(tanh|new|fast)|(tanh|new|fast)_gelu|gelu_and_mul_tanh",
              (r"tanhf?\b|tanh\.approx", r"0?\.0447"), _TANH_GELU,
              "0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))"),
    _Function("gelu_quick", "gelu_quick|quick_gelu", (_EXP, r"1\.702"),
              "{x} / (1.0 + torch.exp(-1.702 * {x}))", "x / (1 + exp(-1.702 x))"),
    _Function("gelu", "gelu(?!_?(tanh|new|fast|quick))", (r"\berff?\b|normcdff?",),
              "0.5 * {x} * (1.0 + torch.erf({x} / math.sqrt(2.0)))",
              "0.5 x (1 + erf(x / sqrt(2)))", ("tanhf?", r"1\.702")),
    _Function("sigmoid", "sigmoid", (_EXP,), "1.0 / (1.0 + torch.exp(-{x}))",
              "1 / (1 + exp(-x))", (r"\bx\w*\s*/\s*\(1", "1\\.702", "tanhf?", "erff?")),
    _Function("relu2", "relu2|relu_?squared?|squared?_relu",
              (_MAX_OF_ZERO, r"\b(\w+)\s*\*\s*\1\b"),
              "torch.relu({x}).square()", "max(x, 0)^2", (_EXP,)),
    _Function("relu", "(?<!fat)(?<!leaky_)relu(?!2|_?sq)", (rf"{_MAX_OF_ZERO}|> 0(\.0?)?f?\s*\?",),
              "torch.relu({x})", "max(x, 0)", (_EXP, "tanhf?", r"sqrtf?")),
)  # fmt: skip


def _halves(b: Bound, up_first: bool = False) -> tuple[list[str], str, str, tuple[str, ...]]:
    """Statements that part the input, the names of gate and up, and the shape of their rows."""
    gate, up = b.local("gate"), b.local("up")
    first, second = (up, gate) if up_first else (gate, up)
    sizes, out = b.sizes("x"), b.sizes("out")
    b.require_same_size("x", ("2", *out))
    last = out[-1]
    doubled = (f"2 * {last}", f"{last} * 2", f"2 * ({last})")
    if len(sizes) == len(out) and sizes[:-1] == out[:-1] and sizes[-1] in doubled:
        return [f"{first}, {second} = {b['x']}.chunk(2, dim=-1)"], gate, up, out
    parted = f"{first}, {second} = {b['x']}.reshape(-1, 2, {last}).unbind(1)"
    return [parted], gate, up, (f"{' * '.join(out[:-1])}", last)


def _require_named(b: Bound, function: _Function) -> None:
    """Raises Unfit where a template argument names another activation: `Kind::kSiLU`."""
    ends = [value.rpartition("::")[2] for value in b.facts.template.values()]
    names = [name for end in ends for name in (snake_case(end), end.lower())]
    named = [f for f in _FUNCTIONS if any(re.search(f.like, name) for name in names)]
    if named and function not in named:
        raise Unfit


def _gated(b: Bound, function: _Function, up_first: bool = False) -> Reference | None:
    _require_named(b, function)
    lines, gate, up, sizes = _halves(b, up_first)
    text = function.text.format(x=gate)
    if "alpha" in b:
        text = f"{gate} / (1.0 + torch.exp(-{b['alpha']} * {gate}))"
    factor = f"({up} + {b['beta']})" if "beta" in b else up
    order = "the second half" if up_first else "the first half"
    questions: tuple[str, ...] = ()
    if "clamp" in b.facts.kernel.lower() and "limit" not in b:
        return None
    if "limit" in b and b.facts.switch("clamp") not in ("", "true"):
        questions = (f"{b['limit']}: not applied, since a template argument is not true; confirm",)
    elif "limit" in b:
        lines.append(f"{gate} = {gate}.clamp(max={b['limit']})")
        lines.append(f"{up} = {up}.clamp(-{b['limit']}, {b['limit']})")
        questions = (f"{b['limit']}: taken to bound gate above and up on both sides; confirm",)
    return Reference(
        f"{function.name}(gate) * up, gate being {order} of each row: {function.formula}.",
        tuple(lines),
        {b["out"]: b.shaped(f"{text} * {factor}", "out", sizes)},
        choices={b[r]: v for r, v in (("alpha", (1.0, 1.702)), ("beta", (0.0, 1.0))) if r in b},
        questions=questions,
    )


def _plain(b: Bound, function: _Function, bias: bool = False) -> Reference:
    _require_named(b, function)
    x = b["x"]
    lines: tuple[str, ...] = ()
    if bias:
        total = b.local("total")
        lines, x = (f"{total} = {b['x']} + {b['bias']}",), total
    place = b.target("out", "x")
    text = function.text.format(x=x)
    return Reference(
        f"{function.formula}" + (", x being input + bias." if bias else "."),
        lines,
        {b[place]: b.shaped(text, place, b.sizes("x"))},
    )


def _swigluoai(b: Bound) -> Reference:
    gate, up = b.local("gate"), b.local("up")
    b.require_same_size("x", ("2", *b.sizes("out")))
    pairs = f"{b['x']}.reshape(-1, {b.sizes('out')[-1]}, 2)"
    limit, alpha = b["limit"], b["alpha"]
    return Reference(
        "(up + 1) * gate * sigmoid(alpha * gate), gate and up in turns and bounded by limit.",
        (
            f"{gate}, {up} = {pairs}.unbind(-1)",
            f"{gate} = {gate}.clamp(max={limit})",
            f"{up} = {up}.clamp(-{limit}, {limit})",
        ),
        {b["out"]: f"(({up} + 1.0) * {gate} / (1.0 + torch.exp(-{alpha} * {gate})))"
                   f".reshape({b.shape('out')})"},
        choices={alpha: (1.702,), limit: (7.0,)},
    )  # fmt: skip


def _swiglustep(b: Bound) -> Reference:
    lines, gate, up, sizes = _halves(b)
    limit = b["limit"]
    text = (
        f"({gate} / (1.0 + torch.exp(-{gate}))).clamp(max={limit}) * {up}.clamp(-{limit}, {limit})"
    )
    return Reference(
        "min(silu(gate), limit) * clamp(up, -limit, limit), gate being the first half of each row.",
        tuple(lines), {b["out"]: b.shaped(text, "out", sizes)}, choices={limit: (7.0,)},
    )  # fmt: skip


def _fatrelu(b: Bound) -> Reference:
    lines, gate, up, sizes = _halves(b)
    text = f"torch.where({gate} > {b['threshold']}, {gate}, 0.0) * {up}"
    return Reference(
        "gate * up where gate is above the threshold, 0 elsewhere; gate is the first half.",
        tuple(lines), {b["out"]: b.shaped(text, "out", sizes)},
        choices={b["threshold"]: (0.0, 0.5)},
    )  # fmt: skip


def _situ(b: Bound) -> Reference:
    lines, gate, up, sizes = _halves(b)
    beta, linear = b["beta"], b["linear_beta"]
    lines.append(f"{up} = {linear} * torch.tanh({up} / {linear}) if {linear} > 0 else {up}")
    text = f"{beta} * torch.tanh({gate} / {beta}) / (1.0 + torch.exp(-{gate})) * {up}"
    return Reference(
        "beta * tanh(gate / beta) * sigmoid(gate) * up, up bounded by tanh where linear_beta > 0.",
        tuple(lines), {b["out"]: b.shaped(text, "out", sizes)},
        choices={beta: (4.0,), linear: (25.0, 0.0)},
    )  # fmt: skip


_GATED_SLOTS: tuple[Slot, ...] = (reads("x", _X), writes("out", _OUT))
_LIMIT = scalar("limit", "limit|clamp_limit|swiglu_limit", optional=False)


def _evidence_of(function: _Function) -> tuple[str, ...]:
    """Patterns of which all speak for an activation: its name, or words of its formula."""
    return tuple(f"{function.like}|{pattern}" for pattern in function.body)


def _gated_operator(function: _Function) -> Operator:
    own = f"({function.like})\\w*mul|swiglu(?!oai|step)" if function.name == "silu" else (
        f"({function.like})\\w*mul"
    )  # fmt: skip
    bounds = [scalar("limit", _LIMIT.names), scalar("beta", "beta")]
    bounds += [scalar("alpha", "alpha")] if function.name == "silu" else []
    return Operator(
        f"{function.name} and mul",
        rf"{own}|(?<!masked_)act(ivation)?_(and_)?mul",
        (*_GATED_SLOTS, *bounds),
        partial(_gated, function=function),
        unlike="mul_and|quant|swigluoai|swiglustep|fatrelu|situ|masked",
        body=_evidence_of(function),
        contrary=function.contrary,
        left_out=_FILTERS if function.name == "silu" else f"{_FILTERS}|alpha",
    )


OPERATORS = (
    *map(_gated_operator, _FUNCTIONS),
    Operator(
        "mul and silu",
        "mul_and_(silu|swish)",
        _GATED_SLOTS,
        partial(_gated, function=_FUNCTIONS[0], up_first=True),
    ),
    Operator(
        "swigluoai and mul",
        "swiglu_?oai",
        (*_GATED_SLOTS, scalar("alpha", "alpha", optional=False), _LIMIT),
        _swigluoai,
        unlike="masked",
    ),
    Operator(
        "swiglustep and mul", "swiglu_?step", (*_GATED_SLOTS, _LIMIT), _swiglustep, unlike="masked"
    ),
    Operator(
        "fatrelu and mul",
        "fat_?relu|act_and_mul_kernel_with_param",
        (*_GATED_SLOTS, scalar("threshold", "threshold|param", optional=False)),
        _fatrelu,
    ),
    Operator(
        "situ and mul",
        "situ_and_mul",
        (
            *_GATED_SLOTS,
            scalar("beta", "beta", optional=False),
            scalar("linear_beta", "linear_beta", optional=False),
        ),
        _situ,
        unlike="quant|masked",
    ),
    *(
        Operator(
            f.name,
            rf"{f.like}|^(activation|act)(_kernel)?$",
            (reads_or_updates("x", _X), writes("out", _OUT, optional=True)),
            partial(_plain, function=f),
            unlike="mul|bias|glu|quant|norm|backward|bwd|grad|masked|gat(e|ing)|topk|softmax|conv",
            body=_evidence_of(f),
            contrary=f.contrary,
            left_out="finished",
        )
        for f in _FUNCTIONS
    ),
    *(
        Operator(
            f"bias and {f.name}",
            rf"bias\w*({f.like})|({f.like})\w*bias",
            (
                reads_or_updates("x", _X),
                reads("bias", "bias|b"),
                writes("out", _OUT, optional=True),
            ),
            partial(_plain, function=f, bias=True),
            unlike="mul|quant|norm|backward|bwd|grad",
            body=(*f.body, "bias"),
            contrary=f.contrary,
        )
        for f in _FUNCTIONS
    ),
)
