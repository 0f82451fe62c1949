#pragma once
#include <stddef.h>
// Constants of the host, so that its static variables may begin with them; no kernel links them.
__device__ char* getenv_is_for_the_host();
__device__ int atoi_is_for_the_host();
constexpr char* getenv(const char*) {
  return __builtin_is_constant_evaluated() ? nullptr : getenv_is_for_the_host();
}
constexpr int atoi(const char*) {
  return __builtin_is_constant_evaluated() ? 0 : atoi_is_for_the_host();
}
double atof(const char*);
long long atoll(const char*);
[[noreturn]] void abort();
[[noreturn]] void exit(int);
