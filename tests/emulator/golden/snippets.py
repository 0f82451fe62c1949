"""The recorded programs: one small kernel an opcode form, with inputs that follow from its name.

This module needs NumPy only, because it also runs on the machine with the GPU (`record.py`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

LANES = 512
"""Threads of each program, in blocks of 128."""

BLOCK = 128

_CONSTRAINT = {"b16": "h", "b32": "r", "b64": "l", "f32": "f", "f64": "d", "pred": "r"}
_CPP = {
    "b16": "unsigned short", "b32": "unsigned int", "b64": "unsigned long long",
    "f32": "float", "f64": "double", "pred": "unsigned int",
}  # fmt: skip
_SIZE = {"b16": 2, "b32": 4, "b64": 8, "f32": 4, "f64": 8, "pred": 4}
RAW = {2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Program:
    """One kernel: its body, the register kinds of output and inputs, and how its inputs look.

    `ulps` is how far the emulator may be off in the last place, for functions that PTX calls
    approximate; 0 demands equal bits (any NaN equals any NaN). `floats` names the float type of
    the result for that comparison, "" for plain bits.
    """

    name: str
    body: str
    out: str
    inputs: tuple[str, ...]
    draw: tuple[str, ...]
    floats: str = ""
    ulps: int = 0

    @property
    def out_size(self) -> int:
        """Bytes of one result."""
        return _SIZE[self.out]

    def source(self) -> str:
        """The kernel's CUDA text."""
        names = [f"x{n}" for n in range(len(self.inputs))]
        parameters = ", ".join(
            [f"{_CPP[self.out]}* out"]
            + [f"const {_CPP[k]}* in{n}" for n, k in enumerate(self.inputs)]
        )
        loads = "".join(
            f"  {_CPP[k]} {name} = in{n}[i];\n"
            for n, (name, k) in enumerate(zip(names, self.inputs, strict=True))
        )
        return (
            f"__global__ void {self.name}({parameters}) {{\n"
            f"  int i = blockIdx.x * {BLOCK} + threadIdx.x;\n{loads}"
            f"  {_CPP[self.out]} y;\n{self.body}\n  out[i] = y;\n}}\n"
        )

    def arrays(self) -> list[Any]:
        """The inputs as bit patterns."""
        seed = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "little")
        random = np.random.Generator(np.random.Philox(seed))
        return [
            _draw(how, _SIZE[kind], random)
            for kind, how in zip(self.inputs, self.draw, strict=True)
        ]


def _draw(how: str, size: int, random: np.random.Generator) -> Any:
    raw = RAW[size]
    if how == "f32":
        return _floats(random, np.float32, np.uint32)
    if how == "f64":
        return _floats(random, np.float64, np.uint64)
    if how == "f16":
        return _floats(random, np.float16, np.uint16)
    if how == "bf16":
        return (_floats(random, np.float32, np.uint32) >> np.uint32(16)).astype(np.uint16)
    if how in ("f16x2", "bf16x2"):
        low, high = _draw(how[:-2], 2, random), _draw(how[:-2], 2, random)
        return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))
    if how == "moderate":
        return random.normal(0, 4, LANES).astype(np.float32).view(np.uint32)
    if how == "positive":
        return np.exp(random.normal(0, 20, LANES)).astype(np.float32).view(np.uint32)
    if how == "nearhalves":
        return (random.integers(-4000, 4000, LANES) / 2).astype(np.float32).view(np.uint32)
    if how.startswith("small"):
        halves = random.normal(0, 1, (2, LANES)).astype(np.float32)
        if how == "smallf16":
            low, high = halves.astype(np.float16).view(np.uint16).astype(np.uint32)
        else:
            low, high = halves.view(np.uint32) >> np.uint32(16)
        return low | (high << np.uint32(16))
    if how == "divisor":
        return np.maximum(random.integers(1, 1 << (4 * size), LANES), 1).astype(raw)
    if how.startswith("below"):
        return random.integers(0, int(how[5:]), LANES).astype(raw)
    bits = random.integers(0, 1 << 63, LANES).astype(np.uint64) * np.uint64(2) + (
        random.integers(0, 2, LANES).astype(np.uint64)
    )
    shifts = random.integers(0, 8 * size, LANES).astype(np.uint64)
    shrunk = (bits >> np.uint64(64 - 8 * size)) >> shifts
    data = np.where(random.integers(0, 2, LANES) == 0, bits >> np.uint64(64 - 8 * size), shrunk)
    edges = [0, 1, 2, (1 << (8 * size - 1)) - 1, 1 << (8 * size - 1), (1 << (8 * size)) - 1]
    data[:32] = random.choice(np.array(edges, np.uint64), 32)
    return data.astype(raw)


def _floats(random: np.random.Generator, dtype: Any, raw: Any) -> Any:
    info = np.finfo(dtype)
    special = np.array(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, info.max, -info.max, 0.5, 1.5, 2.5, -2.5,
         float(info.smallest_normal), float(info.smallest_subnormal), -float(info.smallest_normal) / 2],
        np.float64,
    )  # fmt: skip
    with np.errstate(all="ignore"):
        small = random.normal(0, 1, LANES)
        wide = small * 2.0 ** random.integers(-20, 20, LANES)
        data = np.where(random.integers(0, 2, LANES) == 0, small, wide)
        data[:128] = random.choice(special, 128)
        bits = data.astype(dtype).view(raw).copy()
    whole = random.integers(0, 1 << 62, 64).astype(np.uint64)
    bits[128:192] = (whole >> np.uint64(62 - 8 * np.dtype(raw).itemsize + 2)).astype(raw)
    return bits


# -- the catalogue ---------------------------------------------------------------------------------

_KIND_OF = {
    "u16": "b16", "s16": "b16", "f16": "b16", "bf16": "b16", "b16": "b16",
    "u32": "b32", "s32": "b32", "b32": "b32", "f16x2": "b32", "bf16x2": "b32", "f32": "f32",
    "u64": "b64", "s64": "b64", "b64": "b64", "f64": "f64",
}  # fmt: skip
_HOW_OF = {
    "f32": "f32",
    "f64": "f64",
    "f16": "f16",
    "bf16": "bf16",
    "f16x2": "f16x2",
    "bf16x2": "bf16x2",
}


def _ptx(
    text: str, out: str, inputs: str, draw: str = "", ulps: int = 0, floats: str | None = None
) -> Program:
    """A program of one PTX instruction; `out` and `inputs` are PTX types."""
    types = inputs.split()
    kinds = tuple(_KIND_OF[t] for t in types)
    how = tuple(draw.split()) if draw else tuple(_HOW_OF.get(t, "bits") for t in types)
    operands = ", ".join(f'"{_CONSTRAINT[k]}"(x{n})' for n, k in enumerate(kinds))
    name = "p_" + "".join(c if c.isalnum() else "_" for c in text.split("%")[0].strip())
    name += "_" + hashlib.sha256(text.encode()).hexdigest()[:4]
    if out == "pred":
        body = (
            f'  asm volatile("{{ .reg .pred %%p; {text} selp.b32 %0, 1, 0, %%p; }}" '
            f': "=r"(y) : {operands});'
        )
        return Program(name, body, "b32", kinds, how)
    kind = _KIND_OF[out]
    body = f'  asm volatile("{text}" : "={_CONSTRAINT[kind]}"(y) : {operands});'
    result = floats if floats is not None else (out if out in _HOW_OF else "")
    return Program(name, body, kind, kinds, how, result, ulps)


def _arithmetic() -> list[Program]:
    found = []
    for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
        for op in ("add", "sub", "min", "max"):
            found.append(_ptx(f"{op}.{kind} %0, %1, %2;", kind, f"{kind} {kind}"))
        for op in ("mul.lo", "mul.hi", "div", "rem"):
            found.append(_ptx(f"{op}.{kind} %0, %1, %2;", kind, f"{kind} {kind}", _nonzero(op)))
        found.append(_ptx(f"mad.lo.{kind} %0, %1, %2, %3;", kind, f"{kind} {kind} {kind}"))
        found.append(_ptx(f"sad.{kind} %0, %1, %2, %3;", kind, f"{kind} {kind} {kind}"))
    for kind, wide in (("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")):
        found.append(_ptx(f"mul.wide.{kind} %0, %1, %2;", wide, f"{kind} {kind}"))
        found.append(_ptx(f"mad.wide.{kind} %0, %1, %2, %3;", wide, f"{kind} {kind} {wide}"))
    found.append(_ptx("add.sat.s32 %0, %1, %2;", "s32", "s32 s32"))
    found.append(_ptx("sub.sat.s32 %0, %1, %2;", "s32", "s32 s32"))
    for kind in ("s16", "s32", "s64"):
        found.append(_ptx(f"abs.{kind} %0, %1;", kind, kind))
        found.append(_ptx(f"neg.{kind} %0, %1;", kind, kind))
    for kind in ("u32", "s32"):
        found.append(_ptx(f"mul24.lo.{kind} %0, %1, %2;", kind, f"{kind} {kind}"))
        found.append(_ptx(f"mul24.hi.{kind} %0, %1, %2;", kind, f"{kind} {kind}"))
    found.append(_ptx("dp4a.s32.s32 %0, %1, %2, %3;", "s32", "s32 s32 s32"))
    found.append(_ptx("dp4a.u32.s32 %0, %1, %2, %3;", "s32", "u32 s32 s32"))
    found.append(_ptx("dp2a.lo.s32.s32 %0, %1, %2, %3;", "s32", "s32 s32 s32"))
    found.append(_ptx("dp2a.hi.u32.u32 %0, %1, %2, %3;", "u32", "u32 u32 u32"))
    carry = "{ .reg .u32 t; add.cc.u32 t, %1, %2; addc.u32 %0, %2, t; }"
    found.append(_ptx(carry, "u32", "u32 u32"))
    borrow = "{ .reg .u32 t; sub.cc.u32 t, %1, %2; subc.u32 %0, %2, t; }"
    found.append(_ptx(borrow, "u32", "u32 u32"))
    chain = "{ .reg .u32 t; mad.lo.cc.u32 t, %1, %2, %3; madc.hi.u32 %0, %1, %2, t; }"
    found.append(_ptx(chain, "u32", "u32 u32 u32"))
    return found


def _nonzero(op: str) -> str:
    # Division by zero is not defined; neither is the overflow of the smallest by -1.
    return "bits divisor" if op in ("div", "rem") else ""


def _floating() -> list[Program]:
    found = []
    for kind in ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2"):
        halves = kind not in ("f32", "f64")
        for op in ("add", "sub", "mul"):
            mode = "" if kind in ("bf16", "bf16x2") else ".rn"
            found.append(_ptx(f"{op}{mode}.{kind} %0, %1, %2;", kind, f"{kind} {kind}"))
        found.append(_ptx(f"fma.rn.{kind} %0, %1, %2, %3;", kind, f"{kind} {kind} {kind}"))
        for op in ("min", "max"):
            found.append(_ptx(f"{op}.{kind} %0, %1, %2;", kind, f"{kind} {kind}"))
            if kind != "f64":
                found.append(_ptx(f"{op}.NaN.{kind} %0, %1, %2;", kind, f"{kind} {kind}"))
        for op in ("neg", "abs"):
            found.append(_ptx(f"{op}.{kind} %0, %1;", kind, kind))
        if halves:
            found.append(_ptx(f"fma.rn.relu.{kind} %0, %1, %2, %3;", kind, f"{kind} {kind} {kind}"))
    for mode in ("rz", "rm", "rp"):
        for op in ("add", "mul", "sub"):
            found.append(_ptx(f"{op}.{mode}.f32 %0, %1, %2;", "f32", "f32 f32"))
        found.append(_ptx(f"fma.{mode}.f32 %0, %1, %2, %3;", "f32", "f32 f32 f32"))
        for op in ("rcp", "sqrt"):
            found.append(_ptx(f"{op}.{mode}.f32 %0, %1;", "f32", "f32"))
        found.append(_ptx(f"div.{mode}.f32 %0, %1, %2;", "f32", "f32 f32"))
    for op in ("add", "mul", "fma.rn"):
        rest = ", %3" if op.startswith("fma") else ""
        inputs = "f32 f32 f32" if rest else "f32 f32"
        found.append(_ptx(f"{op}.ftz.f32 %0, %1, %2{rest};", "f32", inputs))
        found.append(_ptx(f"{op}.sat.f32 %0, %1, %2{rest};", "f32", inputs))
    for kind in ("f32", "f64"):
        for op in ("div", "rcp", "sqrt"):
            second = ", %2" if op == "div" else ""
            inputs = f"{kind} {kind}" if second else kind
            found.append(_ptx(f"{op}.rn.{kind} %0, %1{second};", kind, inputs))
        found.append(_ptx(f"copysign.{kind} %0, %1, %2;", kind, f"{kind} {kind}"))
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            found.append(_ptx(f"testp.{test}.{kind} %%p, %1;", "pred", kind))
    return found


def _approximate() -> list[Program]:
    # ulps: the PTX ISA's error bounds, plus one for our own rounding.
    return [
        _ptx("rcp.approx.ftz.f32 %0, %1;", "f32", "f32", ulps=2),
        _ptx("rcp.approx.f32 %0, %1;", "f32", "f32", ulps=2),
        _ptx("rsqrt.approx.f32 %0, %1;", "f32", "f32", ulps=3),
        _ptx("rsqrt.approx.ftz.f32 %0, %1;", "f32", "f32", ulps=3),
        _ptx("sqrt.approx.f32 %0, %1;", "f32", "f32", ulps=3),
        _ptx("ex2.approx.f32 %0, %1;", "f32", "f32", "moderate", ulps=3),
        _ptx("ex2.approx.ftz.f32 %0, %1;", "f32", "f32", ulps=3),
        _ptx("lg2.approx.f32 %0, %1;", "f32", "f32", "positive", ulps=8),
        _ptx("div.approx.f32 %0, %1, %2;", "f32", "f32 f32", ulps=3),
        _ptx("div.full.f32 %0, %1, %2;", "f32", "f32 f32", ulps=3),
        _ptx("ex2.approx.f16 %0, %1;", "f16", "f16", ulps=2),
        _ptx("ex2.approx.f16x2 %0, %1;", "f16x2", "f16x2", ulps=2),
        _ptx("ex2.approx.ftz.bf16 %0, %1;", "bf16", "bf16", ulps=2),
        _ptx("tanh.approx.f16 %0, %1;", "f16", "f16", ulps=2),
    ]


def _bits() -> list[Program]:
    found = []
    for kind in ("b16", "b32", "b64"):
        for op in ("and", "or", "xor"):
            found.append(_ptx(f"{op}.{kind} %0, %1, %2;", kind, f"{kind} {kind}"))
        for op in ("not", "cnot"):
            found.append(_ptx(f"{op}.{kind} %0, %1;", kind, kind))
        found.append(_ptx(f"shl.{kind} %0, %1, %2;", kind, f"{kind} b32", "bits below80"))
        for sign in ("u", "s"):
            shifted = sign + kind[1:]
            found.append(
                _ptx(f"shr.{shifted} %0, %1, %2;", shifted, f"{shifted} b32", "bits below80")
            )
    for kind in ("b32", "b64"):
        for op in ("popc", "clz"):
            found.append(_ptx(f"{op}.{kind} %0, %1;", "b32", kind))
        found.append(_ptx(f"brev.{kind} %0, %1;", kind, kind))
        found.append(
            _ptx(f"bfi.{kind} %0, %1, %2, %3, %4;", kind, f"{kind} {kind} b32 b32",
                 "bits bits below70 below70")
        )  # fmt: skip
    for kind in ("u32", "s32", "u64", "s64"):
        found.append(_ptx(f"bfind.{kind} %0, %1;", "u32", kind))
        found.append(_ptx(f"bfind.shiftamt.{kind} %0, %1;", "u32", kind))
        found.append(
            _ptx(f"bfe.{kind} %0, %1, %2, %3;", kind, f"{kind} b32 b32", "bits below70 below70")
        )
    for mode in ("l.wrap", "l.clamp", "r.wrap", "r.clamp"):
        found.append(
            _ptx(f"shf.{mode}.b32 %0, %1, %2, %3;", "b32", "b32 b32 b32", "bits bits below70")
        )
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        found.append(_ptx(f"prmt.b32{mode} %0, %1, %2, %3;", "b32", "b32 b32 b32"))
    for table in (0x96, 0xE8, 0xC8, 0x1B):
        found.append(_ptx(f"lop3.b32 %0, %1, %2, %3, {table:#x};", "b32", "b32 b32 b32"))
    for mode in ("clamp", "wrap"):
        for kind in ("u32", "s32"):
            found.append(
                _ptx(f"szext.{mode}.{kind} %0, %1, %2;", kind, f"{kind} u32", "bits below40")
            )
        found.append(_ptx(f"bmsk.{mode}.b32 %0, %1, %2;", "b32", "b32 b32", "below40 below40"))
    return found


def _comparisons() -> list[Program]:
    found = []
    for kind, names in (
        ("u32", "eq ne lt le gt ge lo ls hi hs"),
        ("s32", "eq ne lt le gt ge"),
        ("u64", "lt ge"),
        ("s16", "lt ge"),
        ("f32", "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"),
        ("f64", "lt geu nan"),
        ("f16", "lt neu gtu"),
        ("bf16", "lt neu gtu"),
    ):
        for name in names.split():
            found.append(_ptx(f"setp.{name}.{kind} %%p, %1, %2;", "pred", f"{kind} {kind}"))
    for kind in ("f32", "s32"):
        found.append(_ptx(f"set.lt.u32.{kind} %0, %1, %2;", "u32", f"{kind} {kind}"))
        found.append(_ptx(f"set.ge.f32.{kind} %0, %1, %2;", "f32", f"{kind} {kind}"))
    found.append(_ptx("set.lt.f16x2.f16x2 %0, %1, %2;", "f16x2", "f16x2 f16x2"))
    found.append(_ptx("slct.u32.s32 %0, %1, %2, %3;", "u32", "u32 u32 s32"))
    found.append(_ptx("slct.b32.f32 %0, %1, %2, %3;", "b32", "b32 b32 f32"))
    return found


def _holds_all_of(to: str, source: str) -> bool:
    """Whether an integer type has every value of another; PTX allows no .sat there."""
    wider = int(to[1:]) > int(source[1:])
    return wider and (to[0] == source[0] or to[0] == "s")


def _conversions() -> list[Program]:
    found = []
    integers = ("u16", "s16", "u32", "s32", "u64", "s64")
    for source in integers:
        for to in integers:
            if source != to:
                found.append(_ptx(f"cvt.{to}.{source} %0, %1;", to, source))
                if not _holds_all_of(to, source):
                    found.append(_ptx(f"cvt.sat.{to}.{source} %0, %1;", to, source))
        for to in ("f32", "f64", "f16"):
            found.append(_ptx(f"cvt.rn.{to}.{source} %0, %1;", to, source))
        found.append(_ptx(f"cvt.rz.f32.{source} %0, %1;", "f32", source))
    for source in ("f32", "f64", "f16"):
        for to in integers:
            for mode in ("rni", "rzi", "rmi", "rpi"):
                found.append(_ptx(f"cvt.{mode}.{to}.{source} %0, %1;", to, source))
    for mode in ("rni", "rzi", "rmi", "rpi"):
        found.append(_ptx(f"cvt.{mode}.f32.f32 %0, %1;", "f32", "f32", "nearhalves"))
    for mode in ("rn", "rz", "rm", "rp"):
        found.append(_ptx(f"cvt.{mode}.f32.f64 %0, %1;", "f32", "f64"))
    for mode in ("rn", "rz"):
        found.append(_ptx(f"cvt.{mode}.f16.f32 %0, %1;", "f16", "f32"))
        found.append(_ptx(f"cvt.{mode}.bf16.f32 %0, %1;", "bf16", "f32"))
        found.append(_ptx(f"cvt.{mode}.f16x2.f32 %0, %1, %2;", "f16x2", "f32 f32"))
        found.append(_ptx(f"cvt.{mode}.bf16x2.f32 %0, %1, %2;", "bf16x2", "f32 f32"))
        found.append(_ptx(f"cvt.{mode}.relu.f16.f32 %0, %1;", "f16", "f32"))
        found.append(_ptx(f"cvt.{mode}.relu.bf16x2.f32 %0, %1, %2;", "bf16x2", "f32 f32"))
    found += [
        _ptx("cvt.f32.f16 %0, %1;", "f32", "f16"),
        _ptx("cvt.f64.f16 %0, %1;", "f64", "f16"),
        _ptx("cvt.f32.bf16 %0, %1;", "f32", "bf16"),
        _ptx("cvt.f64.f32 %0, %1;", "f64", "f32"),
        _ptx("cvt.sat.f32.f32 %0, %1;", "f32", "f32"),
        _ptx("cvt.ftz.f32.f32 %0, %1;", "f32", "f32"),
        _ptx("cvt.rna.tf32.f32 %0, %1;", "b32", "f32", floats="f32"),
        _ptx("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;", "b16", "f32 f32"),
        _ptx("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;", "b16", "f32 f32"),
        _ptx("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;", "b16", "f16x2"),
        _ptx("cvt.rn.f16x2.e4m3x2 %0, %1;", "f16x2", "b16"),
        _ptx("cvt.rn.f16x2.e5m2x2 %0, %1;", "f16x2", "b16"),
    ]
    return found


def _warp() -> list[Program]:
    everyone = "0xffffffff"
    found = []
    for mode, bounds in (
        ("up", "0"),
        ("down", "31"),
        ("bfly", "31"),
        ("idx", "31"),
        ("idx", "0x181f"),
    ):
        text = f"shfl.sync.{mode}.b32 %0, %1, %2, {bounds}, {everyone};"
        found.append(_ptx(text, "b32", "b32 b32", "bits below40"))
    for kind in ("b32", "b64"):
        found.append(_ptx(f"match.any.sync.{kind} %0, %1, {everyone};", "b32", kind, "below5"))
    for op in ("add", "min", "max"):
        for kind in ("u32", "s32"):
            found.append(_ptx(f"redux.sync.{op}.{kind} %0, %1, {everyone};", kind, kind))
    for op in ("and", "or", "xor"):
        found.append(_ptx(f"redux.sync.{op}.b32 %0, %1, {everyone};", "b32", "b32"))
    for mode in ("all", "any", "uni"):
        text = (
            "{ .reg .pred q, r; setp.gt.u32 q, %1, 2; "
            f"vote.sync.{mode}.pred r, q, {everyone}; selp.b32 %0, 1, 0, r; }}"
        )
        found.append(_ptx(text, "b32", "b32", "below5"))
    ballot = "{ .reg .pred q; setp.gt.u32 q, %1, 2; vote.sync.ballot.b32 %0, q, 0xffffffff; }"
    found.append(_ptx(ballot, "b32", "b32", "below5"))
    return found


def _function(text: str, ulps: int, out: str, inputs: str, draw: str, floats: str = "") -> Program:
    """A program of one C++ expression over x0, x1, ... (raw bits for 16-bit types)."""
    name = "f_" + "".join(c if c.isalnum() else "_" for c in text)[:40]
    name += "_" + hashlib.sha256(text.encode()).hexdigest()[:4]
    kinds = tuple(_KIND_OF[t] for t in inputs.split())
    return Program(
        name, f"  y = {text};", _KIND_OF[out], kinds, tuple(draw.split()), floats or out, ulps
    )


def _functions() -> list[Program]:
    """CUDA's own functions, end to end. The ulps are what approximate steps inside may add up to."""
    f = "f32"
    return [
        _function("expf(x0)", 2, f, f, "moderate"),
        _function("__expf(x0)", 3, f, f, "moderate"),
        _function("logf(x0)", 2, f, f, "positive"),
        _function("log1pf(x0)", 2, f, f, "positive"),
        _function("sinf(x0)", 3, f, f, "moderate"),
        _function("cosf(x0 * 1000.0f)", 3, f, f, "moderate"),
        _function("tanhf(x0)", 3, f, f, "moderate"),
        _function("erff(x0)", 3, f, f, "moderate"),
        _function("rsqrtf(x0)", 3, f, f, "positive"),
        _function("powf(fabsf(x0), x1)", 8, f, "f32 f32", "moderate moderate"),
        _function("fmodf(x0, x1)", 0, f, "f32 f32", "moderate moderate"),
        _function("__fdividef(x0, x1)", 3, f, "f32 f32", "f32 f32"),
        _function("__frcp_rn(x0)", 0, f, f, "f32"),
        _function("fmaxf(x0, fminf(x1, 2.0f))", 0, f, "f32 f32", "f32 f32"),
        _function("roundf(x0)", 0, f, f, "nearhalves"),
        _function("rintf(x0)", 0, f, f, "nearhalves"),
        _function("exp((double)x0)", 2, "f64", f, "moderate"),
        _function("log((double)x0)", 2, "f64", f, "positive"),
    ]


def _matrix_programs() -> list[Program]:
    """mma.sync: each warp multiplies fragments made of its lanes' inputs."""
    found = []
    for kind, depth, registers in (("f16", 16, 4), ("bf16", 16, 4), ("f16", 8, 2), ("bf16", 8, 2)):
        a = ", ".join(f"%{4 + n}" for n in range(registers))
        b = ", ".join(f"%{4 + registers + n}" for n in range(registers // 2))
        c = ", ".join(f"%{4 + registers + registers // 2 + n}" for n in range(4))
        values = [f'"r"(x{n % 3} ^ {n * 0x00010001}u)' for n in range(registers + registers // 2)]
        addends = [f'"f"(x3 * {n + 1}.0f)' for n in range(4)]
        text = (
            f"mma.sync.aligned.m16n8k{depth}.row.col.f32.{kind}.{kind}.f32 "
            f"{{%0, %1, %2, %3}}, {{{a}}}, {{{b}}}, {{{c}}};"
        )
        body = (
            "  float d[4];\n"
            f'  asm volatile("{text}" : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]) : '
            f"{', '.join(values + addends)});\n"
            "  y = d[threadIdx.x / 32];"
        )
        name = f"m_{kind}_k{depth}"
        found.append(
            Program(
                name, body, "f32", ("b32", "b32", "b32", "f32"),
                (f"small{kind}", f"small{kind}", f"small{kind}", "moderate"), "f32", 64,
            )
        )  # fmt: skip
    return found


def _memory_programs() -> list[Program]:
    """Matrix loads and stores, and atomics whose result does not depend on their order."""
    found = []
    for count, transposed in ((1, ""), (2, ".trans"), (4, ""), (4, ".trans")):
        registers = ", ".join(f"%{n}" for n in range(count))
        outputs = ", ".join(f'"=r"(r[{n}])' for n in range(count))
        body = f"""\
  __shared__ __align__(16) unsigned int s[4][128];
  unsigned int* mine = &s[threadIdx.x / 32][threadIdx.x % 32 * 4];
  for (int k = 0; k < 4; ++k) mine[k] = x0 * (2 * k + 1) + k;
  __syncthreads();
  unsigned int r[4] = {{0, 0, 0, 0}};
  unsigned int address = (unsigned int)__cvta_generic_to_shared(mine);
  asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {{{registers}}}, [%{count}];"
               : {outputs} : "r"(address));
  y = r[0] ^ r[1] * 3 ^ r[2] * 5 ^ r[3] * 7;"""
        name = f"s_ldmatrix_x{count}{transposed.replace('.', '_')}"
        found.append(Program(name, body, "b32", ("b32",), ("bits",)))
    for transposed in ("", ".trans"):
        body = f"""\
  __shared__ __align__(16) unsigned int s[4][128];
  unsigned int* mine = &s[threadIdx.x / 32][threadIdx.x % 32 * 4];
  unsigned int address = (unsigned int)__cvta_generic_to_shared(mine);
  asm volatile("stmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 [%0], {{%1, %2, %3, %4}};"
               : : "r"(address), "r"(x0), "r"(x0 * 3), "r"(x0 * 5), "r"(x0 * 7) : "memory");
  __syncthreads();
  y = mine[0] ^ mine[1] * 3 ^ mine[2] * 5 ^ mine[3] * 7;"""
        name = f"s_stmatrix{transposed.replace('.', '_')}"
        found.append(Program(name, body, "b32", ("b32",), ("bits",)))
    for name, call in (
        ("add", "atomicAdd(&s[x0 % 16], x0)"),
        ("min", "atomicMin(&s[x0 % 16], x0)"),
        ("max", "atomicMax(&s[x0 % 16], x0)"),
        ("and", "atomicAnd(&s[x0 % 16], x0 | 0xff00u)"),
        ("or", "atomicOr(&s[x0 % 16], x0)"),
        ("xor", "atomicXor(&s[x0 % 16], x0)"),
        ("inc", "atomicInc(&s[x0 % 16], 5)"),
        ("dec", "atomicDec(&s[x0 % 16], 5)"),
    ):
        body = f"""\
  __shared__ unsigned int s[16];
  if (threadIdx.x < 16) s[threadIdx.x] = 3;
  __syncthreads();
  {call};
  __syncthreads();
  y = s[x0 % 16];"""
        found.append(Program(f"s_atomic_{name}", body, "b32", ("b32",), ("bits",)))
    return found


def programs() -> list[Program]:
    """Everything that is recorded."""
    found = [
        *_arithmetic(), *_floating(), *_approximate(), *_bits(), *_comparisons(), *_conversions(),
        *_warp(), *_functions(), *_matrix_programs(), *_memory_programs(),
    ]  # fmt: skip
    names = [p.name for p in found]
    assert len(set(names)) == len(names)
    return found


def source() -> str:
    """All programs in one CUDA source."""
    return "\n".join(p.source() for p in programs())
