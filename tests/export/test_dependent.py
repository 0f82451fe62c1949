"""Programmatic dependent launch in exports: when, how, and what callers are told of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from astra_tui.export import Format, Subject, export_files
from astra_tui.export.artefact import template
from astra_tui.export.host import differences, expected
from astra_tui.model.task import KernelTask, parse_task
from tests.export.sessions import WAIT, tuned, write_files
from tests.export.tasks import EVERYTHING
from tests.export.test_host_code import compiled_to_nothing, in_cpp, in_python, subject

pytestmark = pytest.mark.usefixtures("warm_processes")

TEMPLATES = ("_driver.py", "_host.py", "astra_host.hpp", "astra_launch.cuh")

# -- when ------------------------------------------------------------------------------------------

_NUMBERS = st.sampled_from(
    ("n", "m", "n % 8", "m // 16", "-n % 3", "n * m", "stride(x, 0)", "sm_count", "0", "64", "4096")
)
_TESTS = st.builds(
    "{} {} {}".format, _NUMBERS, st.sampled_from(("<", "<=", "==", "!=", ">")), _NUMBERS
)
_ATOMS = _TESTS | st.sampled_from(("true", "false", "aligned(x, 16)", "T == float16", "wide"))
CONDITIONS = st.recursive(
    _ATOMS,
    lambda inner: (
        st.builds("({} and {})".format, inner, inner)
        | st.builds("({} or {})".format, inner, inner)
        | st.builds("not ({})".format, inner)
    ),
    max_leaves=6,
)
"""Conditions over the names of the task `everything`, none of which is ever an error."""

ONCE = settings(deadline=None, max_examples=2, phases=[Phase.generate])
"""Every example is a compilation of a plan with many conditions."""


@ONCE
@given(conditions=st.lists(CONDITIONS, min_size=30, max_size=30))
def test_conditions_are_those_of_the_plan(
    conditions: list[str], tmp_path_factory: pytest.TempPathFactory, host_compiler: str
) -> None:
    launches = "\n".join(
        f"   k grid=({4 * n + 4}, 2) block=1 cluster=(4 if {c} else 1) args=(flags) pdl=({c})"
        for n, c in enumerate((*conditions, "true", "wide"))
    )
    text = f"/* @launch\n   let wide = m % 16 == 0\n{launches}\n*/"
    folder = tmp_path_factory.mktemp("everything")
    write_files(folder, {"task.toml": EVERYTHING, "reference.py": "", "baseline.cu": text})
    found = subject(parse_task(EVERYTHING, folder), text)
    told = [expected(found, call) for call in found.samples]
    early = {launch[-2] for answer in told for launch in (answer and answer.launches) or ()}
    assert early == {False, True}
    assert differences(found, found.samples, in_cpp(found, folder, host_compiler)) == []
    assert differences(found, found.samples, in_python(found, folder)) == []


# -- how -------------------------------------------------------------------------------------------

RUNTIME = r"""
#include <cstdio>
#include <cstdlib>

#include "astra_launch.cuh"

struct Part { signed char few; double much; };
struct Params {
  Params(void* given, Part part) : out(given), part(part) {}
  void* out;
  const Part part;
};

extern "C" {
cudaError_t cudaGetDevice(int* device) { *device = 3; return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int device) {
  const char* major = std::getenv("MAJOR");
  *value = device == 3 && name == cudaDevAttrComputeCapabilityMajor ? std::atoi(major) : -1;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute name, int value) {
  const bool is_cluster = name == cudaFuncAttributeNonPortableClusterSizeAllowed;
  std::printf("allow %s%d\n", is_cluster ? "clusters " : "", value);
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** parameters,
                             size_t shared, cudaStream_t stream) {
  const Params& p = *static_cast<Params*>(parameters[2]);
  std::printf("struct %p %d %g %p\n", p.out, p.part.few, p.part.much, *(void**)parameters[3]);
  std::printf("launch %d (%u %u %u) (%u %u %u) %zu %p %d %g\n", function != nullptr, grid.x, grid.y,
              grid.z, block.x, block.y, block.z, shared, (void*)stream, *(int*)parameters[0],
              *(float*)parameters[1]);
  return cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** parameters) {
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& given = config->attrs[i];
    if (given.id == cudaLaunchAttributeClusterDimension) {
      const auto& sizes = given.val.clusterDim;
      std::printf("cluster %u %u %u\n", sizes.x, sizes.y, sizes.z);
      continue;
    }
    std::printf("attribute %d %d\n", given.id == cudaLaunchAttributeProgrammaticStreamSerialization,
                given.val.programmaticStreamSerializationAllowed);
  }
  return cudaLaunchKernel(function, config->gridDim, config->blockDim, parameters,
                          config->dynamicSmemBytes, config->stream);
}
}

void kernel(int, float, const Params, float*) {}

int main(int count, char** words) {
  const auto wide = static_cast<std::uint32_t>(count > 2 ? std::atoi(words[2]) : 1);
  const bool early = count > 1 && words[1][0] == 'e';
  const astra::Launch launch{0, {7, 2, 1}, {32, 4, 1}, 50000, {}, early, {wide, 2, 1}};
  auto* stream = reinterpret_cast<cudaStream_t>(0x77);
  astra::launch(&kernel, launch, stream, astra::Number(astra::Int(5)),
                astra::Number(astra::Real(0.5)),
                astra::Struct<24, 8>().put<void*>(0, static_cast<void*>(stream))
                    .put<signed char>(8, astra::Number(astra::Int(-7)))
                    .put<double>(16, astra::Number(astra::Int(3))),
                static_cast<void*>(nullptr));
}
"""


@pytest.fixture(scope="module")
def launcher(
    tmp_path_factory: pytest.TempPathFactory, host_compiler: str, cuda_headers: list[str]
) -> Path:
    """A program that launches, early if it has an argument, on a runtime that says what it does."""
    folder = tmp_path_factory.mktemp("launcher")
    headers = {name: template(name, attributes=True) for name in TEMPLATES}
    write_files(folder, {**headers, "main.cpp": RUNTIME})
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", *cuda_headers]
    command = [host_compiler, *options, "main.cpp", "-o", "launcher"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "launcher"


@pytest.mark.parametrize(
    ("pdl", "major", "early", "wide"),
    [(True, 9, True, 1), (True, 12, True, 8), (True, 8, False, 4), (False, 9, False, 2)],
)
def test_the_launcher_in_cpp(launcher: Path, pdl: bool, major: int, early: bool, wide: int) -> None:
    command = [launcher, "early" if pdl else "late", str(wide)]
    environment = {"MAJOR": str(major)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "allow 50000",
        *["allow clusters 1"] * (wide > 4),
        *["attribute 1 1"] * early,
        f"cluster {wide} 2 1",
        "struct 0x77 -7 3 (nil)",
        "launch 1 (7 2 1) (32 4 1) 50000 0x77 5 0.5",
    ]


# -- what callers are told -------------------------------------------------------------------------

RMSNORM = """/* @launch
   k<T> grid=1 block=1 args=(x, weight) pdl=true */
template <typename T> __global__ void k(T* x, const T* weight) {@CALL@}"""


def told(found: Subject) -> Iterator[str]:
    """The header in C++ and the docstring in Python, each as one line without marks of comments."""
    name = found.task.name
    header = str(export_files(found, Format.CPP)[f"{name}.h"])
    package = export_files(compiled_to_nothing(found), Format.TORCH)
    for text in (header, str(package[f"astra_{name}/__init__.py"])):
        yield " ".join(text.replace("\n//", "\n").split())


def test_callers_are_told_what_is_read_early(tasks: dict[str, KernelTask]) -> None:
    found = subject(tasks["fused_add_rmsnorm"], RMSNORM.replace("@CALL@", WAIT))
    for text in told(found):
        assert "a kernel may begin before the kernel launched just before it" in text
        assert "reads none but weight: so the kernel launched just before a call must not" in text
        assert "The source uses cudaGridDependencySynchronize, which needs sm_90 or later" in text


def test_callers_are_told_that_nothing_is_read_early(tasks: dict[str, KernelTask]) -> None:
    source = "/* @launch\n k<T> grid=1 block=1 args=(input, out) pdl=true */"
    for text in told(subject(tasks["silu_and_mul"], source)):
        assert "have ended, a call neither reads nor writes a tensor." in text
        assert "sm_90 or later" not in text


def test_several_arguments_are_named_in_one_sentence(tasks: dict[str, KernelTask]) -> None:
    task = tasks["fused_add_rmsnorm"]
    for count, names in enumerate(("x", "x and residual", "x, residual and weight"), start=1):
        stable = set(list(task.args)[:count])
        args = {n: replace(a, stable=n in stable) for n, a in task.args.items()}
        found = subject(task, RMSNORM)
        for text in told(replace(found, task=replace(task, args=args))):
            assert f"reads none but {names}: so the kernel" in text


@pytest.mark.parametrize("name", ["silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse"])
def test_exports_without_it_do_not_speak_of_it(tasks: dict[str, KernelTask], name: str) -> None:
    found = subject(tasks[name], tuned(tasks[name]))
    files = {**export_files(found, Format.TVM_FFI)}
    files |= export_files(compiled_to_nothing(found), Format.TORCH)
    for content in files.values():
        assert "pdl" not in str(content)
        assert "dependent" not in str(content).lower()


@pytest.mark.parametrize("file", TEMPLATES)
def test_no_mark_is_left_in_a_template(file: str) -> None:
    for attributes in (False, True):
        text = template(file, attributes=attributes)
        assert ("pdl" in text) == ("cluster" in text) == attributes
        assert not {"<attributes>", "</attributes>", "<plain>", "</plain>"} & set(text.split())
