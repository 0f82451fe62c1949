"""Shapes, strides and sizes that a launcher's own arithmetic and checks decide."""

from __future__ import annotations

import tomllib

import pytest

from astra_tui.drafting.fitting import Contract
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from tests.drafting.reading import drafted, texts

SOURCE = """
#include <cuda_fp16.h>
#include <algorithm>
#include <cstdint>

template <typename T, uint32_t N>
struct Pack {
  T items[N];
  __device__ void load(const T* from) { for (uint32_t i = 0; i < N; ++i) items[i] = from[i]; }
  __device__ void store(T* to) const { for (uint32_t i = 0; i < N; ++i) to[i] = items[i]; }
};

template <uint32_t kVec, typename T>
__global__ void gather_heads(const T* x, const int* slots, T* out, uint32_t rows, uint32_t heads,
                             uint32_t head_dim, size_t x_stride_n, size_t x_stride_h) {
  const int slot = slots[blockIdx.x];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const uint32_t head = blockIdx.y * blockDim.y + threadIdx.y;
  if (head < heads) {
    Pack<T, kVec> pack;
    pack.load(x + blockIdx.x * x_stride_n + head * x_stride_h + threadIdx.x * kVec);
    pack.store(out + (slot * heads + head) * head_dim + threadIdx.x * kVec);
  }
}

template <uint32_t kHeadDim, typename T>
void launch(const T* x, const int* slots, T* out, uint32_t rows, uint32_t heads, uint32_t groups,
            size_t x_stride_n, size_t x_stride_h, cudaStream_t stream) {
  constexpr uint32_t kVec = std::max(16 / sizeof(T), kHeadDim / 32);
  if (rows == 0 || heads % 24 != 0) return;
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config;
  config.gridDim = dim3(rows, (heads + 3) / 4);
  config.blockDim = dim3(kHeadDim / kVec, 4);
  config.dynamicSmemBytes = 0;
  config.stream = stream;
  config.attrs = attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, gather_heads<kVec, T>, x, slots, out, rows, heads, kHeadDim,
                     x_stride_n, x_stride_h);
}
"""


def test_a_launchers_vectors_strides_and_checks_give_shapes_and_sizes() -> None:
    draft = drafted("heads", SOURCE, "heads.cu")
    task = tomllib.loads(draft.files["task.toml"])
    args, accepts = task["args"], task["contract"]["accepts"]
    assert args["x"]["shape"] == ["rows", "heads", "head_dim"]
    assert args["out"]["shape"] == ["out_rows", "heads", "head_dim"]
    assert "stride(x, 0), stride(x, 1)" in draft.files["baseline.cu"]
    assert args["out"]["role"] == "inout"  # Rows that no slot names keep what they held.
    assert (args["slots"]["values"]["high"], args["slots"]["values"]["distinct"]) == (
        "out_rows - 1", "tensor",
    )  # fmt: skip
    assert "rows <= out_rows" in accepts
    assert args["slots"]["stable"]
    assert {"heads % 24 == 0", "aligned(x, 16)", "aligned(out, 16)"} <= set(accepts)
    assert {f"stride(x, {axis}) * sizeof(T) % 16 == 0" for axis in (0, 1)} <= set(accepts)
    assert not any("rows != 0" in condition for condition in accepts)
    assert task["dims"]["heads"]["typical"] % 24 == 0
    assert all(size % 24 == 0 for size in task["dims"]["heads"]["sizes"])
    assert task["workloads"][0]["dims"]["heads"] % 24 == 0


WALKING = """
#include <torch/extension.h>
#include <THC/THCAtomics.cuh>

inline int GET_BLOCKS(const int n, const int threads = 512) {
  int wanted = (n + threads - 1) / threads;
  int most = 4096;
  return min(wanted, most);
}

template <typename T>
__global__ void unpack(const unsigned char* packed, T* out, T* sums, int* counts, int* ends,
                       const bool* mask, const int* starts, int rows, int n) {
  packed += blockIdx.y * n;
  T* of_row;
  of_row = out + blockIdx.y * (2 * n);
  T* sum = sums;
  sum += blockIdx.y;
  int* end = counts;
  for (int i = threadIdx.x; i < n; i += 512) {
    if (mask != nullptr && mask[i]) continue;
    ends[blockIdx.y * (n + 1) + i] = i;
    of_row[i] = packed[i] & 15;
    of_row[i + n] = packed[i] >> 4;
    *end = starts[blockIdx.y + 1] - starts[blockIdx.y];
    end += 512;
  }
  sum[0] = 0;
  sum[0] += n;
}

template <typename T>
void launch(const unsigned char* packed, T* out, T* sums, int* counts, int* ends, const int* starts,
            int rows, int n, const bool* mask = nullptr) {
  int most = at::cuda::getCurrentDeviceProperties()->maxGridSize[1];
  dim3 grid(std::min(GET_BLOCKS(n), most), rows);
  unpack<<<grid, 512>>>(packed, out, sums, counts, ends, mask, starts, rows, n);
}

void unpack_tensor(at::Tensor packed, at::Tensor out, at::Tensor sums, at::Tensor counts,
                   at::Tensor ends, at::Tensor starts) {
  AT_ASSERTM(packed.max().item<int64_t>() < 256, "too large");
  launch(packed.data<unsigned char>(), out.data<c10::Half>(), sums.data<c10::Half>(),
         counts.data<int>(), ends.data<int>(), starts.data<int>(), packed.size(0),
         packed.size(1));
}
"""


def test_pointers_are_followed_as_they_move() -> None:
    draft = drafted("walking", WALKING, "walking.cu")
    task = tomllib.loads(draft.files["task.toml"])
    assert task["dtypes"] == ["float16"]
    shapes = {name: argument["shape"] for name, argument in task["args"].items()}
    assert shapes["packed"] == ["rows", "n"]
    assert shapes["out"] == ["rows", "2 * n"]
    assert shapes["sums"] == ["rows"]
    roles = {name: argument["role"] for name, argument in task["args"].items()}
    assert shapes["ends"] == ["rows", "n + 1"]
    assert shapes["starts"] == ["rows + 1"]
    assert any("starts holds int32" in t and '"offsets"' in t for t in texts(draft))
    assert roles == {
        "packed": "in",
        "starts": "in",
        **dict.fromkeys(("out", "sums", "counts", "ends"), "out"),
    }
    assert "mask is passed as null, and no argument of the task" in texts(draft)
    assert task["args"]["packed"]["values"]["high"] == 255
    assert (
        "grid=(min(min(ceil_div(n, 512), 4096), 65535), rows) block=512"
        in draft.files["baseline.cu"]
    )


RIVALS = """
__global__ void pick(const float* x, float* out, bool first, int n, int m) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (first) {
    if (i < n) out[0] = x[i];
  } else {
    if (i < m) out[0] = x[i];
  }
}
void launch(const float* x, float* out, bool first, int n, int m) {
  pick<<<(n + m + 127) / 128, 128>>>(x, out, first, n, m);
}
"""


def test_a_tensor_that_is_read_in_two_shapes_is_asked_about() -> None:
    said = "x is read or written as [n] and as [m]: the draft says the first"
    assert said in texts(drafted("pick", RIVALS, "pick.cu"))


def test_a_kernel_without_pointers_is_refused_with_what_it_takes() -> None:
    taken = "at::PackedTensorAccessor32<float, 2> x"
    source = f"#include <torch/extension.h>\n__global__ void scale({taken}) {{ x[0][0] = 1; }}"
    with pytest.raises(UserError) as refused:
        drafted("scale", source, "scale.cu")
    assert "scale takes no pointer to elements, but at::PackedTensor" in refused.value.message


def test_sizes_are_changed_as_little_as_a_contract_allows() -> None:
    texts = ("d % 8 == 0", "w == 2 * d", "d // (16 // sizeof(T)) * heads <= 1024", "aligned(x, 16)")
    contract = Contract.of(texts, ("d", "w", "heads"), {"heads": (4, 8)}, (DType.FLOAT16,))
    fitted = contract.fitted({"d": 100, "w": 100, "heads": 8})
    assert contract.broken(fitted) == []
    assert fitted["heads"] in (4, 8)
    assert fitted["w"] == 2 * fitted["d"]
    assert len(contract.broken({"d": 100, "w": 100, "heads": 8})) == 2
