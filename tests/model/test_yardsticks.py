"""yardsticks.toml: what it says, what is wrong with one, and the layout of parameters in C."""

from __future__ import annotations

import ctypes
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.dtypes import DType
from astra_tui.model.launch import validate_plan
from astra_tui.model.task import KernelTask, TaskError, load_task
from astra_tui.model.task.yardstick import (
    MachineCode,
    OutOfReach,
    ParameterType,
    Yardstick,
    load_yardsticks,
    parse_yardsticks,
)
from tests.quick import write_quick_task

TEXT = """\
[packages.tiny-kernels]
version = "1.2.0"
file = "tiny_kernels-1.2.0-py3-none-any.whl"
sha256 = "abababababababababababababababababababababababababababababababab"
licence = "Apache-2.0"
released = "2026-10-01"

[[yardsticks]]
name = "tiny"
about = "an example"
package = "tiny-kernels"
arch = "sm_90a"
parameters = ["pointer", ["pointer", "int32"], "pointer"]
launch = "grid=tokens block=256 args=(out, input, d, 0)"
requires = "d % 8 == 0"
pdl = true

[yardsticks.machine_code]
file = "tiny/ops.so"

[yardsticks.machine_code.symbols]
float16 = "_Z4tinyI6__halfEvPT_"
"""
C_TYPES: dict[ParameterType, Any] = {
    ParameterType.POINTER: ctypes.c_void_p,
    ParameterType.INT32: ctypes.c_int32,
    ParameterType.UINT32: ctypes.c_uint32,
    ParameterType.INT64: ctypes.c_int64,
    ParameterType.UINT64: ctypes.c_uint64,
    ParameterType.FLOAT32: ctypes.c_float,
}


@pytest.fixture
def task(tasks: dict[str, KernelTask]) -> KernelTask:
    return tasks["silu_and_mul"]


def test_a_yardstick_is_read(task: KernelTask) -> None:
    (yardstick,) = parse_yardsticks(TEXT, task)
    assert (yardstick.name, yardstick.kind, yardstick.pdl) == ("tiny", "machine code", True)
    assert str(yardstick.package) == "tiny-kernels 1.2.0"
    assert yardstick.code == MachineCode("tiny/ops.so", {DType.FLOAT16: "_Z4tinyI6__halfEvPT_"})
    assert yardstick.places() == ((0, 8), (8, 16), (24, 8))
    assert [leaf.offset for leaf in yardstick.leaves()] == [0, 8, 16, 24]
    assert yardstick.nulls == {3}


def test_its_plan_refuses_what_it_does_not_serve(task: KernelTask) -> None:
    (yardstick,) = parse_yardsticks(TEXT, task)
    for pdl in (False, True):
        plan = yardstick.plan(pdl)
        validate_plan(plan, task.scope)
        (launch,) = plan.launches()
        assert (launch.pdl is not None) is pdl
    assert 'refuse "tiny serves float16 where d % 8 == 0"' in yardstick.plan_text(False)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"tiny-kernels"\narch', '"tiny-kernel"\narch', 11, "did you mean 'tiny-kernels'"),
        ("abab", "ABAB", 1, "64 hexadecimal digits"),
        ("tiny_kernels-1.2.0", "tiny_kernels-1.3.0", 1, "no file of tiny-kernels 1.2.0"),
        ("2026-10-01", "October", 6, "is no day"),
        ("sm_90a", "hopper", 12, "no architecture"),
        ('"int32"]', '"int"]', 13, "'int' is no parameter type"),
        (", 0)", ")", 14, "passes 3 values, the parameters take 4"),
        ("input, d", "inptu, d", 14, "unknown name 'inptu'"),
        ("block=256", "block=", 14, "expected"),
        ("d % 8 == 0", "d % 8", 15, "true or false"),
        ("pdl = true", "pdl = 1", 16, "true or false"),
        ("tiny/ops.so", "../ops.so", 19, "no path inside"),
        ("float16 =", "float32 =", 22, "no type 'float32'"),
        ("_Z4tiny", "tiny<", 22, "mangled name"),
        ("about =", "abuot =", 8, "'about' is missing"),
        ("machine_code", "machinecode", 8, "should have one of"),
    ],
)
def test_mistakes_name_their_place(
    task: KernelTask, old: str, new: str, line: int, words: str
) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    with pytest.raises(TaskError) as raised:
        parse_yardsticks(text, task)
    assert raised.value.file.endswith("yardsticks.toml")
    assert words in raised.value.describe()
    assert raised.value.place.line == line


GENERATED = """\
[yardsticks.generated]
by = "cute_dsl"
constants = ["d"]
numbers = ["threads"]
text = "def generate(T, d): ..."
dtypes = ["float16"]
[yardsticks.generated.stand_ins]
"tiny.parts" = ""
"""


def test_a_generated_kernel_names_numbers_in_its_launch(task: KernelTask) -> None:
    text = TEXT[: TEXT.index("[yardsticks.machine_code]")].replace("=256", "=threads") + GENERATED
    (yardstick,) = parse_yardsticks(text, task)
    assert (yardstick.kind, yardstick.dtypes) == ("cute_dsl", (DType.FLOAT16,))
    assert yardstick.variant(DType.FLOAT16, {"tokens": 3, "d": 64}).constants == (("d", 64),)
    assert yardstick.plan_text(False).startswith("let threads = 1\n")
    assert yardstick.plan_text(True, {"threads": 96}).startswith("let threads = 96\n")
    for old, new, line, words in (
        ("cute_dsl", "cute", 19, "did you mean 'cute_dsl'"),
        ('["d"]', '["e"]', 20, "no dimension 'e'"),
        ('["threads"]', '["d"]', 14, "'d' already means"),
        ("d % 8 == 0", "d % 8", 15, "true or false"),
        ("tiny.parts", "../parts", 25, "not the name of a module"),
    ):
        with pytest.raises(TaskError) as raised:
            parse_yardsticks(text.replace(old, new), task)
        assert words in raised.value.describe()
        assert raised.value.place.line == line


def test_a_flag_that_names_files_is_refused(task: KernelTask) -> None:
    begin = TEXT.index("[yardsticks.machine_code]")
    source = '[yardsticks.source]\ntext = ""\nkernel = "k<T>"\ninclude = []\nflags = ["{}"]\n'
    assert parse_yardsticks(TEXT[:begin] + source.format("--use_fast_math"), task)
    for flag in ("--include-path=/etc", "--pre-include=/etc/passwd", "-DX=1 --dump"):
        with pytest.raises(TaskError, match="is refused"):
            parse_yardsticks(TEXT[:begin] + source.format(flag), task)


def test_the_bundled_files_are_read(tasks: dict[str, KernelTask]) -> None:
    found = {name: [y.name for y in load_yardsticks(task)] for name, task in tasks.items()}
    assert found == {
        "fused_add_rmsnorm": ["flashinfer", "sglang_aot", "flashinfer_cuda", "sglang_jit"],
        "merge_attn_states_lse": ["sglang_aot", "sglang_triton"],
        "silu_and_mul": ["sglang_jit", "sglang_aot", "flashinfer"],
    }


def test_the_same_package_has_the_same_pin_in_every_task(tasks: dict[str, KernelTask]) -> None:
    pins = {y.package for task in tasks.values() for y in load_yardsticks(task)}
    assert len(pins) == len({pin.name for pin in pins})


def test_a_task_without_the_file_has_none(tmp_path: Path) -> None:
    task = load_task(write_quick_task(tmp_path))
    task.yardsticks_file.unlink()
    assert load_yardsticks(task) == ()


PARAMETERS = st.recursive(
    st.sampled_from(ParameterType), lambda inner: st.lists(inner, min_size=1, max_size=4).map(tuple)
)


@given(st.lists(PARAMETERS, min_size=1, max_size=6).map(tuple))
def test_places_are_those_of_c(task_yardstick: Yardstick, parameters: Any) -> None:
    yardstick = dataclasses.replace(task_yardstick, parameters=parameters)
    structure = _structure(parameters)
    expected = [
        (getattr(structure, name).offset, ctypes.sizeof(kind)) for name, kind in structure._fields_
    ]
    assert list(yardstick.places()) == expected
    assert [leaf.offset for leaf in yardstick.leaves()] == list(_offsets(structure, 0))


@pytest.fixture(scope="module")
def task_yardstick(tasks: dict[str, KernelTask]) -> Yardstick:
    return parse_yardsticks(TEXT, tasks["silu_and_mul"])[0]


def _structure(parameters: Any) -> Any:
    fields = [
        (f"f{n}", C_TYPES[p] if isinstance(p, ParameterType) else _structure(p))
        for n, p in enumerate(parameters)
    ]
    return type("Structure", (ctypes.Structure,), {"_fields_": fields})


def _offsets(structure: Any, begin: int) -> Any:
    for name, kind in structure._fields_:
        offset = begin + getattr(structure, name).offset
        if issubclass(kind, ctypes.Structure):
            yield from _offsets(kind, offset)
        else:
            yield offset


def test_a_kernel_out_of_reach_needs_no_launch(task: KernelTask) -> None:
    head, _, _ = TEXT.partition("parameters =")
    text = head + '[yardsticks.out_of_reach]\nreason = "by Triton"\ndtypes = ["float16"]\n'
    (found,) = parse_yardsticks(text, task)
    assert (found.kind, found.code, found.leaves()) == (
        "out of reach",
        OutOfReach("by Triton", (DType.FLOAT16,)),
        (),
    )
    validate_plan(found.plan(False), task.scope)
