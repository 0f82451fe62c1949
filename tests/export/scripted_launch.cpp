// The part of the scripted driver that needs the layouts of NVIDIA's own header.
#include <cuda.h>

void say(const char* text, long long a, long long b);

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& given = config->attrs[i];
    say("attribute", given.id, given.value.programmaticStreamSerializationAllowed);
  }
  return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
                        config->blockDimX, config->blockDimY, config->blockDimZ,
                        config->sharedMemBytes, config->hStream, parameters, extra);
}
