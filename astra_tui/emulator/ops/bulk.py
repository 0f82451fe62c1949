"""cp.async.bulk, st.async and red.async: copies that end on a barrier in memory, or in groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from astra_tui.emulator.access import CLUSTER, Target, resolve
from astra_tui.emulator.bulk_copies import Arrivals, Copies, Place
from astra_tui.emulator.clocked_races import ClockedHistory
from astra_tui.emulator.faults import Fault, first_true
from astra_tui.emulator.lanes import Chunk, Group
from astra_tui.emulator.operands import DTYPES, UNSIGNED, Decoder, Run, opcode, type_of
from astra_tui.emulator.ops.atomics import PLAIN
from astra_tui.emulator.ops.mbarriers import arrive_after_copies, barrier_places
from astra_tui.emulator.ops.memory import immediate
from astra_tui.emulator.places import Places
from astra_tui.emulator.ptx.module import Instruction
from astra_tui.emulator.registers import spread
from astra_tui.emulator.step import AccessSpec, WriteAccess
from astra_tui.emulator.tally import GroupAccess
from astra_tui.model.findings import FindingKind

PIECE = 16
"""Bytes: addresses and sizes of bulk copies are multiples of it."""


@opcode("cp.async.bulk")
def _copy(decoder: Decoder, instruction: Instruction) -> Run:
    modifiers, operands = instruction.modifiers, instruction.operands
    spaces = [m for m in modifiers if m.split("::")[0] in ("global", "shared")]
    if len(spaces) != 2 or ("bulk_group" in modifiers) == (len(operands) > 3 + _policy(modifiers)):
        decoder.refuse(instruction)
    to, source = ("global" if space == "global" else CLUSTER for space in spaces)
    address, from_address = decoder.address(operands[0]), decoder.address(operands[1])
    read_size = decoder.read(operands[2], "u32")
    places = None if "bulk_group" in modifiers else barrier_places(decoder, operands[3])
    load = AccessSpec(decoder.index, PIECE, "load", in_bulk=True)
    store = AccessSpec(decoder.index, PIECE, "store", in_bulk=True)

    if to == "global":
        decoder.written = WriteAccess(address, store, to, read_size)
        decoder.addresses |= decoder.slots_of(operands[2])

    def run(regs: Any, group: Group) -> None:
        size = np.broadcast_to(read_size(regs), (group.n,)).astype(np.int64)
        first, begin = spread(address(regs), group.n), spread(from_address(regs), group.n)
        for what, value in (("size", size), ("destination", first), ("source", begin)):
            _require_multiple(what, value)
        owner = np.repeat(np.arange(group.n), size // PIECE)
        if not len(owner):
            return
        within = np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size // PIECE) // PIECE
        behind = (within * PIECE).astype(np.uint64)
        if places is not None:
            _require_ready(group, places(regs, group))
        origin = _resolve(group, owner, load, source, begin[owner] + behind)
        target = _resolve(group, owner, store, to, first[owner] + behind)
        if origin.space == "global" or target.space == "shared":
            _count(group, load if origin.space == "global" else store, origin, owner, size)
        if target.space == "global":
            _count(group, store, target, owner, size)
        copies = Copies(decoder_index, group.lanes, owner, PIECE, target, origin)
        if places is None:
            groups = group.chunk.bulk_copies.committed[group.lanes].copy()
            group.chunk.bulk_copies.issue(replace(copies, groups=groups))
            return
        _issue(group, copies, places(regs, group))

    decoder_index = decoder.index
    return run


def _policy(modifiers: tuple[str, ...]) -> int:
    return int("L2::cache_hint" in modifiers)


def _require_multiple(what: str, value: Any) -> None:
    wrong = (value & value.dtype.type(PIECE - 1)) != 0
    if wrong.any():
        at, lanes = first_true(wrong)
        number = f" of {int(value[at])} bytes" if what == "size" else ""
        text = f"a bulk copy whose {what}{number} is no multiple of {PIECE}"
        raise Fault(FindingKind.MISALIGNED, text, at, lanes)


def _resolve(group: Group, owner: Any, spec: AccessSpec, space: str, addresses: Any) -> Place:
    """Checks one side of copies, piece by piece."""
    try:
        target = resolve(group.repeated(owner), spec, space, addresses)
    except Fault as fault:
        fault.lane = int(owner[fault.lane])
        fault.lanes = 1
        raise
    if spec.direction == "store" and group.chunk.launch.checked:
        _require_apart(group, owner, target)
    return Place(target.space, target.offsets)


def _require_apart(group: Group, owner: Any, target: Target) -> None:
    """Raises Fault where copies of one instruction write the same bytes."""
    order = np.argsort(target.offsets, kind="stable")
    offsets = target.offsets[order]
    twice = np.flatnonzero(offsets[1:] == offsets[:-1])
    if len(twice):
        launch, offset = group.chunk.launch, int(offsets[twice[0]])
        if target.space == "global":
            kind, place = FindingKind.GLOBAL_RACE, launch.memory.describe_physical(offset)
        else:
            kind = FindingKind.SHARED_RACE
            place = launch.shared.describe_offset(offset % launch.shared.stride)
        text = f"asynchronous copies of several threads write {place} at once"
        raise Fault(kind, text, int(owner[order[twice[0] + 1]]), len(twice))


def _count(group: Group, spec: AccessSpec, place: Place, owner: Any, size: Any) -> None:
    launch = group.chunk.launch
    if launch.counted:
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        launch.tally.count_bulk(
            spec.index, place.space, spec.direction, place.offsets[first], size[owner[first]]
        )


def _require_ready(group: Group, places: Any) -> None:
    """Raises Fault for a barrier on which copies cannot complete."""
    chunk, clocks = group.chunk, group.chunk.clocks
    chunk.barriers.require(places, group.lanes)
    if clocks is None:
        return
    by, since = chunk.barriers.begun_by[places], chunk.barriers.begun_at[places]
    unfenced = ~clocks.is_fenced(group.lanes, by % clocks.members, since)
    if unfenced.any():
        at, lanes = first_true(unfenced)
        text = f"{chunk.barriers.name(places[at])} is not fenced from mbarrier.init to the copy: "
        text += "fence.mbarrier_init or fence.proxy.async"
        raise Fault(FindingKind.MISSING_FENCE, text, at, lanes)


def _issue(group: Group, copies: Copies, places: Any) -> None:
    """Issues copies that complete on barriers of the blocks that they write to."""
    chunk, stride = group.chunk, group.chunk.launch.shared.stride
    first = np.flatnonzero(np.diff(copies.owner, prepend=-1))
    elsewhere = copies.target.offsets[first] // stride != places[copies.owner[first]] * 8 // stride
    if elsewhere.any():
        at, lanes = first_true(elsewhere)
        text = "a copy to one block that completes on the mbarrier of another"
        raise Fault(FindingKind.BARRIER_MISUSE, text, int(copies.owner[first[at]]), lanes)
    copies = replace(copies, barriers=places)
    chunk.bulk_copies.issue(copies)
    if chunk.launch.variation.order:
        finish_oldest(chunk, -1)


def finish_all(chunk: Chunk) -> None:
    """Ends all copies, once every lane has left the kernel."""
    while finish_oldest(chunk):
        pass
    if chunk.has_bulk_copies:
        for copies in chunk.bulk_copies.grouped:
            _write(chunk, copies)


def finish_oldest(chunk: Chunk, which: int = 0) -> bool:
    """Ends the copies of one instruction that complete on barriers; whether there were any."""
    if not chunk.has_bulk_copies or not chunk.bulk_copies.queue:
        return False
    copies = chunk.bulk_copies.queue.pop(which)
    if isinstance(copies, Arrivals):
        arrive_after_copies(chunk, copies)
        return True
    _write(chunk, copies)
    chunk.bulk_copies.end(copies)
    chunk.bulk_copies.note_global()
    barriers = chunk.barriers
    words = chunk.bulk_copies.words(copies.target.offsets, copies.size)
    chunk.shared_state[words] = True
    history = chunk.shared_history
    if chunk.clocks is not None and isinstance(history, ClockedHistory):
        writer = barriers.copied(copies.barriers)[copies.owner]
        each = np.repeat(writer, len(words) // len(copies.owner))
        each = each if copies.update is None else -each
        history.note_write(words, each, chunk.clocks.tick() - 1)
    barriers.come(copies.barriers, copies.bytes)
    return True


def _write(chunk: Chunk, copies: Copies) -> None:
    """What copies do to memory."""
    span = np.arange(copies.size)
    memories = {"global": chunk.launch.memory.views[1], "shared": chunk.shared}
    data = copies.data
    if copies.source is not None:
        source = copies.source
        data = memories[source.space][source.offsets[:, None] + span]
    target, offsets = memories[copies.target.space], copies.target.offsets
    if copies.update is None:
        target[offsets[:, None] + span] = data
        return
    for offset, value in zip(offsets.tolist(), data, strict=True):
        place = slice(offset, offset + copies.size)
        target[place] = copies.update(target[place], value)


# -- groups ----------------------------------------------------------------------------------------


@opcode("cp.async.bulk.commit_group")
def _commit(decoder: Decoder, instruction: Instruction) -> Run:
    return lambda regs, group: group.chunk.bulk_copies.commit(group.lanes)


@opcode("cp.async.bulk.wait_group")
def _wait(decoder: Decoder, instruction: Instruction) -> Run:
    keep = immediate(instruction.operands[0])
    read = "read" in instruction.modifiers

    def run(regs: Any, group: Group) -> None:
        chunk = group.chunk
        unread, complete = chunk.bulk_copies.take(group.lanes, keep, read=read)
        for copies in unread:
            _write(chunk, copies)
            chunk.bulk_copies.end(copies, target=False)
            _note_read(chunk, copies, decoder_index)
        for copies in complete:
            chunk.bulk_copies.end(copies, source=False)

    decoder_index = decoder.index
    return run


def _note_read(chunk: Chunk, copies: Copies, step: int) -> None:
    """From the wait on, the lane that waited counts as the reader of what was copied."""
    source = copies.source
    if chunk.clocks is None or source is None or source.space != "shared":
        return
    group = Group.of(chunk, copies.lanes).repeated(copies.owner)
    words = chunk.bulk_copies.words(source.offsets, copies.size)
    words = Places(words, None).pieces(1, 0)
    by = group.accessors("shared", len(words) // len(copies.owner), step)
    chunk.shared_history.note_load(words, by, False)


# -- stores of registers ---------------------------------------------------------------------------


@opcode("st.async", "red.async")
def _store(decoder: Decoder, instruction: Instruction) -> Run:
    modifiers, operands = instruction.modifiers, instruction.operands
    if CLUSTER_SPACE not in modifiers or "mbarrier::complete_tx::bytes" not in modifiers:
        decoder.refuse(instruction)
    kind = type_of(instruction)
    parts = decoder.vector(operands[1])
    unit = DTYPES[kind].itemsize
    readers = [decoder.read(part, kind) for part in parts]
    address = decoder.address(operands[0])
    places = barrier_places(decoder, operands[2])
    update = _update(modifiers, kind) if instruction.operation == "red" else None
    direction = "store" if update is None else "atomic"
    spec = AccessSpec(decoder.index, unit * len(parts), direction, in_bulk=True)

    def run(regs: Any, group: Group) -> None:
        at = places(regs, group)
        _require_ready(group, at)
        columns = [spread(read(regs).view(UNSIGNED[unit]), group.n) for read in readers]
        data = np.ascontiguousarray(np.stack(columns, axis=1)).view(np.uint8)
        owner = np.arange(group.n)
        first = spread(address(regs), group.n)
        target = _resolve(group, owner, spec, CLUSTER, first)
        launch = group.chunk.launch
        if launch.counted:
            away = target.offsets // launch.shared.stride != group.block_slots
            if away.any():
                parts = group.warps, group.warp_count, False, group.lanes_in_warp
                counted = GroupAccess(Places(target.offsets, None), *parts)
                launch.tally.count_cluster(spec.index, direction, spec.size, counted.of(away))
        _issue(
            group,
            Copies(spec.index, group.lanes, owner, spec.size, target, data=data, update=update),
            at,
        )

    return run


CLUSTER_SPACE = "shared::cluster"


def _update(modifiers: tuple[str, ...], kind: str) -> Callable[[Any, Any], Any]:
    operation = PLAIN[next(m for m in modifiers if m in PLAIN)]
    dtype = DTYPES[kind]

    def update(old: Any, data: Any) -> Any:
        value = data.view(dtype)
        return np.asarray(operation(old.view(dtype), value, value), dtype).view(np.uint8)

    return update


# -- hints -----------------------------------------------------------------------------------------


@opcode("cp.async.bulk.prefetch")
def _prefetch(decoder: Decoder, instruction: Instruction) -> Run:
    address = decoder.address(instruction.operands[0])
    read_size = decoder.read(instruction.operands[1], "u32")

    def run(regs: Any, group: Group) -> None:
        size = np.broadcast_to(read_size(regs), (group.n,)).astype(np.int64)
        for what, value in (("size", size), ("source", spread(address(regs), group.n))):
            _require_multiple(what, value)

    return run
