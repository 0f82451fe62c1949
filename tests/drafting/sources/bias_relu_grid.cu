#include "cuda_runtime.h"
#include "device_launch_parameters.h"
#include <iostream>
using namespace std;

#define BLOCK_X 32
#define BLOCK_Y 8
#define DIV_UP(a, b) (((a) + (b) - 1) / (b))

/* out(h, w) = max(0, in(h, w) + bias(w)) */
__global__ void biasRelu(float *out, float *in, float *bias, int height, int width)
{
    int x = blockIdx.x * BLOCK_X + threadIdx.x;
    int y = blockIdx.y * BLOCK_Y + threadIdx.y;

    if (x < width && y < height)
    {
        int pos = y * width + x;
        float value = in[pos] + bias[x];
        out[pos] = value > 0 ? value : 0;
    }
}

int main()
{
    int height = 1080, width = 1920;
    float *dOut, *dIn, *dBias;
    cudaMalloc((void **)&dOut, height * width * sizeof(float));
    cudaMalloc((void **)&dIn, height * width * sizeof(float));
    cudaMalloc((void **)&dBias, width * sizeof(float));

    int gx = DIV_UP(width, BLOCK_X);
    int gy = (height + BLOCK_Y - 1) / BLOCK_Y;
    dim3 grid = dim3(gx, gy, 1);
    dim3 block;
    block = dim3(BLOCK_X, BLOCK_Y);
    biasRelu<<<grid, block>>>(dOut, dIn, dBias, height, width);
    cudaError_t err = cudaDeviceSynchronize();
    cout << cudaGetErrorString(err) << endl;
    return 0;
}
