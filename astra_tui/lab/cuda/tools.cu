// Our own kernels of the cuda device: they draw inputs, copy for the roofline, and watch the clock.
// Compiled by NVRTC like a candidate, and loaded into the process that measures.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

using u64 = unsigned long long;

// SplitMix64 (Steele, Lea, Flood 2014): the twin is in drawing.py and has to agree bit by bit.
__device__ u64 mix(u64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

__device__ int parts(u64 h) {
    return int(h & 0xFFFF) + int(h >> 16 & 0xFFFF) + int(h >> 32 & 0xFFFF) + int(h >> 48);
}

enum Kind { NORMAL, UNIFORM, INTEGERS, CONSTANT, ARANGE };
enum Type { F16, BF16, F32, F64, I8, I16, I32, I64 };

struct Draw {
    u64 seed;
    u64 elements;
    u64 stride;  // Bytes from a set to the next.
    int kind;
    int type;
    float low;
    float high;
    float limit;
    int planted;
    float pool[8];
};

// Fused multiply-adds would round differently from the twin.
__device__ float value(const Draw& d, u64 seed, u64 i) {
    const u64 a = mix(seed + 3 * i), b = mix(seed + 3 * i + 1), c = mix(seed + 3 * i + 2);
    if (d.planted > 0 && (c & 15) == 0) return d.pool[(c >> 4) % d.planted];
    float v = d.low;
    switch (d.kind) {
        case NORMAL: {
            const float z = __fmul_rn(float(parts(a) + parts(b) - 262140), 1.0f / 53510.0f);
            v = __fadd_rn(__fmul_rn(z, d.high), d.low);
            break;
        }
        case UNIFORM: {
            const float u = __fmul_rn(float(a >> 40), 1.0f / 16777216.0f);
            v = __fadd_rn(__fmul_rn(u, __fsub_rn(d.high, d.low)), d.low);
            break;
        }
        case INTEGERS: {
            const u64 low = u64((long long)d.low), span = u64((long long)d.high) - low + 1;
            v = float((long long)(low + a % span));
            break;
        }
        case ARANGE:
            v = float(i % u64((long long)d.high + 1));
            break;
    }
    if (d.limit > 0 && d.kind != CONSTANT) v = fminf(fmaxf(v, -d.limit), d.limit);
    return v;
}

// Draws one buffer of every set; blockIdx.y is the set.
__global__ void draw(unsigned char* first, u64 set_seed, u64 elements, u64 stride, int kind,
                     int type, float low, float high, float limit, int planted, float p0, float p1,
                     float p2, float p3, float p4, float p5, float p6, float p7) {
    const Draw d{set_seed, elements, stride, kind, type, low, high, limit, planted,
                 {p0, p1, p2, p3, p4, p5, p6, p7}};
    void* out = first + blockIdx.y * d.stride;
    const u64 seed = mix(d.seed + blockIdx.y);
    const u64 step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < d.elements; i += step) {
        const float v = value(d, seed, i);
        switch (d.type) {
            case F16: static_cast<__half*>(out)[i] = __float2half_rn(v); break;
            case BF16: static_cast<__nv_bfloat16*>(out)[i] = __float2bfloat16_rn(v); break;
            case F32: static_cast<float*>(out)[i] = v; break;
            case F64: static_cast<double*>(out)[i] = v; break;
            case I8: static_cast<signed char*>(out)[i] = (signed char)(long long)v; break;
            case I16: static_cast<short*>(out)[i] = (short)(long long)v; break;
            case I32: static_cast<int*>(out)[i] = (int)(long long)v; break;
            case I64: static_cast<long long*>(out)[i] = (long long)v; break;
        }
    }
}

// The copy that the roofline is measured with: 16 bytes a thread and step.
template <int STEPS>
__global__ void __launch_bounds__(256) copy16(uint4* out, const uint4* in, int count) {
    const int first = blockIdx.x * (256 * STEPS) + threadIdx.x;
    uint4 held[STEPS];
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
        if (first + s * 256 < count) held[s] = __ldcs(in + first + s * 256);
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
        if (first + s * 256 < count) __stcs(out + first + s * 256, held[s]);
}

__global__ void empty() {}

// Keeps the GPU busy for a while, so that the host gets ahead of it.
__global__ void spin(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}

// Cycles and nanoseconds over the same stretch of time: the clock of the multiprocessors.
__global__ void clock_rate(u64* out) {
    u64 t0, t1;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t0));
    const long long c0 = clock64();
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t1));
    } while (t1 - t0 < 40000);
    const long long c1 = clock64();
    out[0] = u64(c1 - c0);
    out[1] = t1 - t0;
}
