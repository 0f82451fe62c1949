#pragma once
#include <tvm/ffi/container/tensor.h>
