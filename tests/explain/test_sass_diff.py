"""Differences between two versions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.lab.compiler import Compiler
from astra_tui.lab.explain.sass import compare, compare_kernels
from astra_tui.model.sass import SassKernel
from astra_tui.model.task import KernelTask
from tests.explain.helpers import TASKS, disassembled, kernel_from_listing, kernel_from_source

SCALE = "__global__ void {name}(float* out, const float* in) {{ out[threadIdx.x] = {body}; }}"
_LINES = (
    "MOV R{0}, RZ", "FADD R{0}, R{1}, R{0}", "LDG.E R{0}, desc[UR4][R{1}.64]", "@P0 EXIT",
    "STG.E desc[UR4][R{1}.64], R{0}.reuse", "FMUL R{0}, R{1}, 2",
)  # fmt: skip
programs = st.lists(st.sampled_from(_LINES), min_size=1, max_size=25)


def _kernel(lines: list[str], shift: int = 0) -> SassKernel:
    return kernel_from_listing(*(line.format(2 + shift, 7 + shift) for line in lines))


@given(programs, st.integers(0, 90))
def test_other_register_numbers_are_no_change(lines: list[str], shift: int) -> None:
    diff = compare_kernels(_kernel(lines), _kernel(lines, shift))
    assert diff.same
    assert not any(change.changed for change in diff.histogram)


@given(programs, programs)
def test_both_listings_are_there_in_order(old: list[str], new: list[str]) -> None:
    before, after = _kernel(old), _kernel(new)
    diff = compare_kernels(before, after)
    assert [s.before for s in diff.listing if s.before is not None] == list(range(len(old)))
    assert [s.after for s in diff.listing if s.after is not None] == list(range(len(new)))
    for step in diff.listing:
        if step.before is not None and step.after is not None:
            pair = before.instructions[step.before], after.instructions[step.after]
            assert pair[0].opcode == pair[1].opcode
    assert sum(c.before for c in diff.histogram) == len(old)
    assert sum(c.after for c in diff.histogram) == len(new)


def test_other_addresses_are_no_change_and_constants_are() -> None:
    before = kernel_from_listing(".a:", "MOV R1, 0x10", "@P0 BRA `(.a)", "EXIT")
    moved = kernel_from_listing("NOP", ".b:", "MOV R9, 0x10", "@P0 BRA `(.b)", "EXIT")
    steps = compare_kernels(before, moved).listing
    assert [(s.before, s.after) for s in steps] == [(None, 0), (0, 1), (1, 2), (2, 3)]
    other = kernel_from_listing(".a:", "MOV R1, 0x20", "@P0 BRA `(.a)", "EXIT")
    assert not compare_kernels(before, other).same


def test_the_same_source_under_another_kernel_name_is_the_same(compiler: Compiler) -> None:
    body = "in[threadIdx.x] / in[0]"
    one = kernel_from_source(SCALE.format(name="one", body=body), "one", compiler)
    two = kernel_from_source(SCALE.format(name="two", body=body), "two", compiler)
    assert any(i.opcode.startswith("CALL") for i in one.instructions)
    (diff,) = compare((one,), (two,)).kernels
    assert (diff.before, diff.after, diff.same) == ("one", "two", True)


def test_kernels_are_paired_by_name_then_by_template_then_by_order() -> None:
    def named(name: str) -> SassKernel:
        kernel = kernel_from_listing("EXIT")
        return SassKernel(name, name, kernel.instructions, kernel.histogram)

    before = tuple(map(named, ("rest", "row<float, 4>", "same<int>", "gone")))
    after = tuple(map(named, ("same<int>", "row<float, 8>", "new")))
    diff = compare(before, after)
    pairs = [(k.before, k.after) for k in diff.kernels]
    assert pairs == [
        ("same<int>", "same<int>"),
        ("row<float, 4>", "row<float, 8>"),
        ("rest", "new"),
    ]
    assert (diff.only_before, diff.only_after) == (("gone",), ())


def test_tuned_against_baseline_of_every_task(
    tasks: dict[str, KernelTask], compiler: Compiler
) -> None:
    for name in TASKS:
        before, after = (
            disassembled(tasks[name], source, compiler).kernels
            for source in ("baseline.cu", "tuned.cu")
        )
        (kernel,) = compare(before, after).kernels
        changes = {change.name: change for change in kernel.histogram}
        assert not kernel.same
        assert (changes["LDG.128"].before, changes["LDG.U16"].after) == (0, 0)
        assert changes["LDG.128"].after > 0 < changes["LDG.U16"].before
