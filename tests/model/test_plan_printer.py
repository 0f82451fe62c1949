"""The canonical text of a plan: what it looks like, and that it says the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from astra_tui.model.launch import (
    Launch,
    LaunchPlan,
    parse_plan,
    plan_of,
    print_expression,
    print_plan,
)
from astra_tui.model.launch.expression import Binary, Compare, Integer, Name, Unary

from .helpers import LAUNCHES, PLANS, PROPERTY, parse_expression

KERNELS = Path(__file__).parents[2] / "kernels"

CANONICAL = """\
workspace partial: float32[n, ceil_div(m, 4)]
tune threads = 128 in 64, 128, 256
let rows = n // 2
when n % 4 == 0 and aligned(x, 16):
    ns::k<T, 4, "Traits<T>"> grid=(n, m) block=threads shared=(4 * rows) args=(x, -n, partial)
    k grid=n block=(32, 4) cluster=(n, 2) args=() pdl=(n > 4)
when n > 100:
    refuse "too large"
otherwise:
    k<(n > 4)> grid=ceil_div(n, 2) block=32 args=(x)
k grid=1 block=1 args=(1 if n == 2 else 3)
"""


def test_a_canonical_plan_is_printed_as_it_stands() -> None:
    assert print_plan(parse_plan(CANONICAL)) == CANONICAL


def test_layout_comments_and_number_bases_are_made_canonical() -> None:
    text = """
        tune t in 0x40 , 1_28   # what fits
        k< T >
            block = t
            grid = (n)
            args = x
    """
    assert print_plan(parse_plan(text)) == "tune t = 64 in 64, 128\nk<T> grid=n block=t args=(x)\n"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("((n))", "n"),
        ("(n * m) + 1", "n * m + 1"),
        ("n * (m + 1)", "n * (m + 1)"),
        ("n - (m - 1)", "n - (m - 1)"),
        ("(n - m) - 1", "n - m - 1"),
        ("n // (m * 2)", "n // (m * 2)"),
        ("-(n + 1)", "-(n + 1)"),
        ("(-n) * 2", "-n * 2"),
        ("--n", "--n"),
        ("not (n < m)", "not n < m"),
        ("(not n) == m", "(not n) == m"),
        ("(n < m) == (m < 1)", "(n < m) == (m < 1)"),
        ("(n < m) and (m < 1 or n < 1)", "n < m and (m < 1 or n < 1)"),
        ("n and (m and x)", "n and (m and x)"),
        ("(1 if n else 2) if m else 3", "(1 if n else 2) if m else 3"),
        ("1 if n else (2 if m else 3)", "1 if n else 2 if m else 3"),
        ("1 if (n if m else 2) else 3", "1 if (n if m else 2) else 3"),
        ("(1 if n else 2) + 3", "(1 if n else 2) + 3"),
        ("min( n,(m) )", "min(n, m)"),
    ],
)
def test_only_needed_parentheses_are_printed(text: str, printed: str) -> None:
    assert print_expression(parse_expression(text)) == printed


def test_an_operand_keeps_the_side_on_which_it_stands() -> None:
    one, two, three = Integer(1), Integer(2), Integer(3)
    assert print_expression(Binary("-", Binary("-", one, two), three)) == "1 - 2 - 3"
    assert print_expression(Binary("-", one, Binary("-", two, three))) == "1 - (2 - 3)"


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "==", "!="])
def test_comparisons_among_template_arguments_are_put_in_parentheses(operator: str) -> None:
    plan = parse_plan(f"k<(n {operator} 4), not (n {operator} 4)> grid=1 block=1 args=()")
    printed = f"k<(n {operator} 4), (not n {operator} 4)> grid=1 block=1 args=()\n"
    assert print_plan(plan) == printed
    assert parse_plan(printed) == plan


def test_a_negated_comparison_is_not_a_comparison_of_a_negation() -> None:
    comparison = Compare(Name("n"), (("<", Name("m")),))
    assert print_expression(Unary("not", comparison)) == "not n < m"
    assert print_expression(Compare(Unary("not", Name("n")), comparison.links)) == "(not n) < m"


@pytest.mark.parametrize(
    "file", sorted(KERNELS.glob("*/*.cu")), ids=lambda f: f"{f.parent.name}/{f.name}"
)
def test_the_plans_of_the_bundled_kernels_survive_printing(file: Path) -> None:
    plan = plan_of(file.read_text(encoding="utf-8"))
    assert parse_plan(print_plan(plan)) == plan


@PROPERTY
@given(PLANS)
def test_a_printed_plan_is_read_back_equal_and_printing_is_a_fixed_point(plan: LaunchPlan) -> None:
    text = print_plan(plan)
    again = parse_plan(text)
    assert again == plan
    assert print_plan(again) == text


@PROPERTY
@given(LAUNCHES)
def test_a_printed_launch_is_one_line_that_is_read_back_equal(launch: Launch) -> None:
    plan = LaunchPlan((), (launch,))
    text = print_plan(plan)
    assert text.count("\n") == 1
    assert parse_plan(text) == plan
