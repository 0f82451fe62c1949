"""Compares outputs with the float64 reference: masks first, then errors against scaled bounds.

An output is right if its NaNs and infinities stand exactly where the reference has them, if no
element's error is above atol + rtol * |reference| (or twice what the baseline makes there), and
if the relative L2 error of the whole output is small. The last is what a zero output fails when
all values lie below atol.

Of a float of 8 bits or less a step is far larger than what kernels compute wrongly, so half of it
is no error: there the tolerance bounds how far the number was from the reference before it was
rounded to nearest. Two codes are right only where the reference lies that close to their middle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from astra_tui.lab.check.pattern import pattern_of
from astra_tui.model.bit_patterns import codes, decode, encode, rounding_reach, ulp_distance
from astra_tui.model.check import OutputError, WrongElement
from astra_tui.model.dtypes import DType
from astra_tui.model.task import Tolerance

FIRST_WRONG = 4
"""Wrong elements of an output that are told one by one."""


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
    *,
    rounded: bool = False,
    sizes: tuple[str, ...] = (),
    nearest: Any = None,
) -> OutputError:
    """Judges one output. `bits` are its bit patterns, `reference` float64 (int64) values.

    Integer outputs have to be equal, or within `atol` where the task gives one. `rounded` says
    that the reference has been rounded to the output's type itself, perhaps to the other side.
    With `sizes`, the axes' sizes as the task writes them, it is told where wrong elements are.
    `nearest` is the reference encoded, where that is known.
    """
    if reference.size == 0:
        return OutputError(name, 0.0)
    if not dtype.is_float:
        judged, wrong = _judge_integers(name, decode(bits, dtype), reference, tolerance)
        return _located(judged, wrong, decode(bits, dtype), reference, sizes)
    assert tolerance is not None
    got = decode(bits, dtype)
    finite = np.isfinite(got) & np.isfinite(reference)
    mismatch = _mask_mismatch(got, reference, finite, dtype, tolerance)
    if mismatch is not None:
        wrong, problem = mismatch
        index = int(wrong.argmax())
        judged = OutputError(
            name,
            math.inf,
            at=_unravel(index, reference.shape),
            got=float(got.flat[index]),
            expected=float(reference.flat[index]),
            problem=problem,
        )
        return _located(judged, wrong, got, reference, sizes)
    if not finite.any():
        return OutputError(name, 0.0)
    parts = name, bits, got, reference, finite, dtype, tolerance, baseline or Allowance()
    nearest = encode(reference, dtype) if nearest is None else nearest
    judged, wrong = _judge_finite(*parts, 1.0 if rounded else 0.5, nearest)
    return _located(judged, wrong, got, reference, sizes)


def _located(
    judged: OutputError, wrong: Any, got: Any, reference: Any, sizes: tuple[str, ...]
) -> OutputError:
    """With the first wrong elements and where all of them are, where there are any."""
    if not sizes or len(sizes) != reference.ndim or not wrong.any():
        return judged
    first = (tuple(map(int, np.unravel_index(i, wrong.shape))) for i in _first_of(wrong))
    elements = tuple(WrongElement(at, float(got[at]), float(reference[at])) for at in first)
    return msgspec.structs.replace(judged, first=elements, pattern=pattern_of(wrong, sizes))


def _first_of(wrong: Any) -> Any:
    return np.flatnonzero(wrong)[:FIRST_WRONG]


def _difference(
    bits: Any, got: Any, reference: Any, finite: Any, dtype: DType, steps: float
) -> Any:
    """How far finite elements are from the reference, rounding to a narrow type taken off."""
    difference = np.where(finite, np.abs(got - reference), 0.0)
    if dtype.is_narrow:
        code = codes(bits, dtype)
        towards, away = (2 * steps * reach[code] for reach in rounding_reach(dtype))
        beyond = np.where(np.signbit(got), reference < got, reference > got)
        difference = np.maximum(difference - np.where(beyond, away, towards), 0.0)
    return difference


def _judge_integers(
    name: str, got: Any, reference: Any, tolerance: Tolerance | None
) -> tuple[OutputError, Any]:
    bound = tolerance.atol if tolerance is not None else 0.0
    # Two numbers that differ may be the same as float64.
    difference = np.abs(got.astype(np.float64) - reference.astype(np.float64))
    wrong = (got != reference) & ((difference > bound) | (bound == 0))
    worst = float(difference.max()) / bound if bound else 0.0
    if not wrong.any():
        return OutputError(name, worst, max_abs=float(difference.max())), wrong
    index = int(np.where(wrong, difference, -1.0).argmax())
    words = f"differ by more than {bound:g}" if bound else "differ"
    judged = OutputError(
        name,
        worst if bound else math.inf,
        at=_unravel(index, reference.shape),
        got=float(got.flat[index]),
        expected=float(reference.flat[index]),
        problem=f"{int(wrong.sum())} of {wrong.size} elements {words}",
    )
    return judged, wrong


def _mask_mismatch(
    got: Any, reference: Any, finite: Any, dtype: DType, tolerance: Tolerance
) -> tuple[Any, str] | None:
    """The elements that are NaN or infinite where the reference is not, or the other way."""
    may_overflow, must_overflow = overflow_bounds(dtype, tolerance.rtol)
    if finite.all() and np.abs(reference).max() <= must_overflow:
        return None
    nan = np.isnan(got) != np.isnan(reference)
    if nan.any():
        index = int(nan.argmax())
        word = "NaN where the reference is a number"
        if np.isnan(reference.flat[index]):
            word = "a number where the reference is NaN"
        return nan, f"{word}, at {int(nan.sum())} of {nan.size} elements"
    size = np.abs(reference)
    must = size > must_overflow
    may = must | (size >= may_overflow)
    infinite = np.isinf(got)
    wrong = (infinite & ~may) | (must & ~infinite)
    wrong |= infinite & may & (np.signbit(got) != np.signbit(reference))
    if wrong.any():
        return wrong, f"{overflow_words(dtype)}, at {int(wrong.sum())} of {wrong.size} elements"
    return None


def overflow_bounds(dtype: DType, rtol: float) -> tuple[float, float]:
    """The magnitudes from which a result may be infinite, and beyond which it has to be."""
    last = dtype.largest + (rounding_reach(dtype)[1].max() if dtype.is_narrow else 0.0)
    return last * (1 - rtol), last * (1 + rtol)


def overflow_words(dtype: DType) -> str:
    """What is wrong where only one of output and reference is beyond the type's numbers."""
    if dtype.has_infinity:
        return "infinite where the reference is finite, or the other way round"
    return (
        f"the reference is beyond {dtype.largest:g}, the largest {dtype.value}, which has no "
        "infinity: have reference.py clamp it"
    )


def _judge_finite(
    name: str,
    bits: Any,
    got: Any,
    reference: Any,
    finite: Any,
    dtype: DType,
    tolerance: Tolerance,
    allowance: Allowance,
    steps: float,
    nearest: Any,
) -> tuple[OutputError, Any]:
    numbers = reference if finite.all() else np.where(finite, reference, 0.0)
    difference = _difference(bits, got, numbers, finite, dtype, steps)
    bound = tolerance.atol + tolerance.rtol * np.abs(numbers)
    # A bound of zero asks for the reference rounded to the output's type.
    error = difference / np.maximum(bound, 1e-300)
    if tolerance.atol == 0 and tolerance.rtol == 0:
        error = np.where(codes(bits, dtype) == codes(nearest, dtype), 0.0, error)
    index = int(error.argmax())
    worst = float(error.flat[index])
    allowed = max(1.0, 2 * allowance.error)
    relative, slack = _relative_l2(difference, numbers, dtype, tolerance)
    relative_allowed = max(tolerance.relative_l2, 2 * allowance.relative_l2)
    problem = ""
    wrong = error > allowed
    if worst > allowed:
        problem = f"{int(wrong.sum())} of {error.size} elements are off by more than is allowed"
    elif relative > relative_allowed + slack:
        problem = f"the relative L2 error {relative:.2e} is above {relative_allowed:.2e}"
    ulps = ulp_distance(bits, nearest, dtype)
    judged = OutputError(
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
    return judged, wrong


def _relative_l2(
    difference: Any, reference: Any, dtype: DType, tolerance: Tolerance
) -> tuple[float, float]:
    """||got - ref|| / ||ref||, and what `absolute_slack` allows on top of a bound of it.

    Of a narrow type rounding is no part of the difference.

    Nothing is relative to a reference of zeros: there the bound of the elements decides.
    """
    # Not linalg.norm: its BLAS call starts threads, which cost more than these small sums.
    norm = math.sqrt(float(np.square(reference).sum()))
    error = math.sqrt(float(np.square(difference).sum()))
    if norm == 0.0:
        return 0.0, 0.0
    return error / norm, absolute_slack(dtype, tolerance, difference.size) / norm


_FEW = 8
"""Elements that may all happen to be such whose terms cancel."""
_ROUNDING = 16 * 2.0**-24
"""What a few float32 terms between 1 and 8 are rounded by."""


def absolute_slack(dtype: DType, tolerance: Tolerance, elements: int) -> float:
    """What may be added to the L2 error of so many elements, however small they are.

    Rounding to subnormals, and that of terms that cancel: of few elements it is allowed without
    the task's word, since all of them may be of that sort, and is at most a twentieth of `atol`.
    """
    step = 0.0 if dtype.is_narrow else dtype.smallest_step
    few = min(tolerance.atol / 20, _ROUNDING) if elements < _FEW else 0.0
    cancelled = max(tolerance.cancelled, few)
    return (step + cancelled) * math.sqrt(elements)


def _unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(index, shape))
