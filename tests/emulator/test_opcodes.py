"""The table of PTX instructions: well-formed, and of one mind about what is emulated."""

from __future__ import annotations

import re

import pytest

from astra_tui.emulator import opcode_table
from astra_tui.emulator.opcode_table import (
    GENERAL_ADVICE,
    OPCODES,
    REFUSED,
    Opcode,
    RefusedOpcode,
    opcode_of,
    refusal,
)

_ALL = sorted(OPCODES.values(), key=lambda opcode: opcode.name)
_WORD = re.compile(r"[A-Za-z0-9_]+(::[A-Za-z0-9_]+)*")


def split(dotted: str) -> tuple[str, tuple[str, ...]]:
    """An operation and its modifiers, as the PTX parser gives them."""
    operation, *modifiers = dotted.split(".")
    return operation, tuple(modifiers)


def by_name(opcode: Opcode) -> str:
    return opcode.name


def by_prefix(refused: RefusedOpcode) -> str:
    return refused.prefix


def test_names_are_unique() -> None:
    names = [opcode.name for opcode in opcode_table._TABLE]
    assert len(set(names)) == len(names) == len(OPCODES)
    prefixes = [refused.prefix for refused in REFUSED]
    assert len(set(prefixes)) == len(prefixes)


@pytest.mark.parametrize("opcode", _ALL, ids=by_name)
def test_every_opcode_is_described(opcode: Opcode) -> None:
    assert all(_WORD.fullmatch(part) for part in opcode.name.split("."))
    assert opcode.group
    assert opcode.summary
    assert all(_WORD.fullmatch(modifier) for modifier in opcode.modifiers)


@pytest.mark.parametrize("opcode", _ALL, ids=by_name)
def test_every_opcode_runs_with_each_of_its_modifiers(opcode: Opcode) -> None:
    operation, modifiers = split(opcode.name)
    assert refusal(operation, modifiers) == ""
    assert opcode_of(operation, modifiers) is opcode
    for modifier in opcode.modifiers:
        assert refusal(operation, (*modifiers, modifier)) == ""
        assert opcode_of(operation, (*modifiers, modifier)) is opcode


@pytest.mark.parametrize("opcode", _ALL, ids=by_name)
def test_an_unknown_modifier_is_refused_by_name(opcode: Opcode) -> None:
    operation, modifiers = split(opcode.name)
    text = refusal(operation, (*modifiers, "zzz"))
    assert f"'{opcode.name}.zzz'" in text
    assert ".zzz is not known" in text
    assert GENERAL_ADVICE in text


@pytest.mark.parametrize(
    "instruction",
    [
        "add.rn.ftz.f32",
        "fma.rn.bf16x2",
        "mad.lo.s32",
        "mul.wide.u32",
        "ld.global.nc.L1::no_allocate.L2::128B.v4.u32",
        "ld.param.u64",
        "st.shared.v2.b32",
        "cvt.rn.f16.f32",
        "cvta.to.global.u64",
        "setp.ge.or.s32",
        "shfl.sync.bfly.b32",
        "bar.sync",
        "bar.warp.sync",
        "barrier.sync.aligned",
        "bar.red.popc.u32",
        "cp.async.cg.shared.global",
        "cp.async.ca.shared.global.L2::128B",
        "cp.async.commit_group",
        "cp.async.wait_group",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        "atom.global.add.f32",
        "red.global.add.f32",
        "red.release.gpu.global.add.u32",
        "membar.gl",
        "fence.acq_rel.gpu",
        "bra.uni",
        "ret",
    ],
)
def test_common_instructions_run(instruction: str) -> None:
    assert refusal(*split(instruction)) == ""


@pytest.mark.parametrize("refused", REFUSED, ids=by_prefix)
def test_every_refusal_says_what_it_is_and_what_to_do(refused: RefusedOpcode) -> None:
    for instruction in (refused.prefix, f"{refused.prefix}.b32"):
        text = refusal(*split(instruction))
        assert text == (
            f"the emulator does not run '{instruction}' ({refused.what}). {refused.advice}."
        )
    assert len(refused.advice) > len("Run")


@pytest.mark.parametrize("refused", REFUSED, ids=by_prefix)
def test_what_is_refused_is_not_emulated_too(refused: RefusedOpcode) -> None:
    assert refused.prefix not in OPCODES
    operation, modifiers = split(refused.prefix)
    opcode = opcode_of(operation, modifiers)
    if opcode is not None:
        assert not set(modifiers) <= opcode.modifiers | set(opcode.name.split("."))


@pytest.mark.parametrize("name", ["texture", "mbarriers", "st.asynchronous", "fns2", "wgmma2"])
def test_a_prefix_is_a_whole_word(name: str) -> None:
    assert all(refused.what not in refusal(*split(name)) for refused in REFUSED)


def test_what_nobody_knows_gets_general_advice() -> None:
    assert refusal("frobnicate", ("b32",)) == (
        f"the emulator does not run 'frobnicate.b32'. {GENERAL_ADVICE}."
    )
    assert opcode_of("frobnicate", ()) is None


def test_a_longer_name_wins() -> None:
    assert opcode_of("cp", ("async", "ca")) is OPCODES["cp.async"]
    assert opcode_of("cp", ()) is None
