// How a norm of short rows should load them: into registers or, by asynchronous copies, into shared
// memory; a row by many threads with one pack each, or by few with many on the way.
//
//   nvcc -O3 -std=c++17 -arch=sm_90a -o row_loads benchmarks/row_loads.cu    # two minutes
//   ./row_loads [CUBIN THREADS ROWS_A_BLOCK SHARED_BYTES TOKENS D]...
//
// Times fused_add_rmsnorm for float16 in each variant, launches of a graph one after the other with
// programmatic dependent launch, on sets of buffers that together are four times L2; the median of
// three. A cubin is that of FlashInfer's CuTe-DSL kernel for these sizes, from the cache of
// `astra-tui yardstick update fused_add_rmsnorm`, which names its numbers. Nothing is checked: it
// says which variant is worth a move of the playbook.

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

enum Load { REGISTERS, STREAMED, L2_ONLY, NO_L1, ASYNC };
enum Residual { AT_ONCE, AFTER_ALL, LAST };
const char* const LOADS[] = {"registers", "__ldcs", "__ldcg", "L1::no_allocate", "cp.async.ca"};
const char* const RESIDUALS[] = {"at once", "after all loads", "with the result"};

struct alignas(16) Pack {
  __half value[8];
};

template <int LOAD>
__device__ __forceinline__ Pack load(const Pack* from) {
  if (LOAD == REGISTERS) return *from;
  union {
    uint4 bits;
    Pack pack;
  } r;
  if (LOAD == STREAMED) r.bits = __ldcs((const uint4*)from);
  if (LOAD == L2_ONLY) r.bits = __ldcg((const uint4*)from);
  if (LOAD == NO_L1) asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.bits.x), "=r"(r.bits.y), "=r"(r.bits.z), "=r"(r.bits.w) : "l"(from));
  return r.pack;
}

__device__ __forceinline__ void copy(Pack* to, const Pack* from) {
  const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
}

// THREADS a row, ROWS a block, TURNS packs a thread; EARLY says whether weights are loaded before
// the launch before has ended.
template <int THREADS, int ROWS, int TURNS, int LOAD, int RESIDUAL, bool EARLY>
__global__ void __launch_bounds__(THREADS* ROWS)
    norm(__half* x, __half* residual, const __half* weight, int d, float eps) {
  extern __shared__ Pack rows[];
  __shared__ float of_warp[ROWS][THREADS / 32];
  const int own = threadIdx.x / THREADS, t = threadIdx.x % THREADS, packs = d / 8;
  const int64_t row = (int64_t)blockIdx.x * ROWS + own;
  Pack* row_x = (Pack*)(x + row * d);
  Pack* row_r = (Pack*)(residual + row * d);
  const Pack* row_w = (const Pack*)weight;
  Pack w[TURNS], a[TURNS], b[TURNS], rounded[TURNS];
  float z[TURNS][8], sum = 0.0f;
#define EACH(...) \
  _Pragma("unroll") for (int k = 0; k < TURNS; ++k) { \
    const int i = t + k * THREADS; \
    if (i < packs) { __VA_ARGS__ } \
  }
  if (EARLY) EACH(w[k] = row_w[i];)
  cudaGridDependencySynchronize();
  if (LOAD == ASYNC) {
    Pack* kept = rows + own * 2 * packs;
    EACH(copy(kept + i, row_x + i);)
    EACH(copy(kept + packs + i, row_r + i);)
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    EACH(a[k] = kept[i]; b[k] = kept[packs + i];)
  } else {
    EACH(a[k] = load<LOAD>(row_x + i); b[k] = load<LOAD>(row_r + i);)
  }
  EACH(
      for (int j = 0; j < 8; ++j) {
        z[k][j] = (float)a[k].value[j] + (float)b[k].value[j];
        sum += z[k][j] * z[k][j];
        rounded[k].value[j] = (__half)z[k][j];
      } if (RESIDUAL == AT_ONCE) row_r[i] = rounded[k];)
  if (!EARLY) EACH(w[k] = row_w[i];)
  if (RESIDUAL == AFTER_ALL) EACH(row_r[i] = rounded[k];)
  for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (THREADS > 32) {
    if (t % 32 == 0) of_warp[own][t / 32] = sum;
    __syncthreads();
    sum = t % 32 < THREADS / 32 ? of_warp[own][t % 32] : 0.0f;
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  }
  const float scale = rsqrtf(sum / d + eps);
  EACH(
      Pack result; for (int j = 0; j < 8; ++j) result.value[j] =
                       (__half)(z[k][j] * scale * (float)w[k].value[j]);
      if (RESIDUAL == LAST) row_r[i] = rounded[k]; row_x[i] = result;)
#undef EACH
}

struct Version {
  const void* kernel;
  std::string name;
  int threads, rows, bytes, d, tokens;  // 0 tokens: any
};

std::vector<Version> versions;

template <int THREADS, int ROWS, int TURNS, int LOAD, int RESIDUAL, bool EARLY>
void add(int d) {
  char name[160];
  snprintf(name, sizeof name, "%d threads a row, %d rows a block, %s, residual %s, weights %s", THREADS,
           ROWS, LOADS[LOAD], RESIDUALS[RESIDUAL], EARLY ? "early" : "late");
  const int bytes = LOAD == ASYNC ? ROWS * d * 4 : 0;
  versions.push_back({(const void*)norm<THREADS, ROWS, TURNS, LOAD, RESIDUAL, EARLY>, name,
                      THREADS * ROWS, ROWS, bytes, d, 0});
}

template <int THREADS, int ROWS, int TURNS, int LOAD>
void add_of_load(int d) {
  add<THREADS, ROWS, TURNS, LOAD, AT_ONCE, true>(d);
  add<THREADS, ROWS, TURNS, LOAD, AT_ONCE, false>(d);
  add<THREADS, ROWS, TURNS, LOAD, AFTER_ALL, true>(d);
  add<THREADS, ROWS, TURNS, LOAD, AFTER_ALL, false>(d);
  add<THREADS, ROWS, TURNS, LOAD, LAST, false>(d);
}

template <int THREADS, int ROWS, int TURNS>
void add_all(int d) {
  add_of_load<THREADS, ROWS, TURNS, REGISTERS>(d);
  add_of_load<THREADS, ROWS, TURNS, STREAMED>(d);
  add_of_load<THREADS, ROWS, TURNS, L2_ONLY>(d);
  add_of_load<THREADS, ROWS, TURNS, NO_L1>(d);
  add_of_load<THREADS, ROWS, TURNS, ASYNC>(d);
}

#define CHECK(call) \
  if (cudaError_t failed = (call)) { \
    fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(failed)); \
    exit(1); \
  }

struct Buffers {
  char* memory;
  size_t bytes;
  char* weight;
  int l2;
};

// Microseconds of one launch, out of some replays of a graph of launches on sets in turn.
double time_of(const Version& v, int tokens, const Buffers& of, cudaStream_t stream) {
  const size_t half = (size_t)tokens * v.d * 2, set = 2 * half;
  const int sets = (int)std::min(of.bytes / set, 4 * (size_t)of.l2 / set + 1);
  const int launches = sets * std::max(1, 64 / sets), replays = 12;
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3((tokens + v.rows - 1) / v.rows);
  config.blockDim = dim3(v.threads);
  config.dynamicSmemBytes = v.bytes;
  config.stream = stream;
  config.attrs = attribute;
  config.numAttrs = 1;
  if (v.bytes > 48000) {
    CHECK(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, v.bytes));
  }
  cudaGraph_t graph;
  cudaGraphExec_t made;
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int n = 0; n < launches; ++n) {
    struct Rows {
      char* at;
      long long count;
    } x{of.memory + n % sets * set, tokens}, residual{x.at + half, tokens};
    char* weight = of.weight;
    long long count = tokens;
    int d = v.d;
    float eps = 1e-6f;
    void* ours[] = {&x.at, &residual.at, &weight, &d, &eps};
    void* theirs[] = {&x, &residual, &weight, &count, &eps};
    CHECK(cudaLaunchKernelExC(&config, v.kernel, v.tokens ? theirs : ours));
  }
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  for (int n = 0; n < 2; ++n) CHECK(cudaGraphLaunch(made, stream));
  CHECK(cudaEventRecord(begin, stream));
  for (int n = 0; n < replays; ++n) CHECK(cudaGraphLaunch(made, stream));
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaEventSynchronize(end));
  float ms;
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  CHECK(cudaGraphExecDestroy(made));
  CHECK(cudaGraphDestroy(graph));
  return ms * 1e3 / (replays * launches);
}

void add_cubin(char** words) {
  cudaLibrary_t library;
  cudaKernel_t kernel;
  CHECK(cudaLibraryLoadFromFile(&library, words[0], nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cudaLibraryEnumerateKernels(&kernel, 1, library));
  versions.push_back({(const void*)kernel, "FlashInfer, CuTe-DSL", atoi(words[1]), atoi(words[2]),
                      atoi(words[3]), atoi(words[5]), atoi(words[4])});
}

int main(int count, char** words) {
  add_all<64, 1, 8>(4096), add_all<64, 2, 8>(4096), add_all<128, 1, 4>(4096);
  add_all<128, 2, 4>(4096), add_all<256, 1, 2>(4096), add_all<512, 1, 1>(4096);
  add_all<128, 1, 8>(8192), add_all<256, 1, 4>(8192), add_all<1024, 1, 1>(8192);
  add_all<352, 1, 4>(11008), add_all<704, 1, 2>(11008);
  add_all<128, 1, 14>(14336), add_all<448, 1, 4>(14336), add_all<896, 1, 2>(14336);
  for (int n = 1; n + 5 < count; n += 6) add_cubin(words + n);
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  Buffers of{nullptr, 3ull << 30, nullptr, device.l2CacheSize};
  CHECK(cudaMalloc(&of.memory, of.bytes));
  CHECK(cudaMemset(of.memory, 0x2c, of.bytes));
  CHECK(cudaMalloc(&of.weight, 1 << 20));
  CHECK(cudaMemset(of.weight, 0x2c, 1 << 20));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const int shapes[][2] = {{1024, 4096}, {256, 4096}, {512, 14336}, {128, 11008}, {4096, 8192}};
  for (auto [tokens, d] : shapes) {
    std::vector<const Version*> fit;
    for (auto& v : versions) {
      if (v.d == d && tokens % v.rows == 0 && (!v.tokens || v.tokens == tokens)) fit.push_back(&v);
    }
    std::vector<std::vector<double>> us(fit.size());
    for (int pass = 0; pass < 3; ++pass) {
      for (size_t n = 0; n < fit.size(); ++n) us[n].push_back(time_of(*fit[n], tokens, of, stream));
    }
    std::vector<std::pair<double, size_t>> order;
    for (size_t n = 0; n < fit.size(); ++n) {
      std::sort(us[n].begin(), us[n].end());
      order.push_back({us[n][1], n});
    }
    std::sort(order.begin(), order.end());
    printf("== %s, %dx%d\n", device.name, tokens, d);
    for (auto [time, n] : order) {
      cudaFuncAttributes has;
      CHECK(cudaFuncGetAttributes(&has, fit[n]->kernel));
      printf("%8.3f us  %3d registers, %zu bytes spilled  %s\n", time, has.numRegs, has.localSizeBytes,
             fit[n]->name.c_str());
    }
    fflush(stdout);
  }
}
