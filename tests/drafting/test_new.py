"""The command `new`: odd files, choices of kernels, the way from a source to a passing check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.cli import main
from astra_tui.model.errors import UserError
from astra_tui.model.launch import plan_of
from tests.drafting.reading import drafted, texts

pytestmark = pytest.mark.usefixtures("warm_processes")

SOURCES = Path(__file__).parent / "sources"
SOFTMAX = (SOURCES / "softmax_rows.cu").read_text()

UNKNOWN = """
__global__ void k(float* y, const float* x, int n) {
  if (threadIdx.x < n) y[threadIdx.x] = sinf(x[threadIdx.x]);
}
void f(float* y, const float* x, int n) { k<<<1, 64>>>(y, x, n); }
"""


def test_from_a_source_to_a_passing_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "row_softmax"
    assert main(["new", str(folder), "--from", str(SOURCES / "softmax_rows.cu")]) == 0
    said = capsys.readouterr().out
    assert "looks like softmax" in said
    assert "write or confirm reference.py, then: astra-tui check" in said
    assert main(["check", str(folder), "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    assert len(report["cases"]) > 10


def test_a_reference_that_is_not_written_yet_fails_a_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "k.cu"
    source.write_text(UNKNOWN)
    assert main(["new", str(tmp_path / "sines"), "--from", str(source)]) == 0
    assert "write what the operator computes, in float64" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "sines"), "--json"]) != 0
    assert "reference.py is not written yet" in "".join(capsys.readouterr())


def test_windows_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    plain = drafted("softmax", SOFTMAX, "s.cu")
    windows = drafted("softmax", "\ufeff" + SOFTMAX.replace("\n", "\r\n"), "s.cu")
    assert windows == plain


def test_a_source_in_another_encoding_is_read_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "old.cu"
    source.write_bytes(b"// gr\xf6\xdfe\n" + SOFTMAX.encode())
    assert main(["new", str(tmp_path / "old"), "--from", str(source)]) == 0
    assert "line 1 of" in (said := capsys.readouterr().out)
    assert "no UTF-8" in said


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe_\0_\0", "zero bytes"),
        (b"__global__ void only_declared(float* x);\nint main() {}\n", "no __global__ function"),
        (b"", "no __global__ function"),
    ],
)
def test_what_is_no_kernel_is_refused_and_nothing_is_written(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, folder = tmp_path / "x.cu", tmp_path / "x"
    source.write_bytes(content)
    assert main(["new", str(folder), "--from", str(source)]) != 0
    assert message in (said := capsys.readouterr().err)
    assert "x.cu" in said
    assert not folder.exists()


def test_several_kernels_need_a_choice() -> None:
    text = (SOURCES / "attention_steps.cu").read_text()
    with pytest.raises(UserError) as error:
        drafted("attention", text, "a.cu")
    assert "scale_and_mask, row_statistics, weighted_sum" in error.value.hint
    with pytest.raises(UserError) as error:
        drafted("attention", text, "a.cu", "weighted_summ")
    assert error.value.hint == "did you mean 'weighted_sum'?"


def test_what_no_case_tries_is_left_to_decide() -> None:
    text = "__global__ void k(float* y, const float* x, int n) { y[threadIdx.x] = x[n - 1]; }"
    points = texts(drafted("k", text, "k.cu"))
    assert any(p.startswith("limit of x: the largest magnitude") for p in points), points


def test_what_no_plan_can_pass_is_named() -> None:
    text = "struct P { int n[2]; };\n__global__ void k(float* x, P p, float** y) { x[p.n[0]] = 0; }"
    points = " | ".join(texts(drafted("k", text, "k.cu")))
    assert "p is a P, which a draft cannot read: pass it in the plan" in points
    assert "y is a float**" in points
    assert "x: role out" in points
    assert "shape [n] is a guess" in points


def test_an_opaque_grid_is_named_with_its_line() -> None:
    text = (
        "__global__ void k(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 0; }\n"
        "void f(float* x, int n) { k<<<table[n], 64>>>(x, n); }\n"
    )
    draft = drafted("k", text, "k.cu")
    assert any("'table[n]' at line 2 could not be rewritten" in p for p in texts(draft))
    plan_of(draft.files["baseline.cu"])


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_a_damaged_source_gives_a_draft_or_an_error_for_the_user(data: st.DataObject) -> None:
    names = ["rope_inplace", "softmax_rows", "packed_add", "matmul_tiled"]
    text = (SOURCES / f"{data.draw(st.sampled_from(names))}.cu").read_text()
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(begin + 80, len(text))))
    damaged = text[:begin] + data.draw(st.sampled_from(["", "(", "}", "<", "*", "0"])) + text[end:]
    try:
        draft = drafted("damaged", damaged, "damaged.cu")
    except UserError:
        return
    assert set(draft.files) == {"task.toml", "reference.py", "baseline.cu"}
    assert draft.open_points


@pytest.mark.parametrize("name", ["bad name", "-x", "quant;rm", "class", "Softmax"])
def test_a_folder_that_no_task_can_be_named_after_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = tmp_path / name
    assert main(["new", str(folder), "--from", str(SOURCES / "softmax_rows.cu")]) == 2
    said = capsys.readouterr().err
    assert "is not a valid task name" in said
    assert ("softmax is one" in said) == (name == "Softmax")
    assert not folder.exists()


def test_dispatches_over_all_types_and_qualified_pointers_are_read() -> None:
    text = """
    #include <torch/extension.h>
    template <typename T>
    __global__ void k(const T *__restrict__ const x, T *__restrict__ const y, int64_t n) {
      const int64_t i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i] + x[i];
    }
    torch::Tensor f(torch::Tensor x) {
      x = x.view({x.size(0), -1}).contiguous();
      auto y = torch::empty({x.numel()}, x.options().dtype(torch::kFloat));
      AT_DISPATCH_ALL_TYPES_AND(at::ScalarType::Half, x.scalar_type(), "f", [&] {
        k<scalar_t><<<(y.numel() + 127) / 128, 128>>>(
            x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), y.numel());
      });
      return y;
    }"""
    draft = drafted("k", text, "k.cu")
    assert "grid=ceil_div(n, 128) block=128" in draft.files["baseline.cu"]
    assert 'dtypes = ["float16", "float32"]' in draft.files["task.toml"]
    assert "[args.x]" in draft.files["task.toml"]
    assert not [point for point in texts(draft) if "guess" in point]
