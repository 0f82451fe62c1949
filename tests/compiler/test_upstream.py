"""Sources that include upstream files: what they may name, what is compiled, how it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from astra_tui.cuda_source.stand_ins import LAUNCH_NAME
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.compiler import headers as headers_module
from astra_tui.lab.compiler.headers import HeaderTree
from tests.upstream_task import BASELINE, LIBRARY, OWN

TREE = HeaderTree(
    "lib 1.0", frozenset(LIBRARY), LIBRARY.__getitem__, ("include",), ("LIB_ONE=1.0f",)
)


@pytest.fixture(scope="module")
def opened() -> Iterator[Compiler]:
    with Compiler(upstream=TREE) as compiler:
        yield compiler


def over(compiler: Compiler, **changed: str) -> Compiler:
    """A compiler with another library, in the same process."""
    texts = {**LIBRARY, **{f"include/lib/{n.replace('__', '/')}": t for n, t in changed.items()}}
    other = Compiler(
        upstream=HeaderTree("lib", frozenset(texts), texts.__getitem__, ("include",), TREE.defines)
    )
    other._info = compiler.start()
    other._child = compiler._child
    return other


def errors(compiler: Compiler, source: str, *kernels: str) -> list[tuple[int, str]]:
    return [(d.line, d.message) for d in compiler.compile(source, kernels).errors]


@pytest.mark.parametrize(
    ("source", "kernel"), [(BASELINE, "lib::silu_and_mul<__half>"), (OWN, "act<__half>")]
)
def test_headers_reach_the_confined_compiler_with_their_paths(opened, source, kernel) -> None:
    made = opened.compile(source, (kernel,))
    assert made.ok, made.errors
    assert '"/upstream/include/lib/detail/silu.cuh"' in made.ptx
    assert "unused" not in made.ptx
    needed = {name for name in opened.included(source).headers if name.startswith("/")}
    listed = ("act.cuh", "detail/silu.cuh", "bits.h")
    assert needed == {f"/upstream/include/lib/{n}" for n in listed}


def test_a_source_that_includes_none_compiles_as_in_any_task(opened, compiler) -> None:
    text = "__global__ void k(float* p) { *p = 1.0f; }"
    assert opened.compile(text, ("k",)).ptx == compiler.compile(text, ("k",)).ptx
    assert errors(opened, text.replace("1.0f", "LIB_ONE"), "k")


def test_another_text_of_a_header_is_another_entry_of_the_cache(opened) -> None:
    kernel = ("act<__half>",)
    before = opened.compile(OWN, kernel)
    assert opened.compile(OWN, kernel).from_cache
    changed = LIBRARY["include/lib/detail/silu.cuh"].replace("x /", "2.0f * x /")
    after = over(opened, **{"detail/silu.cuh": changed}).compile(OWN, kernel)
    assert after.ok
    assert after.ptx != before.ptx


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('#include "lib/acts.cuh"', "no file of upstream.toml; did you mean 'lib/act.cuh'"),
        ("#include <include/lib/act.cuh>", "cannot include"),
        ('#include "lib/../../LICENSE"', "cannot include"),
        ('#include "/upstream/include/lib/act.cuh"', "cannot include"),
        ("#include <coroutine>", "cannot include 'coroutine'"),
        ('#define NAME "lib/act.cuh"\n#include NAME', "literal file name"),
        ("#include <hip/hip_runtime.h>", "cannot include"),
    ],
)
def test_other_names_are_refused(opened, line: str, words: str) -> None:
    found = errors(opened, f"#include <lib/act.cuh>\n{line}\n")
    assert found, line
    assert words in found[0][1]


def test_no_macro_of_a_candidate_names_a_file_for_a_header(opened) -> None:
    """A header that includes by a macro must not become a way to open what a source may not."""
    bits = "#pragma once\n#ifndef WHERE\n#define WHERE <stdint.h>\n#endif\n#define VIA WHERE\n"
    library = over(opened, **{"bits.h": bits + "#include VIA\n"})
    assert library.compile(OWN, ("act<__half>",)).ok
    for name in ("WHERE", "VIA"):
        for form in ("#define {} </etc/passwd>", "#undef {}", "#de\\\nfine {} 1", "%:define {} 1"):
            found = errors(library, f"{form.format(name)}\n{OWN}", "act<__half>")
            assert "names a file that an upstream file includes" in found[0][1], form


def test_a_macro_of_a_header_does_not_hide_an_include(opened) -> None:
    """USE_ROCM is skipped text by default, but not where a header defines it."""
    hidden = "#ifdef USE_ROCM\n#include </etc/passwd>\n#endif\n"
    assert not errors(opened, f"#include <lib/bits.h>\n{hidden}")
    library = over(opened, **{"bits.h": "#define USE_ROCM\n"})
    assert "cannot include" in errors(library, f"#include <lib/bits.h>\n{hidden}")[0][1]


def test_errors_in_a_header_name_its_line_and_the_line_that_led_there(opened) -> None:
    silu = "#pragma once\nnamespace lib {\ntemplate <class T> __device__ float silu(T x) {\n"
    silu += "  return x.value;\n}\n}\n"
    library = over(opened, **{"detail/silu.cuh": silu})
    (line, message), *_ = errors(library, OWN, "act<__half>")
    assert OWN.splitlines()[line - 1].strip().startswith("out[i] = (T)(lib::silu(")
    assert message.startswith("upstream/include/lib/detail/silu.cuh:4: expression must have class")


def test_what_a_stand_in_includes_is_found_among_the_files(opened) -> None:
    texts = {"sgl_kernel/utils.cuh": "", "sgl_kernel/utils.h": "using half_t = int;\n"}
    tree = HeaderTree("sgl", frozenset(texts), texts.__getitem__, ("",))
    other = Compiler(upstream=tree)
    other._child, other._info = opened._child, opened._info
    source = "#include <sgl_kernel/tensor.h>\n__global__ void k(half_t* p) { *p = 1; }\n"
    assert errors(other, source, "k") == []


def test_too_much_is_an_error_of_the_source(opened, monkeypatch) -> None:
    monkeypatch.setattr(headers_module, "MAX_HEADERS", 2)
    assert "includes too much" in errors(opened, OWN, "act<__half>")[0][1]


LAUNCHER = """#pragma once
namespace lib {
template <typename T, int N = 4>
__global__ void other_kernel(T* out, int more = 0) { out[threadIdx.x] = N; }
inline int f(int x) { return x; }
#define LAUNCH(N) \\
  lib::other_kernel<float, N> \\
      <<<dim3(1, 2), 32, 0, stream>>>(out, \\
                                      f(1))
void launch_both(float* out, cudaStream_t stream) {
  LAUNCH(1);
  if (out) other_kernel<float, (3 > 2)><<<1, 1>>>(out);
}
}
"""


def test_kernels_that_only_launchers_name_are_not_compiled(opened) -> None:
    source = '#include "lib/detail/launch.cuh"\n__global__ void own(float* p) { *p = 1.0f; }\n'
    compiler = over(opened, **{"detail/launch.cuh": LAUNCHER})
    made = compiler.compile(source, ("own",))
    assert made.ok, made.errors
    assert "other_kernel" not in made.ptx
    wanted = "lib::other_kernel<float, 2>"
    assert "other_kernel" in compiler.compile(source, (wanted,)).ptx
    # One that launches another at run time is refused, and not run without the other.
    text = (
        f"{LAUNCHER}__global__ void parent(float* p) {{ lib::other_kernel<float><<<1, 1>>>(p); }}\n"
    )
    failed = over(opened, **{"detail/launch.cuh": text}).compile(source, ("own",))
    assert LAUNCH_NAME in failed.errors[0].message


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (LAUNCHER, LAUNCHER.count("\n")),
        ("else k<<<1, 2>>>(a);", "else LAUNCH();"),
        ("return ::a::b<c<1>, (d > e)>::k<<<g(), 2>>>(h(i));", "return LAUNCH();"),
        ("(*pointer)<<<1, 2>>>(a);", None),
        ("// a <<< b and c\nint x; y >>>(z);", None),
        ("k<<<1, 2>>>(a; b", None),
        ("x = a <<<1>>>", None),
    ],
)
def test_launches_are_taken_out_and_all_else_stays(text: str, left: str | int | None) -> None:
    found = headers_module.without_launches(text)
    if isinstance(left, int):
        assert "<<<" not in found
        assert found.count("\n") == left
    else:
        assert found == (text if left is None else left.replace("LAUNCH", LAUNCH_NAME))
