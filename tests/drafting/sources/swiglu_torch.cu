#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " must be contiguous CUDA")

extern "C" __global__ void swiglu_forward(float* __restrict__ out, const float* __restrict__ gate_up,
                                          int rows, int hidden) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y;
  if (row >= rows || col >= hidden) return;

  const float* in_row = gate_up + (size_t)row * 2 * hidden;
  float g = in_row[col];
  float u = in_row[hidden + col];
  out[(size_t)row * hidden + col] = g / (1.f + __expf(-g)) * u;
}

torch::Tensor swiglu(torch::Tensor gate_up) {
  CHECK_INPUT(gate_up);
  const int rows = gate_up.size(0);
  const int hidden = gate_up.size(1) / 2;
  auto out = torch::empty({rows, hidden}, gate_up.options());

  const dim3 block(128);
  const dim3 grid((hidden + block.x - 1) / block.x, rows);
  swiglu_forward<<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
      out.data_ptr<float>(), gate_up.data_ptr<float>(), rows, hidden);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("swiglu", &swiglu, "SwiGLU forward (CUDA)");
}
