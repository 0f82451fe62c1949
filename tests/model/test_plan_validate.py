"""What a plan may name, and which kinds of values stand where."""

from __future__ import annotations

import pytest

from astra_tui.model.errors import Place
from astra_tui.model.launch import DEVICE_ATTRIBUTES, PlanError, parse_plan, validate_plan
from astra_tui.model.launch.validate import Kind, kind_of

from .helpers import SCOPE, marked, parse_expression


def validate(text: str) -> None:
    validate_plan(parse_plan(text), SCOPE, "kernel.cu")


def error_of(text: str) -> PlanError:
    with pytest.raises(PlanError) as caught:
        validate(text)
    assert caught.value.file == "kernel.cu"
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "k grid=n block=32 args=(x, y, n, eps, count, n > 4)",
        "k<T, float32, 4, (n > 4), count> grid=(n, m) block=32 args=()",
        'k<"Anything<at, all>"> grid=1 block=1 args=()',
        "k grid=min(n, m, 3) block=max(1, 2) args=(stride(x, 0), stride(x, 1), stride(y, 0))",
        "k grid=n block=32 shared=n * sizeof(T) + sizeof(float64) args=()",
        "let e = eps\nk grid=1 block=1 args=(e)",
        "let wide = aligned(x, 16)\nwhen wide and n > 4: k grid=1 block=1 args=()",
        "let U = float32 if T == float16 else T\nk<U> grid=1 block=sizeof(U) args=()",
        "workspace w: T[n, m]\nk grid=1 block=stride(w, 1) args=(w)",
        "tune t in 1, 2\nlet u = t + 1\nworkspace w: T[u]\nk grid=1 block=1 args=(w)",
        "when (n > 4) == (m > 4): k grid=1 block=1 args=()",
        'when not n > 4: refuse "small"\notherwise: k grid=1 block=1 args=()',
    ],
)
def test_sound_plans_pass(text: str) -> None:
    validate(text)


@pytest.mark.parametrize("name", sorted(DEVICE_ATTRIBUTES))
def test_device_attributes_are_whole_numbers(name: str) -> None:
    validate(f"k grid={name} block=1 args=({name})")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("n", Kind.INTEGER),
        ("count", Kind.INTEGER),
        ("eps", Kind.FLOAT),
        ("x", Kind.TENSOR),
        ("T", Kind.TYPE),
        ("bool", Kind.TYPE),
        ("n < m", Kind.TRUTH),
        ("not n < m", Kind.TRUTH),
        ("aligned(x, 4)", Kind.TRUTH),
        ("stride(x, 0)", Kind.INTEGER),
        ("eps if n < m else eps", Kind.FLOAT),
        ("n < m if n < m else n > m", Kind.TRUTH),
    ],
)
def test_every_expression_has_a_kind(text: str, kind: Kind) -> None:
    assert kind_of(parse_expression(text), SCOPE) is kind


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        # names
        ("k grid=▶nn block=1 args=()", "unknown name 'nn'", "did you mean 'n'?"),
        ("k grid=▶sm_cuont block=1 args=()", "unknown name 'sm_cuont'", "'sm_count'"),
        ("k grid=1 block=1 args=(x, ▶qqq)", "unknown name 'qqq'", "valid names: T, bfloat16"),
        ("let a = ▶a\nk grid=a block=1 args=()", "unknown name 'a'", "valid names: "),
        ("let a = ▶b\nlet b = 1\nk grid=a block=b args=()", "unknown name 'b'", "valid names: "),
        ("workspace w: T[stride(▶w, 0)]\nk grid=1 block=1 args=(w)", "unknown name 'w'", "names: "),
        ("▶let n = 1\nk grid=n block=1 args=()", "'n' already means something", ""),
        ("▶tune x in 1\nk grid=1 block=1 args=(x)", "'x' already means something", ""),
        ("▶workspace eps: T[1]\nk grid=1 block=1 args=(eps)", "'eps' already means something", ""),
        ("let a = 1\n▶let a = 2\nk grid=a block=1 args=()", "'a' already means something", ""),
        ("let a = 1\n▶let b = 2\nk grid=a block=1 args=()", "'b' is declared but never used", ""),
        ("▶tune t in 1, 2\nk grid=1 block=1 args=()", "'t' is declared but never used", ""),
        ("▶workspace w: T[n]\nk grid=1 block=1 args=()", "'w' is declared but never used", ""),
        # launches
        ("k grid=▶x block=1 args=()", "grid= of k is a tensor; it has to be a whole number", ""),
        ("k grid=(1, ▶T) block=1 args=()", "grid= of k is a type", ""),
        ("k grid=1 block=▶eps args=()", "block= of k is a floating-point number", ""),
        ("k grid=1 block=1 shared=▶n > 4 args=()", "shared= of k is true or false", ""),
        ("k grid=1 block=1 cluster=▶x args=()", "cluster= of k is a tensor", ""),
        ("k grid=1 block=1 args=() pdl=▶1", "pdl= of k is a whole number", ""),
        ("k grid=1 block=1 args=(x, ▶T)", "argument 2 of k is a type", ""),
        ("k<1, ▶x> grid=1 block=1 args=()", "a template argument cannot be a tensor", ""),
        ("k<▶eps> grid=1 block=1 args=()", "cannot be a floating-point number", ""),
        ("when ▶n: k grid=1 block=1 args=()", "the condition of 'when' is a whole number", ""),
        ("when n > 1: k grid=▶x block=1 args=()", "grid= of k is a tensor", ""),
        ('when n > 1: refuse "n"\notherwise: k grid=▶x block=1 args=()', "grid= of k", ""),
        ("workspace w: T[▶x]\nk grid=1 block=1 args=(w)", "a size of workspace w is a tensor", ""),
        # tensors have no value
        ("let t = ▶x\nk grid=1 block=1 args=(t)", "'t' cannot stand for a tensor", ""),
        (
            "k grid=1 block=1 args=(x ▶if n > 1 else y)",
            "'if ... else' cannot choose a tensor",
            "chosen by 'when'",
        ),
        # operators
        ("k grid=x ▶+ 1 block=1 args=()", "grid= of k is a tensor", ""),
        ("k grid=1 block=1 args=(x + ▶eps)", "the distance from a tensor's beginning is a", ""),
        ("k grid=1 block=1 args=(n + ▶x)", "the right side of '+' is a tensor", ""),
        ("k grid=1 ▶* eps block=1 args=()", "grid= of k is a floating-point number", ""),
        ("k grid=n // ▶eps block=1 args=()", "the right side of '//' is a floating-point", ""),
        ("k grid=n ▶/ 2 block=1 args=()", "is a floating-point number", "use // for integer"),
        ("k grid=1 block=1 args=(sqrt(▶x))", "the operand of sqrt() is a tensor", ""),
        ("k grid=1 block=1 args=(1.0 + ▶true)", "the right side of '+' is true or false", ""),
        ("let p = ▶null\nk grid=1 block=1 args=(p)", "'p' cannot stand for a null pointer", ""),
        ("k<▶null> grid=1 block=1 args=()", "cannot be a null pointer", ""),
        ("when null == ▶null: k grid=1 block=1 args=()", "'==' cannot compare these two", ""),
        ("k grid=1 block=1 args=({x, ▶n})", "member 2 of argument 1 of k has no type", "int32 n"),
        ("k grid=1 block=1 args=({x, int64 ▶y})", "member 2 of argument 1 of k is a tensor", ""),
        ("k grid=1 block=1 args=({▶T})", "member 1 of argument 1 of k is a type", ""),
        ("k grid=1 block=1 args=({{x, int8 ▶q}})", "unknown name 'q'", "valid names"),
        ("k grid=-▶T block=1 args=()", "the operand of '-' is a type", ""),
        ("when not ▶n: k grid=1 block=1 args=()", "the operand of 'not' is a whole number", ""),
        ("when ▶n and m > 1: k grid=1 block=1 args=()", "the left side of 'and' is a whole", ""),
        ("when m > 1 or ▶n: k grid=1 block=1 args=()", "the right side of 'or' is a whole", ""),
        ("k grid=1 if ▶n else 2 block=1 args=()", "the condition after 'if' is a whole number", ""),
        ("k grid=1 ▶if n > 1 else T block=1 args=()", "of different kinds", ""),
        ("when x == ▶x: k grid=1 block=1 args=()", "'==' cannot compare these two kinds", ""),
        ("when eps > ▶eps: k grid=1 block=1 args=()", "'>' cannot compare these two kinds", ""),
        ("when n == ▶T: k grid=1 block=1 args=()", "'==' cannot compare these two kinds", ""),
        ("when 0 < n < ▶T: k grid=1 block=1 args=()", "'<' cannot compare these two kinds", ""),
        ("when T < ▶T: k grid=1 block=1 args=()", "'<' needs whole numbers", ""),
        # functions
        ("k grid=▶min(n) block=1 args=()", "min() takes two values or more", ""),
        ("k grid=▶max() block=1 args=()", "max() takes two values or more", ""),
        ("k grid=min(n, ▶T) block=1 args=()", "a value of min() is a type", ""),
        ("k grid=▶ceil_div(n) block=1 args=()", "ceil_div() takes 2 values, not 1", ""),
        ("k grid=ceil_div(n, ▶x) block=1 args=()", "a value of ceil_div() is a tensor", ""),
        ("k<▶float4_e2m1fn> grid=1 block=1 args=()", "a launch plan cannot name", "count bytes"),
        ("k grid=▶sizeof() block=1 args=()", "sizeof() takes 1 value, not 0", ""),
        ("k grid=sizeof(▶n) block=1 args=()", "the operand of sizeof() is a whole number", ""),
        ("when ▶aligned(x): k grid=1 block=1 args=()", "aligned() takes 2 values, not 1", ""),
        (
            "when aligned(▶n, 4): k grid=1 block=1 args=()",
            "first value of aligned() is a tensor",
            "",
        ),
        ("when aligned(x, ▶y): k grid=1 block=1 args=()", "the second value of aligned() is", ""),
        ("k grid=▶stride(x) block=1 args=()", "stride() takes 2 values, not 1", ""),
        ("k grid=stride(▶1, 0) block=1 args=()", "first value of stride() is a tensor", ""),
        ("k grid=stride(x, ▶2) block=1 args=()", "a number from 0 to 1 for x", ""),
        ("k grid=stride(x, ▶-1) block=1 args=()", "a number from 0 to 1 for x", ""),
        ("k grid=stride(x, ▶n) block=1 args=()", "a number from 0 to 1 for x", ""),
        ("workspace w: T[4]\nk grid=stride(w, ▶1) block=1 args=(w)", "from 0 to 0 for w", ""),
    ],
)
def test_errors_name_the_place_and_what_is_wrong(text: str, message: str, hint: str) -> None:
    text, place = marked(text)
    error = error_of(text)
    assert message in error.message
    assert error.place == place
    assert hint in error.hint
    assert bool(hint) == bool(error.hint)


def test_each_part_of_a_long_sum_is_looked_at_once() -> None:
    validate(f"k grid={' + '.join(['n'] * 100)} block=1 args=(x + {' - '.join(['n'] * 100)})")


def test_a_comparison_is_placed_at_its_beginning() -> None:
    error = error_of("when (n > 1) < (m > 1): k grid=1 block=1 args=()")
    assert error.message == "'<' needs whole numbers"
    assert error.place == Place(1, 17)


def test_a_name_in_a_quoted_template_argument_counts_as_used() -> None:
    validate('let width = 4\nk<"Pack<T, width>"> grid=1 block=1 args=()')


def test_a_part_of_a_word_in_a_quoted_template_argument_does_not() -> None:
    text = 'let wid = 4\nk<"Pack<T, width>"> grid=1 block=1 args=()'
    assert error_of(text).message == "'wid' is declared but never used"
