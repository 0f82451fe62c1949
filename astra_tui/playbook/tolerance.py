"""Whether a task leaves room for results that differ in the last places."""

from __future__ import annotations

from astra_tui.model.task import KernelTask

MIN_RELATIVE = 1e-5
"""Approximate float32 functions are off by some 1e-6; see CUDA C++ Programming Guide,
mathematical functions, intrinsic functions."""


def tight_tolerance(task: KernelTask) -> str:
    """Why approximate arithmetic is out of the question for a task, "" where it is not."""
    for dtype, tolerance in task.tolerances.items():
        if dtype.is_float and tolerance.rtol < MIN_RELATIVE:
            return f"the task allows {dtype.value} a relative error of only {tolerance.rtol:g}"
    return ""
