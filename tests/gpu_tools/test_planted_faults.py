"""The faults that benchmarks/gpu_tools.py plants are there: the emulator finds each at its line."""

from __future__ import annotations

import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.execution import resolve_case, run_case
from astra_tui.lab.check.inputs import draw_inputs, scalars_of
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.on_gpu.sanitizing import cases_to_sanitize
from astra_tui.model.findings import Finding, FindingKind, SanitizerTool
from astra_tui.model.launch import ResolvedPlan
from astra_tui.model.task import KernelTask
from benchmarks.gpu_tools import FAULTS, TOOL_OF_FAULT
from tests.gpu_tools.conftest import compile_for_suite


@pytest.mark.parametrize(
    ("fault", "kind", "line"),
    [
        ("out_of_bounds", FindingKind.GLOBAL_OUT_OF_BOUNDS, "(float)input[token * 2 * d + column]"),
        ("uninitialised", FindingKind.UNINITIALISED_GLOBAL, "(float)out[i]"),
        ("shared_race", FindingKind.SHARED_RACE, "(threadIdx.x + 32) % 128"),
        ("divergent_barrier", FindingKind.EXITED_BEFORE_BARRIER, "__syncthreads();"),
        ("bad_mask", FindingKind.BAD_MASK, "__syncwarp(0x0000ffff);"),
    ],
)
def test_the_emulator_finds_it(
    silu: KernelTask, compiler: Compiler, fault: str, kind: FindingKind, line: str
) -> None:
    finding = first_finding(silu, compiler, fault)
    assert finding.kind is kind
    assert line in (FAULTS / f"{fault}.cu").read_text().splitlines()[finding.line - 1]


def test_every_planted_fault_has_its_tool() -> None:
    assert {file.stem for file in FAULTS.glob("*.cu")} == set(TOOL_OF_FAULT)
    assert set(TOOL_OF_FAULT.values()) == set(SanitizerTool)


def first_finding(task: KernelTask, compiler: Compiler, fault: str) -> Finding:
    compiled = compile_for_suite(task, FAULTS / f"{fault}.cu", compiler)
    case = cases_to_sanitize(task)[0]
    resolved = resolve_case(task, compiled.source, case, scalars_of(task, case))
    assert isinstance(resolved, ResolvedPlan)
    inputs = draw_inputs(task, case)
    run = run_case(task, compiled.source, compiled.compilation, resolved, case, inputs, Emulator())
    return run.findings[0]
