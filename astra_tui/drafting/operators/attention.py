"""Partial results of attention, merged by their log-sum-exps."""

from __future__ import annotations

from functools import partial

from astra_tui.drafting.operators.matching import Bound, Operator, Reference, reads, updates, writes

_NATURAL = r"\b__?expf?\b|\bexpf?\b"
_LOG2 = r"\bexp2f?\b|ptx_exp2|\bex2"
_PLAIN_LOG = r"\b__logf\b|\blogf?\b|\blog1pf?\b"
_BASE2_LOG = r"\b(__)?log2f?\b|ptx_log2|\blg2"
_LSE = '{ kind = "normal", high = 4.0 }'


def _merged(b: Bound, base2: bool, in_place: bool) -> Reference | None:
    names = ("v_a", "s_a", "v_b", "s_b")
    v_a, s_a, v_b, s_b = (b[name] for name in names)
    total, top = b.local("total"), b.local("top")
    exp, log = ("exp2", "log2") if base2 else ("exp", "log")
    lines = [
        f"{top} = torch.maximum({s_a}, {s_b})",
        f"{top} = torch.where({top} == -math.inf, 0.0, {top})",
        f"{b.local('a')}, {b.local('b')} = torch.{exp}({s_a} - {top}), torch.{exp}({s_b} - {top})",
        f"{total} = {b.local('a')} + {b.local('b')}",
    ]
    share = f"torch.where({total} > 0.0, {{}} / {total}, 0.0)"
    place = {}
    parts = []
    for name, v in (("a", v_a), ("b", v_b)):
        weight = b.local(f"weight_{name}")
        aligned = _aligned(b, share.format(b.local(name)))
        if aligned is None:
            return None
        lines.append(f"{weight} = {aligned}")
        parts.append(f"{weight} * {v}")
    v_out, s_out = ("v_a", "s_a") if in_place else ("v_out", "s_out")
    place[b[v_out]] = " + ".join(parts)
    if s_out in b:
        place[b[s_out]] = f"({top} + torch.{log}({total}))"
        place[b[s_out]] = _transposed(b, place[b[s_out]], "s_a", s_out)
    base = "2" if base2 else "e"
    return Reference(
        f"Two partial results, weighted by {base}^s over the sum of both; s is log base {base}.",
        tuple(lines),
        place,
        values={s_a: _LSE, s_b: _LSE},
        questions=(f"base {base} of {s_a} and {s_b}: confirm; and what holds where one is -inf",),
    )


def _aligned(b: Bound, text: str) -> str | None:
    """A weight of the shape of the log-sum-exps, against the values."""
    v, s = b.sizes("v_a"), b.sizes("s_a")
    if s == v[: len(s)]:
        return text + ".unsqueeze(-1)" * (len(v) - len(s))
    if len(v) == 3 and s == (v[1], v[0]):
        return f"{text}.t().unsqueeze(-1)"
    return None


def _transposed(b: Bound, text: str, source: str, target: str) -> str:
    have, want = b.sizes(source), b.sizes(target)
    if have == want:
        return text.removeprefix("(").removesuffix(")")
    return f"{text}.t()" if have == want[::-1] else f"{text}.reshape({b.shape(target)})"


def _merged_sets(b: Bound, base2: bool) -> Reference | None:
    """V [tokens, sets, heads, dim] with S [tokens, sets, heads]."""
    if len(b.sizes("v")) != 4 or b.sizes("s") != b.sizes("v")[:3]:
        return None
    s, weight = b["s"], b.local("weight")
    factor = " * math.log(2.0)" if base2 else ""
    outputs = {b["v_out"]: f"({weight}.unsqueeze(-1) * {b['v']}).sum(dim=1)"}
    if "s_out" in b:
        back = " / math.log(2.0)" if base2 else ""
        outputs[b["s_out"]] = f"torch.logsumexp({s}{factor}, dim=1){back}"
    return Reference(
        "Partial results of each token, weighted by the softmax of their log-sum-exps.",
        (f"{weight} = torch.softmax({s}{factor}, dim=1)",),
        outputs,
        values={s: _LSE},
    )


def _summed(b: Bound) -> Reference | None:
    if len(b.sizes("v")) != 4:
        return None
    return Reference("The sum over the second dimension.", (), {b["v_out"]: f"{b['v']}.sum(dim=1)"})


_V_OUT = "v_(merged|out)|out(put)?|merged(_v)?|v_o|o"
_S_OUT = "s_(merged|out)|out(put)?_lse|lse_(out|merged)|merged_s|s_o|lse"
_IN = (
    reads("v_a", "v_?(a|1)|prefix_output|prefix_v|o_?(a|1)|out_a"),
    reads("s_a", "s_?(a|1)|prefix_(lse|s)|lse_?(a|1)"),
    reads("v_b", "v_?(b|2)|suffix_output|suffix_v|o_?(b|2)|out_b"),
    reads("s_b", "s_?(b|2)|suffix_(lse|s)|lse_?(b|2)"),
)
_PLACE = (
    updates("v_a", "v|out|output"),
    updates("s_a", "s|lse"),
    reads("v_b", "v_other|other_v|v_b"),
    reads("s_b", "s_other|other_s|s_b"),
)
_BASES = ((False, "natural log", (_NATURAL, _PLAIN_LOG)), (True, "log2", (_LOG2, _BASE2_LOG)))

OPERATORS = (
    *(
        Operator(
            f"merge of two attention states, {base}",
            r"merge\w*(states?|attn|attention)",
            (
                *_IN,
                writes("v_out", _V_OUT),
                writes("s_out", _S_OUT, optional=True),
            ),
            partial(_merged, base2=base2, in_place=False),
            body=body,
            left_out="output_scale",
        )
        for base2, base, body in _BASES
    ),
    *(
        Operator(
            f"merge of two attention states in place, {base}",
            r"merge\w*(states?|attn|attention)",
            _PLACE,
            partial(_merged, base2=base2, in_place=True),
            body=body,
            left_out="mask",
        )
        for base2, base, body in _BASES
    ),
    *(
        Operator(
            f"merge of many attention states, {base}",
            r"merge_states",
            (
                reads("v", "v|values?"),
                reads("s", "s|lse"),
                writes("v_out", _V_OUT),
                writes("s_out", _S_OUT, optional=True),
            ),
            partial(_merged_sets, base2=base2),
            unlike="variable|persistent",
            body=body,
        )
        for base2, base, body in _BASES
    ),
    Operator(
        "sum of attention outputs",
        "attention_sum|attn_sum",
        (reads("v", "v|values?"), writes("v_out", "v_sum|out|output")),
        _summed,
        unlike="variable|persistent",
    ),
)
