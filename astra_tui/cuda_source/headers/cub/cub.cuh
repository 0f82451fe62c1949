#pragma once
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cub/warp/warp_store.cuh>
#include <cuda/std/cmath>
#include <cub/util_namespace.cuh>

// What hosts call: it is only declared, and never run.
CUB_NAMESPACE_BEGIN
#define ASTRA_CALLED_BY_HOSTS(NAME) \
  template <typename... A> static cudaError_t NAME(void*, size_t&, A&&...);
struct DeviceRadixSort {
  ASTRA_CALLED_BY_HOSTS(SortKeys)
  ASTRA_CALLED_BY_HOSTS(SortKeysDescending)
  ASTRA_CALLED_BY_HOSTS(SortPairs)
  ASTRA_CALLED_BY_HOSTS(SortPairsDescending)
};
struct DeviceReduce {
  ASTRA_CALLED_BY_HOSTS(ArgMax)
  ASTRA_CALLED_BY_HOSTS(ArgMin)
  ASTRA_CALLED_BY_HOSTS(Max)
  ASTRA_CALLED_BY_HOSTS(Min)
  ASTRA_CALLED_BY_HOSTS(Reduce)
  ASTRA_CALLED_BY_HOSTS(Sum)
};
struct DeviceScan {
  ASTRA_CALLED_BY_HOSTS(ExclusiveScan)
  ASTRA_CALLED_BY_HOSTS(ExclusiveSum)
  ASTRA_CALLED_BY_HOSTS(InclusiveScan)
  ASTRA_CALLED_BY_HOSTS(InclusiveSum)
};
#undef ASTRA_CALLED_BY_HOSTS
CUB_NAMESPACE_END
