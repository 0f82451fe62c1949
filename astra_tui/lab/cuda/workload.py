"""One workload as the GPU process wants it: buffers that it draws itself, and bound versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from astra_tui.lab.check.binding import bind_launch
from astra_tui.lab.check.execution import Source, resolve_case
from astra_tui.lab.check.inputs import Inputs, planted_value, scalars_of
from astra_tui.lab.check.layout import layouts_of
from astra_tui.lab.cuda import drawing
from astra_tui.lab.cuda.device import kernels_of
from astra_tui.lab.cuda.messages import Fill, SetBuffer, Version
from astra_tui.model.check import Case
from astra_tui.model.compilation import Compilation
from astra_tui.model.errors import UserError
from astra_tui.model.launch import Refused
from astra_tui.model.launch.expression import Name
from astra_tui.model.task import Argument, KernelTask, Workload


@dataclass(frozen=True)
class Compiled:
    """A source that compiled, ready to be bound to a workload."""

    source: Source
    compilation: Compilation


class WorkloadBuffers:
    """The tensors of a workload, and their values wherever somebody needs them."""

    def __init__(self, task: KernelTask, workload: Workload, seed: int):
        self.task = task
        self.workload = workload
        self.seed = seed
        self.case = Case(workload.name, "", workload.dtype, dict(workload.dims))
        self._layouts = layouts_of(task, self.case)
        self.buffers = tuple(self._buffer(a) for a in task.tensors)

    @property
    def set_bytes(self) -> int:
        """Bytes of one set, what is changed in place counted twice."""
        return sum(b.size * (2 if b.use == "inout" else 1) for b in self.buffers)

    def bind(self, compiled: Compiled, attributes: Mapping[str, int]) -> Version:
        """A version's launches on this workload. Raises UserError when its plan refuses it."""
        scalars = scalars_of(self.task, self.case)
        resolved = resolve_case(self.task, compiled.source, self.case, scalars, attributes)
        if isinstance(resolved, Refused):
            raise UserError(
                f"the launch plan refuses workload {self.workload.name}: {resolved.reason}",
                file=compiled.source.file,
                place=resolved.place,
            )
        types = {name: layout.dtype for name, layout in self._layouts.items()}
        types.update({w.name: w.dtype for w in resolved.workspaces})
        launches = tuple(
            bind_launch(
                compiled.compilation.kernel(launch.kernel), launch, types, compiled.source.file
            )
            for launch in resolved.launches
        )
        return Version(
            compiled.compilation.cubin,
            kernels_of(launches),
            tuple((w.name, prod(w.shape) * w.dtype.size) for w in resolved.workspaces),
        )

    def rows(self) -> int:
        """Independent rows of the workload; 0 where the task names none."""
        return self.workload.dims[self.task.rows] if self.task.rows else 0

    def inputs(self, number: int, rows: Any) -> tuple[Case, Inputs]:
        """The inputs of some rows of a set, drawn here, as a case of so many rows."""
        dims = dict(self.workload.dims)
        if self.task.rows:
            dims[self.task.rows] = len(rows)
        case = Case(self.workload.name, "", self.workload.dtype, dims)
        tensors = {
            b.name: self._values(self.task.args[b.name], b, number, rows)
            for b in self.buffers
            if b.fill is not None
        }
        return case, Inputs(tensors, scalars_of(self.task, case))

    def ranges(self, number: int, rows: Any) -> list[tuple[str, int, int, int]]:
        """Where the outputs of these rows lie: (buffer, set, first byte, bytes)."""
        found = []
        for argument in self.task.outputs:
            layout = self._layouts[argument.name]
            size = layout.elements * layout.dtype.size
            if not self._has_rows(argument):
                found.append((argument.name, number, 0, size))
                continue
            of_row = size // max(layout.shape[0], 1)
            found += [(argument.name, number, int(r) * of_row, of_row) for r in rows]
        return found

    def outputs(self, pieces: list[bytes], rows: Any) -> dict[str, Any]:
        """The outputs of these rows as bit patterns, from the pieces that `ranges` asked for."""
        found, at = {}, 0
        for argument in self.task.outputs:
            layout = self._layouts[argument.name]
            count = len(rows) if self._has_rows(argument) else 1
            raw = b"".join(pieces[at : at + count])
            shape = (count, *layout.shape[1:]) if self._has_rows(argument) else layout.shape
            found[argument.name] = np.frombuffer(raw, f"u{layout.dtype.size}").reshape(shape)
            at += count
        return found

    def _values(self, argument: Argument, buffer: SetBuffer, number: int, rows: Any) -> Any:
        assert buffer.fill is not None
        shape = self._layouts[argument.name].shape
        if self._has_rows(argument):
            row = prod(shape[1:])
            indices = np.asarray(rows)[:, None] * row + np.arange(row)[None, :]
            shape = (len(rows), *shape[1:])
        else:
            indices = np.arange(prod(shape))
        seed = drawing.seed_of(self.seed, buffer.name)
        return drawing.draw(buffer.fill, seed, number, indices.reshape(-1)).reshape(shape)

    def _has_rows(self, argument: Argument) -> bool:
        first = argument.shape[0] if argument.shape else None
        return bool(self.task.rows) and isinstance(first, Name) and first.id == self.task.rows

    def _buffer(self, argument: Argument) -> SetBuffer:
        layout = self._layouts[argument.name]
        fill = None
        if argument.is_read:
            values = argument.values
            fill = Fill(
                dtype=layout.dtype.value,
                kind=values.kind.value,
                low=values.low,
                high=values.high,
                limit=argument.limit or 0.0,
                planted=tuple(
                    planted_value(name, argument, layout.dtype) for name in values.planted
                ),
            )
        return SetBuffer(
            argument.name,
            argument.role.value,
            layout.elements * layout.dtype.size,
            layout.elements,
            fill,
        )
