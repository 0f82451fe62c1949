// Included before a source that is read, not compiled: what nvcc gives every file by itself.
#pragma once
typedef decltype(sizeof(0)) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
typedef long clock_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#include <crt/host_defines.h>
#include <stdint.h>
#include <nv/target>
#include <type_traits>
#include <utility>
namespace std {
template <typename T> class initializer_list {
  const T* items;
  size_t count;

 public:
  constexpr initializer_list() : items(nullptr), count(0) {}
  constexpr size_t size() const { return count; }
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + count; }
};
template <typename T> constexpr typename remove_reference<T>::type&& move(T&& t);
template <typename T> T&& forward(typename remove_reference<T>::type& t);
}  // namespace std
#include <driver_types.h>
#include <vector_types.h>
#include <vector_functions.h>
#include <device_launch_parameters.h>
#define CUDA_VERSION 13000
#define M_2_SQRTPI 1.12837916709551257390
#pragma clang force_cuda_host_device begin
extern "C" cudaError_t __cudaPushCallConfiguration(dim3, dim3, size_t = 0, void* = 0);
extern "C" cudaError_t cudaConfigureCall(dim3, dim3, size_t = 0, void* = 0);

// The runtime's functions: what they are called with is read, what they do is not.
#define ASTRA_HOST(NAME) template <typename... A> __host__ __device__ cudaError_t NAME(A&&...);
ASTRA_HOST(cudaGetDevice)
ASTRA_HOST(cudaSetDevice)
ASTRA_HOST(cudaGetDeviceCount)
ASTRA_HOST(cudaGetDeviceProperties)
ASTRA_HOST(cudaDeviceGetAttribute)
ASTRA_HOST(cudaDeviceSynchronize)
ASTRA_HOST(cudaStreamSynchronize)
ASTRA_HOST(cudaFuncSetAttribute)
ASTRA_HOST(cudaFuncGetAttributes)
ASTRA_HOST(cudaLaunchKernel)
ASTRA_HOST(cudaLaunchKernelEx)
ASTRA_HOST(cudaLaunchKernelExC)
ASTRA_HOST(cudaLaunchCooperativeKernel)
ASTRA_HOST(cudaGetLastError)
ASTRA_HOST(cudaPeekAtLastError)
ASTRA_HOST(cudaMalloc)
ASTRA_HOST(cudaMallocManaged)
ASTRA_HOST(cudaMallocHost)
ASTRA_HOST(cudaMallocAsync)
ASTRA_HOST(cudaFreeHost)
ASTRA_HOST(cudaFreeAsync)
ASTRA_HOST(cudaStreamCreate)
ASTRA_HOST(cudaStreamDestroy)
ASTRA_HOST(cudaStreamIsCapturing)
ASTRA_HOST(cudaDeviceReset)
ASTRA_HOST(cudaEventDestroy)
ASTRA_HOST(cudaMemcpyToSymbol)
ASTRA_HOST(cudaFuncSetCacheConfig)
ASTRA_HOST(cudaMemPrefetchAsync)
ASTRA_HOST(cudaFree)
ASTRA_HOST(cudaMemcpy)
ASTRA_HOST(cudaMemcpyAsync)
ASTRA_HOST(cudaMemset)
ASTRA_HOST(cudaMemsetAsync)
ASTRA_HOST(cudaEventCreate)
ASTRA_HOST(cudaEventRecord)
ASTRA_HOST(cudaEventSynchronize)
ASTRA_HOST(cudaEventElapsedTime)
ASTRA_HOST(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
ASTRA_HOST(cudaOccupancyMaxPotentialBlockSize)
ASTRA_HOST(cudaOccupancyMaxPotentialClusterSize)
ASTRA_HOST(cudaOccupancyMaxActiveClusters)
ASTRA_HOST(cudaOccupancyAvailableDynamicSMemPerBlock)
ASTRA_HOST(cudaHostGetDevicePointer)
ASTRA_HOST(cudaRuntimeGetVersion)
ASTRA_HOST(cudaDriverGetVersion)
#undef ASTRA_HOST
__host__ __device__ const char* cudaGetErrorString(cudaError_t);
__host__ __device__ const char* cudaGetErrorName(cudaError_t);

// Device functions whose declarations NVRTC holds within itself.
#define ASTRA_DEVICE(NAME) template <typename T = int, typename... A> \
  __host__ __device__ T NAME(T, A...);
#define ASTRA_VOID(NAME) template <typename... A> __host__ __device__ void NAME(A...);
#define ASTRA_INT(NAME) template <typename... A> __host__ __device__ int NAME(A...);
#define ASTRA_UINT(NAME) template <typename... A> __host__ __device__ unsigned int NAME(A...);
#define ASTRA_FLOAT(NAME) template <typename... A> __host__ __device__ float NAME(A...);
#define ASTRA_SECOND(NAME) template <typename M, typename T, typename... A> \
  __host__ __device__ T NAME(M, T, A...);
#define ASTRA_POINTEE(NAME) template <typename T, typename... A> \
  __host__ __device__ T NAME(T*, A...); \
  template <typename T, typename... A> __host__ __device__ T NAME(const T*, A...);
ASTRA_VOID(__syncthreads)
ASTRA_VOID(__syncwarp)
ASTRA_VOID(__threadfence)
ASTRA_VOID(__threadfence_block)
ASTRA_VOID(__threadfence_system)
ASTRA_VOID(__nanosleep)
ASTRA_VOID(__trap)
ASTRA_VOID(__stcg)
ASTRA_VOID(__stcs)
ASTRA_VOID(__stwb)
ASTRA_VOID(__stwt)
ASTRA_VOID(__pipeline_memcpy_async)
ASTRA_VOID(__pipeline_commit)
ASTRA_VOID(__pipeline_wait_prior)
ASTRA_VOID(cudaGridDependencySynchronize)
ASTRA_VOID(cudaTriggerProgrammaticLaunchCompletion)
ASTRA_INT(__syncthreads_count)
ASTRA_INT(__syncthreads_and)
ASTRA_INT(__syncthreads_or)
ASTRA_INT(__any_sync)
ASTRA_INT(__all_sync)
ASTRA_INT(__popc)
ASTRA_INT(__popcll)
ASTRA_INT(__clz)
ASTRA_INT(__clzll)
ASTRA_INT(__ffs)
ASTRA_INT(__ffsll)
ASTRA_INT(__dp4a)
ASTRA_INT(__float_as_int)
ASTRA_INT(__mul24)
ASTRA_INT(__mulhi)
ASTRA_UINT(__ballot_sync)
ASTRA_UINT(__activemask)
ASTRA_UINT(__match_any_sync)
ASTRA_UINT(__match_all_sync)
ASTRA_UINT(__brev)
ASTRA_UINT(__byte_perm)
ASTRA_UINT(__funnelshift_l)
ASTRA_UINT(__funnelshift_r)
ASTRA_UINT(__umulhi)
ASTRA_UINT(__float_as_uint)
ASTRA_UINT(__cvta_generic_to_shared)
ASTRA_UINT(__isShared)
ASTRA_FLOAT(__int_as_float)
ASTRA_FLOAT(__uint_as_float)
ASTRA_FLOAT(__expf)
ASTRA_FLOAT(__exp10f)
ASTRA_FLOAT(__logf)
ASTRA_FLOAT(__log2f)
ASTRA_FLOAT(__log10f)
ASTRA_FLOAT(__powf)
ASTRA_FLOAT(__sinf)
ASTRA_FLOAT(__cosf)
ASTRA_FLOAT(__fdividef)
ASTRA_FLOAT(__fdiv_rn)
ASTRA_FLOAT(__frcp_rn)
ASTRA_FLOAT(__frsqrt_rn)
ASTRA_FLOAT(__fsqrt_rn)
ASTRA_FLOAT(__fmul_rn)
ASTRA_FLOAT(__fadd_rn)
ASTRA_FLOAT(__fsub_rn)
ASTRA_FLOAT(__fmaf_rn)
ASTRA_FLOAT(__saturatef)
ASTRA_SECOND(__shfl_sync)
ASTRA_SECOND(__shfl_up_sync)
ASTRA_SECOND(__shfl_down_sync)
ASTRA_SECOND(__shfl_xor_sync)
ASTRA_SECOND(__reduce_add_sync)
ASTRA_SECOND(__reduce_min_sync)
ASTRA_SECOND(__reduce_max_sync)
ASTRA_SECOND(__reduce_and_sync)
ASTRA_SECOND(__reduce_or_sync)
ASTRA_SECOND(__reduce_xor_sync)
ASTRA_POINTEE(__ldg)
ASTRA_POINTEE(__ldcg)
ASTRA_POINTEE(__ldca)
ASTRA_POINTEE(__ldcs)
ASTRA_POINTEE(__ldlu)
ASTRA_POINTEE(__ldcv)
ASTRA_POINTEE(atomicAdd)
ASTRA_POINTEE(atomicAdd_block)
ASTRA_POINTEE(atomicSub)
ASTRA_POINTEE(atomicMax)
ASTRA_POINTEE(atomicMin)
ASTRA_POINTEE(atomicInc)
ASTRA_POINTEE(atomicDec)
ASTRA_POINTEE(atomicExch)
ASTRA_POINTEE(atomicCAS)
ASTRA_POINTEE(atomicAnd)
ASTRA_POINTEE(atomicOr)
ASTRA_POINTEE(atomicXor)
// Conversions, in each of the four roundings.
#define ASTRA_ROUNDED(TO, NAME) \
  template <typename A> __host__ __device__ TO NAME##_rn(A); \
  template <typename A> __host__ __device__ TO NAME##_rz(A); \
  template <typename A> __host__ __device__ TO NAME##_rd(A); \
  template <typename A> __host__ __device__ TO NAME##_ru(A);
#define ASTRA_CONVERSIONS(FLOAT) \
  ASTRA_ROUNDED(int, __##FLOAT##2int) ASTRA_ROUNDED(unsigned int, __##FLOAT##2uint) \
  ASTRA_ROUNDED(long long, __##FLOAT##2ll) ASTRA_ROUNDED(unsigned long long, __##FLOAT##2ull) \
  ASTRA_ROUNDED(FLOAT, __int2##FLOAT) ASTRA_ROUNDED(FLOAT, __uint2##FLOAT) \
  ASTRA_ROUNDED(FLOAT, __ll2##FLOAT) ASTRA_ROUNDED(FLOAT, __ull2##FLOAT)
ASTRA_CONVERSIONS(float)
ASTRA_CONVERSIONS(double)
ASTRA_ROUNDED(float, __double2float)
#undef ASTRA_CONVERSIONS
#undef ASTRA_ROUNDED
#undef ASTRA_DEVICE
#undef ASTRA_VOID
#undef ASTRA_INT
#undef ASTRA_UINT
#undef ASTRA_FLOAT
#undef ASTRA_SECOND
#undef ASTRA_POINTEE
long long clock64();
long long clock();
int printf(const char*, ...);
void* memcpy(void*, const void*, size_t);
void* memset(void*, int, size_t);
void* malloc(size_t);
void free(void*);
[[noreturn]] void exit(int);
int atoi(const char*);
char* getenv(const char*);

#define ASTRA_MATH_1(NAME) float NAME##f(float); double NAME(double); float NAME(float);
#define ASTRA_MATH_2(NAME) float NAME##f(float, float); double NAME(double, double); \
  float NAME(float, float);
ASTRA_MATH_1(exp) ASTRA_MATH_1(exp2) ASTRA_MATH_1(exp10) ASTRA_MATH_1(expm1) ASTRA_MATH_1(log)
ASTRA_MATH_1(log2) ASTRA_MATH_1(log10) ASTRA_MATH_1(log1p) ASTRA_MATH_1(sqrt) ASTRA_MATH_1(rsqrt)
ASTRA_MATH_1(cbrt) ASTRA_MATH_1(sin) ASTRA_MATH_1(cos) ASTRA_MATH_1(tan) ASTRA_MATH_1(asin)
ASTRA_MATH_1(acos) ASTRA_MATH_1(atan) ASTRA_MATH_1(sinh) ASTRA_MATH_1(cosh) ASTRA_MATH_1(tanh)
ASTRA_MATH_1(erf) ASTRA_MATH_1(erfc) ASTRA_MATH_1(erfinv) ASTRA_MATH_1(tgamma)
ASTRA_MATH_1(lgamma) ASTRA_MATH_1(ceil) ASTRA_MATH_1(floor) ASTRA_MATH_1(trunc)
ASTRA_MATH_1(round) ASTRA_MATH_1(rint) ASTRA_MATH_1(nearbyint) ASTRA_MATH_1(fabs)
ASTRA_MATH_2(fmod) ASTRA_MATH_2(fmax) ASTRA_MATH_2(fmin) ASTRA_MATH_2(pow) ASTRA_MATH_2(hypot)
ASTRA_MATH_2(atan2) ASTRA_MATH_2(copysign)
#undef ASTRA_MATH_1
#undef ASTRA_MATH_2
float fmaf(float, float, float);
double fma(double, double, double);
float fma(float, float, float);
float __fmaf_ieee_rn(float, float, float);
void sincosf(float, float*, float*);
void sincospif(float, float*, float*);
void __sincosf(float, float*, float*);
float ldexpf(float, int);
float scalbnf(float, int);
float abs(float);
int abs(int);
long abs(long);
template <typename T> bool isfinite(T);
template <typename T> bool isinf(T);
template <typename T> bool isnan(T);
template <typename T> bool signbit(T);
template <typename A, typename B> constexpr auto min(A a, B b) { return b < a ? b : a; }
template <typename A, typename B> constexpr auto max(A a, B b) { return a < b ? b : a; }
#pragma clang force_cuda_host_device end
