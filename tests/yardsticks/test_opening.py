"""Yardsticks of a package that is made here: built, refused, bound, and run on the emulator."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.execution import resolve_case, run_case
from astra_tui.lab.check.inputs import draw_inputs
from astra_tui.lab.check.judge import judge_output
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.compiler.headers import included_headers
from astra_tui.lab.on_gpu.workload import WorkloadBuffers
from astra_tui.lab.upstream import archive_tree
from astra_tui.lab.yardsticks import (
    NotBuilt,
    Shipped,
    generated,
    machine_code,
    open_yardstick,
)
from astra_tui.lab.yardsticks.timing import timed_versions
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.launch import DEVICE_ATTRIBUTES, Refused
from astra_tui.model.pin import Pin
from astra_tui.model.task import KernelTask, Workload, load_task
from astra_tui.model.task.yardstick import (
    Code,
    Generated,
    Generator,
    MachineCode,
    ParameterType,
    ShippedSource,
    Yardstick,
)
from astra_tui.packages import Archive, Packages
from tests.conftest import OracleHere
from tests.packages.wheels import keep_wheel, make_wheel, only_index, pin_of
from tests.quick import write_quick_task

pytestmark = pytest.mark.usefixtures("warm_processes")

POINTER, UINT32 = ParameterType.POINTER, ParameterType.UINT32
FLOAT32 = ParameterType.FLOAT32
# A kernel with a structure, beside a launcher as packages have them.
KERNELS = """\
#pragma once
#include "detail/math.cuh"
#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>
#include <cuda_fp16.h>
namespace tiny {
struct Params { const void* input; void* out; unsigned n; float scale; };
template <typename T> __global__ void act(Params p, const T* unused, unsigned d) {
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= p.n) return;
  const T* row = static_cast<const T*>(p.input) + (at / d) * 2 * d;
  const float gate = __half2float(row[at % d]), up = __half2float(row[at % d + d]);
  static_cast<T*>(p.out)[at] = __float2half(detail::silu(gate) * up + p.scale);
}
inline int launches() {
  static std::atomic<int> count{0};
  if (count.load() < 0) throw std::runtime_error(std::string("no") + "thing");
  return std::vector<int>().size();
}
}
"""
MATH = """\
#pragma once
#include "../limits.cuh"
namespace tiny::detail {
__device__ inline float silu(float x) { return x / (LIMIT + __expf(-x)); }
}
"""
FILES = {
    "tiny/include/tiny/act.cuh": KERNELS,
    "tiny/include/tiny/detail/math.cuh": MATH,
    "tiny/include/tiny/limits.cuh": "#define LIMIT 1.0f\n",
}
SOURCE = ShippedSource(
    text="#include <tiny/act.cuh>\n",
    kernel="tiny::act<T>",
    include=("tiny/include",),
    flags=("--use_fast_math",),
    stand_ins={},
    dtypes=(DType.FLOAT16,),
)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return only_index(monkeypatch, tmp_path / "index")


@pytest.fixture
def packages(tmp_path: Path, private_cache: Path) -> Packages:
    return Packages(private_cache / "packages")


@pytest.fixture
def task(tmp_path: Path) -> KernelTask:
    return load_task(write_quick_task(tmp_path / "kernels"))


def yardstick_of(pin: Pin, code: Code = SOURCE) -> Yardstick:
    return Yardstick(
        name="tiny",
        about="",
        package=pin,
        arch="sm_90a",
        launch="grid=ceil_div(tokens * d, 256) block=256 args=(input, out, tokens * d, 0, 0, d)",
        requires="d % 8 == 0",
        parameters=((POINTER, POINTER, UINT32, FLOAT32), POINTER, UINT32),
        pdl=True,
        code=code,
    )


def opened(
    index: Path, task: KernelTask, compiler: Compiler, packages: Packages, files: Mapping[str, str]
) -> Shipped | NotBuilt:
    yardstick = yardstick_of(keep_wheel(packages, make_wheel(index, files)))
    return open_yardstick(task, yardstick, compiler, "sm_90a", packages)


def shape_of(d: int) -> Workload:
    return Workload("", {"tokens": 3, "d": d}, DType.FLOAT16)


def cubins(shipped: Shipped) -> list[bytes]:
    return [kernel.compilation.cubin for kernel in shipped.kernels.values()]


def test_a_source_is_fetched_compiled_and_bound_to_a_workload(
    index, task, compiler, packages
) -> None:
    yardstick = yardstick_of(pin_of(make_wheel(index, FILES)))
    shipped = open_yardstick(task, yardstick, compiler, "sm_90a", packages)
    assert isinstance(shipped, Shipped)
    for pdl in (False, True):
        shape = shape_of(64)
        buffers = WorkloadBuffers(task, shape, 1)
        (kernel,) = buffers.bind(shipped.compiled(shape, pdl), DEVICE_ATTRIBUTES).kernels
        assert (kernel.grid, kernel.block, kernel.pdl) == ((1, 1, 1), (256, 1, 1), pdl)
        assert kernel.parameters == struct.pack("<QQIfQI", 0, 0, 192, 0.0, 0, 64)
        assert kernel.pointers == ((0, "input"), (8, "out"))
    assert "tiny" in kernel.symbol


def test_what_was_opened_once_needs_no_package(index, task, compiler, packages) -> None:
    shipped = opened(index, task, compiler, packages, FILES)
    shutil.rmtree(packages.folder)
    shutil.rmtree(index)
    again = open_yardstick(task, shipped.yardstick, compiler, "sm_90a", packages)
    assert isinstance(again, Shipped)
    assert cubins(again) == cubins(shipped)


def test_a_shape_that_it_does_not_serve_is_refused(index, task, compiler, packages) -> None:
    shipped = opened(index, task, compiler, packages, FILES)
    assert isinstance(shipped, Shipped)
    shape = shape_of(63)
    with pytest.raises(UserError, match="tiny serves float16 where d % 8 == 0"):
        WorkloadBuffers(task, shape, 1).bind(shipped.compiled(shape, False), DEVICE_ATTRIBUTES)


def test_one_that_waits_is_timed_with_and_without_dependent_launch(
    index, task, compiler, packages
) -> None:
    shipped = opened(index, task, compiler, packages, FILES)
    missing = NotBuilt(replace(shipped.yardstick, name="missing"), "not there")
    served = shape_of(64)
    found = list(timed_versions([shipped, missing], served, DEVICE_ATTRIBUTES))
    assert [v.name for v in found] == ["tiny", "tiny + pdl"]
    assert not list(timed_versions([shipped], shape_of(63), DEVICE_ATTRIBUTES))
    for version, pdl in zip(found, (False, True), strict=True):
        bound = WorkloadBuffers(task, served, 1).bind(version.compiled, DEVICE_ATTRIBUTES)
        assert [kernel.pdl for kernel in bound.kernels] == [pdl]


def test_on_the_emulator_it_computes_what_the_task_says(index, task, compiler, packages) -> None:
    flat = KERNELS.replace("Params p, const T* unused, unsigned d", "const T* i, T* o, unsigned d")
    flat = flat.replace("at >= p.n", "at >= gridDim.x * blockDim.x").replace("p.scale", "0.f")
    flat = flat.replace("static_cast<const T*>(p.input)", "i").replace(
        "static_cast<T*>(p.out)", "o"
    )
    flat = flat.replace("blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.x * d + threadIdx.x")
    pin = keep_wheel(packages, make_wheel(index, {**FILES, "tiny/include/tiny/act.cuh": flat}))
    yardstick = replace(
        yardstick_of(pin),
        launch="grid=tokens block=d args=(input, out, d)",
        requires="d <= 1024",
        parameters=(POINTER, POINTER, UINT32),
    )
    shipped = open_yardstick(task, yardstick, compiler, "sm_90a", packages)
    assert isinstance(shipped, Shipped), shipped
    ran = 0
    device, compiled = Emulator(), shipped.compiled(task.workloads[0], False)
    with OracleHere(task) as oracle:
        for case in build_suite(task):
            inputs = draw_inputs(task, case)
            resolved = resolve_case(task, compiled.source, case, inputs.scalars, device.attributes)
            if isinstance(resolved, Refused) or "typical" not in case.id:
                continue
            run = run_case(
                task, compiled.source, compiled.compilation, resolved, case, inputs, device
            )
            assert run.findings == ()
            expected = oracle.expected(case, inputs).outputs["out"]
            tolerance = task.tolerances[case.dtype]
            assert judge_output("out", run.outputs["out"], expected, case.dtype, tolerance).ok
            ran += 1
    assert ran


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("float scale", "double scale", "takes parameters of 32 at 0, 8 at 32, 4 at 40 bytes"),
        ("if (at", "iff (at", "does not compile here: upstream/tiny/include/tiny/act.cuh("),
        ("detail/math.cuh", "detail/maths.cuh", "act.cuh(2): catastrophic error: cannot open"),
    ],
)
def test_what_cannot_be_built_says_why(
    index, task, compiler, packages, old: str, new: str, reason: str
) -> None:
    changed = KERNELS.replace(old, new)
    assert changed != KERNELS
    found = opened(index, task, compiler, packages, {**FILES, "tiny/include/tiny/act.cuh": changed})
    assert isinstance(found, NotBuilt)
    assert reason in found.reason


def test_another_device_and_a_missing_package_are_reasons(index, task, compiler, packages) -> None:
    pin = pin_of(make_wheel(index, FILES))
    other = open_yardstick(task, yardstick_of(pin), compiler, "sm_100a", packages)
    assert isinstance(other, NotBuilt)
    assert other.reason == "it is for sm_90a, the device is sm_100a"
    for made in index.iterdir():
        made.unlink()
    shutil.rmtree(packages.folder, ignore_errors=True)
    gone = open_yardstick(task, yardstick_of(pin), compiler, "sm_90a", packages)
    assert isinstance(gone, NotBuilt)
    assert "tiny-kernels 1.2.0 cannot be fetched" in gone.reason


# -- headers ---------------------------------------------------------------------------------------


def _headers(folder: Path, files: Mapping[str, str], text: str, include: tuple[str, ...], **given):
    made = make_wheel(folder, files)
    return included_headers(archive_tree(Archive(pin_of(made), made), include), text, given)


def test_headers_are_found_and_have_their_paths_as_names(tmp_path: Path) -> None:
    found = _headers(tmp_path, FILES, SOURCE.text, SOURCE.include, atomic="")
    assert found.names == {"tiny/act.cuh": "tiny/include/tiny/act.cuh"}
    root = "/upstream/tiny/include/tiny"
    assert set(found.headers) == {
        *(f"{root}/{name}" for name in ("act.cuh", "detail/math.cuh", "limits.cuh")),
        *("tiny/act.cuh", "atomic"),
    }
    assert found.headers["tiny/act.cuh"] == f'#include "{root}/act.cuh"\n'
    math = MATH.replace("../limits.cuh", f"{root}/limits.cuh")
    assert found.headers[f"{root}/detail/math.cuh"] == math


def test_one_name_may_mean_two_headers_and_stand_ins_come_first(tmp_path: Path) -> None:
    files = {"a/one.cuh": '#include "x.cuh"', "a/x.cuh": "A", "b/two.cuh": '#include "x.cuh"'}
    text = '#include <a/one.cuh>\n#include "b/two.cuh"'
    files["b/x.cuh"] = "B"
    found = _headers(tmp_path, files, text, (".",)).headers
    assert [found[f"/upstream/{folder}/x.cuh"] for folder in "ab"] == ["A", "B"]
    given = _headers(tmp_path, files, text, (".",), **{"x.cuh": "given"}).headers
    assert given["x.cuh"] == "given"
    assert given["/upstream/a/one.cuh"] == '#include "x.cuh"'


def test_no_name_leaves_the_package(tmp_path: Path) -> None:
    files = {"a/one.cuh": '#include "../../../etc/passwd"\n#include </etc/passwd>'}
    assert set(_headers(tmp_path, files, "#include <one.cuh>", ("a",)).headers) == {
        *("one.cuh", "/upstream/a/one.cuh")
    }


# -- machine code ----------------------------------------------------------------------------------

SCRIPT = """#!/bin/sh
# Stands for cuobjdump: the "library" is a cubin, which is found for both architectures.
[ "$1 $2" = "-xelf sm_90" ] || exit 9
cp "$3" library.1.sm_90.cubin
cp "$3" library.2.sm_90a.cubin
"""


ACT = "__global__ void act(const void* i, void* o, unsigned n, float s, void* u, unsigned d) {}"


@pytest.fixture
def shipped_cubin(compiler: Compiler) -> tuple[str, bytes]:
    compilation = compiler.compile(ACT + "__global__ void other() {}", ("act", "other"))
    return compilation.kernel("act").symbol, compilation.cubin


def test_machine_code_is_taken_out_once(
    index, task, compiler, packages, shipped_cubin, monkeypatch
) -> None:
    symbol, cubin = shipped_cubin
    pin = _fake_tool(index)
    monkeypatch.setattr(machine_code, "tool_pin", lambda: pin)
    made = make_wheel(index, {"tiny/ops.so": cubin})
    code = MachineCode("tiny/ops.so", {DType.FLOAT16: symbol})
    flat = (POINTER, POINTER, UINT32, FLOAT32, POINTER, UINT32)
    yardstick = replace(yardstick_of(pin_of(made), code), parameters=flat)
    shipped = open_yardstick(task, yardstick, compiler, "sm_90a", packages)
    assert isinstance(shipped, Shipped), shipped
    assert cubins(shipped) == [cubin]
    monkeypatch.setattr(machine_code, "_extract", None)
    again = open_yardstick(task, yardstick, compiler, "sm_90a", packages)
    assert isinstance(again, Shipped)


def test_a_kernel_that_is_not_there_names_the_nearest(
    index, task, compiler, packages, shipped_cubin, monkeypatch
) -> None:
    symbol, cubin = shipped_cubin
    pin = _fake_tool(index)
    monkeypatch.setattr(machine_code, "tool_pin", lambda: pin)
    code = MachineCode("tiny/ops.so", {DType.FLOAT16: symbol + "x"})
    yardstick = yardstick_of(pin_of(make_wheel(index, {"tiny/ops.so": cubin})), code)
    for wheel in index.iterdir():
        keep_wheel(packages, wheel)
    found = open_yardstick(task, yardstick, compiler, "sm_90a", packages)
    assert isinstance(found, NotBuilt)
    assert f"tiny/ops.so has no kernel {symbol}x" in found.reason
    assert found.hint == f"did you mean '{symbol}'?"


def _fake_tool(index: Path) -> Pin:
    files = {"nvidia/cu13/bin/cuobjdump": SCRIPT}
    return pin_of(make_wheel(index, files, "nvidia-cuda-cuobjdump", "1.0"))


# -- generated -------------------------------------------------------------------------------------

# Stands for Triton: it "assembles" by a program of its own, and gives machine code that is there.
TRITON = {
    "triton/__init__.py": "",
    "triton/backends/__init__.py": "",
    "triton/backends/compiler.py": "def GPUTarget(*of): return of",
    "triton/runtime/__init__.py": """
import types
driver = types.SimpleNamespace()
driver.set_active = lambda active: setattr(driver, "active", active)
""",
}
DESCRIBED = """
import os, socket, subprocess, types
from pathlib import Path
import helpers.of_others, torch, triton
from triton.runtime import driver
from .code import CUBIN

OUTSIDE = (
    lambda: open({canary!r}),
    lambda: open({canary!r} + ".new", "w"),
    lambda: socket.socket(),
    lambda: subprocess.run(["/bin/true"], check=True),
    lambda: os.kill(os.getppid(), 0),
)

def reached(action):
    try:
        action()
    except OSError:
        return 0
    return 1

def described(T, d):
    assert driver.active.get_current_target() == ("cuda", 90, 32)
    assert str(getattr(torch, T)) == "torch.float16"
    ptxas = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
    subprocess.run([ptxas], check=True)
    made = types.SimpleNamespace(
        metadata=types.SimpleNamespace(num_ctas=1), asm=dict(cubin=CUBIN, ptx=""))
    optin = torch.cuda.get_device_properties().shared_memory_per_block_optin
    return made, {{"threads": 128 * d // d, "reached": sum(map(reached, OUTSIDE)), "optin": optin}}
"""
GENERATED = Generated(
    by=Generator.TRITON,
    text="from tiny.described import described as generate\n",
    constants=("d",),
    numbers=("threads", "reached", "optin"),
    stand_ins={"helpers.of_others": "import sys\n"},
    dtypes=(DType.FLOAT16,),
)


@pytest.fixture
def described(compiler: Compiler) -> tuple[str, bytes]:
    fixed = ACT.replace("void act", "void __block_size__((128, 1, 1)) act")
    compilation = compiler.compile(fixed, ("act",))
    return compilation.kernel("act").symbol, compilation.cubin


@pytest.fixture
def describing(index, described, tmp_path, monkeypatch) -> dict[str, str]:
    """The files of a package that describes a kernel; what generates it is in the index."""
    program = {"triton/backends/nvidia/bin/ptxas": Path("/bin/true").read_bytes()}
    pin = pin_of(make_wheel(index, {**TRITON, **program}, "triton", "1.0"))
    monkeypatch.setattr(generated, "generator_pins", lambda _generator: (pin,))
    canary = tmp_path / "canary"
    canary.write_text("astra")
    return {
        "tiny/__init__.py": "raise ImportError('it needs everything')",
        "tiny/code.py": f"CUBIN = bytes.fromhex({described[1].hex()!r})",
        "tiny/described.py": DESCRIBED.format(canary=str(canary)),
    }


def generated_yardstick(made: Path, code: Generated = GENERATED) -> Yardstick:
    launch = "grid=tokens block=threads args=(input, out, reached, optin + 0.0, 0, d)"
    flat = (POINTER, POINTER, UINT32, FLOAT32, POINTER, UINT32)
    return replace(yardstick_of(pin_of(made), code), parameters=flat, launch=launch)


def test_a_kernel_is_generated_by_a_process_that_reaches_nothing_else(
    index, task, compiler, packages, describing, described, monkeypatch
) -> None:
    yardstick = generated_yardstick(make_wheel(index, describing))
    shipped = open_yardstick(task, yardstick, compiler, "sm_90a", packages)
    assert isinstance(shipped, Shipped), shipped
    shapes = [workload for workload in task.workloads if workload.dtype is DType.FLOAT16]
    assert len(shipped.kernels) == len({shape.dims["d"] for shape in shapes})
    monkeypatch.setattr(generated, "_Generation", None)
    again = open_yardstick(task, yardstick, compiler, "sm_90a", packages)
    assert isinstance(again, Shipped)
    for shape in shapes:
        compiled = again.compiled(shape, False)
        (kernel,) = WorkloadBuffers(task, shape, 1).bind(compiled, DEVICE_ATTRIBUTES).kernels
        d = shape.dims["d"]
        assert kernel.block == (128, 1, 1)
        assert kernel.parameters == struct.pack("<QQIfQI", 0, 0, 0, 232_448.0, 0, d)
        assert (kernel.symbol, compiled.compilation.cubin) == described
    with pytest.raises(UserError, match="tiny was not generated for float16, d = 64"):
        again.compiled(shape_of(64), False)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("assert str", "raise ValueError('no\\nway')#", "ValueError: no way (described.py:25)"),
        ("num_ctas=1", "num_ctas=2", "ValueError: it is launched in clusters of 2 blocks"),
        (
            '"optin":',
            '"other":',
            "gives the numbers threads, reached, other, yardsticks.toml names",
        ),
        ("import helpers", "os._exit(3); import helpers", "triton failed: exit code 3"),
        ("asm=dict(cubin=CUBIN", "asm=dict(cubin=CUBIN[:9]", "the cubin cannot be read"),
        ("128 * d", "64 * d", "takes blocks of (128, 1, 1), yardsticks.toml launches (64, 1, 1)"),
    ],
)
def test_what_cannot_be_generated_says_why(
    index, task, compiler, packages, describing, old: str, new: str, reason: str
) -> None:
    text = describing["tiny/described.py"]
    assert old in text
    made = make_wheel(index, {**describing, "tiny/described.py": text.replace(old, new)})
    for wheel in index.iterdir():
        keep_wheel(packages, wheel)
    found = open_yardstick(task, generated_yardstick(made), compiler, "sm_90a", packages)
    assert isinstance(found, NotBuilt)
    assert reason in found.reason


def test_generators_are_pinned_for_this_python() -> None:
    for generator in Generator:
        pins = generated.generator_pins(generator)
        assert not any(pin.problem for pin in pins)
        assert len({pin.name for pin in pins}) == len(pins)
