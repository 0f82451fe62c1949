// What nvcc includes in every file by itself (through cuda_runtime.h), and NVRTC does not.
#pragma once
// Functions of the host are taken for functions of the device that no kernel calls, as those
// without any annotation are. Its threads are none of the device's.
#undef __host__
#define __host__
#define thread_local
#include <astra_tui_host.h>
#include <cmath>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
// nvcc has these from the host's <sys/types.h>.
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
// nvcc takes it for a function of the host: constants may use it, code that runs here may not.
__device__ int builtin_clz_is_for_constants_use_clz();
__host__ __device__ constexpr int __builtin_clz(unsigned int value) {
  int zeros = 32;
  if (!__builtin_is_constant_evaluated()) return builtin_clz_is_for_constants_use_clz();
  for (; value; value >>= 1) --zeros;
  return zeros;
}
// In place of a launch in a header. Launchers are not called; a kernel that launches does not link.
__device__ void astra_tui_launch_of_a_kernel();
// Templates: cuda_device_runtime_api.h, where it is included, has the same as functions.
template <int = 0>
__device__ __forceinline__ void cudaGridDependencySynchronize() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
template <int = 0>
__device__ __forceinline__ void cudaTriggerProgrammaticLaunchCompletion() {
  asm volatile("griddepcontrol.launch_dependents;");
}
