"""Loop depths from the control flow graph."""

from __future__ import annotations

from astra_tui.lab.compiler import Compiler
from tests.explain.helpers import depths, kernel_from_listing, kernel_from_source

NESTED = """
template <typename T> __global__ void nested(T* out, const T* in, int n, int m) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    T sum = in[i];
#pragma unroll 1
    for (int k = 0; k < m; ++k)
      sum += in[i + k * n];
    out[i] = sum;
  }
}
"""


def test_nested_loops_and_what_is_outside_of_them() -> None:
    kernel = kernel_from_listing(
        "MOV R0, RZ",
        ".outer:", "MOV R1, RZ",
        ".inner:", "FADD R1, R1, R2", "@P0 BRA `(.inner)",
        "@P1 BRA `(.outer)",
        "EXIT",
        ".end:", "BRA `(.end)", "NOP",
    )  # fmt: skip
    assert depths(kernel) == [0, 1, 2, 2, 1, 0, 0, 0]


def test_code_moved_behind_the_loop_that_jumps_back_into_it_makes_no_second_loop() -> None:
    kernel = kernel_from_listing(
        ".head:", "MOV R1, RZ", "@P2 BRA `(.rare)",
        ".join:", "FADD R1, R1, R2", "@P0 BRA `(.head)",
        "EXIT",
        ".rare:", "FADD R1, R1, R3", "BRA `(.join)",
    )  # fmt: skip
    assert depths(kernel) == [1, 1, 1, 1, 0, 1, 1]


def test_a_subroutine_is_as_deep_as_its_deepest_call() -> None:
    kernel = kernel_from_listing(
        "CALL.REL.NOINC `($k$f)",
        ".head:", "CALL.REL.NOINC `($k$f)", "@P0 BRA `(.head)",
        "EXIT",
        "$k$f:", "MOV R1, R2",
        ".inner:", "CALL.REL.NOINC `($k$g)", "@P0 BRA `(.inner)", "RET.REL.NODEC R6 `(k)",
        "$k$g:", "CALL.REL.NOINC `($k$g)", "RET.REL.NODEC R6 `(k)",
    )  # fmt: skip
    assert depths(kernel) == [0, 1, 1, 0, 1, 2, 2, 1, 2, 2]
    assert [s.symbol for s in kernel.subroutines] == ["$k$f", "$k$g"]


def test_conditional_forms_of_branches_go_on() -> None:
    kernel = kernel_from_listing(
        ".head:", "BRA.DIV UR4, `(.away)",
        "BRA.U !UP0, `(.head)",
        "@!PT EXIT",
        "EXIT",
        ".away:", "WARPSYNC.COLLECTIVE R5, `(.back)",
        ".back:", "BRA `(.head)",
    )  # fmt: skip
    assert depths(kernel) == [1, 1, 0, 0, 1, 1]


def test_compiled_loops_have_the_depth_of_their_source(compiler: Compiler) -> None:
    kernel = kernel_from_source(NESTED, "nested<float>", compiler)
    loads = [i for i in kernel.instructions if i.name == "LDG.32"]
    text = NESTED.splitlines()
    by_line = {text[i.line - 1].strip(): i.loop_depth for i in loads}
    assert by_line == {"T sum = in[i];": 1, "sum += in[i + k * n];": 2}
    stores = [i for i in kernel.instructions if i.name == "STG.32"]
    assert {(text[i.line - 1].strip(), i.loop_depth) for i in stores} == {("out[i] = sum;", 1)}
