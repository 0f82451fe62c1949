"""Kernels whose accesses go through vector types: written out, for moves to see what they do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.upstream import included_texts, task_headers
from astra_tui.model.check import CheckReport, CheckVerdict
from astra_tui.model.dtypes import DType
from astra_tui.model.task import KernelTask, find_task, load_task, upstream_files
from astra_tui.playbook import Evidence, Proposal, propose_all
from astra_tui.playbook.moves.combined import Combined
from astra_tui.playbook.propose import propose_as_set
from astra_tui.playbook.shipped.included import BroughtIn, bring_in
from astra_tui.playbook.shipped.vector_types import Way, vector_functions
from astra_tui.playbook.shipped.written_out import written_out
from tests.conftest import OracleHere
from tests.playbook.path import GPU, require_pass

pytestmark = pytest.mark.usefixtures("warm_processes")

FUNCTIONS = """\
  __device__ @& operator[](int i) { return ((@*)&data)[i]; }
  __device__ const @& operator[](int i) const { return ((const @*)&data)[i]; }
  __device__ void fill(@ value) { for (int i = 0; i < 8; ++i) (*this)[i] = value; }
  template <typename A> __device__ void cast_from(const vec<A, 8>& from) {
    for (int i = 0; i < 8; ++i) (*this)[i] = (@)(float)from[i];
  }
"""
VECTORS = """\
#pragma once
#include <stdint.h>
namespace rows {
template <typename E, int N> struct vec;
template <typename A, typename B, int N>
__device__ void load_as(vec<B, N>& to, const A* from) {
  if constexpr (std::is_same_v<A, B>) {
    to.load(from);
  } else {
    vec<A, N> other;
    other.load(from);
    to.cast_from(other);
  }
}
template <typename A, typename B, int N>
__device__ void store_as(A* to, const vec<B, N>& from) {
  if constexpr (std::is_same_v<A, B>) {
    from.store(to);
  } else {
    vec<A, N> other;
    other.cast_from(from);
    other.store(to);
  }
}
template <typename E> struct vec<E, 8> {
  uint4 data;
@E
  __device__ void load(const E* from);
  __device__ void store(E* to) const { *((uint4*)to) = data; }
  template <typename A> __device__ void cast_load(const A* from) { load_as(*this, from); }
  template <typename A> __device__ void cast_store(A* to) const { store_as(to, *this); }
};
template <typename E> __device__ inline void vec<E, 8>::load(const E* from) {
  data = *((uint4*)from);
}
template <> struct vec<float, 8> {
  float4 data[8 / 4];
@float
  __device__ void load(const float* from) {
#pragma unroll
    for (int i = 0; i < 8 / 4; ++i) {
      data[i] = ((float4*)from)[i];
    }
  }
  __device__ void store(float* to) const {
    for (int i = 0; i < 8 / 4; ++i) { ((float4*)to)[i] = data[i]; }
  }
  template <typename A> __device__ void cast_load(const A* from) { load_as(*this, from); }
  template <typename A> __device__ void cast_store(A* to) const { store_as(to, *this); }
};
template <> struct vec<__nv_fp8_e4m3, 8> {
  uint2 data;
@__nv_fp8_e4m3
  __device__ void load(const __nv_fp8_e4m3* from) { data = *((uint2*)from); }
  __device__ void store(__nv_fp8_e4m3* to) const { *((uint2*)to) = data; }
};
}
"""
VECTORS = re.sub(
    r"^@(\w+)", lambda kind: FUNCTIONS.replace("@", kind[1]).rstrip(), VECTORS, flags=re.M
)
ROUNDS = "round_up_div(d, V * num_threads)"
GUARD = "if ((i * num_threads + thread) * V < d)"
NORM = f"""\
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <type_traits>
#include "vec.cuh"
namespace rows {{
template <typename A, typename B>
__device__ constexpr A round_up_div(const A a, const B b) noexcept {{
  return (a + b - 1) / b;
}}
template <uint32_t V, typename T, typename O>
__global__ void norm_quant(T* __restrict__ input, T* __restrict__ weight, O* __restrict__ output,
                           const uint32_t d, const uint32_t input_stride,
                           const uint32_t output_stride, float bias, float* scale, float eps) {{
  const uint32_t row = blockIdx.x, lane = threadIdx.x, warp = threadIdx.y;
  const uint32_t num_warps = blockDim.y;
  const uint32_t thread = lane + warp * 32;
  const uint32_t num_threads = num_warps * 32;
  const uint32_t rounds = {ROUNDS};
  extern __shared__ float sums[];
  float sum = 0.f;
#if (__CUDACC_VER_MAJOR__ >= 12 && defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900))
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  const float factor = 1.0f / scale[0];
  for (uint32_t i = 0; i < rounds; i++) {{
    vec<T, V> x;
    x.fill(0.f);
    {GUARD} {{
      x.load(input + row * input_stride + i * num_threads * V + thread * V);
    }}
#pragma unroll
    for (uint32_t j = 0; j < V; j++) {{
      sum += float(x[j]) * float(x[j]);
    }}
  }}
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  sums[warp] = sum;
  __syncthreads();
  sum = 0.f;
  for (uint32_t k = 0; k < num_warps; ++k) sum += sums[k];
  const float root = rsqrtf(sum / float(d) + eps);
  for (uint32_t i = 0; i < rounds; i++) {{
    vec<float, V> x;
    vec<T, V> w;
    vec<float, V> y;
    w.fill(0.f);
    {GUARD} {{
      x.cast_load(input + row * input_stride + i * num_threads * V + thread * V);
      w.load(weight + i * num_threads * V + thread * V);
    }}
#pragma unroll
    for (uint32_t j = 0; j < V; j++) {{
      y[j] = x[j] * root * (bias + float(w[j])) * factor;
      y[j] = fmaxf(-448.0f, fminf(y[j], 448.0f));
    }}
    {GUARD} {{
      y.cast_store(output + row * output_stride + i * num_threads * V + thread * V);
    }}
  }}
#if (__CUDACC_VER_MAJOR__ >= 12 && defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900))
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}}
}}
"""
WHEN = " and ".join(
    (
        *("d % 8 == 0", "aligned(input, 16)", "aligned(weight, 16)", "aligned(output, 8)"),
        *("stride(input, 0) % 8 == 0", "stride(output, 0) % 8 == 0"),
    )
)
WARPS = "ceil_div(min(1024, d // 8), 32)"
PASSED = "input, weight, output, d, stride(input, 0), stride(output, 0), weight_bias, scale, eps"
SOURCE = f"""\
#include "norm.cuh"

/* @launch
   when {WHEN}:
       rows::norm_quant<8, T, float8_e4m3fn> grid=batch_size block=(32, {WARPS}) shared={WARPS} * 4
           args=({PASSED}) pdl=true
*/
"""
FILE = "upstream/norm.cuh"


def from_library(
    folder: Path, operator: str, source: str, library: Mapping[str, str]
) -> KernelTask:
    """A bundled task, with a small library in place of the package that ships its kernel."""
    left_out = shutil.ignore_patterns("upstream.toml", "yardsticks.toml", "__pycache__")
    shutil.copytree(find_task(operator).folder, folder, ignore=left_out)
    (folder / "baseline.cu").write_text(source)
    files = upstream_files(library, include=(".",), origin="rows 1.0", licence="MIT")
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return load_task(folder)


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> KernelTask:
    """The norm with fp8 results."""
    folder = tmp_path_factory.mktemp("kernels") / "norm_quant"
    library = {"norm.cuh": NORM, "vec.cuh": VECTORS}
    return from_library(folder, "flashinfer_rmsnorm_quant", SOURCE, library)


@pytest.fixture(scope="module")
def checker(task: KernelTask) -> Iterator[Checker]:
    with Compiler(upstream=task_headers(task)) as compiler, OracleHere(task) as oracle:
        yield Checker(task, Emulator(), compiler, oracle)


def offered(task: KernelTask, source: str) -> dict[str, Proposal]:
    """What it proposes, each move alone; each plan makes what was proposed."""
    evidence = Evidence(task, device=GPU, arch="sm_90a", included=included_texts(task))
    found = {p.plan.move: p for p in propose_all(source, evidence)[0]}
    for proposal in found.values():
        made = propose_as_set(source, proposal.plan, evidence)
        assert isinstance(made, Proposal)
        assert made.source == proposal.source
    return {name: p for name, p in found.items() if name != Combined.name}


def written(kernel: str = NORM, vectors: str = VECTORS, source: str = SOURCE) -> str:
    """The source with its kernel written out."""
    return _written(source, {FILE: kernel, "upstream/vec.cuh": vectors})


def written_alone(file: str, kernel: str, source: str) -> str:
    """A source whose library is one file, with its kernel written out."""
    return _written(source, {f"upstream/{file}": kernel})


def _written(source: str, included: Mapping[str, str]) -> str:
    brought = bring_in(source, included, "")
    assert brought is not None
    found = written_out(brought.text, included, dependent_launches=True)
    return found.text if found is not None else ""


def test_loads_threads_and_loops_are_written_as_they_are_meant() -> None:
    text = written()
    for line in (
        "cudaGridDependencySynchronize();",
        "const uint32_t row = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;",
        "for (uint32_t i = threadIdx.x; i < (d + V - 1) / V; i += blockDim.x) {",
        "vec<T, V> x = *reinterpret_cast<const vec<T, V>*>(&input[row * input_stride + i * V]);",
        "vec<T, V> w = *reinterpret_cast<const vec<T, V>*>(&weight[i * V]);",
        "x.cast_from(x_loaded);",
        "y_stored.cast_from(y);",
        "*reinterpret_cast<vec<O, V>*>(&output[row * output_stride + i * V]) = y_stored;",
        "cudaTriggerProgrammaticLaunchCompletion();",
        "let warps = ceil_div(min(1024, d // 8), 32)",
    ):
        assert line in text
    for gone in (
        "asm",
        "uint32_t thread",
        "rounds",
        ".fill(",
        ".load(",
        "cast_store",
        "threadIdx.y",
    ):
        assert gone not in text
    again = written_out(text, {FILE: NORM, "upstream/vec.cuh": VECTORS}, dependent_launches=True)
    assert again is None


def test_moves_see_what_is_written_out_and_each_is_correct(checker, task) -> None:
    path, source = [], SOURCE
    for _ in range(4):
        new = next(p for m, p in offered(task, source).items() if m not in path)
        *_, report = checker.check(new.source, "candidate.cu", select_cases(task, ("*",))[::2])
        assert isinstance(report, CheckReport)
        assert report.verdict is CheckVerdict.PASSED, (new.plan.move, report.message)
        path, source = [*path, new.plan.move], new.source
    assert path == ["fast_math", "keep_row", "early_loads", "trigger_early"]
    assert "vec<T, V> weight_early[TURNS];" in source
    assert "__launch_bounds__(1024) norm_quant_own_kept" in source


def test_a_plan_for_what_is_written_out_names_lines_of_the_file(task) -> None:
    plan = offered(task, SOURCE)["keep_row"].plan
    lines = NORM.splitlines()
    assert {p.file for p in plan.places} == {FILE}
    assert all("for (uint32_t i = 0" in lines[p.first - 1] for p in plan.places)
    assert "Written out: it waits and triggers" in plan.change


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/ b;", "/ b + 0;"),  # It may be other than the rounds that a row takes.
        ("float(x[j]) * float(x[j])", "float(x[j]) + 1.f"),
        ("y[j] = fmax", "sum += y[j]; y[j] = fmax"),
        ("w.fill(0.f);", "scale[0] = 1.f;"),
        (GUARD, GUARD.replace(") * V <", ") * V + 1 <")),
        (GUARD, GUARD.replace("num_threads", "d")),
    ],
)
def test_loops_stay_where_an_idle_thread_might_do_something(old: str, new: str) -> None:
    changed = NORM.replace(old, new)
    assert changed != NORM
    assert "i < rounds" in written(changed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("data = *((uint4*)from);", "data = *((uint4*)from); data.x = 0;"),
        ("data = *((uint4*)from);", "data = *((uint4*)(from + 8));"),
        ("  uint4 data;", "  uint4 data; int more;"),
        ("struct vec<float, 8>", "struct alignas(32) vec<float, 8>"),
        ("float4 data[8 / 4];", "float4 data[8 / 2];"),
        ("data[i] = ((float4*)from)[i];", "data[i] = ((float4*)from)[0];"),
        ("data = *((uint2*)from);", "data = __ldg((uint2*)from);"),
    ],
)
def test_a_load_that_is_no_plain_copy_is_none(old: str, new: str) -> None:
    assert vector_functions("vec", {"": VECTORS}) == {way.value: way for way in Way}
    changed = VECTORS.replace(old, new)
    assert changed != VECTORS
    ways = vector_functions("vec", {"": changed})
    assert not {Way.LOAD, Way.CONVERTING_LOAD} & set(ways.values())
    assert "x.load(" in written(vectors=changed)
    assert not vector_functions("vector", {"": VECTORS})


def test_calls_that_are_given_memory_hide_nothing_from_a_move(task) -> None:
    """A load that is not understood keeps the moves away from its loop."""
    vectors = VECTORS.replace("data = *((uint4*)from);", "data = __ldcs((uint4*)from);")
    folder_texts = {FILE: NORM, "upstream/vec.cuh": vectors}
    evidence = Evidence(task, device=GPU, arch="sm_90a", included=folder_texts)
    proposals, refused = propose_all(SOURCE, evidence)
    assert "keep_row" not in {p.plan.move for p in proposals}
    assert "cannot be followed" in next(r.reason for r in refused if r.move == "keep_row")


SUMS = """\
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#define READ(place) __ldg(place)
namespace rows {
template <typename E, bool MASKED>
__global__ void sums(E* __restrict__ to, const E* __restrict__ from, const int width,
                     const int parts, const int64_t row_stride, const int64_t part_stride,
                     const int64_t stride, const int* mask, const float* scale) {
  const int64_t row = blockIdx.x;
  const E* parts_of_row = from + row * row_stride;
  const int* mask_of_row = nullptr;
  const bool is_scaled = scale != nullptr;
  if constexpr (MASKED) {
    mask_of_row = mask + row * parts;
  }
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = 0.f;
    for (int part = 0; part < parts; ++part) {
      if constexpr (MASKED) {
        if (mask_of_row[part] == 0) continue;
      }
      sum += static_cast<float>(READ(&parts_of_row[part * part_stride + i * stride]));
    }
    if (is_scaled) sum *= *scale;
    to[row * width + i] = static_cast<E>(mask ? sum + 1.f : sum);
  }
}
}
"""
SUMS_SOURCE = """\
#include "sums.cuh"

/* @launch
   rows::sums<T, "false"> grid=num_tokens block=min(d, 1024)
       args=(out, input, d, topk, stride(input, 0), stride(input, 1), 1, null, null)
*/
"""


def test_what_launches_settle_is_folded_in() -> None:
    text = written_alone("sums.cuh", SUMS, SUMS_SOURCE)
    for line in (
        "sum += static_cast<float>(parts_of_row[part * part_stride + i]);",
        "to[row * width + i] = static_cast<E>(sum);",
    ):
        assert line in text
    for gone in ("constexpr", "is_scaled", "mask_of_row", "READ(&"):
        assert gone not in text
    several = SUMS_SOURCE.replace(
        "   rows", "   rows::sums<T, true> grid=1 block=1 args=(out, input, d)\n   rows"
    )
    kept = written_alone("sums.cuh", SUMS, several)
    assert "if constexpr (MASKED)" in kept
    assert "i * stride" in kept


def test_lanes_keep_a_sum_each_over_parts_of_a_row(tmp_path: Path) -> None:
    task = from_library(tmp_path / "sums", "vllm_moe_sum", SUMS_SOURCE, {"sums.cuh": SUMS})
    evidence = Evidence(task, device=GPU, arch="sm_90a", included=included_texts(task))
    best = propose_all(SUMS_SOURCE, evidence)[0][0]
    assert best.plan.settings["moves"] == ("wide_accesses", "flat_grid", "overlap_launches")
    assert "float sum[WIDTH];" in best.source
    assert "block=64" in best.source  # The largest workload has 16384 packs.
    assert "#pragma unroll 8\n    for (int part = 0; part < parts; ++part) {" in best.source
    with Compiler(upstream=task_headers(task)) as compiler, OracleHere(task) as oracle:
        checker = Checker(task, Emulator(), compiler, oracle)
        require_pass(checker, best.source, select_cases(task, ("*",))[::7])


ROWS_SOURCE = """\
/* @launch
   k<T> grid=tokens block=256 args=(out, input, d)
*/
#include <cuda_fp16.h>
template <typename T>
__global__ void k(T* out, const T* in, int d) {
  const int begin = blockIdx.x * d, end = begin + d;
  const int first = begin + threadIdx.x;
  float most[1] = {-INFINITY};
  for (int i = first; i < end; i += blockDim.x) most[0] = fmaxf(most[0], (float)in[i]);
  __shared__ float largest[8];
  largest[threadIdx.x / 32] = most[0];
  __syncthreads();
  for (int i = first; i < (blockIdx.x + 1) * d; i += blockDim.x) {
    out[i] = (T)((float)in[i] / largest[0] + i);
  }
}
"""


def test_a_row_is_counted_from_its_first_element(tasks: dict[str, KernelTask]) -> None:
    found = written_out(ROWS_SOURCE, {}, dependent_launches=True)
    assert found is not None
    head = "for (int i = threadIdx.x; i < d; i += blockDim.x)"
    assert f"{head} most[0] = fmaxf(most[0], (float)in[begin + i]);" in found.text
    assert "out[begin + i] = (T)((float)in[begin + i] / largest[0] + (begin + i));" in found.text
    assert "first" not in found.text
    offered, _ = propose_all(ROWS_SOURCE, Evidence(tasks["silu_and_mul"], device=GPU))
    assert {"wide_accesses", "keep_row"} <= {p.plan.move for p in offered}
    changing = ROWS_SOURCE.replace("float most", "first += 0; float most")
    assert written_out(changing, {}, dependent_launches=True) is None


CENTRED = """\
#pragma once
namespace rows {
template <typename T> struct lanes;
template <> struct lanes<float> {
  static constexpr int count = 1;
};
template <typename F, typename W>
__device__ inline F affine(F value, float by, const W* weight, const W* bias, int at) {
  F result = value * by * static_cast<F>(weight[at]);
  if (bias != nullptr) {
    result = result + static_cast<F>(bias[at]);
  }
  return result;
}
__device__ inline float total(float value) {
  __shared__ float sums[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0.f;
  for (int warp = 0; warp < blockDim.x / 32; ++warp) value += sums[warp];
  return value;
}
template <typename T, typename W>
__global__ void centred(const T* input, const W* weight, const W* bias, T* output, float eps,
                        int width) {
  extern __shared__ char storage[];
  T* row = reinterpret_cast<T*>(storage);
  constexpr int LANES = lanes<T>::count;
  const int count = width / LANES, block = blockIdx.x;
  float sum = 0.f, squares = 0.f;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const T value = input[block * count + i];
    row[i] = value;
    sum += value;
  }
  const float mean = total(sum) / width;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const float difference = row[i] - mean;
    squares += difference * difference;
  }
  const float root = rsqrtf(total(squares) / width + eps);
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const T difference = row[i] - mean;
    const T result = affine(difference, root, weight, bias, i);
    output[block * count + i] = result;
  }
}
}
"""
CENTRED_SOURCE = """\
#include "centred.cuh"

/* @launch
   rows::centred<T, float32> grid=tokens block=32 * ceil_div(min(hidden_dim, 1024), 32)
       shared=hidden_dim * sizeof(T) args=(input, gemma, beta, normed_output, eps, hidden_dim)
*/
"""


def centred(old: str = "", new: str = "") -> str:
    """The kernel written out, with something changed."""
    assert old in CENTRED
    included = {"upstream/centred.cuh": CENTRED.replace(old, new)}
    brought = bring_in(CENTRED_SOURCE, included, "")
    assert brought is not None
    found = written_out(brought.text, included, dependent_launches=True, element=DType.FLOAT32)
    return found.text if found is not None else ""


def test_a_row_that_is_staged_is_loaded_again_and_a_call_is_written_out() -> None:
    text = centred()
    for line in (
        "constexpr int LANES = 1;",
        "const float difference = input[block * count + i] - mean;",
        "T result_2 = difference * root * static_cast<T>(weight[i]);",
        "result_2 = result_2 + static_cast<T>(bias[i]);",
        "const T result = result_2;",
    ):
        assert line in text
    for gone in ("storage", "row[i]", "shared=", "affine("):
        assert gone not in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("row[i] = value;", "row[i] = value + 1;"),
        ("row[i] = value;", "row[count - i] = value;"),
        ("row[i] = value;", "row[i] += value;"),
        ("    row[i] = value;", "    value++;\n    row[i] = value;"),
        ("= row[i] - mean", "= row[i] - row[0]"),
        ("output[block * count + i] = result;", "row[i] = result;"),
        ("output[block * count + i] = result;", "((T*)input)[block * count + i] = result;"),
        ("__shared__ float sums[32];", "extern __shared__ float sums[];"),
    ],
)
def test_what_is_more_than_a_staged_row_stays_in_shared_memory(old: str, new: str) -> None:
    assert "storage[]" in centred(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  F result =", "  if (at > 9) return value;\n  F result ="),
        ("  F result =", "  by += 1.f;\n  F result ="),
        ("  F result =", "  static int calls = 0;\n  F result ="),
        ("inline F affine", "inline void affine() {}\n__device__ inline F affine"),
        ("affine(difference,", "root > 2.f ? difference : affine(difference,"),
        ("affine(difference,", "affine<T, W>(difference + (sum = 0.f),"),
    ],
)
def test_calls_stay_that_would_mean_something_else(old: str, new: str) -> None:
    assert "= affine" in (text := centred(old, new)) or ": affine" in text


def test_a_staged_row_is_kept_in_registers_by_a_block_that_fits(tmp_path: Path) -> None:
    library = {"centred.cuh": CENTRED}
    task = from_library(tmp_path / "n", "flashinfer_layernorm", CENTRED_SOURCE, library)
    evidence = Evidence(task, device=GPU, arch="sm_90a", included=included_texts(task))
    best = propose_all(CENTRED_SOURCE, evidence)[0][0]
    made = ("wide_accesses", "fit_block", "keep_row", "overlap_launches")
    assert best.plan.settings["moves"] == made
    assert "T result_2[WIDTH];" in best.source  # Threads meet in a function of the library.
    with Compiler(upstream=task_headers(task)) as compiler, OracleHere(task) as oracle:
        checker = Checker(task, Emulator(), compiler, oracle)
        require_pass(checker, best.source, select_cases(task, ("*",))[::5])


PACKED_SOURCE = """\
#include "packed.cuh"

/* @launch
   when d % (16 // sizeof(T)) == 0 and aligned(out, 16) and aligned(input, 16):
       rows::doubled<"T", "false"> grid=num_tokens block=min(d // (16 // sizeof(T)), 1024)
           args=(out, input, d)
*/
"""
PACKED = """\
#pragma once
#include <cuda_fp16.h>
#include <cuda_bf16.h>
namespace rows {
template <bool wide> struct Words;
template <> struct Words<true> {
  static constexpr int bytes = 32;
};
template <> struct Words<false> {
  static constexpr int bytes = 16;
  using word = int4;
};
template <typename E, bool wide>
__global__ void doubled(E* __restrict__ to, const E* __restrict__ from, const int d) {
  using word = typename Words<wide>::word;
  constexpr int BYTES = Words<wide>::bytes;
  constexpr int COUNT = BYTES / sizeof(E);
  const long row = blockIdx.x;
  const word* in = reinterpret_cast<const word*>(from + row * d);
  word* out = reinterpret_cast<word*>(to + row * d);
  const int words = d / COUNT;
  for (int i = threadIdx.x; i < words; i += blockDim.x) {
    word w = __ldg(&in[i]);
    auto* element = reinterpret_cast<E*>(&w);
    for (int j = 0; j < COUNT; j++) element[j] = element[j] + element[j];
    out[i] = w;
  }
}
}
"""


def test_words_of_a_size_that_types_say_get_a_flat_grid(tmp_path: Path) -> None:
    task = from_library(tmp_path / "p", "vllm_gelu_new", PACKED_SOURCE, {"packed.cuh": PACKED})
    evidence = Evidence(task, device=GPU, arch="sm_90a", included=included_texts(task))
    (flat,) = (p for p in propose_all(PACKED_SOURCE, evidence)[0] if p.plan.move == "flat_grid")
    assert "constexpr int BYTES = 16;" in flat.source
    assert "let across = d // (16 // sizeof(T))" in flat.source
    for old, new in (
        ("    for (int j", "    element++;\n    for (int j"),
        ("bytes = 16;", "bytes = 8 + 8;"),
    ):
        evidence = replace(evidence, included={"upstream/packed.cuh": PACKED.replace(old, new)})
        moves = {p.plan.move for p in propose_all(PACKED_SOURCE, evidence)[0]}
        assert "flat_grid" not in moves


@given(
    st.lists(st.sampled_from("abcde"), max_size=12), st.lists(st.sampled_from("abcde"), max_size=12)
)
def test_each_line_that_is_written_comes_from_a_line(before: list[str], after: list[str]) -> None:
    origin = {number + 1: ("a.cuh", number + 51) for number in range(len(before))}
    brought = BroughtIn("\n".join(before), origin, "")
    found = brought.written("\n".join(after), "")
    assert set(found.origin) == set(range(1, len(found.text.splitlines()) + 1))
    if before == after:
        assert found.origin == origin
