"""mbarrier: barriers in shared memory with phases, and what makes copies arrive at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from astra_tui.emulator.access import shared_places
from astra_tui.emulator.address_space import SHARED
from astra_tui.emulator.bulk_copies import Arrivals
from astra_tui.emulator.lanes import Group
from astra_tui.emulator.mbarriers import BYTES, pending_count
from astra_tui.emulator.operands import Decoder, Run, opcode
from astra_tui.emulator.ops.asynchronous import end_copies
from astra_tui.emulator.ptx.module import Instruction, Operand, Register
from astra_tui.emulator.registers import spread
from astra_tui.emulator.step import AccessSpec, Flow, Step

Places = Callable[[Any, Group], Any]
"""From registers and lanes to the places of barriers in the chunk's shared memory."""

_OFFSETS = np.uint64(0xFFFF_FFFF)


def barrier_places(decoder: Decoder, operand: Operand) -> Places:
    """A function that gives the barriers that an address operand names, by place."""
    address = decoder.address(operand)
    spec = AccessSpec(decoder.index, BYTES, "an mbarrier operation", synchronising=True)

    def places(regs: Any, group: Group) -> Any:
        given = spread(address(regs), group.n)
        window = given & ~_OFFSETS
        if ((window != 0) & (window != np.uint64(SHARED))).any():
            given = given | np.uint64(PEERLESS)
        local, peers = shared_places(group, spec, given & _OFFSETS, of_cluster=True)
        stride = group.chunk.launch.shared.stride
        return (local + (group.shared_base if peers is None else peers * stride)) // BYTES

    return places


PEERLESS = 0xFF00_0000
"""No block of any cluster: what is not in shared memory is refused as such."""


def _has_result(instruction: Instruction) -> bool:
    first = instruction.operands[0]
    return isinstance(first, Register) and first.name != "_"


@opcode("mbarrier.init")
def _init(decoder: Decoder, instruction: Instruction) -> Run:
    places = barrier_places(decoder, instruction.operands[0])
    count = decoder.read(instruction.operands[1], "u32")

    def run(regs: Any, group: Group) -> None:
        counts = np.broadcast_to(count(regs), (group.n,)).astype(np.int64)
        group.chunk.barriers.init(places(regs, group), counts, group.lanes)

    return run


@opcode("mbarrier.inval")
def _inval(decoder: Decoder, instruction: Instruction) -> Run:
    places = barrier_places(decoder, instruction.operands[0])
    return lambda regs, group: group.chunk.barriers.invalidate(places(regs, group), group.lanes)


@opcode("mbarrier.arrive", "mbarrier.arrive_drop")
def _arrive(decoder: Decoder, instruction: Instruction) -> Run:
    modifiers, operands = instruction.modifiers, instruction.operands
    places = barrier_places(decoder, operands[1])
    write = decoder.write(operands[0], "b64")
    number = decoder.read(operands[2], "u32") if len(operands) > 2 else None
    expects = "expect_tx" in modifiers
    releases = "relaxed" not in modifiers
    drops = "arrive_drop" in modifiers
    stays = "noComplete" in modifiers
    if _has_result(instruction) and "shared::cluster" in modifiers:
        decoder.refuse(instruction)

    def run(regs: Any, group: Group) -> None:
        barriers, at = group.chunk.barriers, places(regs, group)
        barriers.require(at, group.lanes)
        given = np.ones((), np.int64) if number is None else number(regs).astype(np.int64)
        given = np.broadcast_to(given, (group.n,))
        if expects:
            barriers.expect(at, given)
        counts = np.ones(group.n, np.int64) if expects else given
        if drops:
            barriers.drop(at, counts)
        tokens = barriers.arrive(at, counts, group.lanes, releases=releases, stays=stays)
        write(regs, tokens.astype(np.uint64))

    return run


@opcode("mbarrier.expect_tx", "mbarrier.complete_tx")
def _transactions(decoder: Decoder, instruction: Instruction) -> Run:
    places = barrier_places(decoder, instruction.operands[0])
    count = decoder.read(instruction.operands[1], "u32")
    expects = "expect_tx" in instruction.modifiers

    def run(regs: Any, group: Group) -> None:
        barriers, at = group.chunk.barriers, places(regs, group)
        barriers.require(at, group.lanes)
        counts = np.broadcast_to(count(regs), (group.n,)).astype(np.int64)
        (barriers.expect if expects else barriers.come)(at, counts)

    return run


@opcode("mbarrier.test_wait", "mbarrier.try_wait")
def _wait(decoder: Decoder, instruction: Instruction) -> Step:
    modifiers, operands = instruction.modifiers, instruction.operands
    places = barrier_places(decoder, operands[1])
    write = decoder.write(operands[0], "pred")
    by_parity = "parity" in modifiers
    given = decoder.read(operands[2], "u32" if by_parity else "b64")
    acquires = "relaxed" not in modifiers

    def passed(group: Group) -> Any:
        barriers, at = group.chunk.barriers, places(group.registers, group)
        barriers.require(at, group.lanes)
        value = np.broadcast_to(given(group.registers), (group.n,)).astype(np.int64)
        return (barriers.has_parity_passed if by_parity else barriers.has_phase_passed)(at, value)

    def run(regs: Any, group: Group) -> None:
        found = passed(group)
        if acquires and found.any():
            at = places(regs, group)
            group.chunk.barriers.acquire(at[found], group.lanes[found])
        write(regs, found)

    step = Step(Flow.POLL, run)
    step.wait = passed
    step.polled = lambda group: group.chunk.barriers.awaits(places(group.registers, group)[0])
    return step


@opcode("mbarrier.pending_count")
def _pending_count(decoder: Decoder, instruction: Instruction) -> Run:
    write = decoder.write(instruction.operands[0], "b32")
    state = decoder.read(instruction.operands[1], "b64")
    return lambda regs, group: write(
        regs, pending_count(np.asarray(state(regs)).astype(np.int64)).astype(np.uint32)
    )


@opcode("cp.async.mbarrier.arrive")
def _arrive_after_copies(decoder: Decoder, instruction: Instruction) -> Run:
    places = barrier_places(decoder, instruction.operands[0])
    counts_itself = "noinc" not in instruction.modifiers

    def run(regs: Any, group: Group) -> None:
        chunk, at = group.chunk, places(regs, group)
        chunk.barriers.require(at, group.lanes)
        if counts_itself:
            chunk.barriers.more_pending(at)
        arrivals = Arrivals(group.lanes, at)
        if chunk.launch.variation.order:
            arrive_after_copies(chunk, arrivals)
        else:
            chunk.bulk_copies.queue.append(arrivals)

    return run


def arrive_after_copies(chunk: Any, arrivals: Arrivals) -> None:
    """The cp.async copies of lanes end, and with them the lanes arrive."""
    end_copies(chunk, arrivals.lanes, 0, uncommitted_too=True)
    chunk.barriers.arrive(arrivals.barriers, np.ones(len(arrivals.lanes)), arrivals.lanes)


@opcode("fence.proxy.async", "fence.mbarrier_init")
def _fence_proxy(decoder: Decoder, instruction: Instruction) -> Run:
    def run(regs: Any, group: Group) -> None:
        if group.chunk.clocks is not None:
            group.chunk.clocks.fence(group.lanes)

    return run
