"""Machine code as a session stores it."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.lab.check.execution import read_source
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.explain.profile import profile_source
from astra_tui.lab.explain.sass import disassembly, nvdisasm
from astra_tui.model.sass import (
    Disassembly,
    InstructionClass,
    MalformedMachineCode,
    instructions_by_line,
    packed,
    unpacked,
)
from astra_tui.model.task import find_task
from astra_tui.model.verdict import Profiled
from astra_tui.sessions.journal_writer import Redactor


def profiled() -> Profiled:
    task = find_task("silu_and_mul")
    file = task.baseline_file
    with Compiler() as compiler:
        source = read_source(task, file.read_text(encoding="utf-8"), str(file))
        return profile_source(task, source, compiler)


def test_a_profile_comes_with_the_machine_code_of_its_kernels() -> None:
    found = profiled()
    code = unpacked(found.machine_code)
    assert [k.name for k in code.kernels] == [c.kernel for c in found.profile.code]
    assert [k.histogram for k in code.kernels] == [c.histogram for c in found.profile.code]


def test_every_instruction_that_runs_is_at_one_line() -> None:
    found = profiled()
    kernels = unpacked(found.machine_code).kernels
    lines = instructions_by_line(kernels)
    assert sum(map(len, lines.values())) == sum(c.instructions for c in found.profile.code)
    text = find_task("silu_and_mul").baseline_file.read_text(encoding="utf-8")
    assert len([n for n in lines if n]) > 3
    assert max(lines) <= len(text.splitlines())
    classes = {instruction.category for line in lines.values() for instruction in line}
    assert InstructionClass.GLOBAL_LOAD in classes
    assert InstructionClass.PADDING not in classes


def test_without_nvdisasm_the_profile_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> Path | None:
        return None

    monkeypatch.setattr(disassembly, "find_nvdisasm", nothing)
    found = profiled()
    assert found.machine_code == ""
    assert found.profile.missing == {"code": f"nvdisasm was not found {nvdisasm._REMEDY}"}


def test_without_machine_code_nothing_is_stored() -> None:
    assert packed(Disassembly((), "sm_90a", problem="nvdisasm was not found")) == ""


@given(st.binary(max_size=400))
def test_no_packed_text_looks_as_if_it_held_a_key(seed: bytes) -> None:
    code = Disassembly((), seed.hex())
    text = packed(code)
    assert not set("-_") & set(text)
    assert Redactor(environment={}).text(text) == text
    assert unpacked(text) == code


def test_a_text_with_hyphens_is_read_as_well() -> None:
    codes = [Disassembly((), f"sm_{number}") for number in range(100)]
    texts = [base64.b85encode(zlib.compress(msgspec.json.encode(c), 9)).decode() for c in codes]
    assert any("-" in text for text in texts)
    assert any("_" in text for text in texts)
    assert [unpacked(text) for text in texts] == codes


@given(st.text(max_size=40))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedMachineCode):
        unpacked(text)


DEEP = b'{"kernels": [], "arch": "", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}"


@pytest.mark.parametrize("content", [b"[]", b'{"kernels": 3, "arch": ""}', b"\xff", DEEP])
def test_other_contents_are_refused(content: bytes) -> None:
    with pytest.raises(MalformedMachineCode):
        unpacked(base64.b85encode(zlib.compress(content)).decode())


def test_a_text_that_would_fill_the_memory_is_refused() -> None:
    code = msgspec.json.encode(Disassembly((), "x" * (65 << 20)))
    with pytest.raises(MalformedMachineCode):
        unpacked(base64.b85encode(zlib.compress(code)).decode())
