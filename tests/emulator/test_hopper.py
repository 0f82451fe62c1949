"""Shared memory of a cluster, barriers in memory and bulk copies: what is right passes, what is
wrong is found with its kind and its line, which carries the mark `// <--`.
"""

from __future__ import annotations

import numpy as np
import pytest

from astra_tui.lab.compiler import Compiler
from astra_tui.model.device import PLAIN, Variation
from astra_tui.model.findings import FindingKind
from tests.emulator.harness import Ran, line_of, run_kernel
from tests.emulator.hopper import (
    ALL,
    BLOCKS,
    BOTH,
    COUNT,
    LOADED,
    ONE,
    RIGHT,
    STORED,
    THREADS,
    kernel,
)

K = FindingKind
GIVEN = np.arange(COUNT, dtype=np.float32) + 3
VARIATIONS = (PLAIN, Variation(order=1), Variation(order=5))

WRONG: dict[str, tuple[FindingKind, str, str]] = {
    # shared memory of the cluster
    "may not have begun": (K.ABSENT_BLOCK, "put(peer(s + t, rank() ^ 1), 1); // <--\n meet();", "begun"),
    "may have left": (K.ABSENT_BLOCK, "s[t] = 1; meet();\n out[i] = get(peer(s + t, rank() ^ 1)); // <--", "left"),
    "has left": (
        K.ABSENT_BLOCK,
        "meet(); if (rank()) return; for (int r = 0; r < 50; ++r) v += in[i];\n"
        " if (t == 0) put(peer(s, 1), v); // <--",
        "left",
    ),
    "generic, may have left": (K.ABSENT_BLOCK, "s[t] = 1; meet();\n out[i] = *far(s + t, rank() ^ 1); // <--", ""),
    "no barrier before a read": (
        K.SHARED_RACE, "meet(); s[t] = in[i];\n v = get(peer(s + t, rank() ^ 1)); // <--\n meet(); out[i] = v;",
        "of block",
    ),
    "two blocks store": (K.SHARED_RACE, "meet();\n put(peer(s + t, 0), in[i]); // <--\n meet();", ""),
    "overwritten while read": (
        K.SHARED_RACE,
        "s[t] = in[i]; meet(); v = get(peer(s + t, rank() ^ 1));\n s[t] = v; // <--\n meet();",
        "read",
    ),
    "an arrival that releases nothing": (
        K.SHARED_RACE,
        'meet(); s[t] = in[i]; ASM("barrier.cluster.arrive.relaxed; barrier.cluster.wait;" ::);\n'
        " v = get(peer(s + t, rank() ^ 1)); // <--\n meet(); out[i] = v;",
        "",
    ),
    "out of bounds afar": (K.SHARED_OUT_OF_BOUNDS, "meet();\n put(peer(s + 512 + t, 1), 1); // <--\n meet();", "of s"),
    "no such block": (K.SHARED_OUT_OF_BOUNDS, "meet();\n put(peer(s, 2), 1); // <--\n meet();", "which has 2"),
    "nothing there": (
        K.UNINITIALISED_SHARED, "meet();\n v = get(peer(s + t, rank() ^ 1)); // <--\n meet(); out[i] = v;", "",
    ),
    "misaligned afar": (K.MISALIGNED, "meet();\n put(peer(s + t, 1) + 2, 1); // <--\n meet();", ""),
    "an address of the cluster within the block": (
        K.SHARED_OUT_OF_BOUNDS,
        "s[t] = 1; meet();\n"
        ' ASM("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(peer(s + t, rank() ^ 1))); // <--\n meet(); out[i] = v;',
        "",
    ),
    # barriers in memory
    "no init": (K.BARRIER_MISUSE, "arrive(b); // <--", "before mbarrier.init"),
    "init unseen": (K.BARRIER_MISUSE, "if (t == 0) init(b, 64);\n arrive(b); // <--", "nothing lies between"),
    "init again": (K.BARRIER_MISUSE, f"{ONE}\n if (t == 0) init(b, 1); // <--", "it is one already"),
    "init for none": (K.BARRIER_MISUSE, "if (t == 0) init(b, t); // <--", "for 0 arrivals"),
    "after its end": (
        K.BARRIER_MISUSE,
        f'{ALL} if (t == 0) ASM("mbarrier.inval.shared.b64 [%0];" :: "r"(at(b))); __syncthreads();\n'
        " arrive(b); // <--",
        "",
    ),
    "an arrival is missing": (
        K.DEADLOCK, f"{ALL} if (t) arrive(b);\n wait(b, 0); // <--", "waits for 1 of 64 arrivals",
    ),
    "a wait for the phase after": (
        K.DEADLOCK, f"{ALL} arrive(b); wait(b, 0);\n wait(b, 1); // <--", "phase 1 of the mbarrier at byte 0 of b",
    ),
    "too many at once": (K.BARRIER_MISUSE, f"{ONE}\n arrive(b); // <--", "64 arrivals at once"),
    "half the arrivals are enough": (
        K.SHARED_RACE,
        "s[t] = 0; if (t == 0) init(b, 32); __syncthreads(); if (t < 32) { s[t] = 1; arrive(b); wait(b, 0);"
        " out[i] = s[t + 32]; } else {\n s[t] = in[i]; // <--\n wait(b, 0); }",
        "",
    ),
    "the other parity": (
        K.DEADLOCK, f"{ALL} s[t] = in[i]; arrive(b);\n wait(b, 1); // <--\n out[i] = s[t ^ 63];", "phase 1",
    ),
    "a parity that never changes": (
        K.DEADLOCK,
        f"{ALL} for (int r = 0; r < 2; ++r) {{ s[t] = in[i] + r; arrive(b);\n wait(b, 0); // <--\n"
        " v += s[t ^ 63]; __syncthreads(); } out[i] = v;",
        "phase 2",
    ),
    "asked once": (K.SHARED_RACE, f"{ALL} s[t] = in[i];\n if (t < 32) arrive(b); test(b, 0);\n"
        " out[i] = s[t ^ 63]; // <--\n", ""),
    "an arrival that releases nothing, in memory": (
        K.SHARED_RACE,
        f'{ALL} s[t] = in[i]; ASM("mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [%0];" :: "r"(at(b)));'
        " wait(b, 0);\n out[i] = s[t ^ 63]; // <--",
        "",
    ),
    "read after the arrival": (
        K.SHARED_RACE,
        f"{ALL} s[t] = in[i]; __syncthreads(); arrive(b);\n v = s[t ^ 63];\n wait(b, 0);\n s[t] = v; // <--\n out[i] = v;",
        "read",
    ),
    "no wait for room": (
        K.SHARED_RACE,
        "if (t == 0) { init(b, 32); init(b + 1, 32); } __syncthreads(); for (int r = 0; r < 3; ++r)"
        " if (t < 32) {\n s[t] = in[i] + r; // <--\n arrive(b); } else { wait(b, r & 1); v = s[t - 32];"
        " out[i] = v; __syncwarp(); }",
        "",
    ),
    "a state of an older phase": (
        K.BARRIER_MISUSE,
        f"{ALL} u64 p = arrive(b); wait(b, 0); arrive(b); wait(b, 1); arrive(b); wait(b, 0);\n"
        " out[i] = test_state(b, p); // <--",
        "state of no arrival",
    ),
    "a misaligned barrier": (K.MISALIGNED, "if (t == 0) init((u64*)(s + 1), 1); // <--", "mbarrier"),
    "a barrier in global memory": (
        K.SHARED_OUT_OF_BOUNDS,
        'if (t == 0) ASM("mbarrier.init.b64 [%0], 1;" :: "l"(work)); // <--',
        "",
    ),
    "stored over": (K.BARRIER_MISUSE, f"{ONE}\n if (t == 3) b[0] = 0; // <--", "over the mbarrier"),
    "completed after all": (
        K.BARRIER_MISUSE,
        f'{ONE} u64 p;\n if (t == 0) ASM("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;"'
        ' : "=l"(p) : "r"(at(b))); // <--',
        "",
    ),
    "cp.async that nothing waits for": (
        K.UNINITIALISED_SHARED,
        f"{ALL} copy16(s + 4 * t, in + x / 4 * 4); arrive(b); wait(b, 0);\n out[i] = s[t]; // <--",
        "cp.async",
    ),
    # bulk copies
    "read at once": (K.IN_FLIGHT, f"{LOADED}\n out[i] = s[t]; // <--\n wait(b, 0);", "byte 0 of s"),
    "read by those that did not wait": (
        K.IN_FLIGHT, f"{LOADED} if (t < 32) wait(b, 0);\n out[i] = s[t]; // <--", "",
    ),
    "too few bytes": (
        K.DEADLOCK,
        f"{ONE} if (t == 0) {{ expect(b, 272); load(s, in + x, 256, b); }}\n wait(b, 0); // <--",
        "and 16 bytes of copies",
    ),
    "too many bytes": (
        K.DEADLOCK,
        f"{ONE} if (t == 0) {{ expect(b, 128); load(s, in + x, 256, b); }}\n wait(b, 0); // <--",
        "128 bytes more",
    ),
    "none expected": (
        K.IN_FLIGHT,
        f"{ONE} if (t == 0) {{ arrive(b); load(s, in + x, 256, b); }} wait(b, 0);\n out[i] = s[t]; // <--",
        "",
    ),
    "one of two expected": (
        K.IN_FLIGHT,
        f"{ONE} if (t == 0) {{ expect(b, 128); load(s, in + x, 128, b); load(s + 32, in + x + 32, 128, b); }}"
        " wait(b, 0);\n out[i] = s[t]; // <--",
        "",
    ),
    "the source changes": (
        K.IN_FLIGHT,
        f"work[i] = 1; __syncthreads(); {ONE} if (t == 0) {{ expect(b, 256); load(s, work + x, 256, b);\n"
        " work[x] = 2; // <--\n }} wait(b, 0); out[i] = s[t];".replace("}}", "}"),
        "work" if False else "",
    ),
    "stored into": (K.IN_FLIGHT, f"{LOADED}\n if (t == 63) s[t] = 1; // <--\n wait(b, 0);", ""),
    "a misaligned target": (K.MISALIGNED, LOADED.replace("load(s,", "\nload(s + 1,").replace(", b); }", ", b); // <--\n}"), "destination"),
    "a misaligned source": (K.MISALIGNED, LOADED.replace("load(s, in + x", "\nload(s, in + x + 2").replace(", b); }", ", b); // <--\n}"), "source"),
    "a size of 40": (K.MISALIGNED, LOADED.replace("load(s, in + x, 256", "\nload(s, in + x, 40").replace(", b); }", ", b); // <--\n}"), "40 bytes"),
    "beyond shared memory": (K.SHARED_OUT_OF_BOUNDS, LOADED.replace("load(s,", "\nload(s + 480,").replace(", b); }", ", b); // <--\n}"), "of s"),
    "beyond the source": (K.GLOBAL_OUT_OF_BOUNDS, LOADED.replace("in + x,", "in + x + 32,").replace("load(", "\nload(").replace(", b); }", ", b); // <--\n}"), ""),
    "a barrier that is not fenced": (
        K.MISSING_FENCE,
        "if (t == 0) { init(b, 1); expect(b, 256);\n load(s, in + x, 256, b); // <--\n} __syncthreads(); wait(b, 0);",
        "fence.mbarrier_init",
    ),
    "others still read what is copied over": (
        K.SHARED_RACE,
        f"s[t] = in[i]; {ONE} v = s[t ^ 63]; if (t == 0) {{ expect(b, 256);\n load(s, in + x, 256, b); // <--\n"
        "} wait(b, 0); out[i] = v + s[t];",
        "read",
    ),
    "a wrong phase of a stage": (
        K.IN_FLIGHT,
        f"{ONE} for (int r = 0; r < 2; ++r) {{ if (t == 0) {{ expect(b, 256); load(s, in + x, 256, b); }}"
        " wait(b, 0);\n v += s[t]; // <--\n __syncthreads(); } out[i] = v;",
        "",
    ),
    "leaves before it comes": (
        K.IN_FLIGHT,
        f"{ONE} if (t == 0) {{ expect(b, 256);\n load(s, in + x, 256, b); // <--\n}} out[i] = 1;",
        "leaves before it has come",
    ),
    "stored without a fence": (
        K.MISSING_FENCE,
        "s[t] = in[i]; __syncthreads(); if (t == 0) {\n store(out + x, s, 256); // <--\n commit(); WAIT_READ(0); }",
        "fence.proxy.async",
    ),
    "stored without a barrier": (
        K.SHARED_RACE,
        "s[t] = in[i]; fence(); if (t == 0) {\n store(out + x, s, 256); // <--\n commit(); WAIT_READ(0); }",
        "",
    ),
    "stored what nothing wrote": (
        K.UNINITIALISED_SHARED,
        f"{STORED} if (t == 0) {{\n store(out + x, s + 32, 256); // <--\n commit(); WAIT_READ(0); }}",
        "",
    ),
    "memory changes before it is read": (
        K.IN_FLIGHT, f"{STORED} if (t == 0) {{ store(out + x, s, 256); commit();\n s[7] = 1; // <--\n WAIT_READ(0); }}", "",
    ),
    "others change it before it is read": (
        K.IN_FLIGHT, f"{STORED} if (t == 0) {{ store(out + x, s, 256); commit(); }} __syncthreads();\n s[t] = 1; // <--\n"
        " if (t == 0) WAIT_READ(0);", "",
    ),
    "the older group alone": (
        K.IN_FLIGHT,
        f"{STORED} if (t == 0) {{ store(out + x, s, 128); commit(); store(out + x + 32, s + 32, 128); commit();"
        " WAIT_READ(1);\n s[40] = 1; // <--\n WAIT_READ(0); }",
        "",
    ),
    "left before it is read": (
        K.IN_FLIGHT, f"{STORED} if (t == 0) {{\n store(out + x, s, 256); // <--\n commit(); }}", "wait_group.read",
    ),
    "never committed": (
        K.IN_FLIGHT, f"{STORED} if (t == 0) {{\n store(out + x, s, 256); // <--\n WAIT_READ(0); }}", "",
    ),
    "read back too early": (
        K.IN_FLIGHT,
        f"{STORED} if (t == 0) {{ store(work + x, s, 256); commit(); WAIT_READ(0);\n out[i] = work[x]; // <--\n }}",
        "",
    ),
    "an input is stored to": (
        K.WROTE_INPUT, f"{STORED} if (t == 0) {{\n store(in + x, s, 256); // <--\n commit(); WAIT_READ(0); }}", "",
    ),
    "two blocks store the same": (
        K.GLOBAL_RACE, f"{STORED} if (t == 0) {{\n store(out, s, 256); // <--\n commit(); WAIT_READ(0); }}", "",
    ),
    "a barrier of another block": (
        K.BARRIER_MISUSE,
        f"s[t] = in[i]; fence(); {BOTH} if (t == 0) {{ expect(b, 256);\n"
        " send(peer(s + 64, rank() ^ 1), s, 256, at(b)); // <--\n } meet();",
        "of another",
    ),
    "an asynchronous store is read at once": (
        K.IN_FLIGHT,
        f"{BOTH} if (t == 0) expect(b, 256); put_async(peer(s + t, rank() ^ 1), in[i], peer(b, rank() ^ 1));\n"
        " out[i] = s[t]; // <--\n wait(b, 0);",
        "",
    ),
    "asynchronous stores that are not all expected": (
        K.DEADLOCK,
        f"{BOTH} if (t == 0) expect(b, 252); put_async(peer(s + t, rank() ^ 1), in[i], peer(b, rank() ^ 1));\n"
        " wait(b, 0); // <--\n out[i] = s[t];",
        "4 bytes more",
    ),
}  # fmt: skip


def run(
    compiler: Compiler,
    source: str,
    variation: Variation = PLAIN,
    checked: bool = True,
    work: float = 0,
) -> Ran:
    arrays = [np.full(COUNT, 77, np.float32), GIVEN, np.full(COUNT, work, np.float32)]
    return run_kernel(
        compiler,
        source,
        arrays,
        grid=BLOCKS,
        block=THREADS,
        cluster=2,
        read_only=(1,),
        variation=variation,
        checked=checked,
    )


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_what_is_right_passes_in_every_order(compiler: Compiler, body: str) -> None:
    source = kernel(body)
    for variation in VARIATIONS:
        np.testing.assert_array_equal(run(compiler, source, variation)["a0"], GIVEN + 1)
    np.testing.assert_array_equal(run(compiler, source, checked=False)["a0"], GIVEN + 1)


@pytest.mark.parametrize(("kind", "body", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_found(
    compiler: Compiler, kind: FindingKind, body: str, words: str
) -> None:
    source = kernel(body)
    found = [f for f in run(compiler, source).findings if not f.is_warning]
    assert [f.kind for f in found] == [kind], [f.describe() for f in found]
    lines = (found[0].line, *found[0].callers)
    assert line_of(source, "// <--") in lines, found[0].describe()
    assert words in found[0].message, found[0].describe()


GROUPS = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(float* out, const float* in, float* work) {
  __shared__ float s[64];
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned i = blockIdx.x * 64 + threadIdx.x;
  s[threadIdx.x] = in[i];
  cluster.sync();
  const unsigned other = cluster.block_rank() ^ (cluster.num_blocks() - 1);
  out[i ^ 64] = cluster.map_shared_rank(s, other)[threadIdx.x] + 1;
  if (work[0] == 0) cluster.barrier_wait(cluster.barrier_arrive());
}
"""


def test_cooperative_groups_of_a_cluster(compiler: Compiler) -> None:
    np.testing.assert_array_equal(run(compiler, GROUPS)["a0"], GIVEN + 1)
    (finding,) = run(compiler, GROUPS, work=1).findings
    assert finding.kind is K.ABSENT_BLOCK


def test_bulk_copies_are_counted_apart(compiler: Compiler) -> None:
    counters = run(compiler, kernel(RIGHT["loaded"])).counters
    (bulk,) = (a for a in counters.accesses if a.space == "bulk")
    assert (bulk.requests, bulk.sectors, bulk.bytes) == (BLOCKS, BLOCKS * 8, BLOCKS * 256)
    assert counters.sectors == bulk.sectors + BLOCKS * 8  # The stores are plain.
    counters = run(compiler, kernel(RIGHT["to the other block"])).counters
    (remote,) = (a for a in counters.accesses if a.space == "cluster")
    assert (remote.direction, remote.requests, remote.bytes) == ("store", BLOCKS, BLOCKS * 256)
