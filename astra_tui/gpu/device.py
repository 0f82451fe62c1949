"""A GPU as a device: every candidate runs in a process of its own, which it cannot outlive."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping

import numpy as np

from astra_tui.gpu.gpu_process import MODULE, GpuFailure, GpuProcess, finding_of
from astra_tui.gpu.hidden_state import hidden_state
from astra_tui.gpu.messages import CaseBuffer, CaseRan, DeviceFacts, Kernel, RunCase
from astra_tui.gpu.tools import ToolKernels
from astra_tui.model.compilation import Compilation
from astra_tui.model.device import (
    PLAIN,
    Accepts,
    DeviceBuffer,
    PackedLaunch,
    RunOutcome,
    Variation,
    accept_nothing,
    has_float_atomics,
)
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.launch.resolve import MAX_WORKSPACE_BYTES
from astra_tui.processes.shared_device import shared_device

CASE_SECONDS = 10.0
"""How long the launches of one case may take, copies and all repeats included."""
REPEATS = 10
REPEATED_BYTES = 4 << 20
"""Larger cases are run once: their copies would take longer than all others together."""

BEFORE_WAIT = Finding(
    FindingKind.BEFORE_WAIT,
    "a launch with pdl= stored before it had waited for the launch before, which was late",
)

_PROCESSES = 2
"""One for the candidate, one for the baseline whose own error widens the bounds."""


class CudaDevice:
    """One GPU. `run` never raises for what a candidate does: that is in the findings."""

    workspace_bytes = MAX_WORKSPACE_BYTES

    def __init__(
        self,
        facts: DeviceFacts,
        tools: ToolKernels,
        seconds: float = CASE_SECONDS,
        module: str = MODULE,
    ):
        self.facts = facts
        self.name = f"cuda:{facts.ordinal}"
        self.seconds = seconds
        self._tools = tools
        self._shared = shared_device(facts.uuid)
        self._module = module
        self._processes: OrderedDict[bytes, GpuProcess] = OrderedDict()
        self._spare: GpuProcess | None = None
        self._asked: set[bytes] = set()
        """Those whose processes are being asked by `process_of`."""

    @property
    def attributes(self) -> Mapping[str, int]:
        """What launch plans may ask about the device."""
        return self.facts.attributes

    @property
    def gpu_processes(self) -> tuple[int, ...]:
        """Ids of the processes that hold the GPU; they idle between two runs."""
        spare = (self._spare,) if self._spare is not None else ()
        alive = (p.opened for p in (*self._processes.values(), *spare) if p.is_running)
        return tuple(opened.pid for opened in alive if opened is not None)

    def settle(self) -> None:
        """Waits until no process is about to take hold of the GPU, so that nothing disturbs it."""
        if self._spare is not None:
            with contextlib.suppress(GpuFailure):  # The next request is told.
                self._spare.settle()

    def close(self) -> None:
        """Ends all processes."""
        for process in self._processes.values():
            process.close()
        self._processes.clear()
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    def __enter__(self) -> CudaDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        compilation: Compilation,
        launches: tuple[PackedLaunch, ...],
        buffers: tuple[DeviceBuffer, ...],
        *,
        checked: bool = True,
        counted: bool = True,
        traffic: bool = False,
        variation: Variation = PLAIN,
        accepts: Accepts = accept_nothing,
    ) -> RunOutcome:
        """Runs launches in order on fresh buffers; `checked` repeats them to see them agree.

        Nothing is counted here, whatever is asked for, and hardware varies as it likes.
        """
        del counted, traffic, variation, accepts
        hidden = hidden_state(compilation) if checked else ()
        if hidden:
            return RunOutcome({b.name: b.content for b in buffers}, hidden)
        with self._shared.together():
            return self._run(compilation, launches, buffers, checked=checked)

    def _run(
        self,
        compilation: Compilation,
        launches: tuple[PackedLaunch, ...],
        buffers: tuple[DeviceBuffer, ...],
        *,
        checked: bool,
    ) -> RunOutcome:
        process, is_new = self._process(compilation.cubin)
        size = sum(int(b.content.size) for b in buffers)
        request = RunCase(
            cubin=compilation.cubin if is_new else b"",
            kernels=kernels_of(launches),
            buffers=tuple(map(_case_buffer, buffers)),
            repeats=REPEATS if checked and size <= REPEATED_BYTES else 1,
            may_vary=has_float_atomics(compilation.ptx),
        )
        try:
            ran = process.ask(request, CaseRan, self.seconds)
        except GpuFailure as error:
            if error.is_fatal or is_new:
                self._forget(compilation.cubin)
            return RunOutcome({b.name: b.content for b in buffers}, (finding_of(error),))
        contents = {
            name: np.frombuffer(content, np.uint8) for name, content in ran.contents.items()
        }
        findings = (
            *_unwaited(ran, [launch for launch in launches if all(launch.grid)]),
            *_findings(ran, has_float_atomics(compilation.ptx)),
        )
        return RunOutcome(contents, findings)

    @contextlib.contextmanager
    def process_of(self, cubin: bytes) -> Iterator[GpuProcess]:
        """The process in which a candidate's cases ran, for other requests to it.

        Another one, where that is being asked already. No one has the GPU alone meanwhile.
        """
        with self._shared.together():
            if cubin in self._asked:
                with contextlib.closing(self._new()) as other:
                    yield other
                return
            process, is_new = self._process(cubin)
            self._asked.add(cubin)
            try:
                yield process
            finally:
                self._asked.remove(cubin)
                if is_new or not process.is_running:  # `run` has not loaded the cubin there.
                    self._forget(cubin)

    def _process(self, cubin: bytes) -> tuple[GpuProcess, bool]:
        """The process that has this cubin loaded, or a fresh one."""
        known = self._processes.get(cubin)
        if known is not None and known.is_running:
            self._processes.move_to_end(cubin)
            return known, False
        if known is not None:
            self._forget(cubin)
        while len(self._processes) >= _PROCESSES:
            _, oldest = self._processes.popitem(last=False)
            oldest.close()
        if self._spare is not None and not self._spare.is_running:
            # A candidate is not to blame for what became of a process before it.
            self._spare.close()
            self._spare = None
        process = self._spare or self._new()
        self._processes[cubin] = process
        self._spare = self._new()
        self._spare.start()
        return process, True

    def _new(self) -> GpuProcess:
        return GpuProcess(self.facts.uuid, self._tools, self._module)

    def _forget(self, cubin: bytes) -> None:
        self._processes.pop(cubin).close()


def kernels_of(launches: tuple[PackedLaunch, ...]) -> tuple[Kernel, ...]:
    """Launches as the GPU process wants them; those of an empty grid are left out."""
    return tuple(
        Kernel(
            launch.kernel.symbol,
            launch.grid,
            launch.block,
            launch.shared_bytes,
            launch.parameters,
            launch.pointers,
            launch.pdl,
            launch.cluster,
        )
        for launch in launches
        if all(launch.grid)
    )


def _case_buffer(buffer: DeviceBuffer) -> CaseBuffer:
    is_output = buffer.use.starts_undefined
    # A producer writes all of an output, what lies between its rows too, which has to stay.
    has_gaps = buffer.covered is not None
    return CaseBuffer(
        buffer.name,
        buffer.content.tobytes(),
        buffer.misalignment,
        produced=not buffer.stable and not (is_output and has_gaps),
        is_output=is_output,
    )


def _unwaited(ran: CaseRan, launches: list[PackedLaunch]) -> Iterator[Finding]:
    for number in ran.unwaited:
        launch = launches[number]
        text = (
            f"launch {number + 1} of the plan, or one after it, uses what launches before it write "
            "before it has waited for them: it is wrong where they are late"
        )
        yield Finding(
            FindingKind.BEFORE_WAIT,
            text,
            kernel=launch.kernel.expression,
            launch_line=launch.line,
        )


def _findings(ran: CaseRan, float_atomics: bool) -> list[Finding]:
    found = [BEFORE_WAIT] if ran.early else []
    for name, distance in sorted(ran.overrun.items()):
        side = f"{-distance} bytes before" if distance < 0 else f"{distance} bytes past the end of"
        text = f"a write outside every buffer, {side} {name}"
        found.append(Finding(FindingKind.WROTE_OUTSIDE, text))
    if ran.unstable:
        text = f"{', '.join(ran.unstable)}: not the same bytes in every one of {REPEATS} runs"
        kind = FindingKind.FLOAT_ATOMICS if float_atomics else FindingKind.NOT_DETERMINISTIC
        found.append(Finding(kind, text))
    return found
