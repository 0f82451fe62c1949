// A CUDA driver that runs nothing and writes down what it is asked, one line a call, to a file.
#include <cstdio>
#include <cstdlib>
#include <cstring>

static void say(const char* text, long long a = 0, long long b = 0) {
  std::FILE* log = std::fopen(std::getenv("SCRIPTED_CUDA_LOG"), "a");
  std::fprintf(log, "%s %lld %lld\n", text, a, b);
  std::fclose(log);
}

extern "C" {
int cuInit(unsigned) { return 0; }
int cuGetErrorString(int, const char** text) { *text = "scripted"; return 0; }
int cuCtxGetCurrent(void** context) { *context = nullptr; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { *context = (void*)1; return 0; }
int cuCtxSetCurrent(void*) { say("current"); return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 1000 + attribute;
  return 0;
}
int cuModuleLoadData(void** module, const void* image) {
  say("load", ((const char*)image)[0]);
  *module = (void*)2;
  return 0;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  say(name);
  *function = (void*)3;
  return std::strcmp(name, "missing") == 0 ? 500 : 0;
}
int cuFuncSetAttribute(void*, int attribute, int value) { say("allow", attribute, value); return 0; }
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** parameters, void** extra) {
  say("launch", (long long)function, (long long)stream);
  say("grid", gx, gy * 1000 + gz);
  say("block", bx, by * 1000 + bz);
  say("shared", shared, parameters == nullptr);
  say("extra", (long long)extra[0], (long long)extra[2]);
  const unsigned char* bytes = (const unsigned char*)extra[1];
  const size_t count = *(const size_t*)extra[3];
  say("bytes", (long long)count, extra[4] == nullptr);
  for (size_t i = 0; i < count; ++i) say("byte", bytes[i]);
  return 0;
}
}
