"""Rows of a table by index, whole or of one part of the vocabulary."""

from __future__ import annotations

from astra_tui.drafting.operators.matching import Bound, Operator, Reference, reads, writes

_IDS = reads("ids", "(input_)?(ids|tokens|indices|idx)|inp|x|token_ids", is_index=True)
_TABLE = reads("table", "(embed(ding)?s?_?)?(weights?|table|emb|embeddings?)|wte|w|src")
_OUT = writes("out", "out|outputs?|o|y|encoded|hidden(_states)?|emb_out|result")


def _lookup(b: Bound) -> Reference:
    return Reference(
        "Row ids[i] of the table for each i.",
        (),
        {b["out"]: f"{b['table']}[{b['ids']}].reshape({b.shape('out')})"},
        questions=(f"{b['ids']}: drawn below the rows of {b['table']} only; confirm",),
    )


def _with_positions(b: Bound) -> Reference:
    return Reference(
        "Row ids[i] of the table plus the row of positions for each i.",
        (),
        {b["out"]: f"({b['table']}[{b['ids']}] + {b['positions']}).reshape({b.shape('out')})"},
        questions=(f"{b['positions']}: one row for each of {b['ids']}, in their order; confirm",),
    )


_EDGES = ("org_vocab_start_index", "org_vocab_end_index", "added_vocab_start_index",
          "added_vocab_end_index", "added_row_offset")  # fmt: skip


def _vocab_part(b: Bound) -> Reference | None:
    first, end, added, added_end, offset = (b.facts.dim(name) for name in _EDGES)
    if not (first and end and added and added_end and offset):
        return None
    ids, own, extra, rows = b["ids"], b.local("own"), b.local("extra"), b.local("rows")
    return Reference(
        "Rows of this part of the vocabulary, zero for ids of other parts.",
        (
            f"{own} = ({ids} >= {first}) & ({ids} < {end})",
            f"{extra} = ({ids} >= {added}) & ({ids} < {added_end})",
            f"{rows} = torch.where({own}, {ids} - {first}, 0)",
            f"{rows} = torch.where({extra}, {ids} - {added} + {offset}, {rows})",
        ),
        {
            b["out"]: f"torch.where(({own} | {extra}).unsqueeze(-1), {b['table']}[{rows}], 0.0)"
                      f".reshape({b.shape('out')})"
        },
    )  # fmt: skip


OPERATORS = (
    Operator(
        "embedding lookup",
        "embed(ding)?|gather_rows|index_select",
        (_IDS, _TABLE, _OUT),
        _lookup,
        unlike="vocab_parallel|rotary|rope|pos|backward|bwd|grad",
    ),
    Operator(
        "embedding lookup plus positions",
        "embed(ding)?|encoder",
        (
            _IDS,
            reads("positions", "pos(ition)?s?(_emb(eddings?)?)?|wpe"),
            _TABLE,
            _OUT,
        ),
        _with_positions,
        unlike="vocab_parallel|rotary|rope|backward|bwd|grad",
    ),
    Operator(
        "embedding lookup in one part of a vocabulary",
        "vocab_parallel_embedding",
        (_IDS, _TABLE, _OUT),
        _vocab_part,
    ),
)
