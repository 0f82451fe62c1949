"""Programs that are recorded on a GPU with clusters: what each new instruction gives.

Each runs as a kernel of `tests.emulator.hopper` with clusters of two blocks, and stores numbers.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tests.emulator.hopper import COUNT, RIGHT, kernel

_VALUES = "values: "

_U = "u32* o = (u32*)out + i; const u32* g = (const u32*)in; u32* w = (u32*)s; (void)g; (void)w;"
_SPECIAL = (
    *(f"{r}.{a}" for r in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid") for a in "xyz"),
    *("cluster_ctarank", "cluster_nctarank"),
)  # fmt: skip
_ATOMICS = {
    **{name: f"atom.shared::cluster.{name}.u32 %0, [%1], %2;" for name in ("add", "min", "max", "inc", "dec")},
    **{name: f"atom.shared::cluster.{name}.b32 %0, [%1], %2;" for name in ("and", "or", "xor", "exch")},
    "cas": "atom.shared::cluster.cas.b32 %0, [%1], %2, 77;",
}  # fmt: skip
_REDUCTIONS = (
    "add.u32",
    "min.s32",
    "max.u32",
    "inc.u32",
    "dec.u32",
    "and.b32",
    "or.b32",
    "xor.b32",
)


def _on_one(text: str) -> str:
    """One thread of each block computes; the others store nothing."""
    return f"if (t == 0) {{ init(b, 3); init(b + 1, 1); fence_init(); u64 p = 0; {text} }}"


def _put(place: int, value: str) -> str:
    return f"((u32*)out)[x + {place}] = {value};"


def _token(modifiers: str, operands: str = "") -> str:
    return f'ASM("mbarrier.{modifiers}.shared.b64 %0, [%1]{operands};" : "=l"(p) : "r"(at(b)));'


_COUNT = (
    '{ u32 n; ASM("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(p)); '
    "((u32*)out)[x + k++] = n; }"
)
_STATE = "{ out[x + k++] = test(b, 0) + 2 * test(b, 1) + 4; }"

VALUES: dict[str, str] = {
    **{
        f"%{name}": f'u32 v_; asm volatile("mov.u32 %0, %%{name};" : "=r"(v_)); *o = v_;'
        for name in _SPECIAL
    },
    "%is_explicit_cluster": 'u32 v_; asm volatile("{ .reg .pred p; mov.pred p, %%is_explicit_cluster;'
    ' selp.u32 %0, 1, 0, p; }" : "=r"(v_)); *o = v_;',
    "ld.shared::cluster.v4": "w[t] = g[i]; meet(); u32 a, c, d, e;"
    ' ASM("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(c), "=r"(d), "=r"(e)'
    ' : "r"(peer(w + t / 4 * 4, rank() ^ 1))); *o = a ^ (c << 1) ^ (d << 2) ^ (e << 3); meet();',
    "ld.shared::cluster.u8": "w[t] = g[i]; meet(); u32 a;"
    ' ASM("ld.shared::cluster.u8 %0, [%1];" : "=r"(a) : "r"(peer((char*)w + t, rank() ^ 1))); *o = a; meet();',
    "st.shared::cluster.u16": "w[t] = 0; meet(); "
    'ASM("st.shared::cluster.u16 [%0], %1;" :: "r"(peer((short*)w + t, rank() ^ 1)), "h"((short)g[i]));'
    " meet(); *o = w[t];",
    "getctarank": 'u32 a; ASM("getctarank.shared::cluster.u32 %0, %1;" : "=r"(a) : "r"(peer(w, t % 2)));'
    ' u32 c; ASM("getctarank.u64 %0, %1;" : "=r"(c) : "l"(far(w, t % 2))); *o = a + 4 * c;',
    "getctarank of one's own": 'u32 a; ASM("getctarank.shared::cluster.u32 %0, %1;" : "=r"(a) : "r"(at(w)));'
    ' u32 c; ASM("getctarank.u64 %0, %1;" : "=r"(c) : "l"((void*)w)); *o = a + 4 * c;',
    "isspacep": "u32 r = 0;"
    + "".join(
        f' {{ u32 a; ASM("{{ .reg .pred p; isspacep.{space} p, %1; selp.u32 %0, 1, 0, p; }}"'
        f' : "=r"(a) : "l"({pointer})); r = 2 * r + a; }}'
        for space in ("shared::cta", "shared::cluster", "global")
        for pointer in ("(void*)w", "far(w, rank())", "far(w, rank() ^ 1)", "in")
    )
    + " *o = r;",
    "cvta.to.shared::cluster": "w[t] = g[i]; meet(); u64 a;"
    ' ASM("cvta.to.shared::cluster.u64 %0, %1;" : "=l"(a) : "l"(far(w + t, rank() ^ 1)));'
    " *o = __float_as_uint(get((u32)a)); meet();",
    **{
        f"atom.shared::cluster.{name}": f'w[t] = g[i]; meet(); u32 a; ASM("{text}" : "=r"(a)'
        ' : "r"(peer(w + t, rank() ^ 1)), "r"(g[i ^ 5])); meet(); *o = a ^ (w[t] << 1);'
        for name, text in _ATOMICS.items()
    },
    **{
        f"red.async.{name}": f"w[t] = g[i]; if (t == 0) {{ init(b, 1); fence_init(); expect(b, 256); }} meet();"
        f' ASM("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{name} [%0], %1, [%2];"'
        ' :: "r"(peer(w + t, rank() ^ 1)), "r"(g[i ^ 5]), "r"(peer(b, rank() ^ 1))); wait(b, 0); *o = w[t];'
        for name in _REDUCTIONS
    },
    "st.async.v2.b64": "if (t == 0) { init(b, 1); fence_init(); expect(b, 1024); } meet();"
    ' ASM("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%0], {%1, %2}, [%3];"'
    ' :: "r"(peer((u64*)w + 2 * t, rank() ^ 1)), "l"((u64)g[i] << 9), "l"((u64)g[i ^ 5]),'
    ' "r"(peer(b, rank() ^ 1))); wait(b, 0); *o = w[4 * t] ^ w[4 * t + 1] ^ w[4 * t + 2];',
    "missing arrivals": _on_one(
        f"u32 k = 0; {_token('arrive')} {_COUNT} {_token('arrive', ', 2')} {_COUNT} {_token('arrive')} {_COUNT}"
        f" {_token('arrive.noComplete', ', 1')} {_COUNT} {_token('arrive')} {_COUNT} {_token('arrive_drop')}"
        f" {_COUNT} {_token('arrive')} {_COUNT} {_token('arrive')} {_COUNT}"
    ),
    "phases": _on_one(
        f"u32 k = 0; {_STATE} {_token('arrive', ', 3')} {_STATE} {_token('arrive', ', 2')} {_STATE}"
        f" {_token('arrive')} {_STATE} {_token('arrive.expect_tx', ', 16')} {_token('arrive', ', 2')} {_STATE}"
        ' ASM("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 8;" :: "r"(at(b)));'
        f" {_STATE}"
        ' ASM("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 8;" :: "r"(at(b)));'
        ' ASM("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16;" :: "r"(at(b)));'
        f" {_STATE}"
    ),
    "states": _on_one(
        f"u64 q; {_token('arrive', ', 3')} q = p; {_put(0, 'test_state(b, q)')} {_token('arrive')}"
        f" {_put(1, 'test_state(b, q)')} {_put(2, 'test_state(b, p)')} {_token('arrive', ', 2')}"
        f" {_put(3, 'test_state(b, p)')}"
    ),
    "arrivals of cp.async": _on_one(
        'copy16(s, in); ASM("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(at(b)));'
        f" {_token('arrive', ', 3')} wait(b, 0); {_put(4, 'w[0]')}"
    ),
    **{
        f"elect of {mask:#x}": f'u32 a = 99, l = 99; if ({mask}u >> (t % 32) & 1) ASM("{{ .reg .pred p;'
        f' elect.sync %1|p, {mask}; selp.u32 %0, 1, 0, p; }}" : "=r"(a), "=r"(l) :); *o = a + 2 * l;'
        for mask in (0xFFFFFFFF, 0xF0, 0x80000001, 0x100)
    },
    "bulk copies of 16 to 1024 bytes": "if (t == 0) { init(b, 1); fence_init(); } for (u32 k = t; k < 512; k += 64)"
    " w[k] = k; fence(); __syncthreads(); u32 phase = 0; for (u32 n = 16; n <= 512; n *= 2, phase ^= 1) {"
    " if (t == 0) { expect(b, n); load(s + 128, in + 4 * (n / 16 % 3), n, b); } wait(b, phase);"
    " *o = *o * 31 + w[128 + t]; fence(); __syncthreads(); }",
    **{
        f"bulk load of {n} bytes at {at}": (
            f"if (t == 0) {{ init(b, 1); fence_init(); expect(b, {n}); load(s, in + {at // 4}, {n}, b); }}"
            f" __syncthreads(); wait(b, 0); *o = t < {n // 4} ? w[t] : 0;"
        )
        for n, at in ((112, 16), (128, 16), (144, 16), (256, 16), (384, 48), (512, 16), (512, 32))
    },
    **{
        f"bulk store of {n} bytes at {at}": (
            "for (u32 k = t; k < 256; k += 64) w[k] = 3 * k; fence(); __syncthreads();"
            f" if (t == 0 && x == 0) {{ store(out + {at // 4}, s, {n}); commit(); WAIT_ALL(0); }}"
        )
        for n, at in ((128, 16), (256, 16), (512, 48), (512, 32))
    },
}


CLUSTER = (2, 1, 1)


def inputs(name: str) -> Any:
    """What a program reads: 256 words that follow from its name."""
    if not name.startswith(_VALUES):
        return np.arange(COUNT, dtype=np.float32) + 3
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    words = np.random.Generator(np.random.Philox(seed)).integers(0, 1 << 32, COUNT, np.uint32)
    return words.view(np.float32)


def programs() -> dict[str, str]:
    """Sources by name; all are launched alike."""
    bodies = {**{f"{_VALUES}{n}": f"{_U} {body}" for n, body in VALUES.items()}, **RIGHT}
    return {name: kernel(body) for name, body in bodies.items()}
