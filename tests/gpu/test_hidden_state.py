"""Which variables of real cubins count as hidden state."""

from __future__ import annotations

from astra_tui.gpu.hidden_state import hidden_state, only_read
from astra_tui.gpu.tools import tools_source
from astra_tui.lab.compiler import Compiler

KEEPS = """
#include <cassert>
constexpr float STEPS[4] = {1.f, 2.f, 3.f, 5.f};
struct Pair { int a; float b; };
static constexpr Pair PAIR{1, 2.f};
__constant__ int LIMITS[4];
__device__ float table[4] = {1.f, 2.f, 3.f, 5.f};
__device__ int counted;
__device__ float stored[4], pointed_at[2], passed[4], leaked[3], in_asm[2], in_loop[3], exchanged;
__device__ const float* const where = pointed_at;
__device__ const float* last;
__device__ void store(float* p, int i) { p[i] = 3; }
__device__ __noinline__ void call(float* p, int i) { p[i] = 3; }
__global__ void keeps(int n, float* q) {
  static const int WIDTHS[3] = {1, 5, 9};
  assert(n > 0 && "a literal, and the name of the function, are passed on to what prints them");
  if (n > 70) printf("%d is many\\n", n);
  atomicAdd(&counted, 1);
  const float4 v = *reinterpret_cast<const float4*>(table);
  q[0] = STEPS[n] + PAIR.b + LIMITS[n] + table[n & 3] + v.x + where[1] + WIDTHS[n];
  if (n > 7) store(stored, n);
  call(passed, n);
  last = leaked;
  asm volatile("st.global.f32 [%0], %1;" ::"l"(in_asm), "f"(2.f));
  float* p = n > 3 ? in_loop : q;
  for (int j = 0; j < n; ++j) *p++ = j;
  q[1] = atomicExch(&exchanged, 3.f);
}
"""


def test_constants_are_none_and_what_can_be_written_is(compiler: Compiler) -> None:
    compilation = compiler.compile(KEEPS, ("keeps",))
    assert compilation.ok, compilation.errors
    found = {finding.message.split()[2] for finding in hidden_state(compilation)}
    assert found == {
        *("counted", "stored", "pointed_at", "passed", "leaked", "last"),
        *("in_asm", "in_loop", "exchanged"),
    }
    assert not hidden_state(compiler.compile(tools_source(), ("draw", "produce")))


PRINTS = ".extern .func (.param .b32 result) vprintf (.param .b64 given);\n"
PASSED = "st.param.b64 [param0], x;\ncall.uni (result), {}, (param0);"


def test_what_is_not_understood_may_be_written() -> None:
    declared = ".global .align 4 .u32 x;\n"
    load = "ld.global.u32 %r1, [x];"
    for text, is_read in (
        (declared, True),
        ("", False),
        (declared + declared, False),
        (declared + ".global .u64 y = generic(x);\n", False),
        (f"{declared}.entry k() {{\n{load}\n}}", True),
        (f"{declared}.entry k() {{\n{load}\nst.global.u32 [x], %r1;\n}}", False),
        (f"{declared}.entry k() {{\n{load}\nnew.thing [x];\n}}", False),
        (f"{declared}.entry k() {{\n{load}\nx\n}}", False),
        (f"{declared}{PRINTS}.entry k() {{\n{PASSED.format('vprintf')}\n}}", True),
        (f"{declared}{PRINTS}.entry k() {{\n{PASSED.format('other')}\n}}", False),
        (f"{declared}.func vprintf() {{}}\n.entry k() {{\n{PASSED.format('vprintf')}\n}}", False),
        (f"{declared}{PRINTS}.entry k() {{\nst.param.b64 [param0], x;\nret;\n}}", False),
    ):
        assert only_read(text, ["x"]) == (frozenset("x") if is_read else frozenset()), text
