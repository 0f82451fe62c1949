// Launches kernels from a plan: whatever a kernel takes, its arguments become exactly that.
#ifndef ASTRA_LAUNCH_CUH
#define ASTRA_LAUNCH_CUH

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <utility>

#include "astra_host.hpp"

namespace astra {

inline void check(cudaError_t error) {
  require(error == cudaSuccess, kCuda + static_cast<int>(error));
}

// A structure that a kernel takes by value, filled member by member; other bytes are zero.
template <std::size_t Size, std::size_t Alignment>
struct Struct {
  alignas(Alignment) unsigned char bytes[Size] = {};

  template <typename M, typename V>
  Struct& put(std::size_t offset, V value) {
    const M member = to_parameter<M>(value);
    std::memcpy(bytes + offset, &member, sizeof(M));
    return *this;
  }
};

template <typename P, std::size_t Size, std::size_t Alignment>
P to_parameter(const Struct<Size, Alignment>& given) {
  static_assert(sizeof(P) == Size && alignof(P) == Alignment,
                "the launch plan passes another structure than the kernel takes");
  union Holder {
    unsigned char none;
    P value;
    Holder() : none(0) {}
    ~Holder() {}
  } holder;
  std::memcpy(static_cast<void*>(&holder), given.bytes, Size);
  return holder.value;
}

// <attributes>
// Whether launches on the current device can begin before the one before has ended.
inline bool has_dependent_launch() {
  int ordinal = 0;
  int major = 0;
  check(cudaGetDevice(&ordinal));
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
  return major >= 9;
}

// Launches a kernel that may begin before what runs before it on the stream has ended, or whose
// blocks run in clusters.
inline void launch_with_attributes(const void* function, const Launch& launch, cudaStream_t stream,
                                   void** parameters) {
  const Sizes& cluster = launch.cluster;
  const std::uint32_t blocks = cluster[0] * cluster[1] * cluster[2];
  cudaLaunchAttribute attributes[2]{};
  unsigned int count = 0;
  if (launch.pdl && has_dependent_launch()) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (blocks > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = cluster[0];
    attributes[count].val.clusterDim.y = cluster[1];
    attributes[count++].val.clusterDim.z = cluster[2];
  }
  if (blocks > 8) {
    check(cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
  config.blockDim = dim3(launch.block[0], launch.block[1], launch.block[2]);
  config.dynamicSmemBytes = launch.shared;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelExC(&config, function, parameters));
}

// </attributes>
template <typename... P, std::size_t... I, typename... A>
void launch_with(void (*kernel)(P...), const Launch& launch, cudaStream_t stream,
                 std::index_sequence<I...>, A... arguments) {
  std::tuple<std::remove_cv_t<P>...> parameters{to_parameter<std::remove_cv_t<P>>(arguments)...};
  // One more than there are, for kernels without parameters.
  void* pointers[] = {static_cast<void*>(&std::get<I>(parameters))..., nullptr};
  const void* function = reinterpret_cast<const void*>(kernel);
  if (launch.shared > 0) {
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(launch.shared)));
  }
  // <attributes>
  launch_with_attributes(function, launch, stream, pointers);
  // </attributes>
  // <plain>
  check(cudaLaunchKernel(function, dim3(launch.grid[0], launch.grid[1], launch.grid[2]),
                         dim3(launch.block[0], launch.block[1], launch.block[2]), pointers,
                         launch.shared, stream));
  // </plain>
}

// Launches a kernel; `arguments` are void*, Number and Struct, one for each of its parameters.
template <typename... P, typename... A>
void launch(void (*kernel)(P...), const Launch& launch, cudaStream_t stream, A... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "the launch plan passes another number of arguments");
  launch_with(kernel, launch, stream, std::index_sequence_for<P...>{}, arguments...);
}

inline std::int64_t attribute(int ordinal, cudaDeviceAttr name) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, ordinal));
  return value;
}

// The current device, asked once.
inline const Device& current_device() {
  static std::mutex mutex;
  static std::array<Device, 64> known{};
  int ordinal = 0;
  check(cudaGetDevice(&ordinal));
  require(ordinal < static_cast<int>(known.size()), kPlanFault);
  const std::lock_guard<std::mutex> guard(mutex);
  Device& device = known[ordinal];
  if (device.sm_count == 0) {
    device = {attribute(ordinal, cudaDevAttrMultiProcessorCount),
              attribute(ordinal, cudaDevAttrWarpSize),
              attribute(ordinal, cudaDevAttrMaxThreadsPerBlock),
              attribute(ordinal, cudaDevAttrMaxThreadsPerMultiProcessor),
              attribute(ordinal, cudaDevAttrMaxSharedMemoryPerBlockOptin),
              attribute(ordinal, cudaDevAttrMaxSharedMemoryPerMultiprocessor),
              attribute(ordinal, cudaDevAttrL2CacheSize)};
  }
  return device;
}

// Scratch memory of one call, from the stream's own pool: a graph that is captured holds it too.
class Scratch {
 public:
  Scratch(const Plan& plan, cudaStream_t stream) : stream_(stream) {
    for (Int bytes : plan.workspaces) {
      void* memory = nullptr;
      const cudaError_t error = bytes == 0 ? cudaSuccess
                                           : cudaMallocAsync(&memory, bytes.value, stream);
      if (error != cudaSuccess) {
        release();
        check(error);
      }
      memory_.push_back(memory);
    }
  }
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* operator[](std::size_t number) const { return memory_[number]; }

 private:
  void release() {
    for (void* memory : memory_) {
      if (memory != nullptr) cudaFreeAsync(memory, stream_);
    }
    memory_.clear();
  }
  cudaStream_t stream_;
  std::vector<void*> memory_;
};

}  // namespace astra

#endif
