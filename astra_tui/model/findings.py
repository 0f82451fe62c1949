"""What a device found wrong while it ran a kernel, as data that screens and agents share."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class FindingKind(StrEnum):
    """The kinds of faults; the text of `EXPLANATIONS` says what each means."""

    GLOBAL_OUT_OF_BOUNDS = "global_out_of_bounds"
    SHARED_OUT_OF_BOUNDS = "shared_out_of_bounds"
    LOCAL_OUT_OF_BOUNDS = "local_out_of_bounds"
    MISALIGNED = "misaligned"
    UNINITIALISED_SHARED = "uninitialised_shared"
    UNINITIALISED_GLOBAL = "uninitialised_global"
    UNWRITTEN_OUTPUT = "unwritten_output"
    WROTE_INPUT = "wrote_input"
    WROTE_OUTSIDE = "wrote_outside"
    HIDDEN_STATE = "hidden_state"
    SHARED_RACE = "shared_race"
    GLOBAL_RACE = "global_race"
    DIVERGENT_BARRIER = "divergent_barrier"
    DIFFERENT_BARRIERS = "different_barriers"
    DEADLOCK = "deadlock"
    BAD_MASK = "bad_mask"
    BARRIER_MISUSE = "barrier_misuse"
    IN_FLIGHT = "in_flight"
    MISSING_FENCE = "missing_fence"
    ABSENT_BLOCK = "absent_block"
    BUDGET = "budget"
    TRAP = "trap"
    ASSERTION = "assertion"
    UNSUPPORTED = "unsupported"
    EXITED_BEFORE_BARRIER = "exited_before_barrier"
    INACTIVE_SHUFFLE = "inactive_shuffle"
    PRINTF = "printf"
    NON_COHERENT_LOAD = "non_coherent_load"
    BEFORE_WAIT = "before_wait"
    DEPENDS_ON_MACHINE = "depends_on_machine"
    DEPENDS_ON_ADDRESS = "depends_on_address"
    DEPENDS_ON_ORDER = "depends_on_order"
    DEPENDS_ON_APPROXIMATION = "depends_on_approximation"
    FLOAT_ATOMICS = "float_atomics"
    HANG = "hang"
    NOT_DETERMINISTIC = "not_deterministic"
    OUT_OF_RESOURCES = "out_of_resources"
    LAUNCH_FAILED = "launch_failed"
    HARDWARE = "hardware"


EXPLANATIONS: dict[FindingKind, str] = {
    FindingKind.GLOBAL_OUT_OF_BOUNDS: "an access outside every buffer of the launch",
    FindingKind.SHARED_OUT_OF_BOUNDS: "an access outside every shared array",
    FindingKind.LOCAL_OUT_OF_BOUNDS: "an access outside the thread's own arrays",
    FindingKind.MISALIGNED: "an address that is no multiple of the access's size",
    FindingKind.UNINITIALISED_SHARED: "a use of shared memory that no thread has written",
    FindingKind.UNINITIALISED_GLOBAL: "a read of an output or workspace that nothing has written",
    FindingKind.UNWRITTEN_OUTPUT: "a part of an output that no launch wrote",
    FindingKind.WROTE_INPUT: "a write to an argument that is only read",
    FindingKind.WROTE_OUTSIDE: "bytes next to a buffer that changed",
    FindingKind.HIDDEN_STATE: "a write to a __device__ variable, which would outlive the launch",
    FindingKind.SHARED_RACE: "two threads of a block touch a shared word with nothing between",
    FindingKind.GLOBAL_RACE: "two threads touch a global word with nothing between",
    FindingKind.DIVERGENT_BARRIER: "threads of one warp wait at different barriers",
    FindingKind.DIFFERENT_BARRIERS: "warps of one block wait at different barriers",
    FindingKind.DEADLOCK: "threads wait for others that never come",
    FindingKind.BAD_MASK: "a warp operation run by a lane that its mask does not name",
    FindingKind.BARRIER_MISUSE: "a barrier in memory or of a cluster used as it may not be",
    FindingKind.IN_FLIGHT: "a use of what an asynchronous copy reads or writes before it was "
    "waited for",
    FindingKind.MISSING_FENCE: "an asynchronous copy of what threads wrote, without "
    "fence.proxy.async between",
    FindingKind.ABSENT_BLOCK: "an access to shared memory of a block that may not have begun, or "
    "may have left",
    FindingKind.BUDGET: "more instructions than the budget allows: an endless loop?",
    FindingKind.TRAP: "__trap() was reached",
    FindingKind.ASSERTION: "an assert() failed",
    FindingKind.UNSUPPORTED: "an instruction that this device does not run",
    FindingKind.EXITED_BEFORE_BARRIER: "a barrier that some threads left the kernel before",
    FindingKind.INACTIVE_SHUFFLE: "a shuffle from a lane that does not take part",
    FindingKind.PRINTF: "printf was called; its text is not shown",
    FindingKind.NON_COHERENT_LOAD: "a non-coherent load (ld.global.nc, __ldg) of bytes that the "
    "same launch wrote",
    FindingKind.BEFORE_WAIT: "a launch with pdl= that uses global memory before it has waited for "
    "the launches before",
    FindingKind.DEPENDS_ON_MACHINE: "outputs that follow a timer, or an SM, warp or grid number",
    FindingKind.DEPENDS_ON_ADDRESS: "outputs that follow where buffers lie in memory",
    FindingKind.DEPENDS_ON_ORDER: "outputs that follow the order in which blocks and warps run",
    FindingKind.DEPENDS_ON_APPROXIMATION: "outputs that are right only while approximate "
    "instructions err less than they may",
    FindingKind.FLOAT_ATOMICS: "atomic sums of floats, whose order is not fixed",
    FindingKind.HANG: "the launches did not end in the time allowed: an endless loop?",
    FindingKind.NOT_DETERMINISTIC: "the same inputs gave other bytes in another run",
    FindingKind.OUT_OF_RESOURCES: "more registers, shared memory or memory than there is",
    FindingKind.LAUNCH_FAILED: "the GPU did not run the launches to their end",
    FindingKind.HARDWARE: "the GPU itself reported a fault",
}

WARNINGS = frozenset(
    {
        FindingKind.DIFFERENT_BARRIERS,
        FindingKind.EXITED_BEFORE_BARRIER,
        FindingKind.INACTIVE_SHUFFLE,
        FindingKind.PRINTF,
        FindingKind.FLOAT_ATOMICS,
    }
)
"""Kinds that are reported without failing a case."""

ACCEPTABLE = (
    FindingKind.GLOBAL_OUT_OF_BOUNDS,
    FindingKind.UNINITIALISED_SHARED,
    FindingKind.UNINITIALISED_GLOBAL,
    FindingKind.SHARED_RACE,
    FindingKind.GLOBAL_RACE,
    FindingKind.NON_COHERENT_LOAD,
    FindingKind.DEPENDS_ON_MACHINE,
    FindingKind.DEPENDS_ON_ADDRESS,
    FindingKind.DEPENDS_ON_ORDER,
    FindingKind.DEPENDS_ON_APPROXIMATION,
)
"""Kinds that an engineer may accept in task.toml: the launch can continue after them.

Out of bounds means loads that end within 4 KiB of their buffer; a store is never accepted.
"""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault, with the place of it in the source and in the launch.

    `line` is the line in the candidate's file, 0 where none is known; `callers` are the lines it
    was inlined into, innermost first. `header` is the place in an upstream file of the task, as in
    `upstream/a/b.cuh:12`, of code that comes from there; `line` then led there. `launch_line` is
    the line of the launch plan.
    """

    kind: FindingKind
    message: str
    line: int = 0
    callers: tuple[int, ...] = ()
    kernel: str = ""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    lanes: int = 0
    """How many threads had the fault in this instruction."""
    instruction: str = ""
    launch_line: int = 0
    accepted: str = ""
    """Why an engineer accepts it in task.toml; empty where no one does."""
    header: str = ""

    @property
    def is_warning(self) -> bool:
        """Whether the case may pass all the same."""
        return self.kind in WARNINGS or bool(self.accepted)

    def describe(self) -> str:
        """The finding in one line: place, kind, what happened, who did it."""
        place = f"line {self.line}: " if self.line else ""
        place += f"{self.header}: " if self.header else ""
        text = f"{place}{self.kind.value}: {self.message}"
        if self.block is not None and self.thread is not None:
            text += f" [block {_indices(self.block)} thread {_indices(self.thread)}"
            text += f", {self.lanes} threads]" if self.lanes > 1 else "]"
        if self.launch_line and self.launch_line != self.line:
            text += f" (launched at line {self.launch_line})"
        if self.accepted:
            text += f"; accepted in task.toml: {self.accepted}"
        return text


def _indices(value: tuple[int, int, int]) -> str:
    return "(" + ",".join(map(str, value)) + ")"
