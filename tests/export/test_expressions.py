"""Expressions in C++ and in Python mean what they mean in a plan: same values, same errors."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from astra_tui.export.artefact import template
from astra_tui.export.cpp_expression import CppExpressions, bare, cpp_name, python_expression
from astra_tui.model.dtypes import DType
from astra_tui.model.launch import DEVICE_ATTRIBUTES
from astra_tui.model.launch.expression import Expression
from tests.model.helpers import (
    DIMS,
    THOROUGH,
    Valued,
    bindings,
    numbers_with_values,
    parse_expression,
    reals_with_values,
    truths_with_values,
)

ONCE = settings(
    deadline=None,
    max_examples=2,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow],
)
"""Every example is a compilation of many expressions."""

OVERFLOWING = (
    ("1e300 * n * 1e10", None),
    ("9223372036854775807 + n", None),
    ("-9223372036854775807 - 1", None),
)
"""Errors in a plan and in C++; Python's integers have no bound."""

FIXED = (
    ("n // m", 14),
    ("-n // m", -15),
    ("-n % m", 5),
    ("n % -m", -5),
    ("0 < m <= 7 < n", True),
    ("not (n < m or zero == 0) or T == float16", True),
    ("sizeof(T) * 8 if aligned(x, 2) else 1 // zero", 16),
    ("stride(x, 0) + sizeof(float64)", 15),
    ("true", True),
    ("false", False),
    ("n > m and true or false", True),
    ("(n if false else m) if true else zero", 7),
    ("aligned(x, 4) or aligned(y, 256) and not aligned(y, 512)", True),
    ("ceil_div(n, m) * max(1, min(n, m, sm_count))", 105),
    *OVERFLOWING,
    ("9223372036854775807 * (0 - 1) * 1", -9223372036854775807),
    ("1 / m", 1 / 7),
    ("1e-06 * n - (0.5 if n > m else 2.0) / -m", 1e-4 + 0.5 / 7),
    ("rsqrt(n) * sqrt(2) + 1 / rsqrt(4)", 0.1 * 2**0.5 + 2.0),
    ("1.0 / zero", None),
    ("rsqrt(zero)", None),
    ("sqrt(0.5 - m)", None),
    ("n // zero", None),
    ("ceil_div(0 - n, m)", None),
    ("aligned(x, n)", None),
)


def test_fixed_expressions_in_cpp(host_compiler: str) -> None:
    expressions = [(parse_expression(text), value) for text, value in FIXED]
    assert in_cpp(host_compiler, expressions) == [value for _, value in FIXED]


@ONCE
@given(
    valued=st.lists(
        numbers_with_values() | truths_with_values() | reals_with_values(), min_size=40, max_size=40
    )
)
def test_cpp_gives_the_values_of_the_plan(host_compiler: str, valued: list[Valued]) -> None:
    assert in_cpp(host_compiler, valued) == [value for _, value in valued]


@THOROUGH
@given(valued=numbers_with_values() | truths_with_values() | reals_with_values())
def test_python_gives_the_values_of_the_plan(valued: Valued) -> None:
    expression, value = valued
    if value is None:  # Python has no bounds, and only stops at divisions by zero.
        return
    assert in_python(expression) == value


@pytest.mark.parametrize(("text", "value"), [f for f in FIXED if f not in OVERFLOWING])
def test_fixed_expressions_in_python(text: str, value: object) -> None:
    try:
        got = in_python(parse_expression(text))
    except (ZeroDivisionError, HOST["PlanFault"]):
        got = None
    assert got == value


@pytest.mark.parametrize("name", ["int", "x_", "template", "astra", "x_x"])
def test_names_that_cpp_has_taken_are_changed(name: str) -> None:
    assert cpp_name(name) != name
    assert cpp_name(cpp_name(name)) != cpp_name(name)


def test_what_follows_from_the_type_is_computed() -> None:
    cpp = CppExpressions(DType.BFLOAT16, {"width": 8})
    assert cpp.write(parse_expression("width * sizeof(T)")) == "16"
    assert bare(cpp.write(parse_expression("n % width == 0"))) == "n % 8 == 0"
    assert cpp.never(parse_expression("n > 3 and T == float16"))
    assert not cpp.never(parse_expression("n > 3 or T == bfloat16"))
    assert cpp.never(parse_expression("n > 3 and false"))
    assert cpp.write(parse_expression("not false")) == "true"


def test_truth_values_are_those_of_python() -> None:
    assert python_expression(parse_expression("n == 1 or true")) == "n == 1 or True"
    assert python_expression(parse_expression("truest if false else m")) == "truest if False else m"


# -- in both languages -----------------------------------------------------------------------------


def _host() -> dict[str, Any]:
    """The module with which exported plans are written; dataclasses look for it by name."""
    module: dict[str, Any] = {"__name__": "_host"}
    sys.modules["_host"] = types.ModuleType("_host")
    exec(compile(template("_host.py"), "_host.py", "exec"), module)
    return module


HOST = _host()


def in_python(expression: Expression) -> object:
    """The value of an expression as an exported package computes it."""
    call = bindings()
    layouts = {
        name: HOST["Layout"](4096 + layout.alignment % 256, layout.strides)
        for name, layout in call.layouts.items()
    }
    named = {d.value: d.value for d in DType}
    names = {**HOST, **named, **DIMS, **DEVICE_ATTRIBUTES, **layouts, "T": "float16"}
    return eval(python_expression(expression), names)


def in_cpp(compiler: str, valued: Sequence[Valued]) -> list[object]:
    """The values of expressions as exported C++ computes them; None for a fault."""
    cpp = CppExpressions(DType.FLOAT16)
    lines = [f"  show([&] {{ return {_typed(cpp, e)}; }});" for e, _ in valued]
    names = {**DIMS, **DEVICE_ATTRIBUTES}
    declared = [f"  [[maybe_unused]] const astra::Int {n} = {v};" for n, v in names.items()]
    for name, layout in bindings().layouts.items():
        strides = ", ".join(map(str, layout.strides))
        address = 4096 + layout.alignment % 256
        declared.append(
            f"  [[maybe_unused]] const astra::Layout {name}{{{address}, {{{strides}}}}};"
        )
    program = _PROGRAM.replace("@BODY@", "\n".join([*declared, *lines]))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "astra_host.hpp").write_text(template("astra_host.hpp"), encoding="utf-8")
        (folder / "main.cpp").write_text(program, encoding="utf-8")
        command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "main.cpp", "-o", "main"]
        subprocess.run(command, cwd=folder, check=True)
        output = subprocess.run([folder / "main"], capture_output=True, text=True, check=True)
    return [_read(line) for line in output.stdout.split()]


def _typed(cpp: CppExpressions, expression: Expression) -> str:
    """An expression that is an Int or a bool, as wherever the generated code has one."""
    text = cpp.write(expression)
    is_number = text.lstrip("-").isdigit() or text.startswith("INT64_C")
    return f"astra::Int({text})" if is_number else text


def _read(word: str) -> object:
    if word.isalpha():
        return {"true": True, "false": False, "fault": None}[word]
    return float.fromhex(word) if "x" in word else int(word)


_PROGRAM = r"""
#include "astra_host.hpp"
#include <cstdio>

void print(astra::Int value) { std::printf("%lld\n", static_cast<long long>(value.value)); }
void print(astra::Real value) { std::printf("%a\n", value.value); }
void print(bool value) { std::printf(value ? "true\n" : "false\n"); }

template <typename F>
void show(F evaluate) {
  try {
    print(evaluate());
  } catch (const astra::Fault&) {
    std::printf("fault\n");
  }
}

int main() {
@BODY@
}
"""
