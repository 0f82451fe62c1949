"""Whole outputs judged in the oracle's process by the rules of judge.py: the two agree."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from astra_tui.gpu.drawing import draw, seed_of
from astra_tui.gpu.messages import Fill
from astra_tui.lab.check import bulk_worker
from astra_tui.lab.check.bulk import BulkInput, BulkJob, BulkOutput, BulkOutputJudge
from astra_tui.lab.check.bulk_worker import BulkWorker
from astra_tui.lab.check.judge import judge_output
from astra_tui.model.bit_patterns import decode, encode
from astra_tui.model.check import OutputError
from astra_tui.model.dtypes import DType
from astra_tui.model.task import Tolerance
from astra_tui.processes.frames import window_bytes, window_fd

SHAPE = (3, 6)
TOLERANCES = (
    Tolerance(1e-3, 1e-3, 2e-3, ""),
    Tolerance(0.0, 0.0, 2e-3, ""),
    Tolerance(2.0, 0.0, 1.0, ""),
)
FLOATS = tuple(d for d in DType if d.is_float)


def by_worker(
    bits: Any, reference: Any, dtype: DType, tolerance: Tolerance, rows: int
) -> OutputError:
    """Judged in parts of so many rows; `bits` and `reference` have a set in front."""
    torch = pytest.importorskip("torch")
    judge = BulkOutputJudge("out", dtype, reference.shape[1:], tolerance)
    sets, height, width = reference.shape
    for row in range(0, height, rows):
        part, wanted = bits[:, row : row + rows], reference[:, row : row + rows]
        raw = np.ascontiguousarray(part).view(np.uint8).reshape(-1)
        window_bytes(window_fd())[: raw.size] = raw
        output = BulkOutput("out", dtype.value, wanted.shape[1:], 0, tolerance.atol, tolerance.rtol)
        expected = torch.from_numpy(np.ascontiguousarray(wanted).reshape(sets, -1))
        window = window_bytes(window_fd())
        judge.add(bulk_worker.compare(output, window, expected), 0, row * width)
    return judge.result()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_worker_says_of_floats_what_the_judge_says(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(FLOATS))
    tolerance = data.draw(st.sampled_from(TOLERANCES))
    special = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 65504.0, 65530.0])
    numbers = st.one_of(special, st.floats(-100, 100), st.floats(-1e-6, 1e-6))
    reference = data.draw(arrays.arrays(np.float64, SHAPE, elements=numbers))
    values = reference.copy()
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.tuples(st.integers(0, 2), st.integers(0, 5)))
        values[place] = data.draw(st.one_of(numbers, st.just(float(reference[place]) * 1.002)))
    got = encode(values, dtype)
    assert_agree(got, reference, dtype, tolerance, data.draw(st.integers(1, 3)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_worker_says_of_whole_numbers_what_the_judge_says(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([d for d in DType if not d.is_float]))
    low, high = dtype.integer_range
    low, high = max(low, -(2**63)), min(high, 2**63 - 1)
    reference = data.draw(arrays.arrays(np.int64, SHAPE, elements=st.integers(low, high)))
    got = encode(reference, dtype)
    if data.draw(st.booleans()):
        got[1, 2] = encode(np.array([data.draw(st.integers(low, high))]), dtype)[0]
    if data.draw(st.booleans()):  # A reference that has not been rounded.
        reference = reference + data.draw(st.floats(-3, 3))
    assert_agree(got, reference, dtype, data.draw(st.sampled_from(TOLERANCES[1:])), 2)


def assert_agree(got: Any, reference: Any, dtype: DType, tolerance: Tolerance, rows: int) -> None:
    wanted = judge_output("out", got, reference, dtype, tolerance)
    found = by_worker(got[None], reference[None], dtype, tolerance, rows)
    assert found.ok == wanted.ok, (found, wanted)
    assert found.error == pytest.approx(wanted.error, rel=1e-9, nan_ok=True)
    if not math.isinf(wanted.error) and (dtype.is_float or wanted.ok):
        assert found.max_abs == pytest.approx(wanted.max_abs, rel=1e-12)
        assert found.relative_l2 == pytest.approx(wanted.relative_l2, rel=1e-9)


def test_sets_are_judged_apart_and_the_wrong_one_is_named() -> None:
    reference = np.full((4, *SHAPE), 3.0)
    bits = encode(reference, DType.FLOAT16)
    bits[2, 1, 4] = encode(np.array([9.0]), DType.FLOAT16)[0]
    found = by_worker(bits, reference, DType.FLOAT16, TOLERANCES[0], 3)
    assert found.at == (2, 1, 4)
    assert (found.got, found.expected) == (9.0, 3.0)
    assert found.problem == "1 of 72 elements are off by more than is allowed"


def test_a_job_draws_the_inputs_of_its_rows_and_sets_itself() -> None:
    seen: list[tuple[Any, Any, int]] = []
    given: list[Any] = []

    def reference(values: Any) -> Any:
        seen.append((values["x"].numpy(), values["w"].numpy(), values["rows"]))
        given.append(values["scale"].numpy())
        return {"out": values["x"] * values["w"] * values["scale"][:, None]}

    x = BulkInput("x", Fill("float16", "normal", 0, 1, 0, ()), seed_of(1, "x"), (6, 6), True)
    w = BulkInput("w", Fill("float4_e2m1fn", "normal", 0, 1, 0, ()), seed_of(1, "w"), (6,), False)
    scale = BulkInput("scale", Fill("float32", "normal", 0, 1, 0, ()), seed_of(1, "s"), (6,), True)
    output = BulkOutput("out", "float64", (2, 6), 0, 1.0, 1.0)
    job = BulkJob(window_fd(), (x, w, scale), (output,), {"rows": 2}, 7, 3, 4, 2)
    answer = BulkWorker(reference, "").answer(job)
    assert (answer.where, answer.note) == ("cpu", "")
    assert answer.parts[0].elements == 36
    for number, (rows, weights, count) in enumerate(seen, 7):
        drawn = decode(draw(x.fill, x.seed, number, np.arange(24, 36)), DType.FLOAT16)
        np.testing.assert_array_equal(rows, drawn.reshape(2, 6))
        drawn = decode(draw(w.fill, w.seed, number, np.arange(3)), DType.FLOAT4_E2M1FN)
        np.testing.assert_array_equal(weights, drawn)
        assert count == 2
        drawn = decode(draw(scale.fill, scale.seed, number, np.arange(4, 6)), DType.FLOAT32)
        np.testing.assert_array_equal(given[number - 7], drawn)
