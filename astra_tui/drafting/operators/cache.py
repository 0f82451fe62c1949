"""Writes into a paged key and value cache."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from astra_tui.drafting.operators.matching import (
    Bound,
    Operator,
    Reference,
    Slot,
    indices,
    reads,
    writes,
)
from astra_tui.drafting.tensors import product
from astra_tui.model.task import ArgumentRole

_KEY = "k|keys?|append_key"
_VALUE = "v|values?|append_value"
_KEY_CACHE = "(paged_)?k(ey)?_?cache|k_buffer|k_data"
_VALUE_CACHE = "(paged_)?v(alue)?_?cache|v_buffer|v_data"
_SLOTS = reads(
    "slots", "slot_mapping|slots?|loc|locs|locations?|out_(cache_)?loc|indices|idx", is_index=True
)
_WRITTEN = frozenset({ArgumentRole.OUT, ArgumentRole.INOUT})
_SCALES = "(k|v|kv)_scales?|scale|interleaved_v|reserved_skip_index"


def _stores(role: str, names: str) -> Slot:
    """A cache: parts that no slot names keep what they held."""
    return Slot(role, names, _WRITTEN, is_index=None)


def _known(b: Bound) -> list[str]:
    valid = b.local("valid")
    return [f"{valid} = {b['slots']} >= 0", f"{b.local('at')} = {b['slots']}[{valid}]"]


def _written(
    b: Bound, summary: str, lines: list[str], outputs: dict[str, str], slots: tuple[str, ...]
) -> Reference:
    """`slots` are the cache's sizes whose product is the number of its slots."""
    return Reference(
        summary,
        tuple(lines),
        outputs,
        values={b["slots"]: indices(product(slots), distinct="tensor")},
        roles=dict.fromkeys(outputs, ArgumentRole.INOUT),
        accepts=(f"{product(b.sizes('slots'))} <= {product(slots)}",),
        questions=(
            f"{b['slots']}: drawn so that all differ; confirm, and that a token whose slot is "
            "below 0 is left out",
        ),
    )


def _flat(b: Bound, pairs: tuple[tuple[str, str], ...]) -> Reference | None:
    """Caches whose slots are their outermost dimensions."""
    lines, outputs = _known(b), {}
    valid, at = b.local("valid"), b.local("at")
    for new, cache in pairs:
        inner = len(b.sizes(new)) - 1
        if inner < 1 or b.sizes(cache)[-inner:] != b.sizes(new)[1:]:
            return None
        stored = b.local(f"stored_{new}")
        flat = f"{b[cache]}.reshape({', '.join(('-1', *b.sizes(new)[1:]))})"
        lines.append(f"{stored} = {flat}.clone()")
        lines.append(f"{stored}[{at}] = {b[new]}[{valid}]")
        outputs[b[cache]] = f"{stored}.reshape({b.shape(cache)})"
    slots = b.sizes(pairs[0][1])[: 1 - len(b.sizes(pairs[0][0]))]
    return _written(
        b, f"Token i goes to slot {b['slots']}[i]; the rest is kept.", lines, outputs, slots
    )


def _packed(b: Bound) -> Reference | None:
    """Keys as [blocks, heads, size / x, block, x], values as [blocks, heads, size, block]."""
    if len(b.sizes("key_cache")) != 5 or len(b.sizes("value_cache")) != 4:
        return None
    key, value = b["key_cache"], b["value_cache"]
    valid, at = b.local("valid"), b.local("at")
    keys, values, block = b.local("keys"), b.local("values"), b.local("block")
    rows = f"{b['key']}.reshape({valid}.numel(), *{key}.shape[1:3], {key}.shape[4])"
    lines = [
        *_known(b),
        f"{block} = {key}.shape[3]",
        f"{keys}, {values} = {key}.clone(), {value}.clone()",
        f"{keys}[{at} // {block}, :, :, {at} % {block}] = {rows}[{valid}]",
        f"{values}[{at} // {block}, :, :, {at} % {block}] = "
        f"{b['value']}.reshape({valid}.numel(), *{value}.shape[1:3])[{valid}]",
    ]
    sizes = b.sizes("key_cache")
    summary = f"Token i goes to slot {b['slots']}[i] of the blocks; the rest is kept."
    return _written(b, summary, lines, {key: keys, value: values}, (sizes[0], sizes[3]))


def _concat(b: Bound) -> Reference | None:
    if len(b.sizes("latent")) != 2 or len(b.sizes("rope")) != 2 or len(b.sizes("cache")) < 2:
        return None
    valid, at, stored, rows = map(b.local, ("valid", "at", "stored", "rows"))
    lines = [
        *_known(b),
        f"{rows} = torch.cat(({b['latent']}, {b['rope']}), dim=-1)",
        f"{stored} = {b['cache']}.reshape(-1, {rows}.shape[-1]).clone()",
        f"{stored}[{at}] = {rows}[{valid}]",
    ]
    outputs = {b["cache"]: f"{stored}.reshape({b.shape('cache')})"}
    summary = f"Slot {b['slots']}[i] gets the latent part of token i, then its rotary part."
    return _written(b, summary, lines, outputs, b.sizes("cache")[:-1])


def _concat_and_query(b: Bound) -> Reference | None:
    """The same, and the two parts of each query head next to each other."""
    reference = _concat(b)
    if reference is None:
        return None
    query = f"torch.cat(({b['q_nope']}, {b['q_rope']}), dim=-1)"
    outputs = {**reference.outputs, b["q_out"]: query}
    return replace(reference, outputs=outputs, summary=f"{reference.summary[:-1]}; q the same.")


_LATENT = (
    reads("latent", "kv_c|k_nope|ckv|append_ckv|nope"),
    reads("rope", "k_pe|k_rope|kpe|append_kpe|rope"),
    _stores("cache", "kv_?(cache|buffer)|cache|buffer"),
    _SLOTS,
)
_BOTH = (
    reads("key", _KEY),
    reads("value", _VALUE),
    _stores("key_cache", _KEY_CACHE),
    _stores("value_cache", _VALUE_CACHE),
    _SLOTS,
)
_PAIRS = (("key", "key_cache"), ("value", "value_cache"))

OPERATORS = (
    Operator(
        "cache write, packed keys",
        "reshape_and_cache",
        _BOTH,
        _packed,
        left_out=_SCALES,
        unlike="flash|quant|mla",
    ),
    Operator(
        "cache write",
        r"reshape_and_cache|store_kv|set_kv|(append|write|update)\w*(kv|cache)",
        _BOTH,
        partial(_flat, pairs=_PAIRS),
        left_out=_SCALES,
        unlike="quant|mla",
    ),
    Operator(
        "cache write of a latent and a rotary part",
        r"(concat_and_cache|set|store|append)\w*mla(?!_kv_concat)",
        _LATENT,
        _concat,
        left_out=_SCALES,
        unlike="quant|ds_mla|grouped|concat_q",
    ),
    Operator(
        "cache write of a latent and a rotary part, and joined queries",
        r"set_mla_kv_concat_q",
        (
            *_LATENT,
            reads("q_nope", "q_nope"),
            reads("q_rope", "q_rope|q_pe"),
            writes("q_out", "q_out|q"),
        ),
        _concat_and_query,
        unlike="fp8|quant",
    ),
)
