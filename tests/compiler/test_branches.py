"""Includes in branches that NVRTC skips: accepted where that is certain, refused elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.lab.compiler import Compiler, find_toolchain
from astra_tui.lab.compiler.branches import _ALWAYS, _NEVER
from astra_tui.lab.compiler.directives import refuse_unsafe
from tests.compiler.helpers import PATIENT

INCLUDE_DIRS = find_toolchain().include_dirs
HIP = "#include <hip/hip_runtime.h>\n"


def accepted(source: str) -> bool:
    return refuse_unsafe(source, INCLUDE_DIRS) == []


SKIPPED = [
    "ifdef USE_ROCM",
    "ifdef USE_ROCM  // AMD",
    "ifndef __CUDACC__",
    "if 0",
    "if defined(USE_ROCM)",
    "if defined USE_ROCM",
    "if (defined( __HIP_PLATFORM_AMD__ ) || defined(__HIPCC__))",
    "if !defined(__CUDACC__) && __CUDA_ARCH__ >= 900",
    "if defined(__HIP__) && ROCM_VERSION > 60000 || defined(USE_MUSA)",
    "if !(defined(__CUDACC__) || CUDA_VERSION < 12000)",
    "if !defined(__CUDACC_RTC__) && !defined(USE_ROCM)",
]


@pytest.mark.parametrize("condition", SKIPPED)
def test_an_include_in_a_skipped_branch_may_name_any_file(
    compiler: Compiler, condition: str
) -> None:
    source = f"/* Copyright\n */\n#pragma once\n#{condition}\n{HIP}#endif\n"
    assert accepted(source)
    assert compiler.compile(source).ok
    nested = f"#{condition}\n#ifdef FOO\n#else\n{HIP}#endif\n#else\nint a;\n#endif\n"
    assert accepted(nested)
    assert compiler.compile(nested).ok


def test_other_branches_of_one_that_is_taken_are_skipped(compiler: Compiler) -> None:
    source = (
        "#ifndef USE_ROCM\n#include <cuda_fp16.h>\n#elif FOO\n" + HIP + "#else\n" + HIP + "#endif\n"
    )
    assert accepted(source)
    assert compiler.compile(source).ok


TAKEN = [
    "ifdef __CUDACC__",
    "ifndef USE_ROCM",
    "ifdef FOO",
    "ifndef FOO",
    "if 1",
    "if !0",
    "if FOO",
    "if 0 && 1 || 1",
    "if defined(USE_ROCM) || defined(FOO)",
    "if defined(USE_ROCM) && FOO",
    "if defined(USE_ROCM) ? 0 : 1",
    "if defined(USE_ROCM) == 0",
    "if !defined(USE_ROCM) + 0",
    "if -0 + 1",
    "if 0 | 1",
    "if 00 + 1",
    "if 0x1",
    "if 0 , 1",
    "if not 0",
    "if 0 or 1",
    "if (0) || (1",
    "if defined(USE_ROCM) ^ 1",
    "if __CUDA_ARCH__ >= 100",
    "ifdef USE_ROCM$",
    "ifdef USE_ROCM /*\n*/",
]


@pytest.mark.parametrize("condition", TAKEN)
def test_an_include_that_may_be_followed_is_refused(condition: str) -> None:
    assert not accepted(f"#{condition}\n{HIP}#endif\n")


REFUSED = {
    "the source defines the macro": f"#define USE_ROCM\n#ifdef USE_ROCM\n{HIP}#endif\n",
    "it defines it later": f"#ifdef USE_ROCM\n{HIP}#endif\n#define USE_ROCM 1\n",
    "it takes one away": f"#undef __CUDACC__\n#ifndef __CUDACC__\n{HIP}#endif\n",
    "a value is its own": "#define CUDA_VERSION 0 || 1\n"
    f"#if defined(USE_ROCM) && CUDA_VERSION > 0\n{HIP}#endif\n",
    "behind the branch": f"#if 0\n#endif\n{HIP}",
    "in the else": f"#ifdef USE_ROCM\n#else\n{HIP}#endif\n",
    "in an elif that may hold": f"#if 0\n#elif FOO\n{HIP}#endif\n",
    "no end": f"#if 0\n{HIP}",
    "no beginning": f"#endif\n#if 0\n{HIP}#endif\n",
    "two elses": f"#if 0\n#else\n#else\n{HIP}#endif\n",
    "an elif behind the else": f"#if 1\n#else\n#elif 1\n{HIP}#endif\n",
    "behind a comment of two lines": f"int a; /*\n*/ #if 0\n{HIP}#endif\n",
    "a quote that confuses": f"#if 0\ndon't\n{HIP}#endif\n",
    "a raw string": f'const char* a = R"(\n#if 0\n)";\n{HIP}const char* b = R"(\n#endif\n)";\n',
    "a name by a macro": '#define FILE "x"\n#if 0\n#include FILE\n#endif\n',
    "a query": '#if 0\n#if __has_include("x")\n#endif\n#endif\n',
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_certain_is_refused(name: str) -> None:
    assert not accepted(REFUSED[name])


def test_the_compiler_defines_what_the_scan_takes_for_defined(compiler: Compiler) -> None:
    names = sorted(_NEVER | _ALWAYS)
    headers = (
        "#include <cuda_runtime.h>\n#include <cuda_bf16.h>\n#include <cub/block/block_scan.cuh>"
    )
    source = headers + "".join(f"\n#ifdef {n}\n#warning is {n} there\n#endif" for n in names)
    log = compiler.raw_log(source)
    assert {n for n in names if f"is {n} there" in log} == _ALWAYS


@pytest.mark.parametrize("root", INCLUDE_DIRS[:1], ids=["headers"])
def test_no_header_changes_them(root: Path) -> None:
    names = "|".join(sorted(_NEVER | _ALWAYS))
    changed = re.compile(rf"^\s*#\s*(?:define|undef)\s+({names})\b", re.MULTILINE)
    texts = (p.read_text(errors="replace") for p in root.rglob("*") if p.is_file())
    assert not [m.group() for text in texts for m in changed.finditer(text)]


ATOMS = [
    *("0", "1", "defined(USE_ROCM)", "defined __CUDACC__", "defined(FOO)", "defined(BAR)"),
    *("CUDA_VERSION >= 12000", "ROCM_VERSION > 5", "FOO"),
]
conditions = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        inner.map("!{}".format),
        inner.map("({})".format),
        st.tuples(inner, st.sampled_from(["&&", "||", " && ", " ||"]), inner).map("".join),
    ),
    max_leaves=5,
)
openings = st.one_of(
    conditions.map("if {}".format),
    st.sampled_from(["ifdef USE_ROCM", "ifndef __CUDACC__", "ifdef FOO", "ifndef BAR"]),
)


def block(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    """A whole conditional around what `inner` draws."""
    turns = st.lists(st.tuples(conditions.map("elif {}".format), inner), max_size=1)
    ends = st.one_of(st.just([]), inner.map(lambda body: ["else", *body]))
    return st.builds(
        lambda opening, body, turns, end: [
            *(opening, *body),
            *(line for turn, more in turns for line in (turn, *more)),
            *(*end, "endif"),
        ],
        openings,
        inner,
        turns,
        ends,
    )


singles = st.sampled_from(
    [*[["INCLUDE"]] * 6, ["define FOO 1"], ["define USE_ROCM"], ["undef __CUDACC__"], ["endif"]]
)
bodies = st.recursive(
    st.one_of(singles, singles),
    lambda inner: st.lists(st.one_of(block(inner), inner), min_size=1, max_size=2).map(
        lambda parts: [line for part in parts for line in part]
    ),
    max_leaves=6,
)


@settings(PATIENT, max_examples=150)
@given(block(bodies))
def test_the_compiler_follows_no_include_that_is_accepted(
    compiler: Compiler, parts: list[str]
) -> None:
    text = [f'include "no_such_{n}.h"' if p == "INCLUDE" else p for n, p in enumerate(parts)]
    source = "".join(f"#{part}\n" for part in text)
    refused = {error.line for error in refuse_unsafe(source, INCLUDE_DIRS)}
    # The compiler stops at the first file that it does not find: each is tried by itself.
    for number, part in enumerate(parts, 1):
        if part == "INCLUDE" and number not in refused:
            alone = "".join(
                f"#{t}\n" if p != "INCLUDE" or n == number else "\n"
                for n, (p, t) in enumerate(zip(parts, text, strict=True), 1)
            )
            assert "no_such" not in compiler.raw_log(alone), alone
