// Our own kernels of the cuda device: they draw inputs, copy for the roofline, and watch the clock.
// Compiled by NVRTC like a candidate, and loaded into the process that measures.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

using u64 = unsigned long long;

// The twin of all this is in gpu/drawing.py and has to agree bit by bit.
__device__ u64 mix(u64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// The table of drawing.py, put here before this file is compiled.
__constant__ unsigned short quantiles[257] = {QUANTILES};

enum Kind { NORMAL, UNIFORM, INTEGERS, CONSTANT, ARANGE, OFFSETS, DISTRIBUTION, LONE };
enum Type { F16, BF16, F32, F64, I8, I16, I32, I64, NARROW };

struct Draw {
    u64 seed;
    u64 elements;
    u64 stride;  // Bytes from a set to the next.
    int kind;
    int type;
    double low;
    double high;
    double limit;
    int planted;
    double pool[8];
    u64 group;
    u64 apart;
};

__device__ double standard_normal(u64 random) {
    const u64 exceeded = max(random << 1 >> 11, 1ull << (53 - 32));
    const u64 bits = __double_as_longlong(double(exceeded));
    const int place = int(bits >> 49) - ((1023 + 53 - 32) << 3);
    const u64 here = quantiles[place], there = quantiles[place + 1];
    const u64 scaled = (here << 32) - (bits >> 17 & 0xFFFFFFFFull) * (here - there);
    const double magnitude = __dmul_rn(double(scaled), 1.0 / (1ull << 45));
    return random >> 63 ? -magnitude : magnitude;
}

__device__ u64 feistel(u64 place, u64 key, int half) {
    const u64 ways = (1ull << half) - 1;
    u64 left = place >> half, right = place & ways;
    for (u64 round = 0; round < 4; ++round) {
        const u64 next = left ^ (mix(key + (right << 2) + round) & ways);
        left = right;
        right = next;
    }
    return left << half | right;
}

// A number below `span` that no other `place` of the same group has.
__device__ u64 distinct(u64 key, u64 place, u64 span) {
    const int half = (64 - __clzll(span - 1) + 1) / 2;
    u64 found = place % span;
    do found = feistel(found, key, half);
    while (found >= span);
    return found;
}

struct Share {
    u64 begin, end;
};

// One of the pieces into which `total` is cut.
__device__ Share share(u64 key, u64 leaf, u64 pieces, u64 total) {
    Share found{0, total};
    for (u64 first = 0, last = pieces; last - first > 1;) {
        const u64 middle = first + (last - first) / 2, ways = found.end - found.begin + 1;
        const u64 drawn = mix(key + 2 * middle) % ways + mix(key + 2 * middle + 1) % ways;
        const u64 border = found.begin + drawn / 2;
        if (leaf < middle) {
            last = middle;
            found.end = border;
        } else {
            first = middle;
            found.begin = border;
        }
    }
    return found;
}

// Fused multiply-adds would round differently from the twin.
__device__ double value(const Draw& d, u64 seed, u64 i) {
    if (d.planted > 0) {
        const u64 block = i >> 4, drawn = mix(seed + (2 * block + 1));
        if ((i & 15) == (block == 0 ? 0 : drawn & 15)) return d.pool[(drawn >> 4) % d.planted];
    }
    const u64 random = mix(seed + 2 * i);
    const u64 key = d.group ? mix(seed + 2 * (i / d.group)) : 0;
    const u64 place = d.group ? i % d.group : 0;
    double v = d.low;
    switch (d.kind) {
        case NORMAL:
            v = __dadd_rn(__dmul_rn(standard_normal(random), d.high), d.low);
            break;
        case UNIFORM: {
            const double unit = __dmul_rn(double(random >> 11), 1.0 / (1ull << 53));
            v = __dadd_rn(__dmul_rn(unit, __dsub_rn(d.high, d.low)), d.low);
            break;
        }
        case INTEGERS: {
            const u64 low = u64((long long)d.low), span = u64((long long)d.high) - low + 1;
            const u64 drawn = d.group ? distinct(key, place, span) : random % span;
            v = double((long long)(low + drawn));
            break;
        }
        case ARANGE:
            v = double(i % u64((long long)d.high + 1));
            break;
        case OFFSETS: {
            const u64 pieces = max(d.group - 1, 1ull), leaf = min(place, pieces - 1);
            const u64 range = (long long)d.high - (long long)d.low;
            const Share at = share(key, leaf, pieces, range - (d.group - 1) * d.apart);
            v = double((place > leaf ? at.end : at.begin) + place * d.apart);
            v = __dadd_rn(v, d.low);
            break;
        }
        case DISTRIBUTION: {
            const Share part = share(key, place, d.group, 1ull << 52);
            v = __dmul_rn(double(part.end - part.begin), 1.0 / (1ull << 52));
            break;
        }
        case LONE:
            if (d.group && place == key % d.group) v = d.high;
            break;
    }
    if (d.limit > 0 && d.kind != CONSTANT && d.kind != LONE) v = fmin(fmax(v, -d.limit), d.limit);
    return v;
}

// A float of at most 8 bits, as `type_code` of drawing.py packs what is to be known of its format.
struct Narrow {
    int largest, has_infinity, has_nan, mantissa, exponent, bits;

    __device__ explicit Narrow(int type)
        : largest(type >> 8 & 0xFF), has_infinity(type >> 16 & 1), has_nan(type >> 17 & 1),
          mantissa(type >> 18 & 0xF), exponent(type >> 22 & 0xF), bits(type >> 26 & 0xF) {}

    // Rounded to nearest even; what is too large becomes infinite, or the largest number.
    __device__ unsigned code(float f) const {
        const unsigned of_nan = (1u << (bits - 1)) - 1, sign = 1u << (bits - 1);
        if (f != f) return has_nan ? of_nan : largest;
        const double size = fabs(double(f));
        int code = largest + has_infinity;
        if (size < 1e6) {
            const int bias = (1 << (exponent - 1)) - 1;
            const int power = int(u64(__double_as_longlong(size)) >> 52) - 1023;
            const int of_step = max(power, 1 - bias);
            const u64 scale = u64(1023 + mantissa - of_step) << 52;
            const int steps = __double2int_rn(__dmul_rn(size, __longlong_as_double(scale)));
            code = min(code, steps + ((of_step + bias - 1) << mantissa));
        }
        return code | (__float_as_uint(f) >> 31 ? sign : 0);
    }
};

// Draws one buffer of every set; blockIdx.y is the set. All NaNs get the bits of NumPy's.
__global__ void draw(unsigned char* first, u64 set_seed, u64 elements, u64 stride, int kind,
                     int type, double low, double high, double limit, int planted, double p0,
                     double p1, double p2, double p3, double p4, double p5, double p6, double p7,
                     u64 group, u64 apart) {
    const Draw d{set_seed, elements, stride, kind, type, low, high, limit, planted,
                 {p0, p1, p2, p3, p4, p5, p6, p7}, group, apart};
    void* out = first + blockIdx.y * d.stride;
    const u64 seed = mix(d.seed + blockIdx.y);
    const u64 step = u64(gridDim.x) * blockDim.x;
    const bool is_narrow = (d.type & 0xFF) == NARROW;
    const Narrow narrow(d.type);
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < d.elements; i += step) {
        const double v = value(d, seed, i);
        const float f = float(v);
        const bool nan = v != v;
        if (is_narrow) {
            unsigned char* const bytes = static_cast<unsigned char*>(out);
            if (narrow.bits == 8) {
                bytes[i] = narrow.code(f);
            } else if (i % 2 == 0) {  // Two share a byte.
                bytes[i / 2] = narrow.code(f) | narrow.code(float(value(d, seed, i + 1))) << 4;
            }
            continue;
        }
        unsigned short* const halves = static_cast<unsigned short*>(out);
        switch (d.type) {
            case F16: halves[i] = nan ? 0x7E00 : __half_as_ushort(__float2half_rn(f)); break;
            case BF16: halves[i] = nan ? 0x7FC0 : __bfloat16_as_ushort(__float2bfloat16_rn(f)); break;
            case F32: static_cast<unsigned*>(out)[i] = nan ? 0x7FC00000 : __float_as_uint(f); break;
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

// A keyed digest of a buffer of every set, added to out[set]: a sum over words of eight bytes, each
// mixed with its place. blockIdx.y is the set. `first` and `stride` are multiples of 16.
__global__ void __launch_bounds__(256) digest(const unsigned char* first, u64 stride, u64 bytes,
                                              u64 key, u64* out) {
    constexpr u64 PLACE = 0xD1342543DE82EF95ull;
    const unsigned char* from = first + blockIdx.y * stride;
    const ulonglong2* pairs = reinterpret_cast<const ulonglong2*>(from);
    const u64 count = bytes / 16, step = u64(gridDim.x) * blockDim.x;
    const u64 thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    u64 sum = 0;
    for (u64 i = thread; i < count; i += step) {
        const ulonglong2 pair = pairs[i];
        sum += mix((pair.x ^ key) + PLACE * (2 * i)) + mix((pair.y ^ key) + PLACE * (2 * i + 1));
    }
    for (u64 i = 16 * count + thread; i < bytes; i += step)
        sum += mix((from[i] ^ key) + PLACE * (2 * count + i));
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(~0u, sum, lane);
    if (threadIdx.x % 32 == 0) atomicAdd(out + blockIdx.y, sum);
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

// -- what a producer writes: pieces of 32 bytes of some buffers; see process/producer.py -----------

constexpr u64 OUTPUT = 1ull << 63;

struct Span {
    u64 address, stride, size;
    u64 first;  // Number of its first piece among all.
    u64 group;  // One piece of so many in a row is written; with OUTPUT, in late runs alone.
};

struct Spans {
    Span of[6];
};

// Spans one by one: the launches of this project pass numbers and pointers.
#define SPAN(i) u64 address##i, u64 stride##i, u64 size##i, u64 first##i, u64 group##i
#define SPANS SPAN(0), SPAN(1), SPAN(2), SPAN(3), SPAN(4), SPAN(5)
#define HELD(i) {address##i, stride##i, size##i, first##i, group##i}
#define ALL_SPANS Spans{{HELD(0), HELD(1), HELD(2), HELD(3), HELD(4), HELD(5)}}

struct Piece {
    unsigned char* place;
    int bytes;
    bool is_output;
};

__device__ Piece piece_of(const Spans& spans, u64 number, u64 set) {
    Span span = spans.of[0];
#pragma unroll
    for (int i = 1; i < 6; ++i)
        if (spans.of[i].size && number >= spans.of[i].first) span = spans.of[i];
    const u64 step = span.group & ~OUTPUT, group = number - span.first;
    u64 at = (group * step + mix(number) % step) * 32;
    if (at >= span.size) at = group * step * 32;  // The last group may be a part of one.
    return {(unsigned char*)span.address + set * span.stride + at, (int)min(span.size - at, 32ull),
            (span.group & OUTPUT) != 0};
}

__device__ void copy_piece(unsigned char* to, const unsigned char* from, int bytes, bool whole) {
    if (whole) {
        reinterpret_cast<uint4*>(to)[0] = reinterpret_cast<const uint4*>(from)[0];
        reinterpret_cast<uint4*>(to)[1] = reinterpret_cast<const uint4*>(from)[1];
    } else {
        for (int i = 0; i < bytes; ++i) to[i] = from[i];
    }
}

__device__ bool is_whole(const Piece& piece) { return piece.bytes == 32 && !((u64)piece.place & 15); }

__global__ void stash(SPANS, u64 pieces, u64, unsigned char* copy, u64) {
    const u64 number = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= pieces) return;
    const Piece piece = piece_of(ALL_SPANS, number, blockIdx.y);
    copy_piece(copy + (blockIdx.y * pieces + number) * 32, piece.place, piece.bytes,
               is_whole(piece));
}

__global__ void spoil(SPANS, u64 pieces, u64, u64, u64 byte) {
    const u64 number = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= pieces) return;
    const Piece piece = piece_of(ALL_SPANS, number, blockIdx.y);
    if (!piece.is_output)
        for (int i = 0; i < piece.bytes; ++i) piece.place[i] = (unsigned char)byte;
}

__device__ void trigger() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ void write_piece(const Piece& piece, const uint4 (&held)[2], const unsigned char* from,
                            bool is_late) {
    if (piece.is_output) {
        if (is_late)
            for (int i = 0; i < piece.bytes; ++i) piece.place[i] = 0xFF;
    } else if (is_whole(piece)) {
        reinterpret_cast<uint4*>(piece.place)[0] = held[0];
        reinterpret_cast<uint4*>(piece.place)[1] = held[1];
    } else {
        for (int i = 0; i < piece.bytes; ++i) piece.place[i] = from[i];
    }
}

__device__ u64 digest_piece(const Piece& piece) {
    const volatile unsigned char* place = piece.place;
    u64 sum = 0;
    for (int i = 0; i < piece.bytes; ++i) sum = mix(sum + place[i]);
    return sum;
}

// Writes its pieces and triggers, or, where `control[0]` says so many cycles, triggers, waits and
// writes; then control[1] counts the pieces that someone else has written meanwhile.
// What the next set's producer needs is on its way to L2 meanwhile.
__global__ void __launch_bounds__(256)
    produce(SPANS, u64 pieces, u64 set, const unsigned char* copy, u64* control) {
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 step = (u64)gridDim.x * blockDim.x;
    const u64 cycles = *(const volatile u64*)control;
    if (cycles) {
        u64 before = 0, after = 0;
        for (u64 number = first; number < pieces; number += step)
            before += digest_piece(piece_of(ALL_SPANS, number, set));
        __syncthreads();
        trigger();
        const u64 start = clock64();
        while (clock64() - start < cycles) {}
        for (u64 number = first; number < pieces; number += step)
            after += digest_piece(piece_of(ALL_SPANS, number, set));
        if (before != after) atomicAdd(control + 1, 1ull);
    }
    uint4 held[2];
    for (u64 number = first; number < pieces; number += step) {
        const unsigned char* from = copy + number * 32;
        held[0] = reinterpret_cast<const uint4*>(from)[0];
        held[1] = reinterpret_cast<const uint4*>(from)[1];
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from + pieces * 32));
        write_piece(piece_of(ALL_SPANS, number, set), held, from, cycles != 0);
    }
    trigger();
}

__global__ void set_word(u64* word, u64 value) { *word = value; }
