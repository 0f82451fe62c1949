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
