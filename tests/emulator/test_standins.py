"""Stand-ins whose code kernels run: cuRAND's Philox generator, and PyTorch's element types."""

from __future__ import annotations

import numpy as np
import torch

from astra_tui.lab.compiler import Compiler
from tests.emulator.harness import run_kernel

# Seed, subsequence and offset, with carries out of each part of the counter.
SEEDS = [
    [0, 0, 0],
    [0xDEADBEEFCAFE, 7, 0xFFFFFFFFFFFFFFFE],
    [2**64 - 1, 2**64 - 1, 2**64 - 1],
]
PHILOX = """
#include <curand_kernel.h>
__global__ void k(const unsigned long long* from, unsigned int* out) {
  const unsigned long long* mine = from + 3 * threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(mine[0], mine[1], mine[2], &state);
  unsigned int* next = out + 16 * threadIdx.x;
  for (int i = 0; i < 5; ++i) *next++ = curand(&state);
  const float4 u = curand_uniform4(&state);
  for (float each : {u.x, u.y, u.z, u.w, curand_uniform(&state)}) *next++ = __float_as_uint(each);
  skipahead(7ull, &state);
  *next++ = curand(&state);
  skipahead_sequence(3ull, &state);
  *next++ = curand(&state);
  const uint4 four = curand4(&state);
  for (unsigned int each : {four.x, four.y, four.z, four.w}) *next++ = each;
}
"""
# What the same text gave with the header of cuRAND 10.4.5, but for the first row, whose first
# words are the known answer of the generator's authors (Random123).
KNOWN = {
    0: "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    1: "395614a2 c935b148 baf6bec2 c1763e67 1e2e1203 3f0462e9 3d82ead7 3f1ee993 "
    "3f12410d 3e585474 76571c0a ae91d4ef 32859db4 08c21ca4 e5da5771 cb51d65f",
    2: "411fcefd c6c2f643 593202a0 1edab3f5 fef481e0 3f7d61fc 3f04a5db 3ea40e99 "
    "3f3f8008 3e950ab3 439f0cbd eb920eb4 d1ac741d f772eaca a8e69be5 12901dc7",
}


def test_philox_gives_the_bits_of_curand(compiler: Compiler) -> None:
    out = np.zeros((len(SEEDS), 16), np.uint32)
    ran = run_kernel(compiler, PHILOX, [np.array(SEEDS, np.uint64), out], block=len(SEEDS))
    for row, words in KNOWN.items():
        drawn = [f"{word:08x}" for word in ran["a1"][row]]
        assert " ".join(drawn[: len(words.split())]) == words


TYPES = """
#include <torch/all.h>
template <typename T> __device__ void both(float a, float b, float* out) {
  const T x(a), y(b);
  out[0] = float(x);
  out[1] = float(x * y);
  out[2] = x + b;
  out[3] = float(-y);
}
__global__ void k(const float* a, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = a[i], y = a[(i + 1) % n];
  both<c10::BFloat16>(x, y, out + 16 * i);
  both<c10::Half>(x, y, out + 16 * i + 4);
  both<c10::Float8_e4m3fn>(x, y, out + 16 * i + 8);
  both<c10::Float8_e5m2>(x, y, out + 16 * i + 12);
}
"""


def test_torchs_element_types_round_as_torch_does(compiler: Compiler) -> None:
    special = [0.0, -0.0, 1e-9, 2**-10, 448.0, 463.9, 464.1, 480.0, 57344.0, 61440.0, 65519.0]
    drawn = np.random.default_rng(5).normal(0, 1, 200) * 10.0 ** np.arange(-5, 5).repeat(20)
    values = np.array([*special, np.inf, -np.inf, np.nan, *drawn], np.float32)
    n = len(values)
    out = np.zeros((n, 4, 4), np.float32)
    ran = run_kernel(compiler, TYPES, [values, out, n], grid=-(-n // 128), block=128)["a1"]
    a, b = torch.from_numpy(values), torch.from_numpy(np.roll(values, -1))
    types = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)
    for number, dtype in enumerate(types):
        x, y = a.to(dtype).float(), b.to(dtype).float()
        expected = torch.stack([x, (x * y).to(dtype).float(), x + b, -y], 1)
        np.testing.assert_array_equal(ran[:, number], expected.numpy(), err_msg=str(dtype))
