"""One load, store or atomic by a group of lanes: checked, counted, turned into array indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from astra_tui.lab.emulator.address_space import GLOBAL, LOCAL, SHARED, space_of
from astra_tui.lab.emulator.faults import Fault, first_true
from astra_tui.lab.emulator.memory import Buffer, require_aligned
from astra_tui.lab.emulator.registers import spread
from astra_tui.lab.emulator.tally import GroupAccess
from astra_tui.model.findings import FindingKind

if TYPE_CHECKING:
    from astra_tui.lab.emulator.lanes import Group

_OFFSET_MASK = np.uint64(0xFFFF_FFFF)
_ANY = "generic"


@dataclass(frozen=True)
class AccessSpec:
    """What an instruction does to memory: its place in the program, width and direction."""

    index: int
    size: int
    """Bytes a lane."""
    direction: str
    """"load", "store" or "atomic"."""
    synchronising: bool = False
    """Whether it may meet atomics of other threads without a race."""

    @property
    def writes(self) -> bool:
        """Whether memory may change."""
        return self.direction != "load"

    @property
    def reads(self) -> bool:
        """Whether the old content matters."""
        return self.direction != "store"


@dataclass(frozen=True)
class Target:
    """Where an access goes: the bytes of a memory, and an offset into them for each lane."""

    views: dict[int, Any]
    offsets: Any
    space: str


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
    addresses = spread(addresses, group.n)
    if space == _ANY:
        space = _only_space(addresses)
    elif space == "shared" or space == "local":
        addresses = addresses & _OFFSET_MASK
    if space == "global":
        return _global(group, spec, addresses, unchanged)
    if space == "shared":
        return _shared(group, spec, addresses, unchanged)
    return _local(group, spec, addresses)


def _only_space(addresses: Any) -> str:
    spaces = space_of(addresses)
    first = int(spaces[0])
    if (spaces != first).any():
        lane, lanes = first_true(spaces != first)
        raise Fault(
            FindingKind.UNSUPPORTED,
            "one instruction reaches several memories (shared and global) through generic pointers",
            lane,
            lanes,
        )
    return {SHARED: "shared", LOCAL: "local"}.get(first, "global")


def _global(
    group: Group, spec: AccessSpec, addresses: Any, unchanged: Callable[[Target], Any] | None
) -> Target:
    machine, memory = group.chunk.machine, group.chunk.machine.memory
    offsets = (addresses - np.uint64(GLOBAL)).view(np.int64)
    buffer = memory.locate(offsets, spec.size, spec.direction)
    require_aligned(offsets, spec.size, spec.direction)
    target = Target(memory.views, offsets, "global")
    if spec.writes:
        _require_writable(memory, offsets, buffer, spec)
    if machine.checked:
        if spec.reads:
            memory.require_defined(offsets, spec.size, buffer)
        _check_global_race(group, spec, target, buffer, unchanged)
    if machine.counted:
        machine.tally.count_global(spec.index, spec.direction, spec.size, _counted(group, offsets))
    return target


def _require_writable(memory: Any, offsets: Any, buffer: Buffer | None, spec: AccessSpec) -> None:
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
    machine = group.chunk.machine
    memory, history = machine.memory, machine.history
    words = memory.words(target.offsets, spec.size)
    per_lane = len(words) // group.n
    by = group.accessors("global", per_lane)
    acquired = machine.acquired if machine.program.uses_release else None
    try:
        if spec.writes:
            history.store(
                words, by, acquired, spec.synchronising, _per_word(unchanged, target, per_lane)
            )
            memory.defined[words] = True
        else:
            history.load(words, by, acquired, spec.synchronising)
    except Fault as fault:
        fault.lane //= per_lane
        raise


def _shared(
    group: Group, spec: AccessSpec, addresses: Any, unchanged: Callable[[Target], Any] | None
) -> Target:
    chunk, machine = group.chunk, group.chunk.machine
    shared = machine.shared
    base = np.uint64(SHARED)
    local = np.where(addresses >= base, addresses - base, addresses).view(np.int64)
    shared.require_inside(local, spec.size, spec.direction)
    require_aligned(local, spec.size, spec.direction)
    offsets = local + group.shared_base
    target = Target(chunk.shared_views, offsets, "shared")
    if machine.checked:
        _check_shared_words(group, spec, target, unchanged)
    if machine.counted:
        machine.tally.count_shared(spec.index, spec.direction, spec.size, _counted(group, local))
    return target


def _check_shared_words(
    group: Group, spec: AccessSpec, target: Target, unchanged: Callable[[Target], Any] | None
) -> None:
    chunk = group.chunk
    words = shared_words(group, target.offsets, spec.size)
    per_lane = len(words) // group.n
    if spec.reads:
        state = chunk.shared_state[words]
        if not state.all():
            _raise_undefined_shared(group, target, ~state, per_lane)
        pending = chunk.pending_copies
        if pending is not None and pending[words].any():
            lane, _ = first_true(pending[words])
            place = _shared_place(group, target, lane // per_lane)
            raise Fault(
                FindingKind.UNINITIALISED_SHARED,
                f"load of {place}: its cp.async copy has not been waited for",
                lane // per_lane,
            )
    by = group.accessors("shared", per_lane)
    try:
        if spec.writes:
            chunk.shared_history.store(
                words, by, None, spec.synchronising, _per_word(unchanged, target, per_lane)
            )
            chunk.shared_state[words] = True
        else:
            chunk.shared_history.load(words, by, None, spec.synchronising)
    except Fault as fault:
        fault.lane //= per_lane
        raise


def shared_words(group: Group, offsets: Any, size: int) -> Any:
    """The granules of shared memory that an access touches, lane by lane."""
    bits = group.chunk.machine.shared.granule_bits
    first = offsets >> bits
    count = max(size >> bits, 1)
    return first if count == 1 else (first[:, None] + np.arange(count)).reshape(-1)


def _raise_undefined_shared(group: Group, target: Target, missing: Any, per_lane: int) -> None:
    index, _ = first_true(missing)
    lanes = int(missing.reshape(-1, per_lane).any(axis=1).sum())
    place = _shared_place(group, target, index // per_lane)
    raise Fault(
        FindingKind.UNINITIALISED_SHARED,
        f"load of {place}: no thread has written it",
        index // per_lane,
        lanes,
    )


def _shared_place(group: Group, target: Target, lane: int) -> str:
    shared = group.chunk.machine.shared
    return str(shared.describe_offset(int(target.offsets[lane]) % shared.stride))


def _local(group: Group, spec: AccessSpec, addresses: Any) -> Target:
    chunk = group.chunk
    local = chunk.machine.local
    base = np.uint64(LOCAL)
    inside = np.where(addresses >= base, addresses - base, addresses).view(np.int64)
    local.require_inside(inside, spec.size, spec.direction)
    require_aligned(inside, spec.size, spec.direction)
    return Target(chunk.local_views, inside + group.lanes * local.size, "local")


def _per_word(
    unchanged: Callable[[Target], Any] | None, target: Target, per_lane: int
) -> Callable[[], Any] | None:
    if unchanged is None:
        return None
    return lambda: np.repeat(unchanged(target), per_lane)


def _counted(group: Group, offsets: Any) -> GroupAccess:
    return GroupAccess(offsets, group.warps, group.whole_warps, group.lanes_in_warp)
