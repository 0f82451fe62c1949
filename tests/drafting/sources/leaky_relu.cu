__global__ void leaky_relu(float* __restrict__ out, const float* __restrict__ in, float slope, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = in[i];
    out[i] = v > 0.0f ? v : slope * v;
}
