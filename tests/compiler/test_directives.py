"""The directive scan on honest sources: right lines, no false refusal, and never an exception.

What it has to refuse is in test_hostile_source.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.cuda_source.stand_ins import STAND_INS
from astra_tui.lab.compiler import Compiler, find_toolchain
from astra_tui.lab.compiler.directives import refuse_unsafe
from astra_tui.lab.compiler.log import MAX_DIAGNOSTICS, parse_diagnostics
from astra_tui.lab.compiler.service import SOURCE_NAME
from astra_tui.model.compilation import Severity
from tests.compiler.helpers import PATIENT
from tests.conftest import OWN_SOURCES

INCLUDE_DIRS = find_toolchain().include_dirs
BAD = '#include "no_such_header.h"\n'


def lines_of(source: str) -> list[int]:
    return [error.line for error in refuse_unsafe(source, INCLUDE_DIRS)]


def messages_of(source: str) -> set[str]:
    return {error.message for error in refuse_unsafe(source, INCLUDE_DIRS)}


# Lines

LINES = [
    (BAD, 1),
    ("\n\n" + BAD, 3),
    ("int a;\\\nint b;\n" + BAD, 3),
    ("int a;\\\r\nint b;\r\n" + BAD, 3),
    ("// a comment \\\n goes on\n" + BAD, 3),
    ("/* one\n   two\n   three */\n" + BAD, 4),
    ("/* one\n   two */ " + BAD, 2),
    ('const char* x = R"(one\ntwo\n)";\n' + BAD, 4),
    ('#inc\\\nlude \\\n"no_such_header.h"\n', 1),
    ("#/* one\n   two */include /* three\n */ <no_such_header.h>\n", 2),
    ("#define A \\\n  1 \\\n  + 2\n" + BAD, 4),
    ("// a form feed \f and a line separator \u2028 end no line\n" + BAD, 2),
    ("a\rb\r" + "\n" + BAD, 2),
]


@pytest.mark.parametrize(("source", "line"), LINES)
def test_a_refusal_names_the_line(source: str, line: int) -> None:
    assert lines_of(source) == [line]


FILLERS = [
    *("int a;\n", "\n", "// text\n", "// don't\n", "// text \\\n more\n", "/* text */\n"),
    *(
        "/* don't\n\n stop */\n",
        '/* " */\n',
        "int b\\\n;\n",
        "int c;\r\n",
        "#define A 1 \\\n + 2\n",
    ),
    *('const char* x = "/*";\n', 'const char* y = R"(\n/* " \' \n)";\n', "char z = '\"';\n"),
    *("int d = 1'000'000;\n", "#ifdef A\n#endif\n", '#pragma message("\\"")\n', "\f\n", "é;\n"),
    *('const char* w = u8R"x(\\\n)x";\n', "#if 0\n don't\n#endif\n", "\\\n\n", "/\\\n* */\n"),
]


@given(st.lists(st.sampled_from(FILLERS), max_size=12).map("".join))
def test_lines_are_counted_through_anything(before: str) -> None:
    assert lines_of(before) == []
    assert lines_of(before + BAD) == [before.count("\n") + 1]
    assert lines_of(BAD + before) == [1]


@settings(PATIENT, max_examples=50)
@given(st.lists(st.sampled_from(FILLERS), max_size=8).map("".join))
def test_the_compiler_counts_the_same_lines(compiler: Compiler, before: str) -> None:
    source = before + BAD
    found = parse_diagnostics(compiler.raw_log(source), SOURCE_NAME, source)
    (missing,) = [d for d in found if "cannot open source file" in d.message]
    assert [missing.line] == lines_of(source)
    assert missing.source_line == BAD.strip()


def test_every_line_is_reported_once_and_in_order() -> None:
    assert lines_of(BAD + "int a;\n" + BAD + "#import <x>\n") == [1, 3, 4]
    assert lines_of("int a = 1'0;\n" + BAD + BAD) == [2, 3]


def test_a_flood_of_refusals_is_cut() -> None:
    errors = refuse_unsafe(BAD * 1_000, INCLUDE_DIRS)
    assert [e.line for e in errors[:MAX_DIAGNOSTICS]] == list(range(1, MAX_DIAGNOSTICS + 1))
    assert [e.message for e in errors[MAX_DIAGNOSTICS:]] == ["and 980 more messages"]


def test_refusals_are_errors_that_say_what_may_be_included() -> None:
    (error,) = refuse_unsafe(BAD, INCLUDE_DIRS)
    assert error.severity is Severity.ERROR
    assert "cannot include 'no_such_header.h'" in error.message
    assert "stdint.h" in error.message
    assert "prelude" not in error.message


# Honest sources

HONEST = {
    "the usual headers": """
#include <cuda_runtime.h>
#include <cuda_fp16.h>   // half
#include "cuda_bf16.h"   /* bfloat16 */
#include <cooperative_groups.h>
#include <cub/block/block_reduce.cuh>
#include <cuda/std/limits>
#  include   <mma.h>
#include <iostream>
""",
    "conditions": """
#pragma once
#ifndef GUARD
#define GUARD
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 800) // Ampere (or newer)
#define NEW 1
#elif !defined (__CUDA_ARCH__) || CUDART_VERSION < 12000
#define NEW 0
#else
#error "too old: this doesn't work"
#endif
#if NEW && not (GUARD + 1 > 2) and __has_builtin(__builtin_assume)
#endif
#endif
""",
    "a condition on a plain macro": """
#define VERSION (12 * 1000 + 8 * 10)
#define RECENT (defined(__CUDACC__) && VERSION >= 12000)
#if RECENT
#endif
""",
    "macros with arguments and pasting": r"""
#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)
#define CHECK(condition)                       \
  do {                                         \
    if (!(condition)) __trap();                \
  } while (0)
#define TEXT(x) #x
#define INSTANTIATE(T, N) template __global__ void kernel<T, N>(T*)
#undef TEXT
""",
    "pragmas": """
#pragma unroll
#pragma unroll 4
#pragma nv_diag_suppress 177
#pragma push_macro("N")
_Pragma("unroll")
#warning "an honest warning"
""",
    "includes in comments and strings": """
// #include "kernel.h"
/*
  #include "kernel.h"
  #if __has_include("x")
*/
const char* text = "#include <vector>";
/* # a heading, and don't worry */
""",
    "quotes of all kinds": """
// don't
const char a = '"', b = '\\'', c = '#';
const char* d = "'", *e = "\\"", *f = "// no comment", *g = "/* nor here", *h = R"(raw " text)";
const int i = 1'000'000 + 0x'ff;
""",
    "inline PTX": r"""
__device__ void f(unsigned* out) {
  asm volatile(
      "{\n\t"
      ".reg .pred p;  // a predicate\n\t"
      "setp.ne.u32 p, %0, 0;\n\t"
      "}\n" : "+r"(*out));
  asm volatile(R"(
    mov.u32 %0, %%laneid;
    // 50 % of the lanes
  )" : "=r"(*out));
  const int half = 7 %2, quarter = half%:: f2();
}
""",
    "operators with percent signs and hashes in text": """
int f(int a, int b) { return a %b; }  // #1, 100%
""",
    "empty directives": "#\n# \n%:\n#/* nothing */\n# // nothing\n",
    "carriage returns": "#include <stdint.h>\r\n#define A \\\r\n 1\r\n#if A\r\n#endif\r\n",
    "nothing at all": "",
    "no newline at the end": "#include <stdint.h>",
    "a splice at the end": "int a;\\",
    "a comment without an end": "/* ",
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_source_is_accepted(name: str) -> None:
    assert refuse_unsafe(HONEST[name], INCLUDE_DIRS) == []


@pytest.mark.parametrize("file", OWN_SOURCES, ids=lambda f: f.parent.name)
def test_the_bundled_kernels_are_accepted(file: Path) -> None:
    assert refuse_unsafe(file.read_text(encoding="utf-8"), INCLUDE_DIRS) == []


@pytest.mark.parametrize("name", STAND_INS)
@pytest.mark.parametrize("form", ["#include <{}>", '#include "{}"', "#include <{}> // x"])
def test_every_stand_in_may_be_included(name: str, form: str) -> None:
    assert refuse_unsafe(form.format(name), INCLUDE_DIRS) == []


@pytest.mark.parametrize(
    "name",
    [
        *("../include/cuda_fp16.h", "cuda/../cuda_fp16.h", "/cuda_fp16.h", "cuda_fp16.h\\", "cuda"),
        *("", " cuda_fp16.h", "cuda_fp16.h ", "x" * 300, "x/" * 3_000, "~/.ssh/id_rsa", "*"),
    ],
)
def test_a_name_that_is_no_header_is_refused(name: str) -> None:
    assert lines_of(f"#include <{name}>\n") == [1]
    assert lines_of(f'#include "{name}"\n') == [1]


# Sources in which quotes make it hard to say where comments are


def test_an_unknown_include_in_a_comment_is_refused_only_where_quotes_are_confusing() -> None:
    # The price of being sure. The line is named, so that it is clear what to take out.
    comment = '/*\n#include "mine.h"\n*/\n'
    assert lines_of(comment) == []
    assert lines_of("int a = 1'000;\n" + comment) == [3]
    assert lines_of("int a = 1'000;\n" + comment.replace("mine.h", "cuda_fp16.h")) == []


# Anything else

WORDS = [
    *("#", "%:", "include", "define", "if", "elif", "endif", "line", "embed", "defined", "A", "B("),
    *("<", ">", '"', "'", "R", '"(', ')"', "(", ")", "//", "/*", "*/", "\\", "\n", "\r", " ", "##"),
    *("__has_include", "nv_mangled_name", "\0", "\ud800", "\u2028", "é", "1'0", "..", "/", "\\\n"),
]


@settings(max_examples=500)
@given(st.text() | st.lists(st.sampled_from(WORDS), max_size=40).map("".join))
def test_any_text_is_scanned_without_an_exception(text: str) -> None:
    last = text.count("\n") + 1
    for error in refuse_unsafe(text, INCLUDE_DIRS):
        assert 0 <= error.line <= last


# Without what reads splices itself: raw strings, other backslashes, and two-character marks.
PLAIN_WORDS = [word for word in WORDS if not set(word) & set("R\\\r%")]


@given(st.lists(st.sampled_from(PLAIN_WORDS), max_size=20).map("".join))
def test_splicing_lines_changes_no_verdict(text: str) -> None:
    assert messages_of("\\\n".join(text)) == messages_of(text)
