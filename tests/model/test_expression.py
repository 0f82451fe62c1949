"""Expressions of the launch plan: how they are read, what they are worth, where they stop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.dtypes import DType
from astra_tui.model.errors import Place
from astra_tui.model.launch import PlanError, print_expression
from astra_tui.model.launch.evaluate import Evaluator
from astra_tui.model.launch.expression import (
    Binary,
    Call,
    Compare,
    Conditional,
    Expression,
    Integer,
    Name,
    Real,
    Unary,
    names_in,
)
from astra_tui.model.launch.expression_parser import MAX_DEPTH, MAX_OPERATORS
from astra_tui.model.launch.scope import MAX_INTEGER
from astra_tui.model.launch.tokens import MAX_TEXT, MAX_TOKENS, Token, tokenize
from astra_tui.model.launch.validate import Kind, kind_of

from .helpers import (
    EXPRESSIONS,
    PROPERTY,
    SCOPE,
    THOROUGH,
    Valued,
    bindings,
    marked,
    numbers_with_values,
    parse_expression,
    reals_with_values,
    truths_with_values,
)


def value_of(text: str, element: DType = DType.FLOAT16, **dims: int) -> object:
    return Evaluator(bindings(element, **dims)).value(parse_expression(text))


def expression_error(text: str) -> PlanError:
    with pytest.raises(PlanError) as caught:
        parse_expression(text)
    return caught.value


def value_error(text: str) -> PlanError:
    with pytest.raises(PlanError) as caught:
        value_of(text)
    return caught.value


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("n + m * 2", "n + (m * 2)"),
        ("n - m - 1", "(n - m) - 1"),
        ("n // m * 2 % 3", "((n // m) * 2) % 3"),
        ("-n * m", "(-n) * m"),
        ("n - -m", "n - (-m)"),
        ("n + 1 < m - 1", "(n + 1) < (m - 1)"),
        ("not n < m", "not (n < m)"),
        ("not n < m and m < 9", "(not (n < m)) and (m < 9)"),
        ("n < 1 or n > 2 and m > 3", "(n < 1) or ((n > 2) and (m > 3))"),
        ("1 if n < 2 else 2 if n < 3 else 3", "1 if (n < 2) else (2 if (n < 3) else 3)"),
        ("1 if n < 2 or m < 2 else 3", "1 if ((n < 2) or (m < 2)) else 3"),
        ("n + 1 if n < 2 else m + 1", "(n + 1) if (n < 2) else (m + 1)"),
    ],
)
def test_operators_bind_as_in_python(text: str, grouped: str) -> None:
    assert parse_expression(text) == parse_expression(grouped)


def test_every_form_has_its_node() -> None:
    assert parse_expression("min(n, 2,)") == Call("min", (Name("n"), Integer(2)))
    assert parse_expression("1e-06 / n") == Binary("/", Real(1e-6), Name("n"))
    assert parse_expression("-n") == Unary("-", Name("n"))
    assert parse_expression("n // 2") == Binary("//", Name("n"), Integer(2))
    assert parse_expression("0 < n <= 8") == Compare(
        Integer(0), (("<", Name("n")), ("<=", Integer(8)))
    )
    assert parse_expression("n if m == 1 else 2") == Conditional(
        Compare(Name("m"), (("==", Integer(1)),)), Name("n"), Integer(2)
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("007", 7),
        ("1_000_000", 1_000_000),
        ("0x1F", 31),
        ("0XfF", 255),
        ("9223372036854775807", MAX_INTEGER),
        ("0x7fffffffffffffff", MAX_INTEGER),
        ("0" * 5000 + "1", 1),
    ],
)
def test_integers_are_decimal_or_hexadecimal(text: str, value: int) -> None:
    assert parse_expression(text) == Integer(value)


def test_line_ends_inside_brackets_do_not_count() -> None:
    assert parse_expression("min(n,  # the first\n  m)") == parse_expression("min(n, m)")


def test_equality_ignores_where_an_expression_stands() -> None:
    assert parse_expression("n+1") == parse_expression("   n   +   1")


def test_nodes_know_their_place() -> None:
    parsed = parse_expression("n + min(m, 3)")
    assert isinstance(parsed, Binary)
    assert parsed.place == Place(1, 3)
    assert parsed.left.place == Place(1, 1)
    assert parsed.right.place == Place(1, 5)
    assert isinstance(parsed.right, Call)
    assert [a.place for a in parsed.right.args] == [Place(1, 9), Place(1, 12)]


def test_names_in_finds_every_name_once() -> None:
    text = "min(a, -b) + c // 2 if not d < e < f else stride(g, 0)"
    assert names_in(parse_expression(text)) == set("abcdefg")
    assert names_in(parse_expression("ceil_div()")) == set()


# -- errors of reading -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("n ▶& m", "unexpected '&'", "use 'and'"),
        ("n ▶| m", "unexpected '|'", "use 'or'"),
        ("▶!n", "unexpected '!'", "use 'not'"),
        ("n ▶? 1 : 2", "unexpected '?'", "a if condition else b"),
        ("▶1e-6f * n", "unexpected '1'", "0.5 or 1e-6, without a suffix"),
        ("n + ▶1e999", "1e999 does not fit in double precision", ""),
        ("n▶.size", "unexpected '.'", "0.5 or 1e-6, without a suffix"),
        ("n▶; m", "unexpected ';'", "end of the line"),
        ('▶"open', "unexpected '\"'", "close the quotes"),
        ("n ▶$", "unexpected '$'", ""),
        ("n +▶", "expected a value, found the end of the line", ""),
        ("n + ▶* 2", "expected a value, found '*'", ""),
        ("▶if", "expected a value, found 'if'", ""),
        ("n + ▶not m", "expected a value, found 'not'", ""),
        ('n + ▶"text"', "expected a value, found '\"text\"'", ""),
        ("n if m == 1▶", "expected 'else' to complete 'a if condition else b'", ""),
        ("(n + 1▶", "expected ')' to close the '(', found the end of the line", ""),
        ("▶(n, m)", "a list of values cannot stand here", ""),
        ("1 + ▶()", "a list of values cannot stand here", ""),
        ("n + ▶mini(1, 2)", "unknown function 'mini'", "did you mean 'min'?"),
        ("▶foo(1)", "unknown function 'foo'", "valid names: aligned, ceil_div, max"),
        ("n + ▶9223372036854775808", "9223372036854775808 does not fit in 64 bits", ""),
        ("n + ▶0x8000000000000000", "0x8000000000000000 does not fit in 64 bits", ""),
    ],
)
def test_errors_name_the_place_and_a_way_out(text: str, message: str, hint: str) -> None:
    text, place = marked(text)
    error = expression_error(text)
    assert message in error.message
    assert error.place == place
    assert hint in error.hint
    assert bool(hint) == bool(error.hint)


@pytest.mark.parametrize("digits", ["9" * 5000, "0x" + "f" * 5000])
def test_an_integer_of_thousands_of_digits_is_an_error(digits: str) -> None:
    error = expression_error(f"n + {digits}")
    assert error.message == "this number does not fit in 64 bits"
    assert error.place == Place(1, 5)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("(", ")"), ("-", ""), ("not ", ""), ("min(1, ", ")"), ("1 if n else ", "")],
)
def test_nesting_has_a_limit(opening: str, closing: str) -> None:
    # The expression as a whole is the first level.
    deepest = MAX_DEPTH - 1
    parse_expression(opening * deepest + "n" + closing * deepest)
    error = expression_error(opening * (deepest + 1) + "n" + closing * (deepest + 1))
    assert error.message == f"this expression is nested more than {MAX_DEPTH} deep"
    assert error.place.line == 1
    assert error.place.column >= len(opening) * deepest


@pytest.mark.parametrize("operator", ["+", "*", "-", "//", "and", "or"])
def test_a_chain_of_operators_has_a_limit(operator: str) -> None:
    link = f" {operator} n"
    longest = parse_expression("n" + link * MAX_OPERATORS)
    assert names_in(longest) == {"n"}
    error = expression_error("n" + link * (MAX_OPERATORS + 1))
    assert error.message == f"this expression has more than {MAX_OPERATORS} operators"
    assert error.place == Place(1, 3 + len(link) * MAX_OPERATORS)


def test_the_largest_expression_can_be_evaluated_printed_and_compared() -> None:
    chain = "n" + " - n" * (MAX_OPERATORS - MAX_DEPTH)
    text = "min(1, 0 + " * (MAX_DEPTH - 1) + chain + ")" * (MAX_DEPTH - 1)
    parsed = parse_expression(text)
    assert kind_of(parsed, SCOPE).value == "a whole number"
    assert Evaluator(bindings(n=1)).value(parsed) == 1 - (MAX_OPERATORS - MAX_DEPTH)
    assert parse_expression(print_expression(parsed)) == parsed


def test_a_text_has_a_limit() -> None:
    assert len(tokenize("n" + " " * (MAX_TEXT - 1), Place(1, 1))) == 3
    with pytest.raises(PlanError) as caught:
        tokenize(" " * (MAX_TEXT + 1), Place(7, 3))
    assert f"at most {MAX_TEXT}" in caught.value.message
    assert caught.value.place == Place(7, 3)


def test_the_number_of_words_has_a_limit() -> None:
    tokenize("+ " * MAX_TOKENS, Place(1, 1))
    with pytest.raises(PlanError) as caught:
        tokenize("+ " * (MAX_TOKENS + 1), Place(7, 3))
    assert f"more than {MAX_TOKENS} words" in caught.value.message
    assert caught.value.place == Place(7, 3)


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n + m", 107),
        ("-7 // 2", -4),
        ("-7 % 2", 1),
        ("7 // -2", -4),
        ("min(n, m, 3)", 3),
        ("max(n, m, 3)", 100),
        ("ceil_div(n, m)", 15),
        ("ceil_div(zero, 5)", 0),
        ("sizeof(T)", 2),
        ("sizeof(float64)", 8),
        ("sizeof(float32 if T == float16 else T)", 4),
        ("stride(x, 0)", 7),
        ("stride(x, 1)", 1),
        ("aligned(x, 2)", True),
        ("aligned(x, 4)", False),
        ("aligned(y, 16)", True),
        ("0 < m < n", True),
        ("0 < n < m", False),
        ("m < n > m", True),
        ("T == float16", True),
        ("T != float16", False),
        ("n == 100 and not m == 7", False),
        ("n == 100 or m == 8", True),
        ("(n < m) == (m > n)", True),
        ("sm_count", 132),
        ("count + 1", 4),
        ("1 if n > m else 2", 1),
        ("1 if n < m else 2", 2),
    ],
)
def test_values_are_those_of_python(text: str, value: object) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("zero == 0 or n // zero == 1", True),
        ("zero != 0 and n // zero == 1", False),
        ("0 if zero == 0 else n // zero", 0),
        ("n % zero if zero > 0 else 5", 5),
        ("2 < 1 < n // zero", False),
    ],
)
def test_what_is_not_needed_is_not_evaluated(text: str, value: object) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n ▶// zero", "division by zero"),
        ("n ▶% (m - 7)", "division by zero"),
        ("9223372036854775807 ▶+ 1", "does not fit in 64 bits"),
        ("-9223372036854775807 ▶- 1", "does not fit in 64 bits"),
        ("9223372036854775807 ▶* 2 // 2", "does not fit in 64 bits"),
        ("1 + ▶ceil_div(0 - 1, 2)", "ceil_div(-1, 2) needs a >= 0 and b > 0"),
        ("▶ceil_div(n, zero)", "ceil_div(100, 0) needs a >= 0 and b > 0"),
        ("▶aligned(y, 0)", "aligned() needs a power of two, not 0"),
        ("▶aligned(y, 3 * 4)", "aligned() needs a power of two, not 12"),
        ("▶aligned(y, -4)", "aligned() needs a power of two, not -4"),
    ],
)
def test_errors_of_values_name_their_place(text: str, message: str) -> None:
    text, place = marked(text)
    error = value_error(text)
    assert message in error.message
    assert error.place == place


# -- properties ------------------------------------------------------------------------------------


@PROPERTY
@given(EXPRESSIONS)
def test_a_printed_expression_is_read_back_equal(expression: Expression) -> None:
    text = print_expression(expression)
    again = parse_expression(text)
    assert again == expression
    assert print_expression(again) == text


@THOROUGH
@given(numbers_with_values() | truths_with_values() | reals_with_values())
def test_the_evaluator_agrees_with_python(valued: Valued) -> None:
    expression, expected = valued
    evaluator = Evaluator(bindings())
    if expected is None:
        with pytest.raises(PlanError):
            evaluator.value(expression)
    else:
        assert evaluator.value(expression) == expected
        assert type(evaluator.value(expression)) is type(expected)
        assert evaluator.value(parse_expression(print_expression(expression))) == expected


@PROPERTY
@given(numbers_with_values() | truths_with_values() | reals_with_values())
def test_generated_expressions_have_the_kind_of_their_value(valued: Valued) -> None:
    expression, expected = valued
    kind = kind_of(expression, SCOPE)
    if expected is not None:
        kinds = {bool: Kind.TRUTH, int: Kind.INTEGER, float: Kind.FLOAT}
        assert kind is kinds[type(expected)]


_WORDS = st.sampled_from(
    (
        "n",
        "grid=",
        "0x1f",
        "12",
        '"a b"',
        "# rest\n",
        "\n",
        "\r\n",
        "\t",
        "//",
        "<=",
        "(",
        ")",
        "[",
        "{",
        "}",
        "1.5",
        "null",
        "alignas(",
    )
)


@PROPERTY
@given(st.lists(_WORDS), st.integers(1, 50), st.integers(1, 50))
def test_tokens_point_at_their_text(words: list[str], line: int, column: int) -> None:
    text = " ".join(words)
    padded = "\n" * (line - 1) + " " * (column - 1) + text
    lines = padded.split("\n")
    for token in tokenize(text, Place(line, column)):
        rest = lines[token.place.line - 1][token.place.column - 1 :]
        if token.kind in ("newline", "end"):
            assert rest == ""
        else:
            assert rest.startswith(token.text)


@PROPERTY
@given(st.lists(_WORDS))
def test_tokens_leave_out_only_space_and_comments(words: list[str]) -> None:
    def kept(tokens: list[Token]) -> list[str]:
        return [t.text for t in tokens if t.kind not in ("newline", "end")]

    found = kept(tokenize(" ".join(words), Place(1, 1)))
    alone = [text for word in words for text in kept(tokenize(word, Place(1, 1)))]
    assert found == alone
