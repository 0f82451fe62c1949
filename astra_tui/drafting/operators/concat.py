"""Concatenation of a part of each head and a part that all heads share."""

from __future__ import annotations

from astra_tui.drafting.operators.matching import Bound, Operator, Reference, reads, writes


def _concat(b: Bound) -> Reference | None:
    out, own, shared = (b.sizes(role) for role in ("out", "own", "shared"))
    if len(out) != 3 or len(own) not in (2, 3) or len(shared) not in (2, 3):
        return None
    parts = []
    for role in ("own", "shared"):
        sizes = b.sizes(role)
        last = sizes[-1]
        if sizes[:-1] == out[:-1]:
            parts.append(b[role])
            continue
        rows = f"{b[role]}.reshape({out[0]}, -1, {last})"
        parts.append(f"{rows}.expand(-1, {out[1]}, -1)")
    return Reference(
        "Each head's own part, then the other one; a part without heads is shared by all.",
        (),
        {b["out"]: f"torch.cat(({', '.join(parts)}), dim=-1)"},
    )


OPERATORS = (
    Operator(
        "concatenation of two parts of each head",
        "concat|cat_",
        (
            reads("own", "k_nope|q_nope|nope|a|x"),
            reads("shared", "k_rope|k_pe|q_rope|rope|pe|b|y"),
            writes("out", "k|q|out|outputs?|o"),
        ),
        _concat,
        unlike="cache|set_|buffer|pad|flat",
    ),
)
