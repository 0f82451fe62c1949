"""Numbers that the device and NumPy draw alike: their distribution, and the twins bit by bit.

`draw` of tools.cu is compiled by the real NVRTC and runs on the emulator.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.emulator.device import Emulator
from astra_tui.gpu import drawing
from astra_tui.gpu.messages import Fill
from astra_tui.gpu.tools import tools_source
from astra_tui.lab.compiler import Compiler
from astra_tui.model.bit_patterns import decode, encode
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import ArgumentRole, DeviceBuffer, PackedLaunch
from astra_tui.model.dtypes import DType

SEEDS = st.integers(0, 2**64 - 1)
FLOATS = tuple(d for d in DType if d.is_float)
MANY = 20_000
EMULATOR = Emulator()
"""One for all, which reads what was compiled once."""


def fill(
    dtype: str,
    kind: str,
    low: float = 0.0,
    high: float = 1.0,
    limit: float = 0.0,
    planted: tuple[float, ...] = (),
    group: int = 0,
) -> Fill:
    return Fill(dtype, kind, low, high, limit, planted, group)


def values(drawn: Fill, seed: int, number: int = 0, count: int = MANY) -> Any:
    dtype = DType(drawn.dtype)
    return decode(drawing.draw(drawn, seed, number, np.arange(count // dtype.per_item)), dtype)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from(DType), st.integers(0, 2**33), st.integers(0, 40_000), st.data())
def test_a_range_is_drawn_as_its_places_are(
    seed: int, dtype: DType, first: int, count: int, data: st.DataObject
) -> None:
    """Whatever is computed at once of either."""
    places = range(first, first + count * (step := data.draw(st.integers(1, 3))), step)
    drawn = fill(dtype.value, "uniform" if dtype.is_float else "integers", 0.0, 1.0)
    by_range = drawing.draw(drawn, seed, 1, places)
    one_by_one = drawing.draw(drawn, seed, 1, np.array(places, np.uint64).reshape(-1, 1))
    assert by_range.dtype == one_by_one.dtype
    assert np.array_equal(by_range, one_by_one.reshape(-1))
    assert one_by_one.shape == (count, 1)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.floats(-5, 5), st.floats(0.1, 5))
def test_normal_numbers_have_their_mean_and_deviation(
    seed: int, mean: float, deviation: float
) -> None:
    drawn = values(fill("float32", "normal", mean, deviation), seed)
    # Six standard errors: one draw in a thousand million is further off.
    assert abs(drawn.mean() - mean) < 6 * deviation / math.sqrt(MANY)
    assert abs(drawn.std() / deviation - 1) < 6 / math.sqrt(2 * MANY)


def test_normal_numbers_have_the_tails_of_the_normal_distribution() -> None:
    """Far out as often as they should be, and straight between quantiles hardly off."""
    drawn = np.abs(values(fill("float64", "normal"), 5, count=1_000_000))
    for deviations in (1.0, 2.0, 3.0, 4.0, 4.5):
        wanted = 2e6 * NormalDist().cdf(-deviations)
        assert abs((drawn > deviations).sum() - wanted) < 6 * math.sqrt(wanted)
    assert drawn.max() < 6.34, "the table ends there"
    assert (drawn != drawn.astype(np.float32)).mean() > 0.99, "float64 has bits of its own"


@given(st.integers(0, 2**64 - 1))
def test_the_table_gives_the_quantile_of_any_probability(random: int) -> None:
    """To a thousandth of a deviation, where 32 powers of two suffice."""
    (z,) = drawing.standard_normal(np.array([random], np.uint64)).tolist()
    probability = max((random % 2**63 >> 10) / 2**53, 2.0**-32)
    quantile = -NormalDist().inv_cdf(probability / 2)
    assert abs(abs(z) - quantile) < 1e-3
    assert (math.copysign(1, z) < 0) is (random >= 2**63)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.floats(-100, 100), st.floats(0.01, 100))
def test_uniform_numbers_fill_their_range(seed: int, low: float, width: float) -> None:
    drawn = values(fill("float32", "uniform", low, low + width), seed)
    grain = float(np.spacing(np.float32(abs(low) + width)))
    assert drawn.min() >= low - grain
    assert drawn.max() <= low + width + grain
    assert abs(drawn.mean() - low - width / 2) < 6 * width / math.sqrt(12 * MANY) + grain
    assert abs(drawn.std() - width / math.sqrt(12)) < 6 * width / math.sqrt(12 * MANY) + grain


@settings(max_examples=50, deadline=None)
@given(SEEDS, st.sampled_from([d for d in DType if not d.is_float]), st.data())
def test_whole_numbers_stay_within_their_range(
    seed: int, dtype: DType, data: st.DataObject
) -> None:
    low, high = dtype.integer_range
    first = data.draw(st.integers(low, high))
    last = data.draw(st.integers(first, high))
    grain = float(np.spacing(np.float32(max(abs(first), abs(last)))))
    if last < 2**63 and (grain <= 1 or last - first >= 2 * grain):  # Else no float32 need be there.
        drawn = values(fill(dtype.value, "integers", first, last), seed, count=2000)
        assert drawn.min() >= first
        assert drawn.max() <= last


@given(SEEDS, st.sampled_from([d for d in DType if not d.is_float]))
def test_the_widest_range_of_a_type_is_drawn_evenly(seed: int, dtype: DType) -> None:
    low, high = dtype.integer_range
    bits = drawing.draw(fill(dtype.value, "integers", low, high), seed, 0, np.arange(500))
    drawn = bits.view(dtype.value if dtype is not DType.BOOL else "u1").astype(float)
    high = min(high, 2**63)
    deviation = math.sqrt(((high - low + 1.0) ** 2 - 1) / 12)
    assert abs(drawn.mean() - (low + high) / 2) < 6 * deviation / math.sqrt(500)


@given(SEEDS)
def test_few_whole_numbers_all_occur(seed: int) -> None:
    drawn = values(fill("uint8", "integers", 3, 7), seed, count=1000)
    assert sorted(set(drawn.tolist())) == [3, 4, 5, 6, 7]


@given(SEEDS, st.floats(0.01, 3), st.sampled_from(FLOATS))
def test_limits_hold(seed: int, limit: float, dtype: DType) -> None:
    drawn = values(fill(dtype.value, "normal", 0.0, 2.0, limit), seed, count=2000)
    bound = float(decode(encode(np.array([limit, limit]), dtype), dtype)[0])
    assert np.abs(drawn).max() == bound
    constant = values(fill(dtype.value, "constant", 4 * limit, 0.0, limit), seed, count=2)
    assert float(constant[0]) > bound or bound == 0, "what is set to a number is that number"


@settings(max_examples=30)
@given(SEEDS, st.integers(1, drawing.POOL))
def test_one_in_sixteen_is_planted_and_every_value_of_the_pool_occurs(seed: int, pool: int) -> None:
    planted = tuple(1000.0 + i for i in range(pool))
    drawn = values(fill("float32", "uniform", limit=1.0, planted=planted), seed)
    counts = [int((drawn == value).sum()) for value in planted]
    wanted = MANY / 16
    assert sum(counts) == wanted
    assert drawn[0] >= 1000, "however few there are, one of them is planted"
    assert min(counts) > wanted / pool - 6 * math.sqrt(wanted / pool)
    assert sum(counts) + int((drawn <= 1).sum()) == MANY


def test_arange_counts_on_in_every_set() -> None:
    for number in range(2):
        drawn = values(fill("int32", "arange", high=4), 5, number, 12)
        assert drawn.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]


@given(SEEDS, st.integers(0, 4000), st.lists(st.integers(0, 2**40), min_size=1, max_size=50))
def test_a_number_depends_on_seed_set_and_place_alone(
    seed: int, number: int, places: list[int]
) -> None:
    drawn = fill("float16", "normal")
    together = drawing.draw(drawn, seed, number, np.array(places))
    alone = [drawing.draw(drawn, seed, number, np.array([place]))[0] for place in places]
    assert together.tolist() == alone


@given(SEEDS, st.integers(0, 4000))
def test_sets_and_seeds_differ(seed: int, number: int) -> None:
    drawn = fill("float32", "normal")
    one = values(drawn, seed, number, 1000)
    for other in (values(drawn, seed, number + 1, 1000), values(drawn, seed ^ 1, number, 1000)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.25
        assert (one == other).sum() < 50


@given(st.integers(0, 2**63 - 1), st.text(max_size=10), st.text(max_size=10))
def test_buffers_have_seeds_of_their_own(seed: int, one: str, other: str) -> None:
    first, second = drawing.seed_of(seed, one), drawing.seed_of(seed, other)
    assert (first == second) is (one == other)
    assert 0 <= first < 2**64


@pytest.fixture(scope="module")
def tool(compiler: Compiler) -> Compilation:
    compiled = compiler.compile(tools_source(), ("draw",))
    assert compiled.ok, compiled.errors
    return compiled


def drawn_by_kernel(tool: Compilation, drawn: Fill, seed: int, elements: int, sets: int) -> Any:
    """All sets as rows of bit patterns, drawn by `draw` of tools.cu on the emulator."""
    dtype = DType(drawn.dtype)
    size = dtype.bytes_of(elements)
    stride = -(-size // 256) * 256
    parameters = bytes(8) + drawing.draw_parameters(drawn, seed, elements, stride)
    kernel = tool.kernel("draw")
    assert len(parameters) == kernel.parameter_bytes
    launch = PackedLaunch(kernel, (1, sets, 1), (64, 1, 1), 0, parameters, ((0, "out"),), 1)
    poison = DeviceBuffer("out", ArgumentRole.OUT, np.full(stride * sets, 0xFF, np.uint8))
    outcome = EMULATOR.run(tool, (launch,), (poison,), checked=False)
    assert not outcome.faults, outcome.faults
    rows = outcome.contents["out"].reshape(sets, stride)[:, :size]
    return np.ascontiguousarray(rows).view(f"u{dtype.size}")


def assert_twins_agree(tool: Compilation, drawn: Fill, seed: int, elements: int = 150) -> None:
    by_kernel = drawn_by_kernel(tool, drawn, seed, elements, 2)
    for number in range(2):
        items = elements // DType(drawn.dtype).per_item
        twin = drawing.draw(drawn, seed, number, np.arange(items))
        np.testing.assert_array_equal(by_kernel[number], twin)


SEED = 0xFEDC_BA98_7654_3210


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.value)
@pytest.mark.parametrize(
    "drawn",
    [
        fill("", "normal", 0.1, 1.7, 2.5, (math.nan, math.inf, -math.inf, -0.0)),
        fill("", "uniform", -3.3, 0.7, 3.0, (6e4,)),
        fill("", "integers", -5, 9),
        fill("", "constant", 0.3),
        fill("", "arange", high=20),
        fill("", "normal", 0.0, 1e30, 1e300, (1e300, -1e300)),
        fill("", "distribution", group=30),
        fill("", "lone", -math.inf, 0.5, group=30),
    ],
    ids=lambda f: f.kind,
)
def test_kernel_and_twin_draw_the_same_floats(tool: Compilation, dtype: DType, drawn: Fill) -> None:
    assert_twins_agree(tool, msgspec.structs.replace(drawn, dtype=dtype.value), SEED)


@pytest.mark.parametrize("dtype", [d for d in DType if not d.is_float], ids=lambda d: d.value)
def test_kernel_and_twin_draw_the_same_whole_numbers(tool: Compilation, dtype: DType) -> None:
    low, high = dtype.integer_range
    assert_twins_agree(tool, fill(dtype.value, "integers", low, high), SEED)
    assert_twins_agree(tool, fill(dtype.value, "arange", high=min(high, 100)), SEED)
    assert_twins_agree(tool, Fill(dtype.value, "integers", low, high, 0.0, (), 40), SEED)
    assert_twins_agree(tool, Fill(dtype.value, "integers", 1, 1, 0.0, (), 1), SEED, 3)
    for group in (1, 2, 40):
        assert_twins_agree(tool, fill(dtype.value, "offsets", 0, high // 2, group=group), SEED)
    assert_twins_agree(tool, Fill(dtype.value, "offsets", 0, high, 0.0, (), 30, high // 99), SEED)


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, low=st.integers(-5, 2**40), span=st.integers(1, 3000), data=st.data())
def test_distinct_numbers_are_a_permutation_of_their_own_in_each_group(
    seed: int, low: int, span: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, span))
    drawn = Fill("int64", "integers", low, low + span - 1, 0.0, (), count)
    groups = values(drawn, seed, 1, 3 * count).reshape(3, count)
    assert groups.min() >= low
    assert groups.max() < low + span
    assert all(len(np.unique(group)) == count for group in groups)
    if count > 12:
        assert (np.sort(groups) != groups).any(axis=1).all()
        assert (groups[0] != groups[1]).any()


@settings(max_examples=50, deadline=None)
@given(
    seed=SEEDS,
    low=st.integers(-5, 2**40),
    span=st.integers(0, 3000),
    count=st.integers(2, 99),
    apart=st.integers(0, 3),
)
def test_offsets_rise_from_end_to_end_and_distributions_sum_to_one(
    seed: int, low: int, span: int, count: int, apart: int
) -> None:
    span += apart * (count - 1)
    drawn = Fill("int64", "offsets", low, low + span, 0.0, (), count, apart)
    rows = values(drawn, seed, 1, 3 * count).reshape(3, count)
    assert (rows[:, 0] == low).all()
    assert (rows[:, -1] == low + span).all()
    lengths = np.diff(rows)
    assert (lengths >= apart).all()
    if count > 12 and span > 100 and not apart:
        assert (rows[0] != rows[1]).any()
        assert lengths.max() > 2 * span / (count - 1), "lengths are uneven"
    parts = values(fill("float64", "distribution", group=count), seed, 1, 3 * count)
    assert parts.min() >= 0
    assert (parts.reshape(3, count).sum(axis=1) == 1).all()
    lone = values(fill("float64", "lone", -3.0, 2.0, group=count), seed, 1, 3 * count)
    assert (np.sort(lone.reshape(3, count)) == [-3.0] * (count - 1) + [2.0]).all()


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, low=st.integers(-(2**31), 2**31 - 1), high=st.integers(-(2**31), 2**31 - 1))
def test_kernel_and_twin_agree_on_any_range(
    tool: Compilation, seed: int, low: int, high: int
) -> None:
    assert_twins_agree(tool, fill("int32", "integers", min(low, high), max(low, high)), seed, 40)
