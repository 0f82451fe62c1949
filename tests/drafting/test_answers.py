"""The answers file of `astra-tui new`, and the questions that it answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.cli import main
from astra_tui.drafting.answers import Answers, read_answers
from astra_tui.model.drafts import OpenPoint
from astra_tui.model.errors import UserError
from astra_tui.model.launch import parse_plan
from astra_tui.model.task import load_task
from tests.drafting.reading import drafted

pytestmark = pytest.mark.usefixtures("warm_processes")

SOURCE = """
enum class Op { kHalve, kDouble };
template <typename T, Op kOp, int kWidth, typename IdType>
__global__ void scale(T* out, const T* x, const IdType* rows, int d, float by,
                      const float* more_by) {
  if (more_by) by += *more_by;
  int i = threadIdx.x;
  if (i < d) out[blockIdx.x * d + i] = x[rows[blockIdx.x] * d + i] * by;
}
template <int kWidth>
void launch(float* out, const float* x, const int* rows, int n, int d, float by, float* more) {
  scale<float, Op::kHalve, kWidth, int><<<n, opaque[d]>>>(out, x, rows, d, by, more);
}
void other(float* out, const float* x, const int* rows, int n, int d, float* more) {
  scale<float, Op::kDouble, 8, int><<<n, 128>>>(out, x, rows, d, 2.0f, more);
}
"""

ANSWERS = """
from = "scale.cu"
launch = 12
reference = "scale.py"
[template]
kOp = "Op::kDouble"
kWidth = 4
[plan]
block = ["min(d, 256)"]
[plan.args]
more_by = "null"
[args.x]
limit = 100.0
shape = ["x_rows + more", "d"]
[args.rows]
values = { kind = "integers", low = 0, high = 6 }
[args.by]
choices = [2.0]
[dims.d]
sizes = [32, 96]
[dims.more]
sizes = [0, 3]
[contract]
accepts = ["d <= 256", "x_rows >= 7"]
[tolerance.float32]
atol = 0.0
rtol = 1e-6
source = "one rounding"
[[workloads]]
dims = { n = 64, d = 96, x_rows = 100, more = 0 }
[[accept]]
finding = "global_race"
text = "out[blockIdx.x"
reason = "rows that are chosen twice hold the same"
"""

REFERENCE = "def reference(x, rows, by):\n    return {'out': x[rows] * by}\n"


def written(tmp_path: Path, answers: str = ANSWERS) -> Path:
    (tmp_path / "scale.cu").write_text(SOURCE)
    (tmp_path / "scale.py").write_text(REFERENCE)
    (tmp_path / "scale.toml").write_text(answers)
    return tmp_path / "scale.toml"


def test_answers_decide_what_the_source_leaves_open_and_are_kept_with_the_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path)
    assert main(["new", str(tmp_path / "task"), "--answers", str(file), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["problems"] == []
    asked = {point["key"] for point in said["open_points"]}
    assert not asked & {"launch", "plan.block", "template.kWidth", "args.by", "workloads"}
    assert {"template.kOp", "args.rows.values", "reference"} <= set(said["answered"])

    task = load_task(tmp_path / "task")
    assert task.dims["d"].sizes == (32, 96)
    assert "more_by" not in task.args
    assert task.accepted[0].text == "out[blockIdx.x"
    assert task.reference_file.read_text() == REFERENCE
    text = (tmp_path / "task" / "baseline.cu").read_text()
    assert '"Op::kDouble", 4, int32> grid=n block=min(d, 256)' in text
    toml = (tmp_path / "task" / "task.toml").read_text()
    for part in ("limit = 100.0", "choices = [2.0]", 'source = "one rounding', "n = 64, d = 96"):
        assert part in toml, part

    assert main(["new", str(tmp_path / "whole"), "--answers", str(file), "--whole", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []
    assert "__global__" not in (tmp_path / "whole" / "baseline.cu").read_text()
    assert (tmp_path / "whole" / "upstream" / "scale.cu").read_text() == SOURCE

    again = tmp_path / "task" / "answers.toml"
    assert main(["new", str(tmp_path / "task2"), "--answers", str(again)]) == 0
    assert (tmp_path / "task2" / "baseline.cu").read_text() == text


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ('from = "scale.cu"\nlunch = 11', "scale.toml:2: unknown key `lunch`"),
        ('from = "scale.cu"\n[args.x]\nshap = ["d"]', "scale.toml:3: unknown key `args"),
        ('from = "scale.cu"\n[[accept]]\nreson = ""', "scale.toml:3: unknown key `accept[0].reson"),
        ('from = "scale.cu"\nlaunch = 13', "no launch of scale is at line 13"),
        ('from = "scale.cu"\n[template]\nkWith = 4', "did you mean 'kWidth'?"),
        ('from = "scale.cu"\n[args.y]\nlimit = 1.0', "scale.toml:2: the draft has no args.y"),
        ('from = "scale.cu"\n[dims.q]\nsizes = [4]', "the draft has no dims.q"),
        ('from = "scale.cu"\n[args.x]\ndtype = "float17"', "no element type 'float17'"),
        ('from = "scale.cu"\n[plan]\nblock = ["d ++"]', "no expression of a launch plan"),
        ('from = "scale.cu"\n[plan.args]\nq = "1"', "no plan.args.q"),
        ('from = "scale.cu"\nreference = "scalle"', "no operator 'scalle'"),
        ('from = "scale.cu"\nreference = "absent.py"', "absent.py"),
        ('from = "scale.cu"\n[[', "not TOML"),
        ('kernel = "scale"', "no source is named"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_by_name_and_nothing_is_written(
    answers: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, answers)
    assert main(["new", str(tmp_path / "task"), "--answers", str(file)]) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "task").exists()


def test_what_is_launched_with_the_same_type_goes_through_the_answered_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = """
#include <c10/macros/Macros.h>
#include <cuda_profiler_api.h>
template <typename In, typename Out>
__global__ void copy(Out* out, const In* in) {
  double lane = __ll2double_rn(threadIdx.x % C10_WARP_SIZE);
  out[threadIdx.x] = Out(float(in[threadIdx.x]) + __double2float_rn(lane));
}
void launch(float* out, const float* in) { copy<float, float><<<1, 64>>>(out, in); }
"""
    file = written(tmp_path, 'from = "scale.cu"\ndtypes = ["float16", "float32"]\n')
    (tmp_path / "scale.cu").write_text(kernel)
    assert main(["new", str(tmp_path / "task"), "--answers", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []
    assert "copy<T, T>" in (tmp_path / "task" / "baseline.cu").read_text()


def test_questions_are_asked_in_turn_and_a_wrong_answer_is_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    file = written(tmp_path, 'from = "scale.cu"\n[template]\nkOp = "Op::kDouble"\n')
    replies = {"template.kWidth": ["4"], "plan.block": ['["no ("]', '["min(d, 64)"]']}
    monkeypatch.setattr("sys.stdin", io.StringIO("\n" * 60))
    asked: list[str] = []

    def reply(shown: str, **_: object) -> str:
        asked.append(shown)
        waiting = replies.get(shown.partition(" ")[0])
        return waiting.pop(0) if waiting else ""

    monkeypatch.setattr("click.prompt", reply)
    assert main(["new", str(tmp_path / "task"), "--answers", str(file), "--ask"]) == 0
    assert not any(replies.values())
    said = capsys.readouterr().err
    assert "no expression of a launch plan" in said
    assert "    12 |   scale<float, Op::kHalve, kWidth, int><<<n, opaque[d]>>>" in said
    assert "args.x.role [in]" in asked
    assert "args.x.role: one of in, out, inout" in said
    text = (tmp_path / "task" / "baseline.cu").read_text()
    assert '"Op::kDouble", 4, int32> grid=n block=min(d, 64)' in text
    parse_plan(text.partition("@launch")[2].partition("*/")[0])


_KEYS = st.sampled_from(["template.T", "args.x.limit", "launch", "rows", "plan.shared", "dtypes"])


@given(_KEYS, st.text(max_size=12))
@settings(max_examples=60, deadline=None)
def test_any_answer_is_kept_as_given_or_refused(key: str, text: str) -> None:
    try:
        answers = Answers().with_answers({key: text})
    except UserError:
        return
    assert answers.keys() in ((key,), ())  # An answer may say what is drafted anyway.
    assert read_answers(answers.text(), "answers.toml") == answers


def test_a_point_shows_the_key_that_answers_it() -> None:
    assert str(OpenPoint("T: say its type", "dtypes")) == "T: say its type [dtypes]"
    assert str(OpenPoint("left out: main()")) == "left out: main()"


MEMBERS = """
#include <cuda_fp16.h>
template <typename scalar_t>
__global__ void scale(scalar_t* out, const scalar_t* x, const float* unused, int d, float by,
                      float bias) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < d) out[blockIdx.y * d + i] = scalar_t(float(x[blockIdx.y * d + i]) * by + bias);
}
void launch(void* out, const void* x, int rows, int d, float by, float bias, bool is_half) {
  dim3 grid, block;
  block.x = 128;
  grid.y = rows;
  grid.x = (d + block.x - 1) / block.x;
  if (is_half) {
    using scalar_t = __half;
    scale<scalar_t><<<grid, block>>>((scalar_t*)out, (const scalar_t*)x, opaque(), d, by, bias);
  } else {
    using scalar_t = float;
    scale<scalar_t><<<grid, block>>>((scalar_t*)out, (const scalar_t*)x, opaque(), d, by, bias);
  }
}
"""


def test_a_grid_is_filled_member_by_member_and_what_the_plan_fixes_is_not_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, 'from = "scale.cu"\n[plan.args]\nby = "0.5"\n')
    (tmp_path / "scale.cu").write_text(MEMBERS)
    assert main(["new", str(tmp_path / "task"), "--answers", str(file), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["problems"] == []
    points = {point["key"]: point for point in said["open_points"]}
    assert "args.by" not in points, "the plan passes 0.5"
    assert points["args.bias"]["guesses"][0]["value"] == "[1.0, 0.5]"
    assert points["args.x"]["line"] == 7
    text = (tmp_path / "task" / "baseline.cu").read_text()
    assert "grid=(ceil_div(d, 128), rows) block=128" in text
    assert "args=(out, x, unused, d, 0.5, bias)" in text
    task = load_task(tmp_path / "task")
    assert "by" not in task.args
    assert [d.value for d in task.dtypes] == ["float16", "float32"]
    toml = (tmp_path / "task" / "task.toml").read_text()
    assert 'shape = ["rows", "d"]  # a guess: no index in the kernel shows it' in toml
    assert 'rtol = 0.001953125\nsource = "four roundings to the type; confirm"' in toml


CHOOSING = """
#include <cuda_fp16.h>
#include <cstdint>
template <typename T>
__global__ void negate_wide(T* out, const T* in, int d) {
  auto* to = reinterpret_cast<uint4*>(out + int64_t(blockIdx.x) * d);
  auto* from = reinterpret_cast<const uint4*>(in + int64_t(blockIdx.x) * d);
  for (int i = threadIdx.x; i < d / 8; i += blockDim.x) {
    const unsigned sign = 0x80008000u;
    const uint4 v = from[i];
    to[i] = make_uint4(v.x ^ sign, v.y ^ sign, v.z ^ sign, v.w ^ sign);
  }
}
template <typename T>
__global__ void negate(T* y, const T* x, int n) {
  const int64_t row = int64_t(blockIdx.x) * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[row + i] = -x[row + i];
}
void launch(__half* out, const __half* in, int rows, int d) {
  if (d > 4096) return;
  auto to = reinterpret_cast<uintptr_t>(out);
  auto from = reinterpret_cast<uintptr_t>(in);
  bool is_wide = d % 8 == 0 && to % 16 == 0 && from % 16 == 0;
  if (is_wide) {
    negate_wide<__half><<<rows, 128>>>(out, in, d);
  } else {
    negate<__half><<<rows, 256>>>(out, in, d);
  }
}
"""


def test_a_launcher_that_chooses_drafts_to_branches_and_a_check_takes_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "negate.cu").write_text(CHOOSING)
    task = tmp_path / "task"
    new = ["new", str(task), "--from", str(tmp_path / "negate.cu"), "--kernel", "negate_wide"]
    assert main([*new, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["problems"] == []
    assert not any("also launches" in point["text"] for point in said["open_points"])
    plan = (task / "baseline.cu").read_text()
    assert "when d <= 4096 and d % 8 == 0 and aligned(out, 16) and aligned(in_, 16):" in plan
    assert (
        "when d <= 4096:\n       negate<T> grid=rows block=256\n           args=(out, in_, d)"
        in plan
    )
    assert load_task(task).accepts_text == ("d >= 1", "rows >= 0", "d <= 4096")
    (task / "reference.py").write_text("def reference(in_):\n    return {'out': -in_}\n")
    assert main(["check", str(task), "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    launched = {
        kernel.partition("<")[0] for case in report["cases"] for kernel in case.get("kernels", ())
    }
    assert launched == {"negate_wide", "negate"}

    file = tmp_path / "one.toml"
    file.write_text('from = "negate.cu"\nkernel = "negate_wide"\nlaunch = 25\n')
    assert main(["new", str(tmp_path / "one"), "--answers", str(file)]) == 0
    assert "also launches negate" in capsys.readouterr().out


OVERLOADED = (
    CHOOSING.replace("negate_wide", "negate")
    .replace("template <typename T>", "template <typename T, int kWide>")
    .replace("void negate(T* out", "std::enable_if_t<(kWide > 0) && sizeof(T) == 2> negate(T* out")
    .replace("void negate(T* y", "std::enable_if_t<(kWide == 0)> negate(T* y")
    .replace("#include <cstdint>", "#include <cstdint>\n#include <type_traits>\n" + """
template <typename P> static bool is_wide_at(const P* p, int bytes) {
  auto at = reinterpret_cast<uintptr_t>(p);
  return at % bytes == 0;
}
static bool are_wide(const void* a, const void* b) {
  return is_wide_at(a, 16) && is_wide_at(b, 16);
}
""")
    .replace("to % 16 == 0 && from % 16 == 0", "are_wide(out, in)")
    .replace("negate<__half><<<rows, 128", "negate<__half, 8><<<rows, 128")
    .replace("negate<__half><<<rows, 256", "negate<__half, 0><<<rows, 256")
)  # fmt: skip


def test_overloads_are_told_apart_and_helpers_of_conditions_are_read() -> None:
    draft = drafted("negate", OVERLOADED, "negate.cu", "negate:15")
    text = draft.files["baseline.cu"]
    assert "when d <= 4096 and d % 8 == 0 and aligned(out, 16) and aligned(in_, 16):" in text
    assert "negate<T, 8> grid=rows block=128" in text
    assert "negate<T, 0> grid=rows block=256\n           args=(out, in_, d)" in text
    assert text.count("__global__") == 2
    plain = drafted("negate", OVERLOADED, "negate.cu", "negate:25").files["baseline.cu"]
    assert "negate<T, 0> grid=rows block=256" in plain.partition("@launch")[2].partition("*/")[0]
