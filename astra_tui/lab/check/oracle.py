"""The float64 reference: a trusted child process with torch, behind a cache of expected values.

The candidate's device never sees what comes from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from astra_tui.lab.cache import ContentCache, content_key
from astra_tui.lab.check import inputs as inputs_module
from astra_tui.lab.check.encoding import decode
from astra_tui.lab.check.inputs import Inputs
from astra_tui.lab.child import Child, ChildDied, ChildTimeout
from astra_tui.model.check import Case
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask

START_SECONDS = 120.0
CASE_SECONDS = 120.0


class ReferenceFailed(UserError):
    """The task's reference.py is wrong, or cannot run."""


@dataclass(frozen=True)
class Expected:
    """What each output should be: float64, or int64 for integer outputs."""

    outputs: Mapping[str, Any]


class Oracle:
    """Expected values of one task. The process starts only when the cache has no answer."""

    def __init__(self, task: KernelTask, cache: ContentCache | None = None):
        self.task = task
        self._cache = cache or ContentCache("oracle")
        self._child = Child(
            "astra_tui.lab.check.oracle_worker",
            (str(task.reference_file.resolve()),),
            name="the reference",
        )
        self._ready = False

    def close(self) -> None:
        """Ends the reference's process."""
        self._child.close()

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts importing torch now; the caller goes on meanwhile."""
        self._child.start()

    def warm_up(self, cases: tuple[Case, ...]) -> None:
        """Starts importing torch now if any of these cases has no cached answer."""
        if not all(self._stored(case) for case in cases):
            self.start()

    def expected(self, case: Case, inputs: Inputs) -> Expected:
        """The reference's outputs. Raises ReferenceFailed when it fails or answers nonsense."""
        stored = self._stored(case)
        if stored is None:
            stored = self._ask(case, inputs)
            self._cache.put(self._key(case), stored)
        return self._unpack(case, stored)

    def compute(self, case: Case, inputs: Inputs) -> Expected:
        """As `expected`, for inputs that did not come from the case's own seeds: never cached."""
        return self._unpack(case, self._ask(case, inputs))

    def _key(self, case: Case) -> str:
        encoded = msgspec.json.encode(case, order="sorted")
        return content_key("1", inputs_module.VERSION, self.task.hash, encoded)

    def _stored(self, case: Case) -> bytes | None:
        return self._cache.get(self._key(case))

    def _ask(self, case: Case, inputs: Inputs) -> bytes:
        arguments: dict[str, Any] = dict(inputs.scalars)
        arguments.update(case.dims)
        tensors = {}
        for name, bits in inputs.tensors.items():
            dtype = self.task.dtype_of(self.task.args[name], case.dtype)
            values = np.ascontiguousarray(decode(bits, dtype))
            tensors[name] = [values.dtype.str, list(values.shape), values.tobytes()]
        answer = self._exchange({"tensors": tensors, "arguments": arguments})
        if "error" in answer:
            raise ReferenceFailed(
                answer["error"], file=str(self.task.reference_file), hint=f"in case {case.id}"
            )
        return msgspec.msgpack.encode(answer["outputs"])

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            self._child.start()
            if not self._ready:
                hello = self._child.receive(START_SECONDS)
                if "error" in hello:
                    raise ReferenceFailed(hello["error"], file=str(self.task.reference_file))
                self._ready = True
            answer: dict[str, Any] = self._child.ask(message, CASE_SECONDS)
        except (ChildDied, ChildTimeout) as error:
            self._ready = False
            raise ReferenceFailed(str(error), file=str(self.task.reference_file)) from None
        return answer

    def _unpack(self, case: Case, data: bytes) -> Expected:
        answer = msgspec.msgpack.decode(data)
        outputs = {}
        for argument in self.task.outputs:
            if argument.name not in answer:
                raise ReferenceFailed(
                    f"reference() returns no '{argument.name}'",
                    file=str(self.task.reference_file),
                    hint=f"it has to return a dict with {[a.name for a in self.task.outputs]}",
                )
            kind, shape, raw = answer[argument.name]
            values = np.frombuffer(raw, np.dtype(kind)).reshape(shape)
            wanted = self.task.shape_of(argument, case.dims, case.dtype)
            if tuple(shape) != wanted:
                raise ReferenceFailed(
                    f"reference() returns {argument.name} of shape {tuple(shape)}, "
                    f"the task says {wanted}",
                    file=str(self.task.reference_file),
                    hint=f"in case {case.id}",
                )
            outputs[argument.name] = values
        return Expected(outputs)
