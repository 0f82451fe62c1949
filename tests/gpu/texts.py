"""Kernels that do what no kernel should, and one that copies: all are k(out, source, count)."""

from __future__ import annotations

HEADER = """
__global__ void k(float* out, const float* source, long long count) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
"""
COPY = HEADER + "    for (long long j = i; j < count; j += blockDim.x) out[j] = source[j];\n}\n"
ENDLESS = HEADER + "    while (clock64() >= 0) {}\n    out[i] = source[i];\n}\n"
ILLEGAL = HEADER + "    out[(1ll << 40) + i] = source[i];\n}\n"
MISALIGNED = HEADER + "    *(float*)((char*)out + 2 * count + 2) = source[i];\n}\n"
SHARED = HEADER + (
    "    extern __shared__ float held[];\n"
    "    held[threadIdx.x] = source[i];\n    out[i] = held[threadIdx.x];\n}\n"
)
# Half a megabyte a thread, which the driver sets aside for every thread that the GPU can hold.
LARGE_STACK = HEADER + (
    "    volatile char held[523000];\n"
    "    for (int j = 0; j < 523000; j += 100) held[j] = (char)count;\n"
    "    out[i] = held[(int)source[i] * 100];\n}\n"
)
