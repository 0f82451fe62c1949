"""Softmax and log-softmax over the last dimension."""

from __future__ import annotations

from functools import partial

from astra_tui.drafting.operators.matching import (
    Bound,
    Operator,
    Reference,
    reads,
    reads_or_updates,
    scalar,
    writes,
)

_X = "x|in|inp|inputs?|src|data|logits?|scores?|inputs_before_softmax|att|preatt|a"
_OUT = "out|outputs?|o|y|dst|probs?|res(ult)?|probabilities|att|p"


def _softmax(b: Bound, log: bool) -> Reference:
    place = b.target("out", "x")
    x = b["x"]
    if "temperature" in b:
        x = f"{x} / {b['temperature']}"
    if "temperatures" in b:
        x = f"{b['x']} / {b['temperatures']}.unsqueeze(-1)"
    name = "log_softmax" if log else "softmax"
    text = f"torch.{name}({x}, dim=-1)"
    return Reference(
        ("x - log(sum(exp(x)))" if log else "exp(x) / sum(exp(x))") + ", over the last dimension.",
        (),
        {b[place]: b.shaped(text, place, b.sizes("x"))},
        flops=f"5 * {' * '.join(f'({s})' if ' ' in s else s for s in b.sizes('x'))}",
        values={b["temperatures"]: '{ kind = "uniform", low = 0.5, high = 2.0 }'}
        if "temperatures" in b
        else {},
        choices={b["temperature"]: (1.0, 0.7)} if "temperature" in b else {},
    )


OPERATORS = tuple(
    Operator(
        "log softmax" if log else "softmax",
        r"log_?softmax" if log else r"(?<!log)(?<!log_)softmax",
        (
            reads_or_updates("x", _X),
            reads("temperatures", "temperatures?(_arr)?", optional=True),
            scalar("temperature", "temperature(_val)?|temp|t"),
            writes("out", _OUT, optional=True),
        ),
        partial(_softmax, log=log),
        unlike="top|cross|backward|bwd|grad|gat(e|ing)|mask|attn|partial|map|reduce"
        + ("" if log else "|log_?softmax"),
        left_out="finished",
        body=(r"__expf|expf?\b|exp2f?\b", r"f?max[fl]?\b|INFINITY|FLT_MAX", *log * (r"logf?\b",)),
    )
    for log in (False, True)
)
