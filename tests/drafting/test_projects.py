"""Kernels of a project with headers, macros and launchers of its own: read, drafted, compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_tui.cli import main
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cuda_source.clang import read_translation
from astra_tui.drafting import draft_task
from astra_tui.lab.compiler.toolchain import find_toolchain
from astra_tui.model.launch import plan_of, print_expression
from astra_tui.model.task import load_task

pytestmark = pytest.mark.usefixtures("warm_processes")

INCLUDE = Path(__file__).parent / "sources" / "project" / "include"
RELU = INCLUDE / "toy" / "relu.cuh"
WIDTH = (
    "min(16 // sizeof(T), 16 if d % 16 == 0 else 8 if d % 8 == 0 else 4 if d % 4 == 0 "
    "else 2 if d % 2 == 0 else 1)"
)
THREADS = "64 if elements <= 1024 else 128 if elements <= 2048 else 256"


def test_a_translation_has_macros_expanded_and_every_declaration_in_its_place() -> None:
    found = read_translation(RELU, [INCLUDE], find_toolchain().include_dirs)
    assert [k.name for k in found.kernels()] == ["ReluKernel", "scale_kernel"]
    assert found.missing == ("framework/tensor.h",)
    by_name = {d.name: d for d in found.declarations if d.file == found.main}
    clip = by_name["clip"]
    assert clip.scope == ("toy", "detail")
    assert clip.is_device
    assert found.original(clip).startswith("TOY_DEVICE float clip(float x) { return x > 0.f")
    assert "case 8:" in by_name["Relu"].text
    assert "TOY_" not in by_name["Relu"].text
    (skipped,) = found.skipped
    assert clip.start > skipped[0]


@pytest.mark.parametrize(
    ("kernel", "launch", "arguments", "shapes"),
    [
        (
            "ReluKernel",
            f"toy::ReluKernel<({WIDTH}), T> grid=rows block=min(256, ceil_div(d, {WIDTH}))",
            "args=(out, in_, d, stride(in_, 0))",
            {"out": ("rows", "d"), "in_": ("rows", "d")},
        ),
        (
            # Names bound to a structure's members, and threads that a lambda chooses.
            "scale_kernel",
            f'toy::scale_kernel<T, "true"> grid=ceil_div(elements, {THREADS}) block={THREADS}',
            "args=({input, output, uint32 elements, float32 factor})",
            {"input": ("elements",), "output": ("elements",)},
        ),
        (
            # The kernel is chosen by functions, the check gives one size by another, and what the
            # first caller passes decides which branch is followed and which pointers are null.
            "gate_kernel",
            "when width_out % (16 // sizeof(T)) == 0 and width_out <= 4096 and aligned(input, 16) "
            "and aligned(output, 16):\n"
            '       toy::gate_kernel<T, "toy::Gate::kSquare", "false", "false"> '
            "grid=ceil_div(rows * (width_out // (16 // sizeof(T))), 128) block=128",
            "args=({input - width_out, output, null, uint32 width_out, uint32 rows, uint32 1, "
            "float32 scale})",
            {"input": ("rows", "width_out * 2"), "output": ("rows", "width_out")},
        ),
    ],
)
def test_a_draft_follows_the_launcher_and_compiles_with_the_headers_it_needs(
    kernel: str,
    launch: str,
    arguments: str,
    shapes: dict[str, tuple[str, ...]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "drafted"
    source = INCLUDE / "toy" / ("gate.cuh" if kernel == "gate_kernel" else "relu.cuh")
    command = ["new", str(folder), "--from", str(source), "--kernel", kernel, "-I", str(INCLUDE)]
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["problems"] == []
    task = load_task(folder)
    text = task.baseline_file.read_text()
    plan_of(text)
    assert launch in text
    assert arguments in text
    assert [d.value for d in task.dtypes] == ["float16", "bfloat16"]
    found = {n: tuple(map(print_expression, task.args[n].shape)) for n in shapes}
    assert found == shapes
    assert "framework" not in text.partition("@launch")[0]
    assert not (folder / "upstream" / "toy" / "checks.h").exists()
    assert (folder / "upstream" / "toy" / "packs.cuh").exists() == ("Pack" in text)


def test_a_header_that_is_not_found_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "lonely.cu"
    source.write_text('#include "mine.h"\n__global__ void k(Mine* x) { x[0] = 1; }\n')
    asked = ["new", str(tmp_path / "lonely"), "--from", str(source), "--json"]
    assert main(asked) == ExitCode.UNFINISHED_DRAFT
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert any("mine.h" in problem for problem in problems)
    found = read_translation(source, [], find_toolchain().include_dirs)
    assert found.missing == ("mine.h",)
    assert any("lonely.cu:2: unknown type name 'Mine'" in error for error in found.errors)
    nowhere = ["-I", str(tmp_path / "none")]
    assert main(["new", str(tmp_path / "x"), "--from", str(source), *nowhere]) == 2
    assert "-I names no folder" in capsys.readouterr().err


def test_cudas_headers_come_before_those_of_the_project(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    (tmp_path / "load.cuh").write_text(
        "__device__ inline float load(half x) { return __half2float(x); }\n"
    )
    source.write_text(
        '#include <thrust/transform.h>\n#include "load.cuh"\n#include <cuda_fp16.h>\n'
        "__global__ void k(float* y, const half* x, int n) {\n"
        "  if (threadIdx.x < n) y[threadIdx.x] = load(x[threadIdx.x]);\n}\n"
    )
    translation = read_translation(source, [], find_toolchain().include_dirs)
    baseline = draft_task("k", translation).files["baseline.cu"]
    assert baseline.index("#include <cuda_fp16.h>") < baseline.index('#include "load.cuh"')
