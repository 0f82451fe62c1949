#pragma once
#include <tvm/ffi/container/tensor.h>
DLDataType TVMFFIStringToDLDataType(const char*);
