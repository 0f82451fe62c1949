"""Packing of truth values into bytes."""

from __future__ import annotations

from functools import partial

from astra_tui.drafting.operators.matching import Bound, Operator, Reference, reads, writes


def _pack(b: Bound, big: bool) -> Reference:
    bits, weights = b.local("bits"), b.local("weights")
    shifts = "7 - torch.arange(8)" if big else "torch.arange(8)"
    return Reference(
        f"Eight values a byte, the first in the {'highest' if big else 'lowest'} bit.",
        (
            f"{weights} = 1 << ({shifts})",
            f"{bits} = torch.nn.functional.pad(({b['x']} != 0).reshape(-1), "
            f"(0, -{b['x']}.numel() % 8))",
        ),
        {b["out"]: f"({bits}.reshape(-1, 8) * {weights}).sum(dim=-1).reshape({b.shape('out')})"},
        values={b["x"]: '{ kind = "integers", low = 0, high = 1 }'},
    )


OPERATORS = tuple(
    Operator(
        f"pack bits, first in the {place} bit",
        "pack_?bits",
        (
            reads("x", "x|in|inp|inputs?|bits|mask|src", is_index=True),
            writes("out", "out|outputs?|packed|y|dst|bytes", is_index=True),
        ),
        partial(_pack, big=big),
        unlike="segment|unpack",
        body=(body,),
    )
    for place, big, body in (
        ("lowest", False, r"<<\s*(\w+|\(\w+\s*[&%]\s*[78]\))\s*\)?;"),
        ("highest", True, r"<<\s*\(\s*7\s*-|0x80|128\s*>>"),
    )
)
