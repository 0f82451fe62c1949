"""The kernels with which a real GPU is tested do what they are for, as the emulator sees it."""

from __future__ import annotations

import numpy as np
import pytest

from astra_tui.emulator.device import Emulator
from astra_tui.lab.compiler import Compiler
from astra_tui.model.device import RunOutcome
from astra_tui.model.findings import FindingKind
from tests.gpu.kernels import buffers, launch, source_values
from tests.gpu.texts import COPY, ENDLESS, ILLEGAL, LARGE_STACK, MISALIGNED, SHARED


def emulate(compiler: Compiler, text: str, shared_bytes: int = 0) -> RunOutcome:
    compilation = compiler.compile(text, ("k",))
    assert compilation.ok, compilation.errors
    packed = launch(compilation, shared_bytes=shared_bytes)
    return Emulator(budget=5000).run(compilation, (packed,), buffers())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (ENDLESS, FindingKind.BUDGET),
        (ILLEGAL, FindingKind.GLOBAL_OUT_OF_BOUNDS),
        (MISALIGNED, FindingKind.MISALIGNED),
    ],
    ids=["endless loop", "illegal address", "misaligned"],
)
def test_a_faulty_kernel_has_its_fault(compiler: Compiler, text: str, kind: FindingKind) -> None:
    assert emulate(compiler, text).faults[0].kind is kind


def test_the_copy_is_right(compiler: Compiler) -> None:
    outcome = emulate(compiler, COPY)
    assert not outcome.faults
    np.testing.assert_array_equal(outcome.contents["out"].view(np.float32), source_values())


def test_the_kernel_with_shared_memory_is_right_with_little_of_it(compiler: Compiler) -> None:
    assert FindingKind.SHARED_OUT_OF_BOUNDS not in {
        f.kind for f in emulate(compiler, SHARED, shared_bytes=128).faults
    }


def test_the_large_stack_is_large(compiler: Compiler) -> None:
    compilation = compiler.compile(LARGE_STACK, ("k",))
    assert compilation.ok, compilation.errors
    every_thread = compilation.kernels[0].resources.stack * 132 * 2048
    assert every_thread > 120 << 30
