"""The PTX instructions that the emulator runs, and why it refuses the others.

One table for code, documentation, error texts and prompts. A modifier that is not listed for its
opcode is refused too: an instruction is run in full or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass

_INT = "u16 s16 u32 s32 u64 s64"
_BITS = "b16 b32 b64"
_HALF = "f16 f16x2 bf16 bf16x2"
_FLOAT = f"f32 f64 {_HALF}"
_ROUND = "rn rz rm rp"
_ROUND_INT = "rni rzi rmi rpi"
_COMPARE = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor"
_SPACE = "global shared shared::cta shared::cluster local const param param::entry param::func"
_CACHE = (
    "nc ca cg cs lu cv wb wt volatile weak relaxed acquire release cta cluster gpu sys "
    "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate "
    "L2::evict_normal L2::evict_first L2::evict_last L2::cache_hint L2::64B L2::128B L2::256B"
)
_ATOMIC = (
    "add min max and or xor exch cas inc dec relaxed acquire release acq_rel cta cluster gpu sys"
)
_SCOPES = "release acquire relaxed cta cluster"
_ALL_WIDTHS = f"b8 u8 s8 {_BITS} {_INT} f32 f64 f16 bf16"
_VECTORS = "v2 v4"
_MATRIX = "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16"


@dataclass(frozen=True, slots=True)
class Opcode:
    """One emulated PTX opcode; `modifiers` are all that may follow it."""

    name: str
    group: str
    summary: str
    modifiers: frozenset[str]
    note: str = ""

    @property
    def computes(self) -> bool:
        """Whether it computes registers from registers of the same thread, and does nothing
        else.
        """
        return self.group in _COMPUTING


@dataclass(frozen=True, slots=True)
class RefusedOpcode:
    """A family of instructions that is not emulated, by its dotted prefix."""

    prefix: str
    what: str
    advice: str


def _op(name: str, group: str, summary: str, modifiers: str = "", note: str = "") -> Opcode:
    return Opcode(name, group, summary, frozenset(modifiers.split()), note)


_ARITHMETIC = "arithmetic"
_BIT = "bits"
_MATH = "approximate mathematics"
_MOVE = "moves and conversions"
_COMPUTING = frozenset({_ARITHMETIC, _BIT, _MATH, _MOVE})
_MEMORY = "memory"
_WARP = "warp and block"
_TENSOR = "tensor cores"
_FLOW = "control flow"

_EXACT_F32 = "computed in full float32 precision; hardware may differ in the last 1 to 2 ulp"

_TABLE = (
    _op("add", _ARITHMETIC, "a + b", f"{_INT} {_FLOAT} {_ROUND} sat ftz cc"),
    _op("addc", _ARITHMETIC, "a + b + carry", "u32 s32 u64 s64 cc"),
    _op("sub", _ARITHMETIC, "a - b", f"{_INT} {_FLOAT} {_ROUND} sat ftz cc"),
    _op("subc", _ARITHMETIC, "a - b - borrow", "u32 s32 u64 s64 cc"),
    _op("mul", _ARITHMETIC, "a * b", f"{_INT} {_FLOAT} {_ROUND} hi lo wide sat ftz"),
    _op("mul24", _ARITHMETIC, "product of 24-bit integers", "u32 s32 hi lo"),
    _op("mad", _ARITHMETIC, "a * b + c", f"{_INT} f32 f64 {_ROUND} hi lo wide sat ftz cc"),
    _op("mad24", _ARITHMETIC, "24-bit multiply and add", "u32 s32 hi lo"),
    _op("madc", _ARITHMETIC, "a * b + c + carry", "u32 s32 u64 s64 hi lo cc"),
    _op("fma", _ARITHMETIC, "fused a * b + c", f"{_FLOAT} {_ROUND} ftz sat relu"),
    _op("div", _ARITHMETIC, "a / b", f"{_INT} f32 f64 {_ROUND} approx full ftz"),
    _op("rem", _ARITHMETIC, "remainder", _INT),
    _op("sad", _ARITHMETIC, "|a - b| + c", _INT),
    _op("abs", _ARITHMETIC, "|a|", f"s16 s32 s64 {_FLOAT} ftz"),
    _op("neg", _ARITHMETIC, "-a", f"s16 s32 s64 {_FLOAT} ftz"),
    _op("min", _ARITHMETIC, "the smaller", f"{_INT} {_FLOAT} ftz NaN"),
    _op("max", _ARITHMETIC, "the larger", f"{_INT} {_FLOAT} ftz NaN"),
    _op("dp4a", _ARITHMETIC, "dot product of four bytes", "u32 s32"),
    _op("dp2a", _ARITHMETIC, "dot product of two halfwords and bytes", "u32 s32 lo hi"),
    _op("copysign", _ARITHMETIC, "b with the sign of a", "f32 f64"),
    _op(
        "testp", _ARITHMETIC, "class of a float",
        "f32 f64 finite infinite number notanumber normal subnormal",
    ),
    _op("and", _BIT, "a & b", f"{_BITS} pred"),
    _op("or", _BIT, "a | b", f"{_BITS} pred"),
    _op("xor", _BIT, "a ^ b", f"{_BITS} pred"),
    _op("not", _BIT, "~a", f"{_BITS} pred"),
    _op("cnot", _BIT, "1 if a is 0, else 0", _BITS),
    _op("lop3", _BIT, "any function of three bits", "b32"),
    _op("shl", _BIT, "shift left", _BITS),
    _op("shr", _BIT, "shift right", f"{_BITS} {_INT}"),
    _op("shf", _BIT, "funnel shift", "b32 l r clamp wrap"),
    _op("bfe", _BIT, "extract a bit field", "u32 s32 u64 s64"),
    _op("bfi", _BIT, "insert a bit field", "b32 b64"),
    _op("bfind", _BIT, "highest set bit", "u32 s32 u64 s64 shiftamt"),
    _op("brev", _BIT, "reverse the bits", "b32 b64"),
    _op("clz", _BIT, "count leading zeros", "b32 b64"),
    _op("fns", _BIT, "find the n-th set bit", "b32"),
    _op("popc", _BIT, "count ones", "b32 b64"),
    _op("prmt", _BIT, "choose four bytes of eight", "b32 f4e b4e rc8 ecl ecr rc16"),
    _op("szext", _BIT, "extend from a bit width", "u32 s32 clamp wrap"),
    _op("bmsk", _BIT, "a mask of ones", "b32 clamp wrap"),
    _op("rcp", _MATH, "1 / a", f"f32 f64 approx ftz {_ROUND}", _EXACT_F32),
    _op("sqrt", _MATH, "square root", f"f32 f64 approx ftz {_ROUND}", _EXACT_F32),
    _op("rsqrt", _MATH, "1 / square root", "f32 f64 approx ftz", _EXACT_F32),
    _op("ex2", _MATH, "2 to the a", f"f32 {_HALF} approx ftz", _EXACT_F32),
    _op("lg2", _MATH, "logarithm of base 2", "f32 approx ftz", _EXACT_F32),
    _op("sin", _MATH, "sine", "f32 approx ftz", _EXACT_F32),
    _op("cos", _MATH, "cosine", "f32 approx ftz", _EXACT_F32),
    _op("tanh", _MATH, "hyperbolic tangent", f"f32 {_HALF} approx", _EXACT_F32),
    _op("mov", _MOVE, "copy, pack or unpack", f"{_BITS} {_INT} f32 f64 pred b128"),
    _op(
        "cvt", _MOVE, "convert between types",
        f"u8 s8 {_INT} {_FLOAT} e4m3x2 e5m2x2 {_ROUND} {_ROUND_INT} rna sat satfinite relu ftz "
        "b16 b32 tf32",
    ),
    _op("cvta", _MOVE, "generic from or to a state space", f"u32 u64 to {_SPACE}"),
    _op("isspacep", _MOVE, "which state space a pointer is in", _SPACE),
    _op("set", _MOVE, "compare into a number", f"{_COMPARE} {_INT} {_BITS} {_FLOAT} ftz"),
    _op("setp", _MOVE, "compare into a predicate", f"{_COMPARE} {_INT} {_BITS} {_FLOAT} ftz"),
    _op("selp", _MOVE, "choose by a predicate", f"{_INT} {_BITS} f32 f64"),
    _op("slct", _MOVE, "choose by a sign", f"{_INT} {_BITS} f32 f64 ftz"),
    _op("ld", _MEMORY, "load", f"{_SPACE} {_CACHE} {_VECTORS} {_ALL_WIDTHS}"),
    _op("ldu", _MEMORY, "load, uniform", f"{_SPACE} {_VECTORS} {_ALL_WIDTHS}"),
    _op("st", _MEMORY, "store", f"{_SPACE} {_CACHE} {_VECTORS} {_ALL_WIDTHS}"),
    _op(
        "atom", _MEMORY, "atomic read, change, write",
        f"{_SPACE} {_ATOMIC} noftz b16 b32 b64 u32 s32 u64 s64 f32 f64 {_HALF}",
        "lanes take their turns in order, so floating-point sums are reproducible here",
    ),
    _op(
        "red", _MEMORY, "atomic change",
        f"{_SPACE} {_ATOMIC} noftz b32 b64 u32 s32 u64 s64 f32 f64 {_HALF}",
        "as atom",
    ),
    _op(
        "cp.async", _MEMORY, "asynchronous copy to shared memory, at the wait",
        f"ca cg commit_group wait_group wait_all {_SPACE} {_CACHE}",
    ),
    _op(
        "cp.async.mbarrier.arrive", _MEMORY, "an arrival when the thread's cp.async copies end",
        "noinc shared shared::cta b64",
    ),
    _op(
        "cp.async.bulk", _MEMORY, "bulk copy between global and shared memory of the cluster",
        "global shared::cta shared::cluster mbarrier::complete_tx::bytes bulk_group L2::cache_hint",
    ),
    _op("cp.async.bulk.commit_group", _MEMORY, "closes a group of bulk copies"),
    _op("cp.async.bulk.wait_group", _MEMORY, "waits for groups of bulk copies", "read"),
    _op(
        "cp.async.bulk.prefetch", _MEMORY, "a hint; nothing happens", "L2 global L2::cache_hint"
    ),
    _op(
        "st.async", _MEMORY, "asynchronous store to shared memory of the cluster",
        f"weak shared::cluster mbarrier::complete_tx::bytes {_VECTORS} b32 b64 u32 u64 s32 s64 "
        "f32 f64",
    ),
    _op(
        "red.async", _MEMORY, "asynchronous atomic change in shared memory of the cluster",
        "relaxed cluster shared::cluster mbarrier::complete_tx::bytes inc dec min max add and or "
        "xor u32 s32 u64 b32",
    ),
    _op("prefetch", _MEMORY, "a hint; nothing happens", f"{_SPACE} L1 L2 L2::evict_last"),
    _op("prefetchu", _MEMORY, "a hint; nothing happens", "L1"),
    _op("discard", _MEMORY, "a hint; nothing happens", f"{_SPACE} L2"),
    _op("applypriority", _MEMORY, "a hint; nothing happens", f"{_SPACE} L2::evict_normal"),
    _op(
        "createpolicy", _MEMORY, "a cache policy, which has no effect here",
        "fractional L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged b64",
    ),
    _op("membar", _MEMORY, "memory fence", "cta gl sys"),
    _op("fence", _MEMORY, "memory fence", "sc acq_rel acquire release cta cluster gpu sys"),
    _op(
        "fence.proxy.async", _MEMORY, "orders accesses before or after asynchronous copies",
        "global shared::cta shared::cluster",
    ),
    _op("fence.mbarrier_init", _MEMORY, "makes barriers known to the cluster", "release cluster"),
    _op("mapa", _MEMORY, "an address in another block of the cluster", "shared::cluster u32 u64"),
    _op("getctarank", _MEMORY, "the block that an address is in", "shared::cluster u32 u64"),
    *(
        _op(f"mbarrier.{name}", _WARP, summary, f"shared shared::cta shared::cluster b64 {more}")
        for name, summary, more in (
            ("init", "a barrier in memory begins", ""),
            ("inval", "a barrier in memory ends", ""),
            ("arrive", "arrive, and expect bytes of copies", f"noComplete expect_tx {_SCOPES}"),
            (
                "arrive_drop", "arrive, for the last time",
                f"noComplete expect_tx {_SCOPES}",
            ),
            ("expect_tx", "expect bytes of copies", _SCOPES),
            ("complete_tx", "bytes have come", _SCOPES),
            ("test_wait", "whether a phase is complete", f"parity {_SCOPES}"),
            ("try_wait", "whether a phase is complete, after a while", f"parity {_SCOPES}"),
            ("pending_count", "the arrivals that were missing", ""),
        )
    ),
    _op("bar", _WARP, "block or warp barrier", "sync warp cta red popc and or u32 pred aligned"),
    _op("barrier", _WARP, "block barrier", "sync cta red popc and or u32 pred aligned"),
    _op(
        "barrier.cluster", _WARP, "barrier of a cluster, in two parts",
        "arrive wait aligned release relaxed acquire",
    ),
    _op("shfl", _WARP, "exchange within a warp", "sync up down bfly idx b32"),
    _op("vote", _WARP, "vote within a warp", "sync all any uni ballot pred b32"),
    _op("match", _WARP, "lanes with equal values", "sync any all b32 b64"),
    _op("redux", _WARP, "reduce within a warp", "sync add min max and or xor u32 s32 b32"),
    _op("activemask", _WARP, "lanes that run together", "b32"),
    _op("elect", _WARP, "choose one lane", "sync"),
    _op(
        "setmaxnreg", _WARP, "registers of a warp; nothing happens",
        "inc dec sync aligned u32",
    ),
    _op("nanosleep", _WARP, "nothing happens", "u32"),
    _op("ldmatrix", _TENSOR, "load 8x8 matrices", _MATRIX),
    _op("stmatrix", _TENSOR, "store 8x8 matrices", _MATRIX),
    _op(
        "mma", _TENSOR, "matrix multiply of a warp",
        "sync aligned m16n8k32 m16n8k16 m16n8k8 row col f32 f16 bf16 tf32 s32 s8 u8",
        "m16n8k16 and m16n8k8 of f16 or bf16, m16n8k8 of tf32, whose sums are formed in float64; "
        "m16n8k32 and m16n8k16 of 8-bit integers",
    ),
    _op("bra", _FLOW, "branch", "uni"),
    _op("brx", _FLOW, "branch by a table", "idx uni"),
    _op("call", _FLOW, "call a device function, inlined", "uni"),
    _op("ret", _FLOW, "return", "uni"),
    _op("exit", _FLOW, "end the thread"),
    _op("trap", _FLOW, "stop with an error"),
    _op("brkpt", _FLOW, "nothing happens"),
    _op("pmevent", _FLOW, "nothing happens", "mask"),
    _op(
        "griddepcontrol.wait", _FLOW, "wait for the launches before, where a launch has pdl=",
        note="global memory that needs it, touched before: a finding",
    ),
    _op("griddepcontrol.launch_dependents", _FLOW, "nothing happens: launches run in turn"),
)  # fmt: skip

OPCODES: dict[str, Opcode] = {opcode.name: opcode for opcode in _TABLE}
_MOST_WORDS = 3
"""Modifiers that are part of an opcode's name."""

_ON_GPU = "Run on a GPU"
_PLAIN_COPY = f"{_ON_GPU}, or copy with plain loads and stores, or cp.async"

REFUSED = (
    RefusedOpcode(
        "wgmma", "Hopper's warpgroup tensor-core instructions",
        f"{_ON_GPU}, or write this part with mma.sync or plain arithmetic",
    ),
    RefusedOpcode("tcgen05", "Blackwell's tensor-core instructions", f"{_ON_GPU} that has them"),
    RefusedOpcode(
        "wmma", "WMMA fragments", f"{_ON_GPU}, or use mma.sync.m16n8k16 with ldmatrix"
    ),
    RefusedOpcode("cp.async.bulk.tensor", "copies by tensor maps (TMA)", _PLAIN_COPY),
    RefusedOpcode("cp.async.bulk.prefetch.tensor", "tensor maps (TMA)", _PLAIN_COPY),
    RefusedOpcode("cp.reduce", "bulk reductions (TMA)", _PLAIN_COPY),
    RefusedOpcode("tensormap", "tensor maps (TMA)", _PLAIN_COPY),
    RefusedOpcode("fence.proxy.tensormap", "tensor maps (TMA)", _PLAIN_COPY),
    RefusedOpcode("multimem", "multicast memory", _ON_GPU),
    RefusedOpcode("tex", "textures", f"{_ON_GPU}, or read the array with plain loads"),
    RefusedOpcode("tld4", "textures", f"{_ON_GPU}, or read the array with plain loads"),
    RefusedOpcode("suld", "surfaces", f"{_ON_GPU}, or read the array with plain loads"),
    RefusedOpcode("sust", "surfaces", f"{_ON_GPU}, or write the array with plain stores"),
    RefusedOpcode("bar.arrive", "barriers that do not wait", f"{_ON_GPU}, or use __syncthreads()"),
    RefusedOpcode("barrier.arrive", "barriers that do not wait", f"{_ON_GPU}"),
    RefusedOpcode("alloca", "dynamic stack memory", "use an array of fixed size"),
)  # fmt: skip

GENERAL_ADVICE = f"{_ON_GPU}, or write this part with plain arithmetic, loads and stores"


def opcode_of(operation: str, modifiers: tuple[str, ...]) -> Opcode | None:
    """The table's entry for an instruction, or None when it is not emulated."""
    for count in range(min(len(modifiers), _MOST_WORDS), 0, -1):
        found = OPCODES.get(".".join((operation, *modifiers[:count])))
        if found is not None:
            return found
    return OPCODES.get(operation)


def refusal(operation: str, modifiers: tuple[str, ...]) -> str:
    """Why an instruction is not emulated and what to do, or "" when the table has it in full."""
    text = ".".join((operation, *modifiers))
    for refused in REFUSED:
        if text == refused.prefix or text.startswith(refused.prefix + "."):
            return f"the emulator does not run '{text}' ({refused.what}). {refused.advice}."
    opcode = opcode_of(operation, modifiers)
    if opcode is None:
        return f"the emulator does not run '{text}'. {GENERAL_ADVICE}."
    unknown = [
        m for m in modifiers if m not in opcode.modifiers and m not in opcode.name.split(".")
    ]
    if unknown:
        return f"the emulator does not run '{text}' (.{unknown[0]} is not known). {GENERAL_ADVICE}."
    return ""
