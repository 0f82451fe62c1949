#include <windows.h>
#include <cuda_runtime.h>

typedef float real;

__device__ real clampValue(real v, real lo, real hi) {
	return v < lo ? lo : (v > hi ? hi : v);
}

__global__ void clampKernel(real* data, const int lambda, real lo, real hi) {
	const int i = threadIdx.x + blockDim.x * blockIdx.x;
	if (i < lambda) {
		data[i] = clampValue(data[i], lo, hi);
	}
}

extern "C" __declspec(dllexport) int clampOnGpu(real* data, int count) {
	int blockSize = 512;
	int gridSize = (int)ceil((float)count / blockSize);
	clampKernel<<<gridSize, blockSize>>>(data, count, -1.5f, 1.5f);
	return cudaDeviceSynchronize() == cudaSuccess;
}
