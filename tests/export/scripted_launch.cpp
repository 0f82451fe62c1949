// The part of the scripted driver that needs the layouts of NVIDIA's own header.
#include <cuda.h>

void say(const char* text, long long a, long long b);

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& given = config->attrs[i];
    const auto& sizes = given.value.clusterDim;
    const bool is_cluster = given.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    say("attribute", given.id,
        is_cluster ? 1000000LL * sizes.x + 1000 * sizes.y + sizes.z
                   : given.value.programmaticStreamSerializationAllowed);
  }
  return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
                        config->blockDimX, config->blockDimY, config->blockDimZ,
                        config->sharedMemBytes, config->hStream, parameters, extra);
}
