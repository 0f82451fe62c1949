"""One step of Adam or AdamW."""

from __future__ import annotations

from functools import partial

from astra_tui.drafting.operators.matching import (
    Bound,
    Operator,
    Reference,
    Slot,
    reads,
    scalar,
    updates,
)


def _adam(b: Bound, decoupled: bool) -> Reference | None:
    if not {"lr", "beta1", "beta2", "eps"} <= set(b.scalars):
        return None
    p, g, m, v = (b[role] for role in ("params", "grads", "m", "v"))
    first, second, grads = b.local("first"), b.local("second"), b.local("gradients")
    decay = b["decay"] if "decay" in b.scalars else ""
    lines = []
    if decay and not decoupled:
        lines, g = [f"{grads} = {g} + {decay} * {p}"], grads
    lines += [
        f"{first} = {b['beta1']} * {m} + (1.0 - {b['beta1']}) * {g}",
        f"{second} = {b['beta2']} * {v} + (1.0 - {b['beta2']}) * {g} ** 2",
    ]
    step = b["step"] if "step" in b else b.facts.dim("step|t|steps")
    questions = []
    corrected = []
    for value, beta, given in ((first, "beta1", "correction1"), (second, "beta2", "correction2")):
        if given in b:
            corrected.append(f"{value} / {b[given]}")
        elif step:
            corrected.append(f"{value} / (1.0 - {b[beta]} ** {step})")
        else:
            corrected.append(value)
    if "correction1" not in b and not step:
        questions.append("adam: no bias correction is passed, so none is applied; confirm")
    change = b.local("change")
    lines.append(f"{change} = {corrected[0]} / (({corrected[1]}).sqrt() + {b['eps']})")
    if decay and decoupled:
        lines.append(f"{change} = {change} + {decay} * {p}")
    usual = {"lr": (1e-3,), "beta1": (0.9,), "beta2": (0.999,), "eps": (1e-8,), "decay": (0.0, 0.1),
             "correction1": (0.1,), "correction2": (0.001,), "step": (1, 10)}  # fmt: skip
    return Reference(
        f"One step of {'AdamW: decay apart from the gradient' if decoupled else 'Adam'}.",
        tuple(lines),
        {p: f"{p} - {b['lr']} * {change}", m: first, v: second},
        values={v: '{ kind = "uniform", low = 0.0, high = 1.0 }'},
        limits=dict.fromkeys((p, b["grads"], m), 100.0),
        choices={b[role]: values for role, values in usual.items() if role in b.scalars},
        questions=tuple(questions),
    )


_SLOTS: tuple[Slot, ...] = (
    updates("params", "p|params?|w|weights?|master(_params)?"),
    reads("grads", "g|grads?|gradients?|dw"),
    updates("m", "m|exp_avg|first_moment|mt|m1"),
    updates("v", "v|exp_avg_sq|second_moment|vt|m2"),
    scalar("lr", "lr|learning_rate|step_size|alpha"),
    scalar("beta1", "beta_?1|b1"),
    scalar("beta2", "beta_?2|b2"),
    scalar("eps", "eps(ilon)?"),
    scalar("decay", "weight_decay|wd|decay|lambda_?"),
    scalar("correction1", "(beta_?1_(bias_)?correction|bias_correction_?1)"),
    scalar("correction2", "(beta_?2_(bias_)?correction|bias_correction_?2)"),
    scalar("step", "step|t|iteration"),
)

OPERATORS = tuple(
    Operator(name, like, _SLOTS, partial(_adam, decoupled=decoupled), unlike="8bit|multi")
    for name, like, decoupled in (("AdamW", "adam_?w", True), ("Adam", r"adam(?!_?w)", False))
)
