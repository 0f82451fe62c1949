"""The reader of nvdisasm's listings: exact on what nvdisasm prints, total on everything else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.lab.explain.sass.disassembly import kernel_of
from astra_tui.lab.explain.sass.listing import parse_listing, split_operands

SOURCE = "kernel.cu"
HEAD = '\t.section\t.text.k,"ax",@progbits\n        .other k,@"STO_CUDA_ENTRY STV_DEFAULT"\nk:\n'

# By numbers, which hypothesis draws in much less time than texts that match an expression.
registers = st.tuples(
    *(st.sampled_from(words) for words in (("", "-", "|", "-|"), ("R", "UR"))),
    st.sampled_from(["Z", *map(str, range(100))]),
    st.sampled_from(["", ".reuse", ".H0_H0"]),
).map("".join)
constants = st.builds("c[{:#x}][{:#x}]".format, st.integers(0, 3), st.integers(0, 0xFFF))
offsets = st.just("") | st.integers(0, 1 << 32).map("+{:#x}".format)
addresses = st.builds("desc[UR{}][R{}.64{}]".format, st.integers(0, 9), st.integers(0, 9), offsets)
numbers = st.integers(-0xFFFFFFFF, 0xFFFFFFFF).map("{:#x}".format) | st.builds(
    "{}{}.{}".format, st.sampled_from(["", "-"]), st.integers(0, 9), st.integers(0, 999_999)
)
operand_lists = st.lists(registers | constants | addresses | numbers, max_size=6).map(tuple)
opcodes = st.from_regex(r"[A-Z][A-Z0-9]{1,6}(\.[A-Z0-9_]{1,6}){0,3}", fullmatch=True)
predicates = st.from_regex(r"(@!?U?P[0-6T])?", fullmatch=True)
made_up = st.tuples(predicates, opcodes, operand_lists, st.integers(0, 500))


def _place(line: int, file: str = f"/include/{SOURCE}") -> str:
    return f'\t//## File "{file}", line {line}'


@given(st.lists(made_up, min_size=1, max_size=20))
def test_what_is_printed_is_read_back(
    made: list[tuple[str, str, tuple[str, ...], int]],
) -> None:
    text = HEAD
    for i, (predicate, opcode, operands, line) in enumerate(made):
        body = " ".join(filter(None, (predicate, opcode, ", ".join(operands))))
        text += f"{_place(line)}\n        /*{16 * i:04x}*/      {body} ;\n"
    listing = parse_listing(text)
    assert listing.problem == ""
    (function,) = listing.functions
    read = [(r.predicate, r.opcode, r.operands, r.line) for r in function.instructions]
    assert read == made
    kernel = kernel_of(function, "k")
    assert sum(row.count for row in kernel.histogram) == len(made)
    assert [i.address for i in kernel.instructions] == [16 * i for i in range(len(made))]


_fragments = st.sampled_from(
    [
        '.section .text.k,"ax"',
        '//## File "kernel.cu", line 3',
        '(*"BRANCH_TARGETS .L_x_0,.L_x_9"*)',
        "/*0000*/ MOV R1, R2 ;",
        "/*0010*/ ;",
        "/*0020*/ @P0 BRA `(.L_x_0) ;",
        "/*0030*/ BRX R2 -0x10 ;",
        "/*0040*/ CALL.REL `(k) ;",
        "/*zz*/",
        ".L_x_0:",
        "`(.L_x_0)",
        "@P0",
        "[[,",
        "\x00",
    ]
)


@given(st.lists(st.text(max_size=40) | _fragments, max_size=12))
def test_anything_else_is_a_problem_and_never_an_exception(parts: list[str]) -> None:
    for text in ("\n".join(parts), HEAD + "\n".join(parts), HEAD + " ".join(parts)):
        listing = parse_listing(text)
        assert bool(listing.problem) != bool(listing.functions)
        for function in listing.functions:
            kernel = kernel_of(function, "k")
            assert sum(row.count for row in kernel.histogram) == len(kernel.instructions)


def test_a_line_that_is_none_of_nvdisasms_is_named() -> None:
    listing = parse_listing(HEAD + "        /*0000*/   EXIT ;\nwhat is this\n")
    assert listing.problem == "line 5 of the listing cannot be read: what is this"
    assert parse_listing("").problem == "the listing has no code"


def test_the_line_is_the_innermost_in_the_own_file() -> None:
    header = "/include/cuda_fp16.hpp"
    text = HEAD + "\n".join(
        [
            f'{_place(900, header)} inlined at "/include/{SOURCE}", line 7',
            _place(8),
            "        /*0000*/   HADD2 R1, R2, R3 ;",
            "        /*0010*/   HADD2 R1, R2, R3 ;",
            _place(12, header),
            "        /*0020*/   HADD2 R1, R2, R3 ;",
        ]
    )
    (function,) = parse_listing(text).functions
    assert [i.line for i in function.instructions] == [7, 7, 0]


def test_routines_of_the_compiler_have_no_lines() -> None:
    text = HEAD + "\n".join(
        [
            _place(3),
            "        /*0000*/   EXIT ;",
            "$__internal_0_$__cuda_sm20_div_s64:",
            "        /*0010*/   MOV R1, R2 ;",
        ]
    )
    (function,) = parse_listing(text).functions
    assert [i.line for i in function.instructions] == [3, 0]
    assert function.labels["$__internal_0_$__cuda_sm20_div_s64"] == 0x10


def test_a_branch_by_table_has_all_its_targets() -> None:
    table = '(*"BRANCH_TARGETS .L_x_0,.L_x_1"*)'
    text = HEAD + f"        /*0000*/   BRX R6 -0xd90      {table};\n.L_x_0:\n.L_x_1:\n"
    (function,) = parse_listing(text + "        /*0010*/   EXIT ;").functions
    branch = kernel_of(function, "k").instructions[0]
    assert (branch.operands, branch.targets) == (("R6 -0xd90",), (16, 16))


def test_commas_inside_brackets_do_not_separate_operands() -> None:
    assert split_operands("R1, desc[UR1, 2][R3.64], `(.a,b), c[0x0][0x1]") == (
        "R1", "desc[UR1, 2][R3.64]", "`(.a,b)", "c[0x0][0x1]",
    )  # fmt: skip
