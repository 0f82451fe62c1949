"""Compares outputs with the float64 reference: masks first, then errors against scaled bounds.

An output is right if its NaNs and infinities stand exactly where the reference has them, if no
element's error is above atol + rtol * |reference| (or twice what the baseline makes there), and
if the relative L2 error of the whole output is small. The last is what a zero output fails when
all values lie below atol.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.model.check import OutputError
from astra_tui.model.dtypes import DType
from astra_tui.model.encoding import decode, encode, spacing, ulp_distance
from astra_tui.model.task import Tolerance


@dataclass(frozen=True)
class Allowance:
    """What the baseline itself makes: its error as a fraction of the tolerance, and relative L2.

    Twice that is allowed, where it is more than the tolerance.
    """

    error: float = 0.0
    relative_l2: float = 0.0


def judge_output(
    name: str,
    bits: Any,
    reference: Any,
    dtype: DType,
    tolerance: Tolerance | None,
    baseline: Allowance | None = None,
) -> OutputError:
    """Judges one output. `bits` are its bit patterns, `reference` float64 (int64) values.

    Integer outputs have to be equal, or within `atol` where the task gives one.
    """
    if reference.size == 0:
        return OutputError(name, 0.0)
    if not dtype.is_float:
        return _judge_integers(name, decode(bits, dtype), reference, tolerance)
    assert tolerance is not None
    got = decode(bits, dtype)
    mismatch = _mask_mismatch(got, reference, dtype, tolerance)
    if mismatch is not None:
        index, problem = mismatch
        return OutputError(
            name,
            math.inf,
            at=_unravel(index, reference.shape),
            got=float(got.flat[index]),
            expected=float(reference.flat[index]),
            problem=problem,
        )
    return _judge_finite(name, bits, got, reference, dtype, tolerance, baseline or Allowance())


def _judge_integers(
    name: str, got: Any, reference: Any, tolerance: Tolerance | None
) -> OutputError:
    bound = tolerance.atol if tolerance is not None else 0.0
    # Two numbers that differ may be the same as float64.
    difference = np.abs(got.astype(np.float64) - reference.astype(np.float64))
    wrong = (got != reference) & ((difference > bound) | (bound == 0))
    worst = float(difference.max()) / bound if bound else 0.0
    if not wrong.any():
        return OutputError(name, worst, max_abs=float(difference.max()))
    index = int(np.where(wrong, difference, -1.0).argmax())
    words = f"differ by more than {bound:g}" if bound else "differ"
    return OutputError(
        name,
        worst if bound else math.inf,
        at=_unravel(index, reference.shape),
        got=float(got.flat[index]),
        expected=float(reference.flat[index]),
        problem=f"{int(wrong.sum())} of {wrong.size} elements {words}",
    )


def _mask_mismatch(
    got: Any, reference: Any, dtype: DType, tolerance: Tolerance
) -> tuple[int, str] | None:
    """The first element that is NaN or infinite where the reference is not, or the other way."""
    nan = np.isnan(got) != np.isnan(reference)
    if nan.any():
        index = int(nan.argmax())
        word = "NaN where the reference is a number"
        if np.isnan(reference.flat[index]):
            word = "a number where the reference is NaN"
        return index, f"{word}, at {int(nan.sum())} of {nan.size} elements"
    size = np.abs(reference)
    must = size > dtype.largest * (1 + tolerance.rtol)
    may = must | (size >= dtype.largest * (1 - tolerance.rtol))
    infinite = np.isinf(got)
    wrong = (infinite & ~may) | (must & ~infinite)
    wrong |= infinite & may & (np.signbit(got) != np.signbit(reference))
    if wrong.any():
        index = int(wrong.argmax())
        text = "infinite where the reference is finite, or the other way round"
        return index, f"{text}, at {int(wrong.sum())} of {wrong.size} elements"
    return None


def _judge_finite(
    name: str,
    bits: Any,
    got: Any,
    reference: Any,
    dtype: DType,
    tolerance: Tolerance,
    allowance: Allowance,
) -> OutputError:
    finite = np.isfinite(got) & np.isfinite(reference)
    if not finite.any():
        return OutputError(name, 0.0)
    difference = np.where(finite, np.abs(got - np.where(finite, reference, 0.0)), 0.0)
    bound = tolerance.atol + tolerance.rtol * np.abs(np.where(finite, reference, 0.0))
    # A bound of zero asks for the reference rounded to the output's type.
    error = np.where(difference == 0, 0.0, difference / np.maximum(bound, 1e-300))
    if tolerance.atol == 0 and tolerance.rtol == 0:
        error = np.where(bits == encode(reference, dtype), 0.0, error)
    index = int(error.argmax())
    worst = float(error.flat[index])
    allowed = max(1.0, 2 * allowance.error)
    relative, slack = _relative_l2(difference, reference, finite, dtype)
    relative_allowed = max(tolerance.relative_l2, 2 * allowance.relative_l2)
    problem = ""
    if worst > allowed:
        wrong = int((error > allowed).sum())
        problem = f"{wrong} of {error.size} elements are off by more than is allowed"
    elif relative > relative_allowed + slack:
        problem = f"the relative L2 error {relative:.2e} is above {relative_allowed:.2e}"
    ulps = ulp_distance(bits, encode(reference, dtype), dtype)
    return OutputError(
        name,
        worst,
        allowed=allowed,
        max_abs=float(difference.max()),
        max_ulp=float(np.where(finite, ulps, 0).max()),
        relative_l2=relative,
        relative_l2_allowed=relative_allowed + slack,
        at=_unravel(index, reference.shape),
        got=float(got.flat[index]),
        expected=float(reference.flat[index]),
        problem=problem,
    )


def _relative_l2(difference: Any, reference: Any, finite: Any, dtype: DType) -> tuple[float, float]:
    """||got - ref|| / ||ref||, and what rounding to subnormals alone may add to it.

    Nothing is relative to a reference of zeros: there the bound of the elements decides.
    """
    # Not linalg.norm: its BLAS call starts threads, which cost more than these small sums.
    norm = math.sqrt(float(np.square(np.where(finite, reference, 0.0)).sum()))
    error = math.sqrt(float(np.square(difference).sum()))
    if norm == 0.0:
        return 0.0, 0.0
    return error / norm, spacing(dtype) * math.sqrt(difference.size) / norm


def _unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(index, shape))
