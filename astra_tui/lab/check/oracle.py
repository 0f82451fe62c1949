"""The float64 reference: a trusted child process with torch, and a cache of expected values.

The candidate's device never sees what comes from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from astra_tui.lab.cache import ContentCache, Kept, content_key
from astra_tui.lab.check import inputs as inputs_module
from astra_tui.lab.check.bulk import BulkAnswer, BulkJob
from astra_tui.lab.check.inputs import Inputs
from astra_tui.model.bit_patterns import encode
from astra_tui.model.check import Case
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask
from astra_tui.processes.child import Child, ChildDied, ChildTimeout
from astra_tui.processes.escapes import Targets
from astra_tui.processes.frames import window_fd
from astra_tui.processes.shared_device import shared_device

START_SECONDS = 120.0
CASE_SECONDS = 120.0
"""CPU time that the reference may take for one case."""

DRAWN_BYTES = 256 << 20
"""Expected values of drawn cases that are kept: another seed draws others."""


_MOST_STORED = DRAWN_BYTES // 16
"""Expected values of a drawn case beyond which they would drive out those of too many others."""

KEPT_BYTES = 128 << 20
"""Expected values that are kept in memory; what they are encoded as comes to less than that again.
"""


class ReferenceFailed(UserError):
    """The task's reference.py is wrong, or cannot run."""


@dataclass(frozen=True)
class Expected:
    """What each output should be: float64, or int64 for integer outputs."""

    outputs: Mapping[str, Any]
    _nearest: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def nearest(self, name: str, dtype: DType) -> Any:
        """An output as bit patterns of its type, encoded once; None of whole numbers."""
        if not dtype.is_float:
            return None
        if name not in self._nearest:
            self._nearest[name] = encode(self.outputs[name], dtype)
        return self._nearest[name]


class Oracle:
    """Expected values of one task. The process starts only when the cache has no answer."""

    def __init__(self, task: KernelTask, cache: ContentCache | None = None):
        self.task = task
        self._cache = cache or ContentCache("oracle")
        self._drawn = ContentCache("drawn", self._cache.folder.parent, DRAWN_BYTES)
        self._child = Child(
            "astra_tui.lab.check.oracle_worker",
            (str(task.reference_file.resolve()),),
            name="the reference",
            fds=(window_fd(),),
        )
        self._kept: Kept[Expected] = Kept(KEPT_BYTES)
        self._ready = False
        self._gpu: dict[str, Any] | None = None

    def close(self) -> None:
        """Ends the reference's process."""
        self._child.close()

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts importing torch now; the caller continues meanwhile."""
        if self._child.running:
            return
        self._ready = False
        self._child.start()
        if self._gpu is not None:
            shared_device(self._gpu["uuid"]).note_holder(self._child.pid)
            self._child.send(self._gpu, START_SECONDS)

    def use_gpu(self, uuid: str, tools: bytes, symbols: dict[str, str]) -> None:
        """Has whole outputs judged on a GPU; `tools` are our own kernels (gpu/tools.cu)."""
        self._child.close()
        self._child.arguments = (*self._child.arguments[:1], "gpu")
        self._gpu = {"uuid": uuid, "tools": tools, "symbols": symbols}

    def warm_up(self, cases: tuple[Case, ...]) -> None:
        """Starts importing torch now if any of these cases has no cached answer."""
        if not all(_encoded(case) in self._kept or self._stored(case) for case in cases):
            self.start()

    def expected(self, case: Case, inputs: Inputs) -> Expected:
        """The reference's outputs. Raises ReferenceFailed when it fails or answers nonsense."""
        known = self.known(case)
        if known is None:
            answer = self._ask(case, inputs)
            if not case.seed or len(answer) <= _MOST_STORED:
                self._cache_of(case).put(self._key(case), answer)
            known = self._keep(case, answer)
        return known

    def known(self, case: Case) -> Expected | None:
        """As `expected`, where it was computed before."""
        kept = self._kept.get(_encoded(case))
        if kept is not None:
            return kept
        stored = self._stored(case)
        return None if stored is None else self._keep(case, stored)

    def _keep(self, case: Case, answer: bytes) -> Expected:
        expected = self._unpack(case, answer)
        self._kept.put(_encoded(case), expected, len(answer))
        return expected

    @property
    def pid(self) -> int:
        """The id of the reference's process, which may hold the GPU; 0 while there is none."""
        return self._child.pid

    def judge_bulk(self, job: BulkJob) -> BulkAnswer:
        """Compares what lies in the window with the reference. Raises ReferenceFailed."""
        answer = self._exchange({"bulk": msgspec.to_builtins(job)})
        if "error" in answer:
            raise ReferenceFailed(answer["error"], file=str(self.task.reference_file))
        found: BulkAnswer = msgspec.convert(answer["bulk"], BulkAnswer)
        return found

    def finish_bulk(self) -> None:
        """Has the process give back the GPU memory that it keeps for the next job."""
        self._exchange({"finish": True})

    def try_escapes(self, targets: Targets) -> dict[str, str]:
        """Has the process try to get out; see processes/escapes.py. Raises ReferenceFailed."""
        return self._exchange({"escapes": msgspec.to_builtins(targets)})

    def _key(self, case: Case) -> str:
        return content_key("2", inputs_module.VERSION, self.task.hash, _encoded(case))

    def _stored(self, case: Case) -> bytes | None:
        return self._cache_of(case).get(self._key(case))

    def _cache_of(self, case: Case) -> ContentCache:
        """Cases that a seed drew have one of their own: they must not drive out the others."""
        return self._drawn if case.seed else self._cache

    def _ask(self, case: Case, inputs: Inputs) -> bytes:
        arguments: dict[str, Any] = dict(inputs.scalars)
        arguments.update(case.dims)
        tensors = {}
        for name, bits in inputs.tensors.items():
            dtype = self.task.dtype_of(self.task.args[name], case.dtype)
            data = np.ascontiguousarray(bits).reshape(-1).view(np.uint8).data
            tensors[name] = [dtype.value, list(bits.shape), data]
        answer = self._exchange({"tensors": tensors, "arguments": arguments})
        if "error" in answer:
            raise ReferenceFailed(
                answer["error"], file=str(self.task.reference_file), hint=f"in case {case.id}"
            )
        return msgspec.msgpack.encode(answer["outputs"])

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            self.start()
            if not self._ready:
                hello = self._child.receive(START_SECONDS)
                if "error" in hello:
                    raise ReferenceFailed(hello["error"], file=str(self.task.reference_file))
                self._ready = True
            answer: dict[str, Any] = self._child.ask(message, CASE_SECONDS, cpu=True)
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


def _encoded(case: Case) -> bytes:
    return msgspec.json.encode(case, order="sorted")
