#include "flashinfer/norm.cuh"
#include <cuda_fp16.h>
#include <cuda_bf16.h>

/* @launch
   when d % 8 == 0 and aligned(input, 16) and stride(input, 0) * sizeof(T) % 16 == 0 and aligned(residual, 16) and stride(residual, 0) * sizeof(T) % 16 == 0 and aligned(weight, 16) and aligned(output, 8) and stride(output, 0) * sizeof(float8_e4m3fn) % 8 == 0:
       flashinfer::norm::FusedAddRMSNormQuantKernel<(min(16 // sizeof(T), 16 if d % 16 == 0 else 8 if d % 8 == 0 else 4 if d % 4 == 0 else 2 if d % 2 == 0 else 1)), T, float8_e4m3fn> grid=batch_size block=(32, ceil_div(min(1024, d // min(16 // sizeof(T), 16 if d % 16 == 0 else 8 if d % 8 == 0 else 4 if d % 4 == 0 else 2 if d % 2 == 0 else 1)), 32)) shared=(ceil_div(ceil_div(min(1024, d // min(16 // sizeof(T), 16 if d % 16 == 0 else 8 if d % 8 == 0 else 4 if d % 4 == 0 else 2 if d % 2 == 0 else 1)), 32), 4) * 4 + d) * sizeof(float32) pdl=true
           args=(input, residual, weight, output, d, stride(input, 0), stride(residual, 0), stride(output, 0), weight_bias, scale, eps)
*/
