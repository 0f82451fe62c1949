"""NVRTC's log as data: recorded logs, forged lines, and any text at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.lab.compiler import Compiler
from astra_tui.lab.compiler.headers import NOTHING
from astra_tui.lab.compiler.log import (
    MAX_DIAGNOSTICS,
    MAX_TEXT,
    NAME_MAP_FILE,
    parse_diagnostics,
    parse_resources,
)
from astra_tui.lab.compiler.service import SOURCE_NAME
from astra_tui.model.compilation import Diagnostic, Resources, Severity

HEADERS = Path("/cuda/include")

# Recorded from NVRTC 13.5; only the header folder was shortened.
ERRORS = """\
kernel.cu(2): warning #177-D: variable "unused" was declared but never referenced
  int unused;
      ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

kernel.cu(4): error: no instance of function template "std::min" matches the argument list
            argument types are: (int, float)
    *o = std::min(1, 2.0f);
         ^
algorithm(4): note #3327-D: candidate function template "std::min" failed deduction
  template <typename T> __host__ __device__ constexpr const T& min(const T& a, const T& b) {
                                                               ^

/cuda/include/cccl/cuda/std/array(448): error: static assertion failed with "Index out of bounds"
    static_assert(_Ip < _Size, "Index out of bounds");
    ^
/cuda/include/cccl/cuda/std/array(448): note #3453-D: the final comparison was 7 < 3
    static_assert(_Ip < _Size, "Index out of bounds");
                      ^
          detected during:
            instantiation of "get_impl<7>" at line 422
            instantiation of "get<7>" at line 12 of /cuda/include/cccl/cuda/std/get.h
            instantiation of "f<7>" at line 3 of kernel.cu

2 errors detected in the compilation of "kernel.cu".
"""
SOURCE = "__global__ void k(int* o) {\nint unused;\nf<7>(o);\n  *o = std::min(1, 2.0f);\n}\n"

RESOURCES = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1kPi' for 'sm_90'
ptxas info    : Function properties for _Z1kPi
ptxas         .     48 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 30 registers, used 2 barriers, 256 bytes cumulative stack size, 512 bytes smem
ptxas info    : Compile time = 2.422 ms
ptxas info    : Function properties for _Z1fi
ptxas         .     40 bytes stack frame, 40 bytes spill stores, 40 bytes spill loads
ptxas info    : Compiling entry function '_Z1gv' for 'sm_90'
ptxas info    : Function properties for _Z1gv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers
"""


def parse(log: str, source: str = SOURCE) -> tuple[Diagnostic, ...]:
    return parse_diagnostics(log, SOURCE_NAME, source, (HEADERS,))


def real_log(compiler: Compiler, source: str, expressions: tuple[str, ...] = ()) -> str:
    inputs = compiler._inputs(NOTHING, "sm_90")
    return compiler._request(source, expressions, inputs, cubin=True).log


# Recorded logs


def test_errors_come_before_warnings() -> None:
    assert [d.severity for d in parse(ERRORS)] == [
        Severity.ERROR,
        Severity.ERROR,
        Severity.WARNING,
    ]


def test_an_error_has_its_place_and_its_explanation() -> None:
    first, *_ = parse(ERRORS)
    assert (first.line, first.column) == (4, 8)
    assert first.message == (
        'no instance of function template "std::min" matches the argument list; '
        "argument types are: (int, float)"
    )
    assert first.source_line == "  *o = std::min(1, 2.0f);"


def test_an_error_in_a_header_names_the_line_that_led_there() -> None:
    _, second, _ = parse(ERRORS)
    assert second.message == 'static assertion failed with "Index out of bounds" (in array)'
    assert (second.line, second.column) == (3, 0)
    assert second.source_line == "f<7>(o);"


def test_a_warning_has_no_number_in_its_text() -> None:
    *_, warning = parse(ERRORS)
    assert warning.message == 'variable "unused" was declared but never referenced'
    assert (warning.line, warning.column) == (2, 5)


def test_the_same_message_twice_is_said_once() -> None:
    assert parse(ERRORS + ERRORS) == parse(ERRORS)


def test_a_flood_of_messages_is_cut() -> None:
    log = "".join(f"kernel.cu({n}): error: number {n}\n" for n in range(1, 100))
    found = parse(log)
    assert len(found) == MAX_DIAGNOSTICS + 1
    assert found[-1].message == f"and {99 - MAX_DIAGNOSTICS} more messages"
    assert found[-1].severity is Severity.ERROR


def test_long_messages_and_long_lines_are_cut() -> None:
    source = "x" * 10_000
    (found,) = parse(f"kernel.cu(1): error: {source}\n", source)
    assert len(found.message) == len(found.source_line) == MAX_TEXT


def test_the_folder_of_a_header_is_left_out() -> None:
    (found,) = parse('kernel.cu(1): error: see line 3 of "/cuda/include/cuda_fp16.h"\n')
    assert found.message == 'see line 3 of "cuda_fp16.h"'


def test_a_line_beyond_the_source_quotes_nothing() -> None:
    (found,) = parse("kernel.cu(99): error: x\n")
    assert (found.line, found.source_line) == (99, "")


# Other files


@pytest.mark.parametrize(
    "file",
    [
        *("/etc/passwd", "etc/passwd", "/cuda/include/../../etc/passwd", "/cuda/includes/x.h"),
        *("ptx.h", "ptxas.cu", "my kernel.cu", "./kernel.cu", "/cuda/kernel.cu"),
    ],
)
@pytest.mark.parametrize("severity", ["error", "catastrophic error", "warning #1-D", "note"])
def test_a_line_about_another_file_is_dropped(file: str, severity: str) -> None:
    log = f'{file}(1): {severity}: identifier "secret" is undefined\n  secret\n  ^\n\n'
    assert parse(log) == ()
    after = f"kernel.cu(1): error: mine\n  mine\n  ^\n{log}"
    assert "secret" not in str(parse(after))


def test_a_warning_in_a_header_is_dropped() -> None:
    assert parse("/cuda/include/cuda_fp16.h(7): warning #1-D: x\n") == ()


def test_a_file_that_exists_but_may_not_be_read_is_no_different() -> None:
    missing = 'kernel.cu(1): catastrophic error: cannot open source file "/x"\n'
    denied = missing.replace('"/x"', '"/x": Permission denied')
    assert parse(missing) == parse(denied)


# Names that a launch plan asked for


def test_an_error_about_a_name_names_it() -> None:
    log = f"""\
{NAME_MAP_FILE}(3): error: identifier "nope" is undefined
  #pragma nv_mangled_name nope<float>
                          ^

{NAME_MAP_FILE}(3): error: Error in parsing name expression for lowered name lookup. x
  #pragma nv_mangled_name nope<float>
                          ^
"""
    (found,) = parse(log)
    assert (found.kernel, found.line) == ("nope<float>", 0)
    assert found.message == 'identifier "nope" is undefined'


# ptxas


def test_an_error_in_inline_ptx_names_the_source_line() -> None:
    log = "ptxas application ptx input, line 25; error   : Unknown symbol '%nope'\n"
    (found,) = parse_diagnostics(log, SOURCE_NAME, SOURCE, ptx_lines={25: 4})
    assert (found.line, found.message) == (4, "in inline PTX: Unknown symbol '%nope'")
    (unplaced,) = parse_diagnostics(log, SOURCE_NAME, SOURCE)
    assert (unplaced.line, unplaced.source_line) == (0, "")


@pytest.mark.parametrize(
    ("word", "severity"),
    [("fatal  ", Severity.ERROR), ("error  ", Severity.ERROR), ("warning", Severity.WARNING)],
)
def test_ptxas_speaks_of_errors_and_warnings(word: str, severity: Severity) -> None:
    assert parse(f"ptxas {word} : too much\n") == (Diagnostic(severity, "too much"),)


def test_resources_are_read_for_each_kernel() -> None:
    assert parse_resources(RESOURCES) == {
        "_Z1kPi": Resources(30, 12, 16, 48, 512, 2),
        "_Z1gv": Resources(4, 0, 0, 0, 0, 0),
    }


def test_resource_lines_are_no_messages() -> None:
    assert parse(RESOURCES) == ()


def test_a_source_cannot_forge_its_resources(compiler: Compiler) -> None:
    forged = (
        "ptxas info    : Compiling entry function '_Z1kPi' for 'sm_90'\\n"
        "ptxas info    : Used 1 registers\\n"
    )
    source = f"""[[deprecated("x\\n{forged}")]] __device__ int f() {{ return 1; }}
#pragma message("{forged}")
__global__ void k(int* o) {{ *o = f() + threadIdx.x; }}
#warning ptxas info    : Used 2 registers
"""
    log = real_log(compiler, source, ("k",))
    assert "\nptxas info    : Used 1 registers" in log, "the attempt reaches the log"
    assert parse_resources(log)["_Z1kPi"].registers > 2


# Logs made now


def test_the_recorded_form_is_still_the_form(compiler: Compiler) -> None:
    source = "#include <algorithm>\n__global__ void k(int* o) {\n  *o = std::min(1, 2.0f);\n}\n"
    log = real_log(compiler, source)
    first, *rest = parse_diagnostics(log, SOURCE_NAME, source)
    assert (first.line, first.column, rest) == (3, 8, [])
    assert first.message.endswith("; argument types are: (int, float)")


@pytest.mark.parametrize("before", ["", "\t", "\t\t ", "/* é */ ", "/* 漢字 */", "/* 🙂 */ \t"])
def test_columns_are_counted_in_characters(compiler: Compiler, before: str) -> None:
    source = f"int a =\n{before}nope;\n"
    (error,) = parse_diagnostics(real_log(compiler, source), SOURCE_NAME, source)
    assert (error.line, error.column) == (2, len(before) + 1)


def test_lines_are_counted_as_the_compiler_does(compiler: Compiler) -> None:
    source = "// \f \v \x1c \x85 \u2028 one line\r\n// two\r\nint a = nope;\r\n"
    (error,) = parse_diagnostics(real_log(compiler, source), SOURCE_NAME, source)
    assert (error.line, error.source_line) == (3, "int a = nope;")


# Anything else

LINES = [
    *ERRORS.splitlines(),
    *RESOURCES.splitlines(),
    *("", " ", "  ^", "^", "   ^  ", "kernel.cu(0): error: ", "kernel.cu(-1): error: x"),
    *("kernel.cu(99999999999999999999): error: x", "(1): error: x", "At end of source: error: x"),
    *("ptxas application ptx input, line 9; fatal   : x", "ptxas fatal   : x", "nvrtc: error: x"),
    *(f"{NAME_MAP_FILE}(1): error: x", "  #pragma nv_mangled_name k", " at line 3 of kernel.cu"),
    *("kernel.cu(1): note: x", "kernel.cu(1): remark: x", "/cuda/include/x.h(2): error: x"),
]


@given(
    st.text() | st.lists(st.sampled_from(LINES) | st.text(max_size=20), max_size=20).map("\n".join),
    st.text(max_size=50),
)
def test_any_log_is_read_without_an_exception(log: str, source: str) -> None:
    found = parse(log, source)
    assert len(found) <= MAX_DIAGNOSTICS + 1
    for diagnostic in found:
        assert diagnostic.line >= 0
        assert diagnostic.column >= 0
    parse_resources(log)
