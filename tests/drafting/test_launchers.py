"""Launches that stand elsewhere than in the kernel's file: in C++ of its project, or in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_tui.cli.drafting import find_kernel
from astra_tui.cuda_source.launchers import find_launcher, writing_functions
from astra_tui.drafting import Draft, draft_task
from astra_tui.drafting.answers import Answers

GATE = """
#pragma once
namespace toy {
template <typename T, float (*Act)(const float&), int kVec>
__global__ void gate_kernel(T* out, const T* input, int d) {
  for (int i = threadIdx.x; i < d; i += blockDim.x)
    out[blockIdx.x * d + i] =
        Act(input[blockIdx.x * 2 * d + i]) * (float)input[blockIdx.x * 2 * d + d + i];
}
}
"""
LAUNCH = """
#include <toy/gate.cuh>
#include "tensors.h"
__device__ inline float NAME(const float& x) { return x > 0 ? x : 0.5f * x; }
void NAME_gate(TensorView out, TensorView input) {
  int d = input.size(1) / 2;
  DISPATCH(input.dtype(), c_type, [&] {
    auto launch = [&](auto tag) {
      auto kernel = toy::gate_kernel<c_type, NAME, decltype(tag)::value>;
      kernel<<<input.size(0), 128>>>(static_cast<c_type*>(out.data_ptr()),
                                     static_cast<c_type*>(input.data_ptr()), d);
    };
    if (d % 4 == 0) {
      launch(std::integral_constant<int, 4>{});
    } else {
      launch(std::integral_constant<int, 1>{});
    }
    return true;
  });
}
"""
GENERATOR = '''
import jinja2
import torch
from torch.utils.cpp_extension import load

from . import places
from .core import build

TEMPLATE = r"""{% set func = name ~ '_gate' %}
LAUNCH
"""
NAMES = {"leaky": 1, "hard": 2}


class Module(torch.nn.Module):
    pass


def source(name: str, number: int) -> str:
    assert torch.cuda.get_device_capability() >= (9, 0)
    return jinja2.Template(TEMPLATE).render(name=name)


@torch.library.custom_op("toy::gate", mutates_args=())
def gate_module(name: str):
    file = places.FOLDER / f"{name}.cu"
    build(file, source(name, NAMES[name]))
    return load(name, [file])
'''.replace("LAUNCH", LAUNCH.replace("NAME_gate", "{{ func }}").replace("NAME", "{{ name }}"))
ROWS = """
template <int kDim, bool kFast, typename T>
__global__ void row_kernel(T* out, const T* in, int rows) {
  if (blockIdx.x < rows) out[blockIdx.x * kDim + threadIdx.x] = in[blockIdx.x * kDim + threadIdx.x];
}
template <int kDim, bool kFast, typename T>
struct RowKernel {
  static void run(TensorView out, TensorView in) {
    int rows = in.size(0);
    row_kernel<kDim, kFast, T><<<rows, kDim>>>((T*)out.data_ptr(), (const T*)in.data_ptr(), rows);
  }
};
"""
NAMING = """
import torch
from toy.core import build


def row_module(dim: int, dtype: torch.dtype, fast: bool = True):
    if dim % 96 or dim > 400:
        raise RuntimeError(f"no {dim}")
    args = ", ".join([str(dim), str(fast).lower(), "half"])
    return build("rows.cuh", "", wrappers=[("run", f"RowKernel<{args}>::run")])
"""
CORE = """
import missing_package


def build(file, text, wrappers=()):
    missing_package.compile(file, text, wrappers)
"""


def _project(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "pyproject.toml").touch()
    return folder


def _drafted(file: Path, **answers: object) -> Draft:
    given = Answers(source=str(file), **answers)  # type: ignore[arg-type]
    found = find_kernel(given, lambda _what: lambda _size: None)
    return draft_task("drafted", found.translation, found.kernel, (), given)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    files = {"gate.cuh": GATE, "jit.py": GENERATOR, "rows.cuh": ROWS, "rows.py": NAMING}
    files |= {"core.py": CORE, "__init__.py": "import nowhere", "places.py": "FOLDER = no_such"}
    return _project(tmp_path, {f"toy/{name}": text for name, text in files.items()})


def test_a_launcher_that_python_writes_is_rendered_and_followed(toy: Path) -> None:
    where = f"jit.py:{_line_of(GENERATOR, 'def gate_module')}, gate_module()"
    said = f"{where} writes the launch: the draft passes name = leaky, of leaky, hard"
    for name, asked in (("leaky", [said]), ("hard", [])):
        draft = _drafted(toy / "toy" / "gate.cuh", **({} if asked else {"python": {"name": name}}))
        text = draft.files["baseline.cu"]
        assert f'gate_kernel<T, "{name}", 4> grid=rows block=128' in text
        assert f'gate_kernel<T, "{name}", 1>' in text
        assert "when d % 4 == 0" in text
        assert f"float {name}(const float& x)" in text.partition("*/\n")[2]
        assert [p.text for p in draft.open_points if p.key == "python.name"] == asked


def test_template_arguments_that_python_names_are_passed(toy: Path) -> None:
    draft = _drafted(toy / "toy" / "rows.cuh")
    text = draft.files["baseline.cu"]
    assert 'row_kernel<dim, "true", T> grid=rows block=dim' in text
    assert "(dim == 96 or dim == 192 or dim == 384)" in text
    (asked,) = (p.text for p in draft.open_points if p.key == "template.kDim")
    assert f"which rows.py:{_line_of(NAMING, 'def row_module')}, row_module() passes" in asked


def test_a_generator_that_cannot_run_is_named_with_its_line(toy: Path) -> None:
    (toy / "toy" / "jit.py").write_text(GENERATOR.replace("NAMES[name]", "int(name)"))
    draft = _drafted(toy / "toy" / "gate.cuh")
    texts = [p.text for p in draft.open_points]
    line = _line_of(GENERATOR, "def gate_module")
    said = f"jit.py:{line}: gate_module() writes the launch and could not be run here (gate_module"
    assert any(said in text for text in texts)
    found = find_launcher(
        toy / "toy" / "gate.cuh", "gate_kernel", (), [toy], {"name": "leaky", "number": 1}
    )
    assert found is not None
    assert found.problem or "leaky" in found.text


def test_a_generator_reaches_no_other_file_and_starts_nothing(toy: Path, tmp_path: Path) -> None:
    secret, mark = tmp_path.parent / f"{tmp_path.name}-secret", tmp_path / "mark"
    secret.write_text("leaky_secret<<<1, 1>>>")
    tried = f"""
def gate_module(name: str = "x"):
    found = []
    for what in (lambda: open({str(secret)!r}).read(), lambda: open({str(mark)!r}, "w"),
                 lambda: __import__("subprocess").run(["true"])):
        try:
            found.append(what())
        except OSError:
            pass
    return "gate_kernel<<<1, 1>>> in gate.cuh " + str(found)
"""
    (toy / "toy" / "jit.py").write_text(tried)
    found = find_launcher(toy / "toy" / "gate.cuh", "gate_kernel", (), [toy / "toy"], {})
    assert found is not None
    assert found.text.endswith("gate.cuh []")
    assert not mark.exists()


def test_a_launch_in_another_file_of_the_project_is_followed(tmp_path: Path) -> None:
    files = {"gate.cuh": GATE, "gate.cu": LAUNCH.replace("NAME", "leaky"), "other.cu": "// none"}
    draft = _drafted(_project(tmp_path, files) / "gate.cuh")
    assert 'gate_kernel<T, "leaky", 4> grid=rows block=128' in draft.files["baseline.cu"]
    first = GATE.rstrip().count("\n") + 2
    said = f"the launch is read from {tmp_path / 'gate.cu'}: lines from {first} on are of that file"
    assert said in [p.text for p in draft.open_points]


def test_functions_that_may_write_a_launch_are_found_callers_first() -> None:
    found = writing_functions(GENERATOR, ["gate_kernel"])
    assert list(found) == ["gate_module", "source"]
    assert writing_functions("def broken(:", ["gate_kernel"]) == {}


def _line_of(text: str, mark: str) -> int:
    return text[: text.index(mark)].count("\n") + 1
