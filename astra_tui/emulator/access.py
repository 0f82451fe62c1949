"""One load, store or atomic by a group of lanes: checked, counted, turned into array indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from astra_tui.emulator.address_space import (
    LOCAL,
    PARAM,
    PEER_OFFSET,
    PEER_SHIFT,
    SHARED,
    space_of,
)
from astra_tui.emulator.clocked_races import ClockedHistory
from astra_tui.emulator.faults import Fault, first_true
from astra_tui.emulator.lanes import Group
from astra_tui.emulator.mbarriers import BYTES
from astra_tui.emulator.memory import Buffer, require_aligned, views_of
from astra_tui.emulator.places import Pieces, Places
from astra_tui.emulator.races import AccessHistory, Accessors
from astra_tui.emulator.registers import spread
from astra_tui.emulator.step import AccessSpec
from astra_tui.emulator.tally import GroupAccess
from astra_tui.emulator.undefined_values import fault_of, note_load
from astra_tui.model.findings import FindingKind

_OFFSET_MASK = np.uint64(0xFFFF_FFFF)
_ANY = "generic"
CLUSTER = "cluster"
"""Shared memory of any block of the cluster."""


class Target(NamedTuple):
    """Where an access goes: the bytes of a memory, and an offset into them for each lane."""

    views: dict[int, Any]
    places: Places
    space: str

    @property
    def offsets(self) -> Any:
        """The offset of each lane."""
        return self.places.offsets


def resolve(
    group: Group,
    spec: AccessSpec,
    space: str,
    addresses: Any,
    unchanged: Callable[[Target], Any] | None = None,
) -> Target:
    """Checks and counts an access; raises Fault when it is wrong.

    `unchanged` tells, lane by lane, whether a store writes what is there already.
    """
    if space == "shared" and not addresses.ndim:
        local = int(addresses & _OFFSET_MASK)
        if not local % spec.size and group.chunk.launch.shared.holds(local, spec.size):
            return _one_place_a_block(group, spec, local, unchanged)
    addresses = spread(addresses, group.n)
    if space == _ANY:
        space = _only_space(addresses)
        if space == "shared" and group.chunk.launch.program.is_asynchronous:
            space = CLUSTER
    elif space == "param":  # That of the kernel, or of a function, which lies in local memory.
        space = "param" if _only_space(addresses) == "param" else "local"
    if space in ("shared", CLUSTER, "local"):
        addresses = addresses & _OFFSET_MASK
    if space == "global":
        return _global(group, spec, addresses, unchanged)
    if space in ("shared", CLUSTER):
        return _shared(group, spec, addresses, space == CLUSTER, unchanged)
    if space == "param":
        return _parameter(group, spec, addresses)
    return _local(group, spec, addresses)


def _only_space(addresses: Any) -> str:
    spaces = space_of(addresses)
    first = int(spaces[0])
    if (spaces != first).any():
        lane, lanes = first_true(spaces != first)
        raise Fault(
            FindingKind.UNSUPPORTED,
            "one instruction reaches several memories (such as shared and global) through generic "
            "pointers",
            lane,
            lanes,
        )
    return {SHARED: "shared", LOCAL: "local", PARAM: "param"}.get(first, "global")


def _global(
    group: Group, spec: AccessSpec, addresses: Any, unchanged: Callable[[Target], Any] | None
) -> Target:
    launch, memory = group.chunk.launch, group.chunk.launch.memory
    virtual = Places.of((addresses - memory.origin).view(np.int64))
    offsets = virtual.offsets
    buffer = _located(group, spec, virtual)
    require_aligned(virtual, spec.size, spec.direction)
    if spec.writes and (buffer is None or not buffer.tracked):
        require_writable(memory, offsets, buffer, spec)
    if launch.dependency is not None:
        waited = group.chunk.waited[group.lanes]
        launch.dependency.require_waited(waited, spec, memory, buffer, offsets)
    places = memory.physical(virtual)
    target = Target(memory.views, places, "global")
    if launch.checked:
        if spec.reads:
            try:
                memory.require_defined(places, spec.size, buffer)
            except Fault as fault:
                if not group.tolerates(fault, spec.index):
                    raise
        _check_global_race(group, spec, target, buffer, unchanged)
    if launch.counted and not spec.in_bulk:
        launch.tally.count_global(spec.index, spec.direction, spec.size, _counted(group, virtual))
    if launch.traffic is not None:
        launch.traffic.note(spec, virtual, group.warps, group.whole_warps, buffer)
    return target


def _located(group: Group, spec: AccessSpec, places: Places) -> Buffer | None:
    """The buffer of an access; a load may leave it where an engineer accepts that."""
    launch = group.chunk.launch
    try:
        return launch.memory.locate(places, spec.size, spec.direction)
    except Fault as fault:
        if spec.writes or not launch.memory.near(places.offsets, spec.size):
            raise
        if not group.tolerates(fault, spec.index):
            raise
        return None


def require_writable(memory: Any, offsets: Any, buffer: Buffer | None, spec: AccessSpec) -> None:
    """Raises Fault where a lane writes what it may only read. `offsets` are in their buffers."""
    if buffer is not None and buffer.tracked:
        return
    owners = memory.owners(offsets)
    locked = np.array([not b.tracked for b in memory.buffers], np.bool_)[owners]
    if not locked.any():
        return
    lane, lanes = first_true(locked)
    owner = memory.buffers[int(owners[lane])]
    place = memory.describe_offset(int(offsets[lane]))
    if owner.use is None:
        kind = FindingKind.HIDDEN_STATE
        text = f"{spec.direction} to {place}: a __device__ variable would outlive the launch; "
        text += "declare a workspace in the launch plan"
    else:
        kind = FindingKind.WROTE_INPUT
        text = f"{spec.direction} to {place}: this argument is only read"
    raise Fault(kind, text, lane, lanes)


def _check_global_race(
    group: Group,
    spec: AccessSpec,
    target: Target,
    buffer: Buffer | None,
    unchanged: Callable[[Target], Any] | None,
) -> None:
    if buffer is not None and not buffer.tracked:
        return
    launch = group.chunk.launch
    memory, history = launch.memory, launch.history
    words = memory.words(target.places, spec.size)
    per_lane = words.per_lane
    if group.touches_stretches("global", spec, target.places, history):
        if spec.writes:
            memory.note_stores(words)
        else:
            memory.note_loads(words, False)
        return
    if spec.non_coherent:
        history.stretches.turn_into_words(words, history)
        written = words.take(history.writer) != 0
        if written.any():
            fault = _non_coherent(group, spec, target, written, per_lane)
            if not group.tolerates(fault, spec.index):
                raise fault
    if group.chunk.has_bulk_copies:
        _require_no_copy(group, spec, target.offsets)
    by = group.accessors("global", per_lane, spec.index)
    acquired = launch.fences.ordered if launch.program.uses_release else None
    try:
        if spec.writes:
            history.store(
                words, by, acquired, spec.synchronising, _per_word(unchanged, target, per_lane)
            )
        elif spec.in_bulk:
            history.require_ordered(words, by, acquired, False)
        else:
            history.load(words, by, acquired, spec.synchronising)
        if spec.reads:
            memory.note_loads(words, spec.writes)
    except Fault as fault:
        fault.lane //= per_lane
        if not group.tolerates(fault, spec.index):
            raise
        note = history.note_store if spec.writes else history.note_load
        note(words, by, spec.synchronising)
    if spec.writes:
        memory.note_stores(words)


def _require_no_copy(group: Group, spec: AccessSpec, offsets: Any) -> None:
    """Raises Fault where an access touches global memory that copies still use."""
    used = group.chunk.bulk_copies.global_use(offsets, spec.writes)
    if used.any():
        at, lanes = first_true(used)
        place = group.chunk.launch.memory.describe_physical(int(offsets[at]))
        text = f"{spec.direction} at {place}, which an asynchronous copy uses that has not been "
        raise Fault(FindingKind.IN_FLIGHT, f"{text}waited for", at, lanes)


def _non_coherent(
    group: Group, spec: AccessSpec, target: Target, written: Any, per_lane: int
) -> Fault:
    index, _ = first_true(written)
    lane = index // per_lane
    place = group.chunk.launch.memory.describe_physical(int(target.offsets[lane]))
    return Fault(
        FindingKind.NON_COHERENT_LOAD,
        f"a non-coherent load (ld.global.nc) of {spec.size} bytes at {place}, which this "
        "launch has written: it may give what was there before",
        lane,
        int(written.reshape(-1, per_lane).any(axis=1).sum()),
    )


def _shared(
    group: Group,
    spec: AccessSpec,
    addresses: Any,
    of_cluster: bool,
    unchanged: Callable[[Target], Any] | None,
) -> Target:
    local, peers = shared_places(group, spec, addresses, of_cluster)
    places = Places.of(
        local + (group.shared_base if peers is None else peers * group.chunk.launch.shared.stride)
    )
    return _shared_at(group, spec, places, peers, unchanged)


def _one_place_a_block(
    group: Group, spec: AccessSpec, local: int, unchanged: Callable[[Target], Any] | None
) -> Target:
    """As `_shared_at`, for lanes that access one place in their blocks' shared memory each."""
    places, launch = group.shared_places(local), group.chunk.launch
    if spec.writes or not (launch.checked and _loads_late(group, spec, local)):
        return _shared_at(group, spec, places, None, unchanged, local)
    if launch.counted:
        _count_shared(group, spec, places, None)
    return Target(group.chunk.shared_views, places, "shared")


def _loads_late(group: Group, spec: AccessSpec, local: int) -> bool:
    """Whether a load of one place of each block finds what was written before a barrier: then it is
    put off.
    """
    chunk = group.chunk
    history = chunk.shared_history
    if not isinstance(history, AccessHistory) or chunk.pending_copies is not None:
        return False
    if not (chunk.has_written(local, spec.size) and history.is_older(group.oldest_epoch)):
        return False
    if not spec.synchronising:
        history.put_off(group.late_load_of(spec, local), chunk.oldest_epochs)
    return True


def _shared_at(
    group: Group,
    spec: AccessSpec,
    places: Places,
    peers: Any,
    unchanged: Callable[[Target], Any] | None,
    local: int = -1,
) -> Target:
    """`local` is where in its block's memory every lane accesses it, if that is one place."""
    chunk, launch = group.chunk, group.chunk.launch
    target = Target(chunk.shared_views, places, "shared")
    if launch.checked:
        if peers is not None and not spec.in_bulk:
            _reach(group, peers, spec.index)
        _check_shared_words(group, spec, target, unchanged, local)
    if launch.counted and not spec.in_bulk:
        _count_shared(group, spec, places, peers)
    return target


def _count_shared(group: Group, spec: AccessSpec, places: Places, peers: Any) -> None:
    """Counts what lanes access in their own block and in others; blocks lie whole banks apart."""
    tally, counted = group.chunk.launch.tally, _counted(group, places)
    own = None if peers is None else peers == group.block_slots
    if own is None or own.all():
        tally.count_shared(spec.index, spec.direction, spec.size, counted)
        return
    if own.any():
        tally.count_shared(spec.index, spec.direction, spec.size, counted.of(own))
    tally.count_cluster(spec.index, spec.direction, spec.size, counted.of(~own))


def shared_places(
    group: Group, spec: AccessSpec, addresses: Any, of_cluster: bool
) -> tuple[Any, Any]:
    """Where in a block's shared memory an access goes, and in which blocks of the chunk; None
    for these where all are the lanes' own. Raises Fault for what is no shared memory.

    `addresses` are the lower 32 bits of addresses, which say where in their window they are.
    """
    chunk, launch = group.chunk, group.chunk.launch
    local, peers = addresses.view(np.int64), None
    if of_cluster and (local >> PEER_SHIFT).any():
        ranks = local >> PEER_SHIFT
        if (ranks > launch.cluster_blocks).any():
            at, lanes = first_true(ranks > launch.cluster_blocks)
            text = f"{spec.direction} in shared memory of block {int(ranks[at]) - 1} of the cluster"
            text += f", which has {launch.cluster_blocks}"
            raise Fault(FindingKind.SHARED_OUT_OF_BOUNDS, text, at, lanes)
        peers = np.where(ranks > 0, chunk.peers(group.block_slots, ranks - 1), group.block_slots)
        local = local & PEER_OFFSET
        gone = chunk.live_in_block[peers] == 0
        if gone.any():
            at, lanes = first_true(gone)
            text = (
                f"{spec.direction} in shared memory of block {int(chunk.rank[peers[at]])} of the "
            )
            text += "cluster, which has left the kernel"
            raise Fault(FindingKind.ABSENT_BLOCK, text, at, lanes)
    launch.shared.require_inside(local, spec.size, spec.direction)
    require_aligned(Places(local, None), spec.size, spec.direction)
    return local, peers


def _reach(group: Group, peers: Any, step: int) -> None:
    """Notes accesses to other blocks. Raises Fault where one may not have begun."""
    clocks, remote = group.chunk.clocks, np.flatnonzero(peers != group.block_slots)
    assert clocks is not None
    if not len(remote):
        return
    lanes, ranks = group.lanes[remote], group.chunk.rank[peers[remote]]
    unknown = ~clocks.knows_block(lanes, ranks)
    if unknown.any():
        at, count = first_true(unknown)
        text = (
            f"an access to shared memory of block {int(ranks[at])} of the cluster, which may not "
        )
        text += "have begun: let the cluster meet before it (cluster.sync())"
        raise Fault(FindingKind.ABSENT_BLOCK, text, int(remote[at]), count)
    clocks.reach(lanes, ranks, step)


def _check_shared_words(
    group: Group,
    spec: AccessSpec,
    target: Target,
    unchanged: Callable[[Target], Any] | None,
    local: int,
) -> None:
    chunk = group.chunk
    words = shared_words(group, target.places, spec.size)
    per_lane = words.per_lane
    reduces = spec.in_bulk and spec.direction == "atomic"
    if chunk.has_bulk_copies and not reduces:
        chunk.bulk_copies.require_unused(words.array, per_lane, spec.writes)
    if spec.writes and chunk.has_barriers:
        _require_no_barrier(group, spec, target.offsets)
    if spec.reads:
        fault = _undefined_shared(group, spec, target, words)
        if fault is not None and not group.tolerates(fault, spec.index):
            raise fault
    history = chunk.shared_history
    if isinstance(history, AccessHistory) and _is_in_order(group, spec, words, history, local):
        if spec.writes:
            words.put(chunk.shared_state, True)
        return
    by = group.accessors("shared", per_lane, spec.index)
    try:
        if spec.in_bulk:
            _check_bulk(group, spec, words, by)
        elif spec.writes:
            history.store(
                words, by, None, spec.synchronising, _per_word(unchanged, target, per_lane)
            )
        else:
            history.load(words, by, None, spec.synchronising)
    except Fault as fault:
        fault.lane //= per_lane
        if not group.tolerates(fault, spec.index):
            raise
        note = history.note_store if spec.writes else history.note_load
        note(words, by, spec.synchronising)
    if spec.writes:
        words.put(chunk.shared_state, True)


def _is_in_order(
    group: Group, spec: AccessSpec, words: Pieces, history: AccessHistory, local: int
) -> bool:
    """Whether barriers tell that an access of shared memory races with nothing: then it is noted,
    or put off. `local` is as in `_shared_at`.
    """
    chunk, epoch = group.chunk, group.oldest_epoch
    if not spec.writes and history.is_older(epoch):
        if not spec.synchronising:
            history.put_off(group.late_load(spec, words.places), chunk.oldest_epochs)
        return True
    if local < 0 or history.has_late_load(local, spec.size):
        history.settle(chunk.oldest_epochs)
    is_untouched = history.is_untouched(epoch)
    if spec.writes:
        history.note_epoch(group.epoch)
    else:
        history.note_read_epoch(group.epoch)
    if group.touches_stretches("shared", spec, words.places, history):
        return True
    if spec.writes and is_untouched:
        by = group.accessors("shared", words.per_lane, spec.index)
        history.store_untouched(words, by, spec.synchronising)
        return True
    return False


def _check_bulk(group: Group, spec: AccessSpec, words: Pieces, by: Accessors) -> None:
    """A copy begins to write or to read shared memory: threads have to be done with it, and what
    they wrote has to be fenced. Raises Fault with the index of a word.
    """
    history, clocks = group.chunk.shared_history, group.chunk.clocks
    assert isinstance(history, ClockedHistory)
    assert clocks is not None
    if spec.writes:
        history.require_free(words, by, spec.direction == "atomic")
        return
    history.require_ordered(words, by, None, False)
    writer = np.abs(words.take(history.writer))
    at = np.flatnonzero((writer > 0) & (writer <= clocks.members))
    lanes = group.lanes[at // words.per_lane]
    open_still = ~clocks.is_fenced(lanes, writer[at] - 1, history.write_time[words.array[at]])
    if open_still.any():
        index, count = first_true(open_still)
        place = history.describe(int(words.array[at[index]]))
        text = f"a copy of {place}, which a thread wrote: no fence.proxy.async lies between"
        raise Fault(FindingKind.MISSING_FENCE, text, int(at[index]), count)


def _require_no_barrier(group: Group, spec: AccessSpec, offsets: Any) -> None:
    """Raises Fault for a store over an mbarrier."""
    barriers = group.chunk.barriers
    hit = barriers.expected[offsets >> 3] != 0
    if spec.size > BYTES:
        hit |= barriers.expected[(offsets + BYTES) >> 3] != 0
    if hit.any():
        at, lanes = first_true(hit)
        text = f"{spec.direction} over {barriers.name(offsets[at] >> 3)}"
        raise Fault(FindingKind.BARRIER_MISUSE, text, at, lanes)


def shared_words(group: Group, places: Places, size: int) -> Pieces:
    """The granules of shared memory that an access touches, lane by lane."""
    return places.pieces(size, group.chunk.launch.shared.granule_bits)


def _undefined_shared(
    group: Group, spec: AccessSpec, target: Target, words: Pieces
) -> Fault | None:
    """The fault of a load of shared memory that no thread has written, or no copy yet.

    What a load into registers has read that no thread has written is only marked.
    """
    state, per_lane = words.take(group.chunk.shared_state), words.per_lane
    if not state.all():
        missing = ~state.reshape(-1, per_lane)
        if not spec.results:
            lane, lanes = first_true(missing.any(axis=1))
            return fault_of(group.chunk, int(target.offsets[lane]), lane, lanes)
        note_load(spec, group, target.offsets, missing)
    pending = group.chunk.pending_copies
    if pending is not None and pending[words.array].any():
        lane, _ = first_true(pending[words.array])
        shared = group.chunk.launch.shared
        place = shared.describe_offset(int(target.offsets[lane // per_lane]) % shared.stride)
        text = f"load of {place}: its cp.async copy has not been waited for"
        return Fault(FindingKind.UNINITIALISED_SHARED, text, lane // per_lane)
    return None


def _local(group: Group, spec: AccessSpec, addresses: Any) -> Target:
    chunk = group.chunk
    local = chunk.launch.local
    inside = addresses.view(np.int64)
    local.require_inside(inside, spec.size, spec.direction)
    places = Places.of(inside + group.lanes * local.size)
    require_aligned(places, spec.size, spec.direction)  # Each thread has a multiple of 16 bytes.
    return Target(chunk.local_views, places, "local")


def _parameter(group: Group, spec: AccessSpec, addresses: Any) -> Target:
    """A load from the kernel's own parameters, whose address it took."""
    launch = group.chunk.launch
    offsets = (addresses - np.uint64(PARAM)).view(np.int64)
    if spec.writes:
        raise Fault(FindingKind.WROTE_INPUT, f"{spec.direction} to a parameter of the kernel")
    outside = offsets + spec.size > launch.parameter_bytes
    if outside.any():
        lane, lanes = first_true(outside)
        raise Fault(
            FindingKind.LOCAL_OUT_OF_BOUNDS,
            f"load of {spec.size} bytes at byte {int(offsets[lane])} of the kernel's parameters, "
            f"which have {launch.parameter_bytes}",
            lane,
            lanes,
        )
    places = Places.of(offsets)
    require_aligned(places, spec.size, spec.direction)
    return Target(views_of(launch.parameters), places, "param")


def _per_word(
    unchanged: Callable[[Target], Any] | None, target: Target, per_lane: int
) -> Callable[[], Any] | None:
    if unchanged is None:
        return None
    return lambda: np.repeat(unchanged(target), per_lane)


def _counted(group: Group, places: Places) -> GroupAccess:
    parts = group.warps, group.warp_count, group.whole_warps, group.lanes_in_warp
    return GroupAccess(places, *parts)
