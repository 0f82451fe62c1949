"""cp.async: asynchronous copies from global to shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_tui.emulator.access import resolve, shared_words
from astra_tui.emulator.clocked_races import ClockedHistory
from astra_tui.emulator.copies import Copy
from astra_tui.emulator.lanes import Chunk, Group
from astra_tui.emulator.operands import Decoder, Run, opcode
from astra_tui.emulator.ops.memory import immediate
from astra_tui.emulator.places import Places
from astra_tui.emulator.ptx.module import Immediate, Instruction
from astra_tui.emulator.step import AccessSpec


@opcode("cp.async")
def _cp_async(decoder: Decoder, instruction: Instruction) -> Run:
    modifiers = instruction.modifiers
    if "commit_group" in modifiers:
        return lambda regs, group: group.chunk.copies.commit(group.lanes)
    if "wait_all" in modifiers:
        return lambda regs, group: end_copies(group.chunk, group.lanes, 0, uncommitted_too=True)
    if "wait_group" in modifiers:
        keep = immediate(instruction.operands[0])
        return lambda regs, group: end_copies(group.chunk, group.lanes, keep, uncommitted_too=False)
    return _issue(decoder, instruction)


def _issue(decoder: Decoder, instruction: Instruction) -> Run:
    size = immediate(instruction.operands[2])
    if size not in (4, 8, 16):
        decoder.refuse(instruction)
    to_address = decoder.address(instruction.operands[0])
    from_address = decoder.address(instruction.operands[1])
    read_spec = AccessSpec(decoder.index, size, "load")
    write_spec = AccessSpec(decoder.index, size, "store")
    source_size = None
    policy = "L2::cache_hint" in instruction.modifiers
    if len(instruction.operands) > 3 + policy:
        operand = instruction.operands[3]
        source_size = (
            None
            if isinstance(operand, Immediate) and operand.value == size
            else (decoder.read(operand, "u32"))
        )

    def run(regs: dict[int, Any], group: Group) -> None:
        count = None if source_size is None else np.broadcast_to(source_size(regs), (group.n,))
        data = np.zeros((group.n, size), np.uint8)
        _fetch(group, read_spec, np.broadcast_to(from_address(regs), (group.n,)), count, data)
        target = resolve(group, write_spec, "shared", to_address(regs))
        words = shared_words(group, target.places, size).array.reshape(group.n, -1)
        group.chunk.shared_state[words.reshape(-1)] = True
        group.chunk.copies.issue(group.lanes, target.offsets, words, data)

    return run


def _fetch(group: Group, spec: AccessSpec, addresses: Any, count: Any, data: Any) -> None:
    """Reads the source bytes; lanes whose source size is smaller get zeros after it."""
    if count is not None and not (count == spec.size).all():
        reading = np.flatnonzero(count == spec.size)
        if ((count != 0) & (count != spec.size)).any():
            for lane in np.flatnonzero((count != 0) & (count != spec.size)):
                part = group.part(np.array([lane]))
                narrow = AccessSpec(spec.index, 1, "load")
                for byte in range(int(count[lane])):
                    target = resolve(part, narrow, "global", addresses[lane] + np.uint64(byte))
                    data[lane, byte] = target.views[1][target.offsets[0]]
        if not len(reading):
            return
        part = group.part(reading)
        target = resolve(part, spec, "global", addresses[reading])
        data[reading] = target.views[1][target.offsets[:, None] + np.arange(spec.size)]
        return
    target = resolve(group, spec, "global", addresses)
    data[:] = target.views[1][target.offsets[:, None] + np.arange(spec.size)]


def end_copies(chunk: Chunk, lanes: Any, keep: int, *, uncommitted_too: bool) -> None:
    """The copies of lanes end, all groups but the latest `keep`."""
    if "copies" not in chunk.__dict__:
        return
    for copy in chunk.copies.complete(lanes, keep, uncommitted_too):
        size = copy.data.shape[1]
        chunk.shared[copy.targets[:, None] + np.arange(size)] = copy.data
        if chunk.launch.checked:
            _record_writes(chunk, copy)


def _record_writes(chunk: Chunk, copy: Copy) -> None:
    """From the wait on, the words count as written by the thread that waited."""
    words = copy.words
    per_lane = words.shape[1]
    history = chunk.shared_history
    if isinstance(history, ClockedHistory):
        writer = np.repeat(history.clocks.member[copy.lanes] + 1, per_lane)
        history.note_write(words.reshape(-1), writer, chunk.launch.time)
        return
    flat = words.reshape(-1)
    history.settle(chunk.oldest_epochs)
    history.note_epoch(chunk.epoch[copy.lanes])
    history.stretches.turn_into_words(Places(flat, None).pieces(1, 0), history)
    thread = np.repeat((chunk.thread[copy.lanes] + 1).astype(np.int32), per_lane)
    history.writer[flat] = thread
    history.write_epoch[flat] = np.repeat(chunk.epoch[copy.lanes], per_lane)
    history.write_time[flat] = chunk.launch.time
