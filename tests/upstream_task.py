"""silu_and_mul cut down, whose kernels include a small library of others."""

from __future__ import annotations

from pathlib import Path

from astra_tui.model.pin import Pin
from astra_tui.model.task import KernelTask, load_task, upstream_files
from tests.quick import write_quick_task

LIBRARY = {
    "include/lib/act.cuh": """\
#pragma once
#include "detail/silu.cuh"
#include <cuda_fp16.h>
#include <lib/bits.h>
#include <stdexcept>
#ifdef USE_ROCM
#include <hip/hip_runtime.h>
#endif
namespace lib {
template <typename T>
__global__ void silu_and_mul(T* out, const T* input, int64_t count, int64_t d) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const float gate = (float)input[i / d * 2 * d + i % d];
    out[i] = (T)(silu(gate) * (float)input[i / d * 2 * d + d + i % d]);
  }
}
template <typename T> __device__ float load(const T* from, int64_t at) {
  return (float)from[at];
}
inline void launch() { throw std::runtime_error("never run"); }
}
""",
    "include/lib/detail/silu.cuh": """\
#pragma once
#include "../bits.h"
namespace lib {
__device__ inline float silu(float x) {
  const auto below = [] __device__ (float x) { return LIB_ONE + expf(-x); };
  return x / below(x);
}
}
""",
    "include/lib/bits.h": "#pragma once\n#include <stdint.h>\n",
    "include/lib/unused.cuh": "#error is not for this source\n",
    "LICENSE": "Do as you like.\n",
}

PLAN = "grid=min(ceil_div(tokens * d, 128), 256) block=128 args=(out, input, tokens * d, d)"
BASELINE = f"""\
#include "lib/act.cuh"

/* @launch
   lib::silu_and_mul<T> {PLAN}
*/
"""
OWN = f"""\
#include <lib/act.cuh>
#include <cuda_bf16.h>

/* @launch
   act<T> {PLAN}
*/

template <typename T>
__global__ void act(T* out, const T* input, int64_t count, int64_t d) {{
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {{
    const int64_t row = i / d * 2 * d;
    out[i] = (T)(lib::silu(lib::load(input, row + i % d)) * lib::load(input, row + d + i % d));
  }}
}}
"""


def write_upstream_task(
    kernels: Path, package: Pin | None = None, library: dict[str, str] = LIBRARY
) -> Path:
    """Writes the task, with the library in its folder or as a recipe to fetch it."""
    folder = write_quick_task(kernels)
    (folder / "yardsticks.toml").unlink()
    (folder / "tuned.cu").write_text(OWN)
    (folder / "baseline.cu").write_text(BASELINE)
    files = upstream_files(
        library,
        include=("include",),
        origin="" if package else "example.org/lib at 1.0, src",
        licence="" if package else "MIT",
        package=package,
        defines=("LIB_ONE=1.0f",),
        fetched=package is not None,
    )
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def upstream_task(kernels: Path) -> KernelTask:
    """The task with the library in its folder."""
    return load_task(write_upstream_task(kernels))
