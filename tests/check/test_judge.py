"""What counts as right: masks, scaled bounds, the baseline's allowance, integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.lab.check.judge import Allowance, judge_output
from astra_tui.model.bit_patterns import codes, decode, encode, narrow_values
from astra_tui.model.check import OutputError
from astra_tui.model.dtypes import DType
from astra_tui.model.task import Tolerance

NARROW = tuple(d for d in DType if d.is_narrow)
HALF = Tolerance(1e-3, 1e-3, 2e-3, "a test")


def judge(got: Any, reference: Any, allowance: Allowance | None = None) -> OutputError:
    """Judges float16 values."""
    bits = encode(np.asarray(got, float), DType.FLOAT16)
    return judge_output("y", bits, np.asarray(reference, float), DType.FLOAT16, HALF, allowance)


def test_the_rounded_reference_is_right() -> None:
    reference = np.random.Generator(np.random.Philox(1)).normal(0, 10, 1000)
    judged = judge(reference, reference)
    assert judged.ok
    assert judged.error < 0.5
    assert judged.max_ulp == 0


def test_one_element_beyond_the_bound_is_named() -> None:
    reference = np.ones((3, 4))
    got = reference.copy()
    got[1, 2] = 1.01
    judged = judge(got, reference)
    assert not judged.ok
    assert judged.at == (1, 2)
    assert judged.expected == 1.0
    assert judged.allowed == 1.0
    assert abs(judged.error - 0.01 / 2e-3) < 0.2
    assert "1 of 12 elements" in judged.problem


def test_a_zero_output_is_wrong_even_where_all_values_are_below_the_tolerance() -> None:
    reference = np.random.Generator(np.random.Philox(1)).normal(0, 1e-4, 1000)
    judged = judge(np.zeros(1000), reference)
    assert judged.error < 1
    assert "relative L2" in judged.problem


def test_rounding_to_subnormals_is_no_error() -> None:
    reference = np.random.Generator(np.random.Philox(1)).normal(0, 1e-9, 1000)
    assert judge(reference, reference).ok


def test_nan_has_to_stand_where_the_reference_has_it() -> None:
    reference = np.array([1.0, math.nan, 3.0])
    assert judge([1.0, math.nan, 3.0], reference).ok
    assert "NaN where the reference is a number" in judge([math.nan] * 3, reference).problem
    assert "a number where the reference is NaN" in judge([1.0, 2.0, 3.0], reference).problem


def test_infinities_have_to_agree_in_place_and_sign() -> None:
    reference = np.array([math.inf, -math.inf, 1.0])
    assert judge([math.inf, -math.inf, 1.0], reference).ok
    assert not judge([math.inf, math.inf, 1.0], reference).ok
    assert not judge([math.inf, -math.inf, math.inf], reference).ok
    assert not judge([65504.0, -math.inf, 1.0], reference).ok


def test_what_overflows_the_type_has_to_be_infinite_and_the_limit_may_be() -> None:
    assert judge([math.inf], [1e6]).ok
    assert not judge([65504.0], [1e6]).ok
    for near in (65500.0, 65519.0, 65525.0):
        assert judge([math.inf], [near]).ok
        assert judge([65504.0], [near]).ok


def test_twice_the_baselines_error_is_allowed() -> None:
    got, reference = np.full(100, 1.0 + 3e-3), np.ones(100)
    assert not judge(got, reference).ok
    allowance = Allowance(error=0.9, relative_l2=1.6e-3)
    judged = judge(got, reference, allowance)
    assert judged.ok
    assert judged.allowed == 1.8


def test_where_the_reference_is_zero_the_bound_of_the_elements_decides() -> None:
    assert judge([1e-5, 0.0], [0.0, 0.0]).ok
    assert "off by more" in judge([1.0, 0.0], [0.0, 0.0]).problem


def test_what_cancels_is_bounded_by_the_rounding_of_its_terms() -> None:
    """A loss of one sure target: log(sum) - x + max in float32, with logits of 57.3 and 45."""
    target, other = np.float32(57.3), np.float32(45.0)
    reference = np.log1p(np.exp(np.float64(other) - np.float64(target)))
    got = np.log(np.float32(1.0) + np.exp(other - target)) - target + target
    assert abs(got - reference) / reference > 0.1
    for cancelled, ok in ((0.0, False), (8e-6, True)):
        tolerance = Tolerance(2e-5, 1e-5, 1e-5, "logits below 128", cancelled)
        bits = encode(np.full(8, float(got)), DType.FLOAT32)
        judged = judge_output("loss", bits, np.full(8, reference), DType.FLOAT32, tolerance)
        assert judged.ok is ok
        few = judge_output("loss", bits[:7], np.full(7, reference), DType.FLOAT32, tolerance)
        assert few.ok, "all of few elements may be such whose terms cancel"
        zeros = encode(np.zeros(4), DType.FLOAT32)
        assert not judge_output("loss", zeros, np.full(4, 1.8e-5), DType.FLOAT32, tolerance).ok
    loose = Tolerance(1e-3, 1e-3, 1e-5, "merged log-sum-exps of which one is near 0")
    for off, ok in ((8e-7, True), (2e-6, False)):
        bits = encode(np.array([0.05 + off]), DType.FLOAT32)
        assert judge_output("s_out", bits, np.array([0.05]), DType.FLOAT32, loose).ok is ok


def test_integers_may_be_off_by_what_the_task_gives() -> None:
    reference = np.array([1, 2, 3])
    tolerance = Tolerance(1.0, 0.0, 0.0, "ties of the rounding")

    def judge_integers(*values: int) -> OutputError:
        bits = encode(np.array(values), DType.INT8)
        return judge_output("n", bits, reference, DType.INT8, tolerance)

    assert judge_integers(2, 2, 2).ok
    assert judge_integers(2, 2, 2).error == 1.0
    wrong = judge_integers(2, 2, 5)
    assert wrong.problem == "1 of 3 elements differ by more than 1"
    assert (wrong.at, wrong.error) == ((2,), 2.0)


def test_nothing_to_compare_is_right() -> None:
    assert judge(np.zeros((0, 8)), np.zeros((0, 8))).ok


def test_integers_have_to_be_equal() -> None:
    reference = np.array([1, 2, 3])
    same = judge_output("n", encode(reference, DType.INT32), reference, DType.INT32, None)
    other = judge_output("n", encode([1, 5, 3], DType.INT32), reference, DType.INT32, None)
    assert same.ok
    assert (other.at, other.got, other.expected) == ((1,), 5.0, 2.0)


@given(
    st.lists(st.floats(-6e4, 6e4), min_size=1, max_size=40),
    st.integers(0, 39),
    st.sampled_from([math.nan, math.inf, -math.inf]),
)
def test_a_special_value_that_the_reference_has_not_is_never_right(
    values: list[float], at: int, special: float
) -> None:
    reference = np.array(values)
    got = decode(encode(reference, DType.FLOAT16), DType.FLOAT16)
    got[at % len(values)] = special
    assert not judge(got, reference).ok


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40), st.floats(1.01, 50))
def test_a_larger_error_is_never_judged_better(values: list[float], factor: float) -> None:
    reference = np.array(values)
    small = judge(reference + 5e-4, reference)
    large = judge(reference + 5e-4 * factor, reference)
    assert large.error >= small.error - 0.51  # half a rounding step either way


E4M3 = DType.FLOAT8_E4M3FN


def judge_narrow(got: Any, reference: Any, dtype: DType = E4M3, **options: Any) -> OutputError:
    bits = encode(np.asarray(got, float), dtype)
    return judge_output(
        "q", bits, np.asarray(reference, float), dtype, Tolerance(1e-6, 1e-4, 1e-3, ""), **options
    )


@given(st.lists(st.floats(-400, 400), min_size=2, max_size=40), st.sampled_from(NARROW))
def test_the_nearest_code_is_right_and_the_next_one_wrong(
    values: list[float], dtype: DType
) -> None:
    reference = np.clip(values[: len(values) // 2 * 2], -dtype.largest, dtype.largest)
    right = encode(reference, dtype)
    judged = judge_narrow(reference, reference, dtype)
    assert judged.ok
    assert judged.error == judged.relative_l2 == 0.0
    # Towards zero the next code is another number; it is right at the middle of both alone.
    code = codes(right, dtype)
    smaller = narrow_values(dtype)[
        np.where(code & (len(narrow_values(dtype)) // 2 - 1), code - 1, code)
    ]
    middle = (decode(right, dtype) + smaller) / 2
    far = np.abs(np.abs(reference) - np.abs(middle)) > 1e-5 + 2e-4 * np.abs(reference)
    if (far & (smaller != decode(right, dtype))).any():
        assert "off by more" in judge_narrow(smaller, reference, dtype).problem


def test_a_tie_may_round_to_either_side_and_a_truncating_kernel_is_wrong() -> None:
    tie = 1.0625  # Between 1 and 1.125.
    for near in (tie, tie * (1 + 5e-5), tie * (1 - 5e-5)):
        assert judge_narrow([1.0], [near]).ok
        assert judge_narrow([1.125], [near]).ok
    assert not judge_narrow([1.0], [tie * 1.001]).ok
    reference = np.random.Generator(np.random.Philox(1)).normal(0, 20, 1000)
    codes_below = narrow_values(E4M3)[:127]
    truncated = codes_below[np.searchsorted(codes_below, np.abs(reference), "right") - 1]
    wrong = judge_narrow(np.sign(reference) * truncated, reference)
    assert "elements are off by more" in wrong.problem


def test_a_rounded_reference_may_be_one_code_off_and_not_two() -> None:
    assert judge_narrow([1.125], [1.0], rounded=True).ok
    assert not judge_narrow([1.25], [1.0], rounded=True).ok


def test_what_a_type_without_infinities_cannot_hold_has_to_be_clamped_by_the_reference() -> None:
    assert judge_narrow([448.0, -448.0], [448.0, -455.0]).ok
    assert "NaN where the reference is a number" in judge_narrow([math.nan], [448.0]).problem
    for beyond in (500.0, math.inf):
        assert "have reference.py clamp it" in judge_narrow([448.0], [beyond]).problem
    e5m2 = DType.FLOAT8_E5M2
    assert judge_narrow([57344.0], [60000.0], e5m2).ok
    assert judge_narrow([math.inf], [70000.0], e5m2).ok
    assert not judge_narrow([57344.0], [70000.0], e5m2).ok
    assert not judge_narrow([math.inf], [50000.0], e5m2).ok


def test_whole_numbers_of_an_unrounded_reference_are_the_nearest() -> None:
    reference = np.array([1.4, 2.5, -3.6])
    tolerance = Tolerance(0.501, 0.0, 0.0, "rounding to nearest, ties either way")

    def judge_integers(*values: int) -> OutputError:
        return judge_output(
            "n", encode(np.array(values), DType.INT8), reference, DType.INT8, tolerance
        )

    assert judge_integers(1, 2, -4).ok
    assert judge_integers(1, 3, -4).ok
    assert not judge_integers(1, 2, -3).ok
