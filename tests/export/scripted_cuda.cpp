// A CUDA driver that runs nothing and writes down what it is asked, one line a call, to a file.
// The same symbol is always the same function. Each thread has a context of its own, or none.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

static std::mutex one_at_a_time;
static std::vector<std::string> symbols;
static thread_local void* current = nullptr;

void say(const char* text, long long a = 0, long long b = 0) {
  static std::FILE* log = nullptr;
  if (log == nullptr) {
    log = std::fopen(std::getenv("SCRIPTED_CUDA_LOG"), "a");
    std::setvbuf(log, nullptr, _IOLBF, 4096);
  }
  std::fprintf(log, "%s %lld %lld\n", text, a, b);
}

static size_t place_of(const std::string& symbol) {
  size_t place = 0;
  while (place < symbols.size() && symbols[place] != symbol) ++place;
  if (place == symbols.size()) symbols.push_back(symbol);
  return place;
}

extern "C" {
int cuInit(unsigned) { return 0; }
int cuGetErrorString(int, const char** text) { *text = "scripted"; return 0; }
int cuCtxGetCurrent(void** context) { *context = current; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { *context = (void*)1; return 0; }
int cuCtxSetCurrent(void* context) {
  std::lock_guard<std::mutex> hold(one_at_a_time);
  current = context;
  say("current");
  return 0;
}
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const char* major = std::getenv("SCRIPTED_CUDA_MAJOR");
  *value = attribute == 75 ? std::atoi(major == nullptr ? "9" : major)
           : attribute == 76 ? 0 : 1000 + attribute;
  return 0;
}
int cuModuleLoadData(void** module, const void* image) {
  say("load", ((const char*)image)[0]);
  *module = (void*)2;
  return 0;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  std::lock_guard<std::mutex> hold(one_at_a_time);
  say(name);
  *function = (void*)(3 + place_of(name));
  return std::strcmp(name, "missing") == 0 ? 500 : 0;
}
int cuFuncSetAttribute(void*, int attribute, int value) { say("allow", attribute, value); return 0; }
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** parameters, void** extra) {
  if (current == nullptr) return 201;
  std::lock_guard<std::mutex> hold(one_at_a_time);
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
