"""Compiling for real: what comes back for good sources and bad ones, and what is remembered."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
import time
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from astra_tui.lab.cache import ContentCache
from astra_tui.lab.compiler import Compiler, CompilerUnavailable
from astra_tui.lab.compiler.headers import NOTHING
from astra_tui.lab.compiler.toolchain import HEADER_PROBES, LIBRARY_VARIABLE, find_toolchain
from astra_tui.model.compilation import Compilation, Severity
from astra_tui.model.dtypes import DType
from tests.compiler.helpers import BFLOAT16, FLOAT, HALF, HERE, KERNEL, messages
from tests.conftest import OWN_SOURCES

TINY = "__global__ void tiny(int* o) { *o = 1; }\n"


@pytest.fixture
def cache(tmp_path: Path) -> ContentCache:
    return ContentCache("compile", tmp_path)


@pytest.fixture
def fresh(cache: ContentCache) -> Iterator[Compiler]:
    """A compiler with an empty cache."""
    with Compiler(cache) as opened:
        yield opened


def kill(compiler: Compiler) -> None:
    """Kills the compiler's process behind its back, and waits until it is dead."""
    process = compiler._child._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def unread_bytes(pipe: int) -> int:
    """How much of what was written into a pipe is not read yet."""
    count = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def fresh_of(compilation: Compilation) -> Compilation:
    return msgspec.structs.replace(compilation, from_cache=False)


# Good sources


def test_one_call_gives_everything(compiler: Compiler) -> None:
    result = compiler.compile(KERNEL, (FLOAT,), "sm_90")
    assert result.ok
    assert result.diagnostics == ()
    assert f".entry {result.kernel(FLOAT).symbol}(" in result.ptx
    assert ".target sm_90" in result.ptx
    assert result.cubin.startswith(b"\x7fELF")
    assert result.arch == "sm_90"
    assert result.compiler.startswith("NVRTC 13.")
    assert result.seconds > 0


def test_parameters_have_types_and_offsets(compiler: Compiler) -> None:
    kernel = compiler.compile(KERNEL, (HALF,)).kernel(HALF)
    out, source, n, stride, by = kernel.parameters
    assert (out.kind, out.type, out.dtype, out.const) == ("pointer", "__half", DType.FLOAT16, False)
    assert (source.type, source.const) == ("__half", True)
    assert (n.kind, n.type, n.dtype) == ("integer", "int", DType.INT32)
    assert (stride.type, stride.size, stride.dtype) == ("long long", 8, DType.INT64)
    assert (by.kind, by.dtype) == ("float", DType.FLOAT32)
    assert [p.offset for p in kernel.parameters] == [0, 8, 16, 24, 32]
    assert kernel.parameter_bytes == 36


def test_one_source_gives_several_kernels(compiler: Compiler) -> None:
    names = (FLOAT, HALF, BFLOAT16, "tiny")
    result = compiler.compile(KERNEL + TINY, names)
    assert [k.expression for k in result.kernels] == list(names)
    assert len({k.symbol for k in result.kernels}) == 4
    dtypes = [result.kernel(name).parameters[0].dtype for name in names]
    assert dtypes == [DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.INT32]
    with pytest.raises(KeyError):
        result.kernel("scale<double>")


def test_a_name_asked_for_twice_is_given_once(compiler: Compiler) -> None:
    assert len(compiler.compile(KERNEL, (FLOAT, FLOAT)).kernels) == 1


def test_two_spellings_of_a_name_are_one_symbol(compiler: Compiler) -> None:
    one, other = compiler.compile(KERNEL, (FLOAT, " scale< float >")).kernels
    assert one.symbol == other.symbol


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100"])
def test_architectures(compiler: Compiler, arch: str) -> None:
    result = compiler.compile(KERNEL, (FLOAT, HALF), arch)
    assert result.ok
    assert result.arch == arch
    assert f".target {arch}" in result.ptx
    assert all(k.resources.registers > 0 for k in result.kernels)
    assert result.cubin


def test_an_unknown_architecture_is_an_error(compiler: Compiler) -> None:
    assert "gpu-architecture" in messages(compiler.compile(TINY, ("tiny",), "sm_1"))


@pytest.mark.parametrize("file", OWN_SOURCES, ids=lambda f: f.parent.name)
def test_the_bundled_kernels_compile_without_a_word(compiler: Compiler, file: Path) -> None:
    result = compiler.compile(file.read_text(encoding="utf-8"))
    assert result.diagnostics == ()


def test_a_source_without_kernels_is_fine(compiler: Compiler) -> None:
    result = compiler.compile("__device__ int f() { return 1; }\n")
    assert result.kernels == ()
    assert result.errors == ()


# Resources


def test_shared_memory_and_barriers(compiler: Compiler) -> None:
    source = """
__global__ void k(float* o) {
  __shared__ float part[256];
  part[threadIdx.x] = o[threadIdx.x];
  __syncthreads();
  o[threadIdx.x] = part[255 - threadIdx.x];
}
"""
    resources = compiler.compile(source, ("k",), "sm_90").kernel("k").resources
    assert resources.static_shared == 1024
    assert resources.barriers == 1
    assert 4 <= resources.registers <= 32
    assert (resources.spill_stores, resources.spill_loads, resources.stack) == (0, 0, 0)


def test_spills(compiler: Compiler) -> None:
    source = """
__global__ void __launch_bounds__(1024, 2) k(float* o) {
  float a[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) a[i] = o[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i) o[i * 1024 + threadIdx.x] = a[i] * a[(i + 48) % 96];
}
__global__ void lean(float* o) { *o = 1; }
"""
    result = compiler.compile(source, ("k", "lean"), "sm_90")
    spilled = result.kernel("k").resources
    assert spilled.registers <= 32
    assert spilled.spill_stores > 0
    assert spilled.spill_loads > 0
    assert spilled.stack > 0
    assert result.kernel("lean").resources.spill_stores == 0


def test_a_stack_is_not_a_spill(compiler: Compiler) -> None:
    source = """
__global__ void k(int* o) {
  int a[64];
  for (int i = 0; i < 64; ++i) a[o[i] & 63] = i;
  *o = a[o[64] & 63];
}
"""
    resources = compiler.compile(source, ("k",), "sm_90").kernel("k").resources
    assert resources.stack == 256
    assert resources.spill_stores == 0


# Bad sources


def test_an_error_has_its_place(compiler: Compiler) -> None:
    result = compiler.compile("int a;\n__global__ void k(int* o) {\n  *o = nope + 1;\n}\n", ("k",))
    assert not result.ok
    assert (result.ptx, result.cubin, result.kernels) == ("", b"", ())
    (error,) = result.errors
    assert error.message == 'identifier "nope" is undefined'
    assert (error.line, error.column) == (3, 8)
    assert error.source_line == "  *o = nope + 1;"
    assert error.kernel == ""


def test_a_warning_is_not_an_error(compiler: Compiler) -> None:
    result = compiler.compile("__global__ void k(int* o) {\n  int unused;\n  *o = 1;\n}\n", ("k",))
    assert result.ok
    (warning,) = result.warnings
    assert warning.severity is Severity.WARNING
    assert warning.line == 2
    assert "never referenced" in warning.message


def test_errors_and_warnings_come_together_errors_first(compiler: Compiler) -> None:
    result = compiler.compile("__global__ void k(int* o) {\n int unused;\n *o = nope;\n}\n", ("k",))
    assert [d.line for d in result.diagnostics] == [3, 2]
    assert len(result.errors) == len(result.warnings) == 1


def test_an_unknown_kernel_is_named(compiler: Compiler) -> None:
    first, *rest = compiler.compile(KERNEL, (FLOAT, "nope<float>")).errors
    assert first.message == 'identifier "nope" is undefined'
    assert {error.kernel for error in (first, *rest)} == {"nope<float>"}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (KERNEL, "scale"),
        ("__global__ void k(int* o) {}\n__global__ void k(float* o) {}\n", "k"),
    ],
    ids=["template", "overloads"],
)
def test_an_ambiguous_kernel_is_named(compiler: Compiler, source: str, name: str) -> None:
    (error,) = compiler.compile(source, (name,)).errors
    assert error.kernel == name
    assert "cannot determine which instance" in error.message


@pytest.mark.parametrize("name", ["helper", "variable", "sizeof(int)", "int", "3", "scale<float"])
def test_a_name_that_is_no_kernel_is_an_error(compiler: Compiler, name: str) -> None:
    source = f"{KERNEL}\n__device__ int helper(int n) {{ return n; }}\n__device__ int variable;\n"
    result = compiler.compile(source, (name,))
    assert {error.kernel for error in result.errors} == {name}


def test_a_type_that_does_not_fit_a_template_is_an_error(compiler: Compiler) -> None:
    result = compiler.compile(f"struct S {{}};\n{KERNEL}", ("scale<S>",))
    assert not result.ok
    assert result.errors[0].line == KERNEL[: KERNEL.index("if (i < n)")].count("\n") + 2


def test_an_error_in_inline_ptx_names_the_source_line(compiler: Compiler) -> None:
    source = """__global__ void k(int* o) {
  int x;
  asm("mov.u32 %0, %%laneid;" : "=r"(x));
  asm("bogus.u32 %0, 1;" : "=r"(x));
  *o = x;
}
"""
    result = compiler.compile(source, ("k",))
    first = result.errors[0]
    assert first.message == "in inline PTX: Not a name of any known instruction: 'bogus'"
    assert first.line == 4
    assert first.source_line.strip().startswith('asm("bogus')
    assert not result.ok


def test_too_much_shared_memory_is_an_error(compiler: Compiler) -> None:
    source = """__global__ void k(float* o) {
  __shared__ float big[100000];
  big[threadIdx.x] = *o;
  __syncthreads();
  *o = big[3];
}
"""
    assert "uses too much shared data" in messages(compiler.compile(source, ("k",)))


def test_a_function_without_a_body_is_an_error(compiler: Compiler) -> None:
    source = "__device__ int f(int);\n__global__ void k(int* o) { *o = f(1); }\n"
    assert "a function that has no body here (_Z1fi)" in messages(compiler.compile(source, ("k",)))


def test_an_unfinished_source_is_an_error(compiler: Compiler) -> None:
    assert 'expected a "}"' in messages(compiler.compile("__global__ void k(int* o) {\n"))
    assert "#endif" in messages(compiler.compile("#if 1\n"))


@pytest.mark.parametrize(
    ("declaration", "reason"),
    [
        ('extern "C" __global__ void k(int* o) {}', 'declared extern "C"'),
        ("__global__ void k(int& n) {}", "parameter 1 has the type 'int&'"),
        ("__global__ void k(void (*f)(int)) {}", "parameter 1 has the type 'void (*)(int)'"),
    ],
)
def test_a_kernel_that_no_plan_can_launch_is_refused(
    compiler: Compiler, declaration: str, reason: str
) -> None:
    result = compiler.compile(declaration + "\n", ("k",))
    (error,) = result.errors
    assert reason in error.message
    assert error.kernel == "k"
    assert not result.ok
    assert result.kernels == ()


def test_one_unfit_kernel_does_not_hide_the_others(compiler: Compiler) -> None:
    result = compiler.compile(f'{KERNEL}\nextern "C" __global__ void k() {{}}\n', (FLOAT, "k"))
    assert [k.expression for k in result.kernels] == [FLOAT]
    assert [e.kernel for e in result.errors] == ["k"]


def test_a_name_that_only_looks_mangled_is_refused(compiler: Compiler) -> None:
    source = 'extern "C" __global__ void _Z1kPf(int a, int b) {}\n'
    assert "does not take what its name says" in messages(compiler.compile(source, ("_Z1kPf",)))


# What is remembered


def test_the_second_answer_comes_from_the_cache_and_is_equal(fresh: Compiler) -> None:
    first = fresh.compile(KERNEL, (FLOAT, HALF))
    second = fresh.compile(KERNEL, (FLOAT, HALF))
    assert not first.from_cache
    assert second.from_cache
    assert fresh_of(second) == first


def test_another_process_shares_the_cache(fresh: Compiler, cache: ContentCache) -> None:
    first = fresh.compile(KERNEL, (FLOAT,))
    with Compiler(cache) as other:
        assert fresh_of(other.compile(KERNEL, (FLOAT,))) == first
        assert other.compile(KERNEL, (FLOAT,)).from_cache


def test_the_environment_chooses_the_cache(private_cache: Path) -> None:
    with Compiler() as compiler:
        assert not compiler.compile(TINY, ("tiny",)).from_cache
        assert compiler.compile(TINY, ("tiny",)).from_cache
    assert any(path.is_file() for path in private_cache.rglob("*"))


@pytest.mark.parametrize(
    ("source", "names", "arch"),
    [
        (KERNEL + " ", (FLOAT, HALF), "sm_90"),
        (KERNEL, (FLOAT,), "sm_90"),
        (KERNEL, (HALF, FLOAT), "sm_90"),
        (KERNEL, (FLOAT + " ", HALF), "sm_90"),
        (KERNEL, (FLOAT, HALF), "sm_80"),
    ],
    ids=["source", "fewer kernels", "order of kernels", "spelling", "architecture"],
)
def test_anything_else_is_another_entry(
    fresh: Compiler, source: str, names: tuple[str, ...], arch: str
) -> None:
    fresh.compile(KERNEL, (FLOAT, HALF), "sm_90")
    result = fresh.compile(source, names, arch)
    assert not result.from_cache
    assert [k.expression for k in result.kernels] == list(names)


def test_another_compiler_is_another_entry(fresh: Compiler) -> None:
    info = fresh.start()
    assert fresh.identify() == str(info)
    key = fresh._key(str(info), KERNEL, (), fresh._inputs(NOTHING, "sm_90"))
    assert key == fresh._key(str(info), KERNEL, (), fresh._inputs(NOTHING, "sm_90"))
    for field in ("version", "origin"):
        other = type(info)(**{**vars(info), field: "13.9"})
        assert fresh._key(str(other), KERNEL, (), fresh._inputs(NOTHING, "sm_90")) != key


def test_what_is_known_starts_no_process(
    fresh: Compiler, cache: ContentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fresh.compile(TINY, ("tiny",))
    with Compiler(cache) as other:
        assert fresh_of(other.compile(TINY, ("tiny",))) == first
        assert other.identify() == str(fresh.start())
        assert not other._child.running
    monkeypatch.setenv(LIBRARY_VARIABLE, str(fresh.toolchain.library))
    with Compiler(cache) as chosen:
        assert "NVRTC" in chosen.identify()
        assert chosen._child.running, "a library that was chosen is asked for itself"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("__global__ void k(int* o) {\n  int unused;\n  *o = nope;\n}\n", ("k",)),
        (KERNEL, ("nope",)),
        ('extern "C" __global__ void k(int* o) {}\n', ("k",)),
        ('__global__ void k(int* o) {\n  asm("bogus;");\n}\n', ("k",)),
    ],
    ids=["errors and warnings", "unknown name", "refused kernel", "inline PTX"],
)
def test_errors_are_remembered_too(fresh: Compiler, source: str, names: tuple[str, ...]) -> None:
    first, second = (fresh.compile(source, names) for _ in range(2))
    assert first.errors
    assert second.from_cache
    assert fresh_of(second) == first


@pytest.mark.parametrize("damage", [b"", b"\0" * 40, b"half"], ids=["empty", "zeros", "short"])
def test_a_damaged_entry_is_compiled_again(
    fresh: Compiler, cache: ContentCache, damage: bytes
) -> None:
    fresh.identify()
    before = set(cache.folder.rglob("*"))
    first = fresh.compile(TINY, ("tiny",))
    (entry,) = (path for path in set(cache.folder.rglob("*")) - before if path.is_file())
    entry.write_bytes(damage)
    again = fresh.compile(TINY, ("tiny",))
    assert not again.from_cache
    assert (again.ptx, again.kernels) == (first.ptx, first.kernels)
    assert fresh.compile(TINY, ("tiny",)).from_cache


@pytest.mark.parametrize("value", [b"", b"\xc0", b"\xa1\xff", b"\x80", b"\x91" * 9_000])
def test_an_entry_of_another_meaning_is_compiled_again(
    fresh: Compiler, cache: ContentCache, value: bytes
) -> None:
    cache.put(fresh._key(fresh.identify(), TINY, ("tiny",), fresh._inputs(NOTHING, "sm_90")), value)
    result = fresh.compile(TINY, ("tiny",), "sm_90")
    assert result.ok
    assert not result.from_cache


def test_a_cache_that_cannot_be_written_changes_nothing_else() -> None:
    with Compiler(ContentCache("compile", Path("/dev/null/nowhere"))) as compiler:
        for _ in range(2):
            result = compiler.compile(TINY, ("tiny",))
            assert result.ok
            assert not result.from_cache


# The process


def test_the_compiler_says_what_it_is(compiler: Compiler) -> None:
    info = compiler.start()
    assert info.version.startswith("13.")
    assert str(info).startswith(f"NVRTC {info.version}")
    assert compiler.start() is info


def test_a_compiler_that_is_killed_comes_back(fresh: Compiler) -> None:
    first = fresh.compile(TINY, ("tiny",))
    kill(fresh)
    again = fresh.compile(KERNEL, (FLOAT,))
    assert again.ok
    assert again.compiler == first.compiler


def test_a_compiler_killed_at_work_is_an_error_and_comes_back(fresh: Compiler) -> None:
    fresh.start()
    child = fresh._child
    assert child._process is not None
    child._process.send_signal(signal.SIGSTOP)  # So that it is still at work when it is killed.
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(fresh.compile, TINY, ("tiny",))
        deadline = time.monotonic() + 30
        while not unread_bytes(child._write_fd):
            assert time.monotonic() < deadline
        kill(fresh)
        result = running.result(30)
    assert messages(result) == "compilation was given up: the compiler ended with SIGKILL"
    again = fresh.compile(TINY, ("tiny",))
    assert again.ok
    assert not again.from_cache


def test_a_closed_compiler_may_be_used_again(fresh: Compiler) -> None:
    fresh.compile(TINY, ("tiny",))
    fresh.close()
    assert fresh.compile(KERNEL, (FLOAT,)).ok


def test_the_current_folder_is_of_no_matter(
    cache: ContentCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('the wrong msgspec')\n")
    (tmp_path / "cuda_fp16.h").write_text("#error the wrong header\n")
    monkeypatch.chdir(tmp_path)
    with Compiler(cache) as compiler:
        assert messages(compiler.compile(KERNEL.replace("<cuda_fp16.h>", '"cuda_fp16.h"'))) == ""


def test_a_missing_compiler_is_said_so(
    cache: ContentCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASTRA_TUI_NVRTC", str(HERE / "no_such_library.so"))
    with Compiler(cache) as compiler, pytest.raises(CompilerUnavailable, match="no_such_library"):
        compiler.compile(TINY, ("tiny",))


def test_headers_may_lie_in_another_place_than_cudas_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pip --user` and `--target` put a wheel apart from those that the system has."""
    added, system = (tmp_path / name / "nvidia" / "cu13" / "include" for name in ("added", "own"))
    for folder in (added / "cccl", added / "crt", system):
        folder.mkdir(parents=True)
    (added / "crt" / "host_defines.h").touch()
    for header in HEADER_PROBES:
        (system / header).touch()
    for name in ("own", "added"):
        monkeypatch.syspath_prepend(str(tmp_path / name))
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    assert find_toolchain().include_dirs == (system, added / "cccl", added)
