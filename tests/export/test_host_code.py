"""Generated host code launches what the launch plan says, in both languages and for every task."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from astra_tui.export import Format, Subject, export_files
from astra_tui.export.cases import Artefact
from astra_tui.export.cpp_plan import cpp_plan
from astra_tui.export.formats import readme
from astra_tui.export.host import (
    HostAnswer,
    HostCheckFailed,
    cpp_answers,
    differences,
    expected,
    python_answers,
)
from astra_tui.lab.check.execution import read_source
from astra_tui.model.compilation import Compilation
from astra_tui.model.errors import UserError
from astra_tui.model.launch import DEVICE_ATTRIBUTES, Layout, PlanError, resolve
from astra_tui.model.launch.resolve import contiguous_strides
from astra_tui.model.launch.scope import Bindings
from astra_tui.model.task import KernelTask, parse_task
from tests.export.sessions import made_up, write_files
from tests.export.tasks import EVERYTHING, EVERYTHING_SOURCE

pytestmark = pytest.mark.usefixtures("warm_processes")

TASKS = ("silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse")


@pytest.fixture
def everything(tmp_path: Path) -> Subject:
    """A task and a plan that use all of the language."""
    folder = write_files(
        tmp_path / "everything",
        {"task.toml": EVERYTHING, "reference.py": "", "baseline.cu": EVERYTHING_SOURCE},
    )
    return subject(parse_task(EVERYTHING, folder), EVERYTHING_SOURCE)


def subject(task: KernelTask, text: str) -> Subject:
    """A source that is not compiled, on random calls."""
    plan = read_source(task, text, "winner.cu").plan
    return Subject(made_up(task, text), task, plan, tuple(random_calls(task, 250)))


def random_calls(task: KernelTask, count: int) -> list[Bindings]:
    """Calls with random sizes, alignments, distances of rows, and devices."""
    random_ = random.Random(task.name)
    return [_call(task, random_) for _ in range(count)]


def _call(task: KernelTask, random_: random.Random) -> Bindings:
    element = random_.choice(task.dtypes)
    sizes = (0, 1, 2, 7, 8, 16, 31, 64, 96, 128, 500, 4096, 32776, 100_000)
    dims = {name: random_.choice(sizes) for name in task.dims}
    layouts = {}
    for argument in task.tensors:
        dtype = task.dtype_of(argument, element)
        shape = task.shape_of(argument, dims, element)
        strides = contiguous_strides(shape)
        if argument.strided and 0 not in shape and shape[0] > 1 and random_.random() < 0.5:
            strides = (shape[-1] + random_.choice((1, 8)), 1)
        alignment = max(dtype.size, random_.choice((1, 2, 8, 16, 256)))
        layouts[argument.name] = Layout(alignment, strides)
    scalars = {
        a.name: 1e-5 if a.dtype is not None and a.dtype.is_float else random_.randint(-9, 9)
        for a in task.scalars
    }
    device = {**DEVICE_ATTRIBUTES, "sm_count": random_.choice((1, 108, 132))}
    return Bindings(element, dims, layouts, scalars, device)


def in_cpp(found: Subject, folder: Path, compiler: str) -> list[HostAnswer]:
    """What exported C++ answers to the subject's calls."""
    project = write_files(folder / "project", export_files(found, Format.CPP))
    return cpp_answers(found, project, folder, compiler, found.samples)


def in_python(found: Subject, folder: Path) -> list[HostAnswer]:
    """What an exported Python package answers."""
    files = export_files(compiled_to_nothing(found), Format.TORCH)
    modules = {
        f"package/{name}": files[f"astra_{found.task.name}/{name}"]
        for name in ("_plan.py", "_contract.py", "_host.py")
    }
    write_files(folder, modules)
    with Artefact("plan", folder / "package", found.task.name) as artefact:
        return python_answers(artefact, found.samples)


def compiled_to_nothing(found: Subject) -> Subject:
    """As if it had been compiled to nothing."""
    nothing = Compilation((), (), "", b"", "sm_90a", "", 0.0)
    return Subject(found.winner, found.task, found.plan, found.samples, (nothing,))


@pytest.mark.parametrize("name", TASKS)
def test_cpp_launches_what_the_plan_says(
    name: str, tasks: dict[str, KernelTask], tmp_path: Path, host_compiler: str
) -> None:
    task = tasks[name]
    found = subject(task, task.tuned_file.read_text(encoding="utf-8"))
    assert differences(found, found.samples, in_cpp(found, tmp_path, host_compiler)) == []


@pytest.mark.parametrize("name", TASKS)
def test_python_launches_what_the_plan_says(
    name: str, tasks: dict[str, KernelTask], tmp_path: Path
) -> None:
    task = tasks[name]
    found = subject(task, task.tuned_file.read_text(encoding="utf-8"))
    assert differences(found, found.samples, in_python(found, tmp_path)) == []


def test_all_of_the_language(everything: Subject, tmp_path: Path, host_compiler: str) -> None:
    answers = [expected(everything, call) for call in everything.samples]
    launched = [a.launches for a in answers if a is not None and a.launches]
    refused = [a for a in answers if a is not None and a.launches is None]
    faults = [a for a in answers if a is None]
    kernels = {launch[0] for launches in launched for launch in launches}
    assert len(kernels) > 8
    assert len(refused) > 10
    assert len(faults) > 3
    cpp = in_cpp(everything, tmp_path, host_compiler)
    python = in_python(everything, tmp_path)
    assert differences(everything, everything.samples, cpp) == []
    assert differences(everything, everything.samples, python) == []


BOUND = r"""#include "everything_plan.hpp"
#include <cstdio>

int main() {
  const std::int64_t sizes[][2] = {{3, 8}, {3, 17}, {8, 0}, {3, 0}};
  const std::int64_t apart[] = {16, 1};
  char memory[4096];
  const astra::Type half{astra::kFloat, 16}, single{astra::kFloat, 32}, whole{astra::kInt, 32};
  const astra::Tensor good[] = {{memory, 1, half, 2, sizes[0], apart},
                                {memory + 1024, 1, half, 2, sizes[1], nullptr},
                                {memory + 2048, 1, single, 1, sizes[2], nullptr},
                                {memory + 3072, 1, whole, 1, sizes[3], nullptr}};
  const auto a = astra_everything::bound(good, 0.5, 7);
  std::printf("%d %d %d %d %d %g %d %d\n", a.dtype, int(a.n), int(a.m), int(a.out_strides[0]),
              int(a.out_strides[1]), a.eps, int(a.count), int((const char*)a.flags - memory));
  for (int wrong = 1; wrong < 8; ++wrong) {
    astra::Tensor given[] = {good[0], good[1], good[2], good[3]};
    if (wrong == 1) given[3].device = 0;
    if (wrong == 2) given[1].axes = 1;
    if (wrong == 3) given[0].type = whole;
    if (wrong == 4) given[2].type = half;
    if (wrong == 5) given[1].sizes = sizes[0];
    if (wrong == 6) given[1].strides = apart;
    if (wrong == 7) given[2].data = memory + 1;
    try {
      astra_everything::bound(given, 0.5, 7);
      astra_everything::require_apart(given);
    } catch (const astra::Misfit& misfit) {
      std::printf("%s %s\n", misfit.argument.c_str(), misfit.problem.c_str());
    }
  }
}
"""


def test_tensors_become_the_arguments_of_a_call(
    everything: Subject, tmp_path: Path, host_compiler: str
) -> None:
    write_files(tmp_path, {**export_files(everything, Format.CPP), "main.cpp": BOUND})
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "main.cpp", "-o", "main"]
    subprocess.run([host_compiler, *options], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "1 3 8 16 1 0.5 7 3072",
        "flags is on another device",
        "x has the shape (3); it should have 2 axes",
        "T is int32; it can be float16, float32",
        "bias is float16; it should be float32",
        "x has the shape (3, 8); it should be (3, 17)",
        "x is not contiguous",
        "out and bias share memory",
    ]


@pytest.mark.parametrize("name", TASKS)
def test_the_call_of_the_readme_compiles(
    name: str, tasks: dict[str, KernelTask], tmp_path: Path, host_compiler: str
) -> None:
    found = subject(tasks[name], tasks[name].tuned_file.read_text(encoding="utf-8"))
    text = readme(found, Format.CPP, ())
    include, call = text.partition("```cpp\n")[2].partition("```")[0].split("\n\n")
    declared = [f"std::int64_t {d}" for d in found.task.dims]
    declared += [
        f"{'void*' if a.is_tensor else 'double'} {a.name}" for a in found.task.args.values()
    ]
    program = f"#include <cstdint>\n#include <cstdio>\n{include}\nusing std::puts;\n"
    program += f"void call({', '.join(declared)}, CUstream_st* stream) {{\n{call}}}\n"
    program = program.replace("= ...;", "= 64;")
    write_files(tmp_path, {**export_files(found, Format.CPP), "call.cpp": program})
    options = ["-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "call.cpp"]
    subprocess.run([host_compiler, *options], cwd=tmp_path, check=True)


def test_a_difference_is_seen(everything: Subject) -> None:
    nothing = [HostAnswer(())] * len(everything.samples)
    assert len(differences(everything, everything.samples, nothing)) > 100


def test_a_kernel_that_no_sample_needed_is_not_there(everything: Subject) -> None:
    calls = cpp_plan(everything).calls
    assert any(call.kernel == "by_width<__half, 64>" for call in calls)
    assert not any(call.kernel == "by_width<__half, 65>" for call in calls)


def test_workspaces_are_bounded_together(
    tasks: dict[str, KernelTask], tmp_path: Path, host_compiler: str
) -> None:
    task = tasks["silu_and_mul"]
    text = """/* @launch
      workspace a: float32[2000000000]
      workspace b: float32[tokens, 100000]
      k<T> grid=1 block=1 args=(out, input, a, b) */"""
    found = subject(task, text)
    told = [expected(found, call) for call in found.samples]
    assert 0 < sum(answer is None for answer in told) < len(told)
    cpp, python = in_cpp(found, tmp_path, host_compiler), in_python(found, tmp_path)
    assert [a.launches is None for a in cpp] == [a.launches is None for a in python]
    assert all(c.launches is None for a, c in zip(told, cpp, strict=True) if a is None)
    assert differences(found, found.samples, cpp) == []


def test_template_text_cannot_become_host_code(tasks: dict[str, KernelTask]) -> None:
    task = tasks["silu_and_mul"]
    text = """/* @launch
      k<T, "0>, l, stream); system(x); f(&g<0"> grid=1 block=1 args=(out, input, d) */"""
    with pytest.raises(UserError, match="cannot become host code"):
        cpp_plan(subject(task, text))


def test_host_code_that_does_not_compile_is_named(
    everything: Subject, tmp_path: Path, host_compiler: str
) -> None:
    project = write_files(tmp_path / "project", export_files(everything, Format.CPP))
    (project / "astra_host.hpp").write_text("#error broken\n", encoding="utf-8")
    with pytest.raises(HostCheckFailed, match="broken"):
        cpp_answers(everything, project, tmp_path, host_compiler, everything.samples)


def test_a_plan_that_is_at_fault_says_nothing(everything: Subject) -> None:
    call = next(c for c in everything.samples if expected(everything, c) is None)
    with pytest.raises(PlanError):
        resolve(everything.plan, call)
