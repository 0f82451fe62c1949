"""Access patterns for which the GPU's memory counters are recorded: which lane touches what.

One kernel for each memory, direction and width; the pattern itself is data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

WORDS = 2048
"""Elements that a pattern may index."""

_TYPES = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
_SUM = {2: "v", 4: "v", 8: "v.x ^ v.y", 16: "v.x ^ v.y ^ v.z ^ v.w"}
_MAKE = {2: "(unsigned short)w", 4: "w", 8: "make_uint2(w, w)", 16: "make_uint4(w, w, w, w)"}


@dataclass(frozen=True)
class Pattern:
    """One launch: a kernel and the element index of each thread of one or more warps."""

    name: str
    kernel: str
    indices: tuple[int, ...]


def source() -> str:
    """The kernels of all patterns."""
    return "\n".join(
        [_shared(width, direction) for width in (4, 8, 16) for direction in ("ld", "st")]
        + [_global(width, direction) for width in _TYPES for direction in ("ld", "st")]
    )


def _shared(width: int, direction: str) -> str:
    kind = _TYPES[width]
    words = WORDS * 4 // width
    if direction == "ld":
        body = f"{kind} v = (({kind}*)s)[at[threadIdx.x]]; out[threadIdx.x] = {_SUM[width]};"
        fill = (
            f"for (int i = threadIdx.x; i < {WORDS}; i += blockDim.x) s[i] = i;\n  __syncthreads();"
        )
    else:
        fill = "unsigned int w = threadIdx.x;"
        body = f"(({kind}*)s)[at[threadIdx.x]] = {_MAKE[width]};\n  __syncthreads();\n  "
        body += "out[threadIdx.x] = at[threadIdx.x] >= 0 ? s[0] & 0 : 1;"
        fill += (
            f"\n  if (at[threadIdx.x] < 0) for (int i = 0; i < {words}; ++i) s[i] = i;\n  s[0] = 0;"
        )
        fill += "\n  __syncthreads();"
    return (
        f"__global__ void shared_{direction}{width}(unsigned int* out, const int* at) {{\n"
        f"  __shared__ __align__(16) unsigned int s[{WORDS}];\n  {fill}\n  {body}\n}}\n"
    )


def _global(width: int, direction: str) -> str:
    kind = _TYPES[width]
    if direction == "ld":
        body = f"{kind} v = (({kind}*)data)[at[threadIdx.x]]; out[threadIdx.x] = {_SUM[width]};"
    else:
        body = f"unsigned int w = threadIdx.x; (({kind}*)data)[at[threadIdx.x]] = {_MAKE[width]};"
        body += " if (w == 0) out[0] = 1;"
    return (
        f"__global__ void global_{direction}{width}(unsigned int* out, const int* at, void* data) {{\n"
        f"  {body}\n}}\n"
    )


def patterns() -> list[Pattern]:
    """Every pattern: strides, broadcasts, swizzles, random places, partial warps."""
    found = []
    for memory, widths in (("shared", (4, 8, 16)), ("global", tuple(_TYPES))):
        for width in widths:
            limit = WORDS * 4 // width if memory == "shared" else WORDS
            for name, indices in _shapes(limit).items():
                for direction in ("ld", "st"):
                    if direction == "st" and len(set(indices)) < len(indices):
                        continue
                    kernel = f"{memory}_{direction}{width}"
                    found.append(Pattern(f"{kernel} {name}", kernel, tuple(map(int, indices))))
    return found


def _shapes(limit: int) -> dict[str, Any]:
    lane = np.arange(32)
    random = np.random.Generator(np.random.Philox(limit))
    shapes = {f"stride {s}": lane * s for s in (1, 2, 3, 4, 5, 8, 16, 17, 32, 33) if 31 * s < limit}
    shapes |= {
        "offset 1": lane + 1,
        "offset 5": lane + 5,
        "reversed": 31 - lane,
        "broadcast": lane * 0 + 7,
        "pairs": lane // 2,
        "quads": lane // 4,
        "halves swapped": lane ^ 16,
        "xor swizzle": (lane * 8 + (lane ^ (lane >> 3))) % limit,
        "two rows": np.where(lane < 16, lane, lane + limit // 2),
        "interleaved rows": np.where(lane % 2 == 0, lane, lane + limit // 2),
        "random": random.permutation(limit)[:32],
        "random near": random.permutation(64)[:32],
        "first 20 lanes": lane[:20],
        "first 5 lanes stride 3": lane[:5] * 3,
        "two warps": np.concatenate([lane, lane * 2]) % limit,
        "three warps random": random.permutation(limit)[:96],
    }
    return shapes
