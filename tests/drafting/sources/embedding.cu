#include <cuda_fp16.h>
#include <stdint.h>

// hidden[t] = table[ids[t]] + positions[t]; ids outside of the vocabulary give the position alone
template <typename T>
__global__ void embed_tokens(T* __restrict__ hidden, const int64_t* __restrict__ ids,
                             const T* __restrict__ table, const T* __restrict__ positions,
                             int n_tokens, int vocab, int dim) {
  const int token = blockIdx.x;
  if (token >= n_tokens) return;
  const int64_t id = ids[token];
  for (int i = threadIdx.x; i < dim; i += blockDim.x) {
    float v = (float)positions[token * dim + i];
    if (id >= 0 && id < vocab) v += (float)table[id * dim + i];
    hidden[token * dim + i] = (T)v;
  }
}

template <typename T>
void embed(T* hidden, const int64_t* ids, const T* table, const T* positions, int n_tokens,
           int vocab, int dim, cudaStream_t stream) {
  int threads = dim < 1024 ? dim : 1024;
  embed_tokens<T><<<n_tokens, threads, 0, stream>>>(hidden, ids, table, positions, n_tokens, vocab,
                                                    dim);
}

template void embed<__half>(__half*, const int64_t*, const __half*, const __half*, int, int, int,
                            cudaStream_t);
