"""What launchers pass: null and moved pointers, floating-point values, structures by value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.runner import Checker, select_cases
from astra_tui.lab.compiler import Compiler
from astra_tui.model.check import CheckReport, CheckVerdict
from astra_tui.model.findings import FindingKind
from astra_tui.model.task import load_task
from tests.conftest import OracleHere

TASK = """
name = "scale"
summary = "rows divided by their length, plus a number"
dtypes = ["float16", "float32"]
rows = "n"
[dims.n]
typical = 5
sizes = [0, 1, 33]
[dims.d]
typical = 64
sizes = [1, 7, 100]
[args.out]
role = "out"
shape = ["n", "d"]
[args.input]
role = "in"
shape = ["n", "d"]
values = { kind = "uniform", low = -4.0, high = 4.0 }
limit = 64.0
[args.eps]
role = "scalar"
dtype = "float32"
choices = [0.5, 2.0]
[contract]
accepts = ["d >= 1"]
[tolerance.float16]
atol = 1e-2
rtol = 1e-2
source = "the tests"
[tolerance.float32]
atol = 1e-5
rtol = 1e-5
source = "the tests"
[cost]
bytes = "2 * n * d * sizeof(T)"
flops = "2 * n * d"
[[workloads]]
dims = { n = 40, d = 64 }
"""

REFERENCE = "def reference(input, eps, d):\n    return {'out': input / d + 3 * eps}\n"

KERNEL = """
#include <cuda_fp16.h>
template <typename T>
struct Part { float inverse; T eps; };
template <typename T>
struct Params {
  T* out;
  const T* input;
  const T* bias;
  bool doubled;
  long long count;
  Part<T> parts[2];
};
struct Nothing {};
template <typename T>
__global__ void scale(const __grid_constant__ Params<T> p, const T* bias, float three, Nothing,
                      T half_eps, bool is_wide, float4 ones) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i >= p.count) return;
  float value = (float)p.input[i - p.count] * p.parts[0].inverse + three * (float)p.parts[0].eps;
  if (bias != nullptr) value += (float)bias[i];
  if (p.bias != nullptr) value += (float)p.bias[i];
  if (!p.doubled) value = 0;
  if (is_wide) value += 2 * (float)half_eps - (float)p.parts[1].eps;
  p.out[i + 8] = (T)(value * ones.w);
}
/* @launch
   let part = 1.0 / d
   scale<T> grid=ceil_div(n * d, 256) block=256
       args=({out - 8, input + n * d, null, bool true, int64 n * d, {float32 part, T eps},
              {float32 part, T eps}}, null, sqrt(9), {}, eps / 2, d > 7,
             alignas(16) {float32 1, float32 1, float32 1, float32 1.0})
*/
"""

Check = Callable[..., CheckReport]


@pytest.fixture(scope="module")
def check(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Check]:
    """Checks the kernel, after replacements, on the cases that patterns name."""
    folder = tmp_path_factory.mktemp("scale")
    for name, text in (
        ("task.toml", TASK),
        ("reference.py", REFERENCE),
        ("baseline.cu", KERNEL),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    task = load_task(folder)
    with closing(OracleHere(task)) as oracle:
        checker = Checker(task, Emulator(), compiler, oracle)

        def run(*edits: tuple[str, str], cases: tuple[str, ...] = ()) -> CheckReport:
            text = KERNEL
            for old, new in edits:
                assert old in text
                text = text.replace(old, new)
            chosen = select_cases(task, cases) if cases else None
            *_, report = checker.check(text, "candidate.cu", chosen)
            assert isinstance(report, CheckReport)
            return report

        yield run


def test_all_kinds_of_arguments_pass_a_whole_check(check: Check) -> None:
    report = check()
    assert report.verdict is CheckVerdict.PASSED, report.message


def test_an_access_through_null_is_a_finding(check: Check) -> None:
    report = check(("if (bias != nullptr)", "if (bias == nullptr)"), cases=("float16/typical*",))
    (fault, *_) = report.cases[0].findings
    assert fault.kind is FindingKind.GLOBAL_OUT_OF_BOUNDS
    assert "null" in fault.message
    assert KERNEL.splitlines()[fault.line - 1].lstrip().startswith("if (bias")


def test_null_in_place_of_a_tensor_is_wrong(check: Check) -> None:
    report = check(
        ("value += (float)p.bias[i]", "value = (float)p.bias[i] * p.parts[0].inverse"),
        ("{out - 8, input + n * d, null,", "{out - 8, null, null,"),
        ("(float)p.input[i - p.count] *", "0.f *"),
        cases=("float32/typical*",),
    )
    assert report.verdict is CheckVerdict.FAILED


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ((("bool true, ", ""),), "48 bytes aligned to 8, Params<float> has 56 bytes aligned to 8"),
        ((("bool true", "int64 1"), ("int64 n * d,", "")), "48 bytes aligned to 8"),
        (
            (("alignas(16)", "alignas(8)"),),
            "aligned to 8, float4 has 16 bytes aligned to 16",
        ),
        (((", {}", ", {int16 1}"),), "2 bytes aligned to 2, Nothing has 1 bytes aligned to 1"),
        (((", {}", ", 0"),), "0 is a number, the kernel takes the structure Nothing"),
        (((", {}", ", null"),), "null is a pointer, the kernel takes the structure Nothing"),
        (((", {}", ", out"),), "'out' is a tensor, the kernel takes the structure Nothing"),
        (((" null, sqrt(9)", " 0, sqrt(9)"),), "takes a pointer to float; write null for"),
        (((" null, sqrt(9)", " {}, sqrt(9)"),), "this is a structure, the kernel takes a pointer"),
        ((("sqrt(9)", "null"),), "null is a pointer, the kernel takes float"),
        ((("bool true", "bool 2"),), "2 does not fit in bool"),
        ((("d > 7", "0.5"),), "0.5 is a floating-point number, the kernel takes bool"),
        ((("int64 n * d", "int64 n * 0.5"),), "is a floating-point number, the kernel takes int64"),
        ((("1.0 / d", "1.0 / (d - d)"),), "division by zero"),
    ],
)
def test_an_argument_that_does_not_fit_is_an_error(
    check: Check, edits: tuple[tuple[str, str], ...], message: str
) -> None:
    report = check(*edits, cases=("float32/typical*",))
    assert report.verdict is CheckVerdict.PLAN_ERROR
    assert message in report.message


_TWO = '[args.out]\nrole = "out"\nshape = ["n", "d"]\n[args.input]\nrole = "in"'
IN_PLACE = TASK.replace(_TWO, '[args.x]\nrole = "inout"')
TWICE = """
template <typename T>
__global__ void add(T* out, const T* input, float eps, int d) {
  const int i = blockIdx.x * d + threadIdx.x;
  const float before = threadIdx.x ? (float)input[i - 1] : 0.0f;
  const float own = (float)input[i];
  __syncthreads();
  out[i] = (T)(before + own + eps);
}
/* @launch
   add<T> grid=n block=d args=(x, x, eps, d)
*/
"""


@pytest.mark.parametrize("barrier", [True, False])
def test_an_in_place_argument_is_passed_twice(
    compiler: Compiler, tmp_path: Path, barrier: bool
) -> None:
    """The reference sees the values before; a kernel that reads what another thread wrote fails."""
    reference = (
        "import torch\ndef reference(x, eps):\n"
        "    return {'x': x + eps + torch.nn.functional.pad(x, (1, 0))[:, :-1]}\n"
    )
    source = "#include <cuda_fp16.h>\n" + TWICE
    source = source if barrier else source.replace("  __syncthreads();\n", "")
    files = {"task.toml": IN_PLACE, "reference.py": reference, "baseline.cu": source}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    task = load_task(tmp_path)
    with closing(OracleHere(task)) as oracle:
        cases = select_cases(task, ("*/typical", "*/d=100"))
        *_, report = Checker(task, Emulator(), compiler, oracle).check(source, "new.cu", cases)
    assert isinstance(report, CheckReport)
    assert (report.verdict is CheckVerdict.PASSED) is barrier, report.message
    kinds = {f.kind for r in report.cases for f in r.findings}
    assert (FindingKind.GLOBAL_RACE in kinds) is not barrier
