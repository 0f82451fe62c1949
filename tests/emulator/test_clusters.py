"""Thread block clusters on the emulator: where a block is in its cluster, barriers, and what is wrong.

The line that is to blame carries the mark `// <--`.
"""

from __future__ import annotations

import numpy as np
import pytest

from astra_tui.lab.compiler import Compiler
from astra_tui.model.device import PLAIN, Variation
from astra_tui.model.findings import FindingKind
from tests.emulator.harness import line_of, run_kernel

K = FindingKind
ARRIVE = 'asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");'
WAIT = 'asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");'
RELAXED = 'asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");'
SYNC = f"{ARRIVE} {WAIT}"
BACKWARD = Variation(order=1)


def special(name: str) -> str:
    """A statement that reads a special register into `v`."""
    return f'unsigned v; asm volatile("mov.u32 %0, %{name};" : "=r"(v));'


@pytest.mark.parametrize("order", [0, 1, 7])
def test_a_block_knows_where_it_is_in_its_cluster(compiler: Compiler, order: int) -> None:
    names = [
        f"{register}.{axis}"
        for register in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
        for axis in "xyz"
    ] + ["cluster_ctarank", "cluster_nctarank"]
    reads = "\n".join(
        f"{{ {special(f'%{name}')} out[({n} * gridDim.z * 4 + blockIdx.z * 4 + blockIdx.y) * 6"
        " + blockIdx.x] = v; }"
        for n, name in enumerate(names)
    )
    source = f"__global__ void k(unsigned* out) {{\n{reads}\n}}"
    grid, cluster = (6, 4, 2), (3, 2, 1)
    ran = run_kernel(
        compiler,
        source,
        [np.zeros((len(names), 2, 4, 6), np.uint32)],
        grid=grid,
        block=1,
        cluster=cluster,
        variation=Variation(order=order),
    )
    z, y, x = np.meshgrid(range(2), range(4), range(6), indexing="ij")
    index, size = (x, y, z), cluster
    wanted = [index[a] // size[a] for a in range(3)]
    wanted += [np.full_like(x, grid[a] // size[a]) for a in range(3)]
    wanted += [index[a] % size[a] for a in range(3)]
    wanted += [np.full_like(x, size[a]) for a in range(3)]
    wanted += [x % 3 + 3 * (y % 2), np.full_like(x, 6)]
    np.testing.assert_array_equal(ran["a0"], np.stack(wanted))


RIGHT = {
    "each reads its neighbour's": f"out[i] = in[i]; {SYNC} v = out[other]; {SYNC} out[i] = v + 1;",
    "work between arrival and wait": f"out[i] = in[i]; {ARRIVE} v = in[i]; {WAIT} v += out[other];"
    f" {SYNC} out[i] = v - in[other] - in[i] + in[other] + 1;",
    "one thread writes for the cluster": f"if (i % 128 == 0) work[i / 128] = 5; {SYNC}"
    " out[i] = work[i / 128] - 5 + in[other] + 1;",
    "a barrier of the block carries it on": f"if (t == 0) out[i] = in[i]; __syncthreads(); {SYNC}"
    f" if (t == 3) v = out[other - other % 64]; __syncthreads(); {SYNC} out[i] = in[other] + 1;",
    "some blocks leave at once": f"if (blockIdx.x % 2) {{ out[i] = in[other] + 1; return; }} {SYNC}"
    " out[i] = in[other] + 1;",
    "many rounds": f"for (int r = 0; r < 5; ++r) {{ out[i] = r; {SYNC} v = out[other]; {SYNC} }}"
    " out[i] = in[other] + v - 3;",
}
WRONG = {
    "no barrier": (K.GLOBAL_RACE, "out[i] = in[i];\n v = out[other]; // <--\n work[i] = v;"),
    "a barrier of the block alone": (
        K.GLOBAL_RACE,
        "out[i] = in[i]; __syncthreads();\n work[i] = out[other]; // <--",
    ),
    "arrival that releases nothing": (
        K.GLOBAL_RACE,
        f"out[i] = in[i]; {RELAXED} {WAIT}\n work[i] = out[other]; // <--",
    ),
    "read before the wait": (
        K.GLOBAL_RACE,
        f"out[i] = in[i]; {ARRIVE}\n v = out[other]; // <--\n {WAIT} work[i] = v;",
    ),
    "overwritten while others still read": (
        K.GLOBAL_RACE,
        f"out[i] = in[i]; {SYNC} v = out[other];\n out[i] = v; // <--",
    ),
    "two arrivals": (K.BARRIER_MISUSE, f"{ARRIVE}\n {ARRIVE} // <--\n {WAIT}"),
    "a wait without arrival": (K.BARRIER_MISUSE, f"{WAIT} // <--"),
    "one block does not come": (
        K.DEADLOCK,
        f'if (blockIdx.x % 2) asm volatile("bar.sync 1, 96;");\n {SYNC} // <--',
    ),
    "a barrier of the next cluster": (
        K.GLOBAL_RACE,
        f"out[i] = in[i]; {SYNC}\n work[i] = out[(i + 128) % 256]; // <--",
    ),
}


def source_of(body: str) -> str:
    return (
        "__global__ void k(float* out, const float* in, float* work) {\n"
        " const int t = threadIdx.x, i = blockIdx.x * 64 + t, other = i ^ 64; float v = 0;\n"
        f" {body}\n}}"
    )


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_blocks_of_a_cluster_meet(compiler: Compiler, body: str) -> None:
    given = np.arange(256, dtype=np.float32)
    for variation in (PLAIN, BACKWARD):
        ran = run_kernel(
            compiler,
            source_of(body),
            [np.zeros(256, np.float32), given, np.zeros(256, np.float32)],
            grid=4,
            block=64,
            cluster=2,
            read_only=(1,),
            variation=variation,
        )
        np.testing.assert_array_equal(ran["a0"], given.reshape(2, 2, 64)[:, ::-1].reshape(-1) + 1)


@pytest.mark.parametrize(("kind", "body"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_a_cluster_is_found(
    compiler: Compiler, kind: FindingKind, body: str
) -> None:
    source = source_of(body)
    ran = run_kernel(
        compiler,
        source,
        [np.zeros(256, np.float32), np.arange(256, dtype=np.float32), np.zeros(256, np.float32)],
        grid=4,
        block=64,
        cluster=2,
        read_only=(1,),
    )
    found = [f for f in ran.findings if not f.is_warning]
    assert [f.kind for f in found] == [kind], found
    assert found[0].line == line_of(source, "// <--"), found[0].describe()


LAUNCHES = [
    ("", 4, "cluster= says 4x1x1 blocks, and __cluster_dims__ of the kernel 2x1x1", 4),
    ("", 1, "", 4),
    ("", 2, "", 4),
    ("", 2, "a grid of 3x1x1 blocks is no multiple of clusters of 2x1x1", 3),
    ("none", 32, "clusters of 32 blocks; at most 16 fit", 32),
    ("none", 16, "", 32),
]


@pytest.mark.parametrize(("attribute", "cluster", "words", "grid"), LAUNCHES)
def test_the_launch_and_the_kernel_agree_on_clusters(
    compiler: Compiler, attribute: str, cluster: int, words: str, grid: int
) -> None:
    dims = "__cluster_dims__(2, 1, 1) " if not attribute else ""
    source = f"""__global__ void {dims}k(unsigned* out) {{
  {special("%cluster_nctarank")} out[blockIdx.x] = v; }}"""
    ran = run_kernel(
        compiler, source, [np.zeros(grid, np.uint32)], grid=grid, block=1, cluster=cluster
    )
    if words:
        (finding,) = ran.findings
        assert finding.kind is K.OUT_OF_RESOURCES
        assert words in finding.message
    else:
        assert (ran["a0"] == (2 if dims else cluster)).all()
