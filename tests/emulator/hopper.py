"""CUDA C++ names for the instructions of clusters, barriers in memory and bulk copies."""

from __future__ import annotations

PRELUDE = r"""
typedef unsigned long long u64;
typedef unsigned int u32;
#define ASM(...) asm volatile(__VA_ARGS__ : "memory")
#define F __device__ __forceinline__
F u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
F u32 rank() { u32 v; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(v)); return v; }
F u32 peer(const void* p, u32 r) {
  u32 v; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(v) : "r"(at(p)), "r"(r)); return v;
}
F float* far(const void* p, u32 r) {
  u64 v; asm volatile("mapa.u64 %0, %1, %2;" : "=l"(v) : "l"(p), "r"(r)); return (float*)v;
}
F float get(u32 a) { float v; ASM("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(a)); return v; }
F void put(u32 a, float v) { ASM("st.shared::cluster.f32 [%0], %1;" :: "r"(a), "f"(v)); }
F void meet() { ASM("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::); }
F void init(const u64* b, u32 n) { ASM("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(b)), "r"(n)); }
F void fence_init() { ASM("fence.mbarrier_init.release.cluster;" ::); }
F void fence() { ASM("fence.proxy.async.shared::cta;" ::); }
F u64 arrive(const u64* b) {
  u64 v; ASM("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(v) : "r"(at(b))); return v;
}
F u64 arrive(const u64* b, u32 n) {
  u64 v; ASM("mbarrier.arrive.shared.b64 %0, [%1], %2;" : "=l"(v) : "r"(at(b)), "r"(n)); return v;
}
F void arrive_at(u32 a) { ASM("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(a)); }
F void expect(const u64* b, u32 n) {
  ASM("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(at(b)), "r"(n));
}
F bool test(const u64* b, u32 parity) {
  u32 v;
  ASM("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(v) : "r"(at(b)), "r"(parity));
  return v;
}
F bool test_state(const u64* b, u64 state) {
  u32 v;
  ASM("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(v) : "r"(at(b)), "l"(state));
  return v;
}
F void wait(const u64* b, u32 parity) {
  ASM("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"
      :: "r"(at(b)), "r"(parity));
}
F void wait_cluster(const u64* b, u32 parity) {
  ASM("{ .reg .pred p; again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1, 99;"
      " @p bra done; bra again; done: }" :: "r"(at(b)), "r"(parity));
}
F void load(const void* to, const void* from, u32 n, const u64* b) {
  ASM("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :: "r"(at(to)), "l"(from), "r"(n), "r"(at(b)));
}
F void send(u32 to, const void* from, u32 n, u32 b) {
  ASM("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :: "r"(to), "r"(at(from)), "r"(n), "r"(b));
}
F void store(const void* to, const void* from, u32 n) {
  ASM("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(to), "r"(at(from)), "r"(n));
}
F void commit() { ASM("cp.async.bulk.commit_group;" ::); }
#define WAIT_READ(n) ASM("cp.async.bulk.wait_group.read " #n ";" ::)
#define WAIT_ALL(n) ASM("cp.async.bulk.wait_group " #n ";" ::)
F void put_async(u32 a, float v, u32 b) {
  ASM("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
      :: "r"(a), "r"(__float_as_uint(v)), "r"(b));
}
F void put4_async(u32 a, float4 v, u32 b) {
  ASM("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
      :: "r"(a), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(b));
}
F void add_async(u32 a, u32 v, u32 b) {
  ASM("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];"
      :: "r"(a), "r"(v), "r"(b));
}
F void copy16(const void* to, const void* from) {
  ASM("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at(to)), "l"(from));
}
"""

THREADS = 64
BLOCKS = 4
COUNT = THREADS * BLOCKS


def kernel(body: str) -> str:
    """A kernel of 64 threads a block whose thread `t` stands at element `i`.

    `x` is the block's first element, `s` shared memory of 8 times as many floats, `b` four barriers.
    """
    return (
        f"{PRELUDE}\n__global__ void k(float* out, const float* in, float* work) {{\n"
        "  __shared__ __align__(128) float s[512];\n  __shared__ u64 b[4];\n"
        "  const u32 t = threadIdx.x, x = blockIdx.x * 64, i = x + t; float v = 0;\n"
        f"  {body}\n}}"
    )


ONE = "if (t == 0) { init(b, 1); fence_init(); } __syncthreads();"
ALL = "if (t == 0) { init(b, 64); fence_init(); } __syncthreads();"
TWO = "if (t == 0) { init(b, 1); init(b + 1, 64); fence_init(); } __syncthreads();"
BOTH = "if (t == 0) { init(b, 1); fence_init(); } meet();"
LOADED = f"{ONE} if (t == 0) {{ expect(b, 256); load(s, in + x, 256, b); }}"
STORED = "s[t] = in[i] + 1; fence(); __syncthreads();"

RIGHT = {
    # shared memory of the cluster
    "pushed": "meet(); put(peer(s + t, rank() ^ 1), in[i]); meet(); out[i ^ 64] = s[t] + 1;",
    "pulled": "s[t] = in[i]; meet(); v = get(peer(s + t, rank() ^ 1)); meet(); out[i ^ 64] = v + 1;",
    "generic": "s[t] = in[i]; meet(); v = *far(s + t, rank() ^ 1); meet(); out[i ^ 64] = v + 1;",
    "one's own": "put(peer(s + t, rank()), in[i]); __syncthreads(); out[i] = get(peer(s + t, rank())) + 1;",
    "atomics": "s[t] = 1; meet(); atomicAdd(far(s + t, rank() ^ 1), in[i]); meet(); out[i ^ 64] = s[t];",
    "rank of an address": 'u32 r; ASM("getctarank.shared::cluster.u32 %0, %1;" : "=r"(r)'
    ' : "r"(peer(s, t % 2))); out[i] = in[i] + 1 + r - t % 2;',
    "vectors": "((float2*)s)[t] = make_float2(in[i], 1); meet();"
    " float2 p = ((float2*)far(s, rank() ^ 1))[t]; meet(); out[i ^ 64] = p.x + p.y;",
    "a sum in one block": "meet(); if (t == 0) put(peer(s + rank(), 0), in[x]); meet();"
    " if (rank() == 0 && t < 2) v = s[t]; out[i] = in[i] + 1 + v * 0;",
    "arrival, work, wait": 's[t] = in[i]; ASM("barrier.cluster.arrive.release;" ::); v = in[i ^ 64];'
    ' ASM("barrier.cluster.wait.acquire;" ::); out[i ^ 64] = get(peer(s + t, rank() ^ 1)) - v * 0'
    " + 1; meet();",
    "a barrier in memory makes a block wait": "if (t == 0) { init(b, 64); fence_init(); } meet();"
    " if (t == 0) s[0] = 1; __syncthreads(); meet(); v = get(peer(s, rank() ^ 1));"
    " arrive_at(peer(b, rank() ^ 1)); wait_cluster(b, 0); out[i] = in[i] + v;",
    # barriers in memory
    "all arrive": f"{ALL} s[t] = in[i]; arrive(b); wait(b, 0); out[i ^ 63] = s[t ^ 63] + 1;",
    "by state": f"{ALL} s[t] = in[i]; u64 p = arrive(b); while (!test_state(b, p)) {{}}"
    " out[i ^ 63] = s[t ^ 63] + 1;",
    "one thread waits for the block": f"{ALL} s[t] = in[i]; arrive(b); if (t == 5) wait(b, 0);"
    " __syncthreads(); out[i ^ 63] = s[t ^ 63] + 1;",
    "one lane waits for its warp": f"{ALL} s[t] = in[i]; arrive(b); if (t % 32 == 5) wait(b, 0);"
    " __syncwarp(); out[i ^ 63] = s[t ^ 63] + 1;",
    "phases in a loop": f"{ALL} for (int r = 0; r < 5; ++r) {{ s[t] = in[i]; arrive(b); wait(b, r & 1);"
    " v = s[t ^ 63]; __syncthreads(); } out[i ^ 63] = v + 1;",
    "many arrivals of one": "if (t == 0) init(b, 64 + 63); __syncthreads(); s[t] = in[i];"
    " if (t) arrive(b); else arrive(b, 64); wait(b, 0); out[i ^ 63] = s[t ^ 63] + 1;",
    "no completion": f'{ALL} s[t] = in[i]; u64 p; if (t == 0) ASM("mbarrier.arrive.noComplete.shared.b64'
    ' %0, [%1], 1;" : "=l"(p) : "r"(at(b))); __syncthreads(); if (t) arrive(b); wait(b, 0);'
    " out[i ^ 63] = s[t ^ 63] + 1;",
    "some drop out": f'{ALL} s[t] = in[i]; if (t < 32) ASM("mbarrier.arrive_drop.shared.b64 _, [%0];"'
    ' :: "r"(at(b))); else { arrive(b); wait(b, 0); arrive(b); wait(b, 1); out[i - 32] = s[t - 32] + 1;'
    " out[i] = in[i] + 1; }",
    "missing arrivals": f'{ALL} u32 n; u64 p = arrive(b); ASM("mbarrier.pending_count.b64 %0, %1;"'
    ' : "=r"(n) : "l"(p)); wait(b, 0); out[i] = in[i] + 1 + n * 0;',
    "bytes by hand": f'{ONE} if (t == 0) expect(b, 8); if (t == 1) ASM("mbarrier.complete_tx.relaxed.cluster'
    '.shared::cta.b64 [%0], 8;" :: "r"(at(b))); wait(b, 0); out[i] = in[i] + 1;',
    "memory of an ended barrier": f"{ALL} arrive(b); wait(b, 0); __syncthreads(); if (t == 0) {{"
    ' ASM("mbarrier.inval.shared.b64 [%0];" :: "r"(at(b))); b[0] = 7; init(b + 1, 1); }'
    " __syncthreads(); out[i] = in[i] + b[0] - 6;",
    "a ring of two warps": "if (t == 0) { init(b, 32); init(b + 1, 32); } __syncthreads();"
    " for (int r = 0; r < 4; ++r) if (t < 32) { wait(b + 1, ~r & 1); s[t] = in[x + t + 32 * (r & 1)];"
    " arrive(b); } else { wait(b, r & 1); v = s[t - 32]; arrive(b + 1); out[x + t - 32 + 32 * (r & 1)] = v + 1; }",
    "asked without a loop": f"{ALL} arrive(b); test(b, 0); __syncthreads(); out[i] = in[i] + 1;",
    "a thread that does something else meanwhile": f"{ONE} if (t == 0) {{ if (!test(b, 0)) {{ s[0] = 1;"
    " arrive(b); } } else wait(b, 0); out[i] = in[i] + (t ? s[0] : 1);",
    "one arrival from afar": f"{BOTH} if (t == 0) arrive_at(peer(b, rank() ^ 1)); wait_cluster(b, 0);"
    " out[i] = in[i] + 1;",
    "cp.async arrives": f"{ALL} if (t < 16) copy16(s + 4 * t, in + x + 4 * t);"
    ' ASM("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at(b))); wait(b, 0); out[i] = s[t] + 1;',
    "cp.async arrives in addition": f"{ALL} if (t < 16) copy16(s + 4 * t, in + x + 4 * t);"
    ' ASM("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(at(b))); arrive(b); wait(b, 0);'
    " out[i] = s[t] + 1;",
    # bulk copies
    "loaded": f"{LOADED} wait(b, 0); out[i] = s[t] + 1;",
    "loaded, and one thread waits": f"{LOADED} if (t == 9) wait(b, 0); __syncthreads(); out[i] = s[t] + 1;",
    "expected after the copy": f"{ONE} if (t == 0) {{ load(s, in + x, 256, b); expect(b, 256); }}"
    " wait(b, 0); out[i] = s[t] + 1;",
    "two copies on one barrier": f"{ONE} if (t == 0) {{ expect(b, 256); load(s, in + x, 128, b);"
    " load(s + 32, in + x + 32, 128, b); } wait(b, 0); out[i] = s[t] + 1;",
    "each thread a copy": f"{ONE} if (t == 0) expect(b, 256); __syncwarp(); if (t < 16)"
    " load(s + 4 * t, in + x + 4 * t, 16, b); wait(b, 0); out[i] = s[t] + 1;",
    "sizes that differ": f"{ONE} if (t == 0) expect(b, 256); if (t < 2) load(s + 16 * t, in + x + 16 * t,"
    " t ? 192 : 64, b); wait(b, 0); out[i] = s[t] + 1;",
    "an elected thread": f'{ONE} u32 p = 0; if (t < 32) ASM("{{ .reg .pred p; elect.sync _|p, 0xffffffff;'
    ' selp.u32 %0, 1, 0, p; }" : "=r"(p) :); if (p) { expect(b, 256); load(s, in + x, 256, b); }'
    " wait(b, 0); out[i] = s[t] + 1;",
    "two stages": "if (t == 0) { init(b, 1); init(b + 1, 1); init(b + 2, 63); init(b + 3, 63); fence_init(); }"
    " __syncthreads(); for (int r = 0; r < 6; ++r) { int g = r & 1, p = (r >> 1) & 1; if (t == 0) {"
    " wait(b + 2 + g, p ^ 1); expect(b + g, 256); load(s + 64 * g, in + x, 256, b + g); } else {"
    " wait(b + g, p); v = s[64 * g + t]; arrive(b + 2 + g); } } if (t == 0) v = in[i]; out[i] = v + 1;",
    "stored": f"{STORED} if (t == 0) {{ store(out + x, s, 256); commit(); WAIT_READ(0); }}",
    "fenced by the thread that copies": "s[t] = in[i] + 1; __syncthreads(); if (t == 0) { fence();"
    " store(out + x, s, 256); commit(); WAIT_ALL(0); }",
    "two groups": f"{STORED} if (t == 0) {{ store(out + x, s, 128); commit(); store(out + x + 32, s + 32,"
    " 128); commit(); WAIT_READ(1); s[0] = 9; WAIT_READ(0); s[32] = 9; }",
    "memory used again": f"{STORED} if (t == 0) {{ store(work + x, s, 256); commit(); WAIT_READ(0); }}"
    f" __syncthreads(); {STORED} if (t == 0) {{ store(out + x, s, 256); commit(); WAIT_READ(0); }}",
    "read back": f"{STORED} if (t == 0) {{ store(out + x, s, 256); commit(); WAIT_ALL(0); out[i] += 0; }}",
    "in place": f'out[i] = in[i]; __syncthreads(); {ONE} if (t == 0) {{ ASM("fence.proxy.async;" ::);'
    " expect(b, 256); load(s, out + x, 256, b); } wait(b, 0); out[i] = s[t] + 1;",
    "to the other block": f"s[t] = in[i]; fence(); {BOTH} if (t == 0) {{ expect(b, 256);"
    " send(peer(s + 64, rank() ^ 1), s, 256, peer(b, rank() ^ 1)); } wait(b, 0); out[i ^ 64] = s[64 + t] + 1;"
    " meet();",
    "stores that complete on a barrier": f"{BOTH} if (t == 0) expect(b, 256);"
    " put_async(peer(s + t, rank() ^ 1), in[i], peer(b, rank() ^ 1)); wait(b, 0); out[i ^ 64] = s[t] + 1;",
    "stores of vectors": f"{BOTH} if (t == 0) expect(b, 256); if (t < 16) put4_async(peer(s + 4 * t,"
    " rank() ^ 1), ((float4*)(in + x))[t], peer(b, rank() ^ 1)); wait(b, 0); out[i ^ 64] = s[t] + 1;",
    "partial sums sent to every block": "if (t == 0) { init(b, 1); fence_init(); expect(b, 8); } meet();"
    " if (t < 2) put_async(peer(s + rank(), t), in[x], peer(b, t)); wait(b, 0);"
    " out[i] = in[i] + 1 + s[0] + s[1] - in[x] - in[x ^ 64];",
    "reductions": f"((u32*)s)[t % 4] = 0; {BOTH} if (t == 0) expect(b, 256); add_async(peer(s + t % 4,"
    " rank() ^ 1), 2, peer(b, rank() ^ 1)); wait(b, 0); out[i] = in[i] + ((u32*)s)[t % 4] / 32;",
    "registers": 'ASM("setmaxnreg.dec.sync.aligned.u32 40;" ::); out[i] = in[i] + 1;',
    "hints": 'if (t == 0) ASM("cp.async.bulk.prefetch.L2.global [%0], 256; prefetch.global.L2 [%0];"'
    ' :: "l"(in + x)); out[i] = in[i] + 1;',
}
"""Bodies of kernels that compute `out[i] = in[i] + 1` in clusters of two blocks."""
