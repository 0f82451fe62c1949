"""Candidates that lean on what only the emulator does, and honest ones that only look like it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import CaseOutcome, CaseResult, CheckReport, CheckVerdict
from astra_tui.model.findings import FindingKind
from astra_tui.model.task import KernelTask, load_task
from tests.conftest import OracleHere

MARK = "// <--"
K = FindingKind

SOURCE = """
#include <cuda_fp16.h>
#include <stdint.h>
/* @launch
   silu<T> grid=max(tokens, 1) block=BLOCK args=(out, input, tokens, d)
*/
__device__ float spoiled(float value, bool spoil) { return spoil ? 0.0f : value; }
template <typename T>
__global__ void silu(T* out, const T* input, int tokens, int d) {
  BEFORE
  for (int i = threadIdx.x; i < d && tokens > 0; i += blockDim.x) {
    const float gate = (float)input[blockIdx.x * 2 * d + i];
    const float up = (float)input[blockIdx.x * 2 * d + d + i];
    float result = gate / (1.0f + __expf(-gate)) * up;
    AFTER
    out[blockIdx.x * d + i] = (T)result;
  }
  END
}
"""


@pytest.fixture(scope="module")
def checker(compiler: Compiler, quick_task: KernelTask) -> Iterator[Checker]:
    with OracleHere(quick_task) as oracle:
        yield Checker(quick_task, Emulator(), compiler, oracle)


def planted(after: str = "", before: str = "", end: str = "", block: str = "128") -> str:
    text = SOURCE.replace("AFTER", after).replace("BEFORE", before).replace("END", end)
    return text.replace("BLOCK", block)


def result_of(checker: Checker, text: str, case: str = "typical") -> CaseResult:
    cases = select_cases(checker.task, (f"float16/{case}",))
    *_, report = checker.check(text, "candidate.cu", cases)
    assert isinstance(report, CheckReport)
    return report.cases[0]


def register(name: str, kind: str = "u32") -> str:
    letter = "l" if kind == "u64" else "r"
    c = "unsigned long long" if kind == "u64" else "unsigned"
    return f'{c} v; asm volatile("mov.{kind} %0, %{name};" : "={letter}"(v)); {MARK}\n'


def against(opcode: str, exact: str) -> str:
    """An instruction's own error, made large: the difference from what IEEE 754 asks for."""
    asm = f'asm volatile("{opcode} %0, %1;" : "=f"(p) : "f"(gate * gate + 1.0f));'
    return f"float p; {asm} {MARK}\nresult += 1e6f * (p - {exact});"


@pytest.mark.parametrize(
    ("kind", "words", "text"),
    [
        (
            K.DEPENDS_ON_MACHINE, "%globaltimer",
            planted(register("%globaltimer", "u64") + "result = spoiled(result, v > 1000000);"),
        ),
        (
            K.DEPENDS_ON_MACHINE, "%clock64",
            planted("long long v = clock64(); // <--\nresult = spoiled(result, v > 100000);"),
        ),
        (
            K.DEPENDS_ON_MACHINE, "%smid",
            planted(register("%smid") + "result = spoiled(result, v != blockIdx.x % 132);"),
        ),
        (
            K.DEPENDS_ON_MACHINE, "%warpid",
            planted(register("%warpid") + "result = spoiled(result, v != threadIdx.x / 32);"),
        ),
        (
            K.DEPENDS_ON_MACHINE, "%gridid",
            planted(register("%gridid", "u64") + "result = spoiled(result, v != 0);"),
        ),
        (
            K.DEPENDS_ON_MACHINE, "%gridid, %smid",
            planted(
                register("%gridid", "u64")
                + 'unsigned w; asm volatile("mov.u32 %0, %%smid;" : "=r"(w));'
                "result = spoiled(result, v != 0 && w != blockIdx.x % 132);"
            ),
        ),
        (
            K.DEPENDS_ON_ADDRESS, "addresses",
            planted("result = spoiled(result, ((uintptr_t)out >> 32) != 0x7F00);"),
        ),
        (
            K.DEPENDS_ON_ADDRESS, "addresses",
            planted("result = spoiled(result, (uintptr_t)out > (uintptr_t)input);"),
        ),
        (
            K.DEPENDS_ON_APPROXIMATION, "exact",
            planted(
                'asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(0.5f * gate)); // <--\n'
                "result = 0.5f * gate * (1.0f + result) * up;"
            ),
        ),
        (
            K.DEPENDS_ON_APPROXIMATION, "exact",
            planted(against("sqrt.approx.f32", "sqrtf(gate * gate + 1.0f)")),
        ),
        (
            K.DEPENDS_ON_APPROXIMATION, "exact",
            planted(against("rcp.approx.f32", "1.0f / (gate * gate + 1.0f)")),
        ),
        (
            K.NON_COHERENT_LOAD, "out",
            planted(end="__syncthreads(); if (threadIdx.x + 1 < d && tokens > 0 && d > 1) {\n"
            "float v = (float)__ldg(out + blockIdx.x * d + threadIdx.x); // <--\n"
            "out[blockIdx.x * d + threadIdx.x] = (T)v; }"),
        ),
    ],
)  # fmt: skip
def test_what_only_the_emulator_does_is_found(
    checker: Checker, kind: FindingKind, words: str, text: str
) -> None:
    result = result_of(checker, text)
    assert not result.outcome.ok
    (finding,) = result.findings
    assert finding.kind is kind, finding.describe()
    assert words in finding.message
    assert not finding.is_warning
    if MARK in text:
        assert MARK in text.splitlines()[finding.line - 1]


def test_a_result_of_a_variable_without_a_value_is_found(checker: Checker) -> None:
    unset = 'float unset, v; asm volatile("mov.f32 %0, %1;" : "=f"(v) : "f"(unset));\n'
    result = result_of(checker, planted(unset + "result = fmaxf(result, v);"))
    assert "a variable, or an element of a local array, that was never given" in result.message


LAUNCHES = {
    "registers a thread": planted(
        before="""float r[96];
  #pragma unroll
  for (int i = 0; i < 96; ++i) r[i] = (float)input[(i * tokens) % (2 * d)];""",
        after="""
    for (int j = 0; j < tokens; ++j) {
      #pragma unroll
      for (int i = 0; i < 96; ++i) r[i] = r[i] * gate + r[(i + 7) % 96];
    }
    for (int i = 0; i < 96; ++i) result += r[i] == 1234.5f ? 1.0f : 0.0f;""",
        block="1024",
    ),
    "promises at most 64": planted().replace("void silu", "void __launch_bounds__(64) silu"),
    "takes blocks of 96x1x1 alone": planted().replace(
        "void silu", "void __block_size__((96, 1, 1)) silu"
    ),
    "is no multiple of clusters of 3x1x1": planted().replace(
        "void silu", "void __cluster_dims__(3, 1, 1) silu"
    ),
    "of static and": planted(
        before="__shared__ float own[4096]; extern __shared__ float more[];"
        "own[threadIdx.x] = 0; more[threadIdx.x] = own[threadIdx.x];",
    ).replace("args=", "shared=220 * 1024 args="),
    "bytes of local memory a thread": planted(
        before="volatile float own[90000]; own[tokens + d] = 0.0f;",
    ),
}


@pytest.mark.parametrize("words", LAUNCHES)
def test_a_launch_that_a_gpu_refuses_is_found(checker: Checker, words: str) -> None:
    result = result_of(checker, LAUNCHES[words])
    assert result.outcome is CaseOutcome.FAULT
    (finding,) = result.findings
    assert finding.kind is K.OUT_OF_RESOURCES
    assert words in finding.message
    assert "silu<T>" in LAUNCHES[words].splitlines()[finding.line - 1]


def test_the_first_hang_ends_a_check(checker: Checker) -> None:
    text = planted("while (gate == gate && __ldg(input) == __ldg(input)) { result += 1.0f; }")
    *_, report = checker.check(text, "candidate.cu")
    assert isinstance(report, CheckReport)
    assert report.verdict is CheckVerdict.FAILED
    assert [f.kind for f in report.cases[-1].findings] == [K.BUDGET]
    assert sum(not r.outcome.ok for r in report.cases) == 1
    assert "the check ends after" in report.message


ATOMIC_SUM = """
#include <cuda_fp16.h>
/* @launch
   workspace total: float32[1]
   clear grid=1 block=32 args=(total)
   add<T> grid=max(tokens, 1) block=128 args=(total, input, tokens, d)
   silu<T> grid=max(tokens, 1) block=128 args=(out, input, total, tokens, d)
*/
__global__ void clear(float* total) { if (threadIdx.x == 0) *total = 0.0f; }
template <typename T>
__global__ void add(float* total, const T* input, int tokens, int d) {
  const int i = blockIdx.x * 2 * d + threadIdx.x;
  if (tokens > 0 && threadIdx.x < 2 * d) {
    const float v = (float)input[i];
    if (v == v && v - v == 0.0f) atomicAdd(total, 1e-3f * v);  // <--
  }
}
template <typename T>
__global__ void silu(T* out, const T* input, const float* total, int tokens, int d) {
  for (int i = threadIdx.x; i < d && tokens > 0; i += blockDim.x) {
    const float gate = (float)input[blockIdx.x * 2 * d + i];
    const float up = (float)input[blockIdx.x * 2 * d + d + i];
    out[blockIdx.x * d + i] = (T)(gate / (1.0f + __expf(-gate)) * up + 1e-5f * *total);
  }
}
"""


def ruled(checker: Checker, folder: Path, head: str = "", tail: str = "") -> Checker:
    """The same checker for a task with something more in task.toml."""
    shutil.copytree(checker.task.folder, folder)
    file = folder / "task.toml"
    file.write_text(head + file.read_text() + tail)
    return Checker(load_task(folder), checker.device, checker.compiler, checker.oracle)


def test_float_atomics_are_a_caution_unless_the_task_asks_for_the_same_bits(
    checker: Checker, tmp_path: Path
) -> None:
    result = result_of(checker, ATOMIC_SUM)
    assert result.outcome is CaseOutcome.PASSED, result.message
    (caution,) = result.findings
    assert caution.kind is K.FLOAT_ATOMICS
    assert caution.is_warning
    assert MARK in ATOMIC_SUM.splitlines()[caution.line - 1]
    strict = ruled(checker, tmp_path / "same_bits", head="deterministic = true\n")
    result = result_of(strict, ATOMIC_SUM)
    assert not result.outcome.ok
    assert result.findings[0].kind is K.NOT_DETERMINISTIC


RULING = """
[[accept]]
finding = "{finding}"
text = "{text}"
reason = "the value is not used"
"""


@pytest.mark.parametrize(
    ("kind", "text", "part"),
    [
        (
            K.GLOBAL_OUT_OF_BOUNDS,
            planted("const float over = (float)input[(long)tokens * 2 * d + i];  // <--\n"
            "result = over == 1234.5f && up == 77.0f ? 0.0f : result;"),
            "tokens * 2 * d + i",
        ),
        (
            K.GLOBAL_OUT_OF_BOUNDS,
            planted("out[(long)tokens * d + i] = (T)result;  // <--"),
            "",
        ),
        (
            K.DEPENDS_ON_MACHINE,
            planted(register("%smid") + "result = v > 1000 || v != blockIdx.x % 132"
            " ? result * 1.0001f : result;"),
            "%smid",
        ),
    ],
)  # fmt: skip
def test_what_an_engineer_accepts_is_a_warning_with_the_reason(
    checker: Checker, tmp_path: Path, kind: FindingKind, text: str, part: str
) -> None:
    strict = result_of(checker, text)
    assert not strict.outcome.ok
    assert strict.findings[0].kind is kind
    rulings = RULING.format(finding=kind.value, text=part)
    accepting = ruled(checker, tmp_path / "accepting", tail=rulings)
    result = result_of(accepting, text)
    if not part:  # A store outside every buffer is never accepted.
        assert not result.outcome.ok
        return
    assert result.outcome is CaseOutcome.PASSED, result.message
    assert [(f.kind, f.accepted, f.is_warning) for f in result.findings] == [
        (kind, "the value is not used", True)
    ]
    elsewhere = RULING.format(finding=kind.value, text="another line")
    assert not result_of(ruled(checker, tmp_path / "other", tail=elsewhere), text).outcome.ok
