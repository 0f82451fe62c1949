"""Writable global variables of a cubin."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.gpu.elf import (
    ElfError,
    LaunchFacts,
    ParameterPlace,
    Symbol,
    launch_facts,
    writable_globals,
)
from astra_tui.lab.compiler import Compiler
from astra_tui.model.task import KernelTask
from tests.explain.helpers import SOURCES, TASKS

KEEPS = """
__device__ int seen[100];
static __device__ float last = 3.f;
__constant__ int table[7];
template <typename T> __global__ void keeps(T* out, int n) {
  static long long calls;
  __shared__ T row[32];
  row[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  seen[n] += 1;
  calls += 1;
  last += row[31 - threadIdx.x];
  out[threadIdx.x] = last + calls + table[n % 7];
  if (n == 77) printf("%d", n);
}
"""
PLAIN = "__constant__ int table[7];\n__global__ void plain(int* out) { *out = table[threadIdx.x]; }"


def _cubin(compiler: Compiler, text: str, name: str) -> bytes:
    compilation = compiler.compile(text, (name,))
    assert compilation.ok, compilation.errors
    return compilation.cubin


def test_variables_that_outlive_a_launch_are_found(compiler: Compiler) -> None:
    found = writable_globals(_cubin(compiler, KEEPS, "keeps<float>"))
    assert set(found) == {
        Symbol("seen", 400, ".nv.global"),
        Symbol("_ZZ5keepsIfEvPT_iE5calls", 8, ".nv.global"),
        Symbol("last", 4, ".nv.global.init"),
        Symbol("$str", 3, ".nv.global.init"),
    }


TAKES = """
struct Three { void* at; float scale; unsigned char flag; };
template <typename T>
__global__ void takes(T* out, unsigned char a, Three three, int n,
                      const __grid_constant__ Three b) {
  *static_cast<T*>(three.at) = out[n] * three.scale + a + b.scale;
}
__global__ void __cluster_dims__(4, 2, 1) __block_size__((64, 2, 1)) nothing() {}
"""


def test_parameters_and_sizes_are_those_of_the_source(compiler: Compiler) -> None:
    compilation = compiler.compile(TAKES, ("takes<float>", "nothing"))
    assert compilation.diagnostics == ()
    found = launch_facts(compilation.cubin)
    places = ((0, 8), (8, 1), (16, 16), (32, 4), (40, 16))
    assert found["_Z7nothingv"] == LaunchFacts((), (64, 2, 1), (4, 2, 1))
    taken = next(symbol for symbol in found if "takes" in symbol)
    assert found[taken] == LaunchFacts(tuple(ParameterPlace(*place) for place in places))


def test_constants_and_shared_memory_are_none(compiler: Compiler) -> None:
    assert writable_globals(_cubin(compiler, PLAIN, "plain")) == ()


def test_the_bundled_kernels_have_none(tasks: dict[str, KernelTask], compiler: Compiler) -> None:
    for name in TASKS:
        for source in SOURCES:
            text = (tasks[name].folder / source).read_text(encoding="utf-8")
            assert writable_globals(compiler.compile(text).cubin) == ()


@pytest.fixture(scope="module")
def cubin(compiler: Compiler) -> bytes:
    return _cubin(compiler, KEEPS, "keeps<float>")


@settings(max_examples=300)
@given(data=st.data())
def test_damage_is_an_error_or_an_answer(cubin: bytes, data: st.DataObject) -> None:
    damaged = bytearray(cubin[: data.draw(st.integers(0, len(cubin)))])
    for _ in range(data.draw(st.integers(0, 20))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = writable_globals(bytes(damaged))
    except ElfError:
        return
    assert all(symbol.size >= 0 for symbol in found)


@given(st.binary(max_size=200))
def test_what_is_no_elf_file_is_refused(data: bytes) -> None:
    with pytest.raises(ElfError):
        writable_globals(data)
    with pytest.raises(ElfError):
        writable_globals(b"\x7fELF\x02\x01" + data[:40])
