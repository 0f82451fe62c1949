"""A small kernel with barriers, shuffles and atomics, run to see that the emulator works here."""

from __future__ import annotations

import numpy as np

from astra_tui.emulator.device import Emulator
from astra_tui.lab.compiler import Compiler
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch

_SOURCE = """
__global__ void total(int* out, const int* in) {
  __shared__ int of_warp[4];
  int v = in[blockIdx.x * 128 + threadIdx.x];
  for (int k = 16; k > 0; k /= 2) v += __shfl_down_sync(0xffffffffu, v, k);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 4) atomicAdd(out, of_warp[threadIdx.x]);
}
"""
_BLOCKS = 3


def run_on_emulator() -> str:
    """What is wrong, or "". Raises CompilerUnavailable."""
    numbers = np.arange(128 * _BLOCKS, dtype=np.int32)
    with Compiler() as compiler:
        compilation = compiler.compile(_SOURCE, ("total",))
    if not compilation.ok:
        return compilation.errors[0].message
    kernel = compilation.kernels[0]
    pointers = tuple(
        (p.offset, name) for p, name in zip(kernel.parameters, ("out", "in"), strict=True)
    )
    launch = PackedLaunch(
        kernel, (_BLOCKS, 1, 1), (128, 1, 1), 0, bytes(kernel.parameter_bytes), pointers, 0
    )
    buffers = (
        DeviceBuffer("out", ArgumentRole.INOUT, np.zeros(4, np.uint8)),
        DeviceBuffer("in", ArgumentRole.IN, numbers.view(np.uint8)),
    )
    outcome = Emulator().run(compilation, (launch,), buffers)
    if outcome.findings:
        return outcome.findings[0].describe()
    got = int(outcome.contents["out"].view(np.int32)[0])
    return "" if got == int(numbers.sum()) else f"a sum came out as {got}, not {numbers.sum()}"
