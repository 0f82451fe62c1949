"""What the compiler's tests share: a small kernel, and the module path for their own children."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, settings

from astra_tui.model.compilation import Compilation

HERE = Path(__file__).resolve().parent

KERNEL = """\
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

template <typename T>
__global__ void scale(T* __restrict__ out, const T* in, int n, int64_t stride, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = (T)((float)in[i * stride] * by);
}
"""
FLOAT, HALF, BFLOAT16 = "scale<float>", "scale<__half>", "scale<__nv_bfloat16>"

# Real compilers and real files take as long as they take.
PATIENT = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


def messages(compilation: Compilation) -> str:
    """All error messages in one text."""
    return "\n".join(d.message for d in compilation.errors)
