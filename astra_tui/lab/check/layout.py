"""Lays a case's tensors out in memory as the device has to see them, and reads outputs back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tui.lab.check.inputs import Inputs
from astra_tui.model.bit_patterns import encode, raw_dtype
from astra_tui.model.check import Case
from astra_tui.model.device import ArgumentRole, DeviceBuffer
from astra_tui.model.dtypes import DType
from astra_tui.model.launch.resolve import ResolvedWorkspace
from astra_tui.model.launch.scope import Layout
from astra_tui.model.task import Argument, KernelTask
from astra_tui.model.task.placement import alignment_of

POISON_NAN = "nan"
POISON_SENTINEL = "sentinel"
_SENTINEL = -123.0
PADDING_BYTE = 0xA5
"""What lies between rows."""


@dataclass(frozen=True)
class TensorLayout:
    """One tensor of a case: shape, strides, and how far off its alignment it begins.

    All are in items of memory: elements, or the pairs of a type of four bits.
    """

    argument: Argument
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def elements(self) -> int:
        """Items from the first to the last, the gaps between rows included."""
        if math.prod(self.shape) == 0:
            return 0
        return 1 + sum((s - 1) * t for s, t in zip(self.shape, self.strides, strict=True))

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The shape in elements, as the task has it."""
        return (*self.shape[:-1], self.shape[-1] * self.dtype.per_item)

    @property
    def alignment(self) -> int:
        """The largest power of two, up to BASE_ALIGNMENT, that divides the base address."""
        return alignment_of(self.offset * self.dtype.size)

    @property
    def is_contiguous(self) -> bool:
        """Whether there are no gaps."""
        return self.elements == math.prod(self.shape)

    def window(self, memory: Any) -> Any:
        """The items of flat memory (of the raw type) in the tensor's shape; a view."""
        if math.prod(self.shape) == 0:
            return np.zeros(self.shape, memory.dtype)
        size = memory.itemsize
        return np.lib.stride_tricks.as_strided(
            memory, self.shape, tuple(s * size for s in self.strides)
        )


def layouts_of(task: KernelTask, case: Case) -> dict[str, TensorLayout]:
    """How the tensors of a case lie in memory, which is as the contract asks for."""
    found = task.placements(case.dims, case.dtype, case.offsets, case.row_padding)
    return {
        name: TensorLayout(
            task.args[name],
            task.dtype_of(task.args[name], case.dtype),
            placement.shape,
            placement.strides,
            placement.shift,
        )
        for name, placement in found.items()
    }


def plan_layouts(layouts: Mapping[str, TensorLayout]) -> dict[str, Layout]:
    """What a launch plan may ask about tensors."""
    return {name: Layout(t.alignment, t.strides) for name, t in layouts.items()}


def device_buffers(
    layouts: Mapping[str, TensorLayout],
    inputs: Inputs,
    workspaces: tuple[ResolvedWorkspace, ...],
    poison: str = POISON_NAN,
) -> tuple[DeviceBuffer, ...]:
    """The buffers of one run: inputs in place, everything undefined poisoned."""
    buffers = [_tensor_buffer(name, t, inputs, poison) for name, t in layouts.items()]
    for workspace in workspaces:
        count = math.prod(workspace.shape)
        buffers.append(
            DeviceBuffer(
                workspace.name, ArgumentRole.WORKSPACE, _poison(count, workspace.dtype, poison)
            )
        )
    return tuple(buffers)


def _tensor_buffer(name: str, layout: TensorLayout, inputs: Inputs, poison: str) -> DeviceBuffer:
    use = layout.argument.role
    raw = raw_dtype(layout.dtype)
    covered = None
    if layout.is_contiguous:
        if layout.argument.is_read:
            content = np.ascontiguousarray(inputs.tensors[name]).view(np.uint8).reshape(-1)
        else:
            content = _poison(layout.elements, layout.dtype, poison)
    else:
        memory = np.full(layout.elements * layout.dtype.size, PADDING_BYTE, np.uint8).view(raw)
        marks = np.zeros(layout.elements, np.bool_)
        layout.window(marks)[...] = True
        if layout.argument.is_read:
            layout.window(memory)[...] = inputs.tensors[name]
        else:
            layout.window(memory)[...] = _poison(1, layout.dtype, poison).view(raw)[0]
        content = memory.view(np.uint8)
        covered = np.repeat(marks, layout.dtype.size)
    misalignment = layout.offset * layout.dtype.size
    return DeviceBuffer(name, use, content, misalignment, covered, layout.argument.stable)


def tensor_of(layout: TensorLayout, content: Any) -> Any:
    """The tensor's bit patterns out of a buffer's bytes, in its logical shape."""
    memory = np.ascontiguousarray(content).view(raw_dtype(layout.dtype))
    return layout.window(memory).copy()


def gaps_changed(layout: TensorLayout, content: Any) -> bool:
    """Whether a kernel wrote between the rows of a tensor."""
    if layout.is_contiguous:
        return False
    marks = np.zeros(layout.elements, np.bool_)
    layout.window(marks)[...] = True
    gaps = ~np.repeat(marks, layout.dtype.size)
    return bool((content[gaps] != PADDING_BYTE).any())


def _poison(count: int, dtype: DType, poison: str) -> Any:
    """Undefined memory: all ones (NaN), or a finite number that no kernel is likely to write."""
    if poison == POISON_NAN:
        return np.full(count * dtype.size, 0xFF, np.uint8)
    number = max(_SENTINEL, -dtype.largest / 4) if dtype.is_float else 85
    sentinel = encode(np.full(count * dtype.per_item, number), dtype)
    return np.ascontiguousarray(sentinel).view(np.uint8).reshape(-1)
