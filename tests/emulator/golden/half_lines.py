"""What an H100 reads from its memory for loads and stores of single sectors, cold.

    ncu --csv --page raw --metrics dram__bytes_read.sum python tests/emulator/golden/half_lines.py

Each launch has 2**20 threads of one access of 4 bytes. Needs NumPy, cuda-bindings and NVRTC.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

THREADS = 1 << 20
BLOCK = 256
SOURCE = """
__device__ long long place(long long stride, long long step, int together) {
  const long long thread = 1ll * blockIdx.x * blockDim.x + threadIdx.x;
  return thread / together * stride + thread % together * step;
}
__global__ void load(char* a0, float* a1, long long stride, long long step, int together) {
  const float value = *(const float*)(a0 + place(stride, step, together));  // LOAD
  if (value == 1.5f) *a1 = value;
}
__global__ void store(char* a0, float* a1, long long stride, long long step, int together) {
  *(float*)(a0 + place(stride, step, together)) = 2.5f;  // STORE
}
"""


@dataclass(frozen=True)
class Pattern:
    """Threads in groups of `together`: `step` bytes apart in a group, groups `stride` bytes."""

    kernel: str
    stride: int
    step: int
    together: int
    read: int
    """Bytes that came from memory (dram__bytes_read.sum), with the default limit of a fetch from
    L2, cudaLimitMaxL2FetchGranularity, which is 64."""
    why: str

    def size(self, threads: int) -> int:
        """Bytes that so many threads reach over."""
        return threads // self.together * self.stride


PATTERNS = (
    Pattern("load", 32, 0, 1, 33_560_832, "every sector"),
    Pattern("load", 64, 0, 1, 67_115_520, "one sector of each half line"),
    Pattern("load", 128, 0, 1, 67_115_520, "one sector of each line"),
    Pattern("load", 128, 32, 2, 33_560_576, "both sectors of one half of each line"),
    Pattern("load", 128, 64, 2, 67_115_520, "one sector of both halves of each line"),
    Pattern("load", 64, 4, 8, 8_393_728, "a whole sector of each half line"),
    Pattern("load", 128, 4, 8, 8_393_728, "a whole sector of each line"),
    Pattern("store", 32, 0, 1, 27_826_176, "a part of every sector"),
    Pattern("store", 64, 0, 1, 31_068_672, "a part of one sector of each half line"),
    Pattern("store", 128, 0, 1, 32_120_320, "a part of one sector of each line"),
    Pattern("store", 128, 32, 2, 30_649_344, "parts of both sectors of one half of each line"),
    Pattern("store", 128, 64, 2, 30_677_248, "parts of one sector of both halves of each line"),
    Pattern("store", 64, 4, 8, 4_864, "a whole sector of each half line"),
    Pattern("store", 128, 4, 8, 4_864, "a whole sector of each line"),
)
"""An H100, driver 580.159.04. With a limit of 32 each load read its 33,560,832 bytes or fewer; with
128 one sector of each line read 134,224,128. What stores read follows the limit nowhere."""


def call(result: tuple[Any, ...]) -> Any:
    """The value of a call of the driver or NVRTC. Raises RuntimeError for an error."""
    status, *values = result
    if int(status):
        raise RuntimeError(str(status))
    return values[0] if len(values) == 1 else None


def main() -> None:
    """Launches every pattern once."""
    from cuda.bindings import driver, nvrtc

    call(driver.cuInit(0))
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(0))))
    text = SOURCE.replace("__global__", 'extern "C" __global__').encode()
    program = call(nvrtc.nvrtcCreateProgram(text, b"half_lines.cu", 0, [], []))
    call(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"]))
    cubin = b" " * call(nvrtc.nvrtcGetCUBINSize(program))
    call(nvrtc.nvrtcGetCUBIN(program, cubin))
    module = call(driver.cuModuleLoadData(cubin))
    most = max(p.size(THREADS) for p in PATTERNS)
    data, result = call(driver.cuMemAlloc(most)), call(driver.cuMemAlloc(64))
    call(driver.cuMemsetD8(data, 0, most))
    for pattern in PATTERNS:
        function = call(driver.cuModuleGetFunction(module, pattern.kernel.encode()))
        words = [ctypes.c_uint64(int(data)), ctypes.c_uint64(int(result))]
        words += [ctypes.c_int64(pattern.stride), ctypes.c_int64(pattern.step)]
        arguments = [*words, ctypes.c_int32(pattern.together)]
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        call(
            driver.cuLaunchKernel(
                function, THREADS // BLOCK, 1, 1, BLOCK, 1, 1, 0, 0, ctypes.addressof(pointers), 0
            )
        )
    call(driver.cuCtxSynchronize())


if __name__ == "__main__":
    main()
