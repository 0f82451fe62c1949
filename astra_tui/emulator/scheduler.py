"""Decides which lanes run next, and what a branch, a barrier or a warp operation does to them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from astra_tui.emulator.asides import Aside, is_cheap
from astra_tui.emulator.faults import EmulationStopped, Fault
from astra_tui.emulator.grid_dependency import share_waits
from astra_tui.emulator.lanes import FULL_MASK, Chunk, Group, is_full
from astra_tui.emulator.ops.bulk import finish_all, finish_oldest
from astra_tui.emulator.ptx.module import Location
from astra_tui.emulator.step import Flow, Step, WarpOrder
from astra_tui.emulator.undefined_values import follow
from astra_tui.model.findings import FindingKind

_FAR = 1 << 60
_DENIALS = 2
_KEPT_SPLITS = 64
_APART = 12
"""Steps that cost as much as taking lanes apart for one."""
_UNREAD = (
    "a bulk copy from shared memory that the block may leave before it is read: "
    "cp.async.bulk.wait_group.read before the kernel ends"
)
_UNWAITED = (
    "a copy to shared memory of a block that leaves before it has come: nothing waits for it"
)


class _Split(NamedTuple):
    """Lanes, and the two parts that a branch has made of them."""

    lanes: Any
    first: Any
    second: Any


class Scheduler:
    """Runs one chunk of blocks to its end."""

    def __init__(self, chunk: Chunk):
        self.chunk = chunk
        self.launch = chunk.launch
        self.steps = chunk.launch.program.steps
        self.asides = chunk.launch.program.asides
        self.ready: dict[int, list[Any]] = {0: [chunk.lanes]}
        self.at_barrier: dict[int, list[Any]] = {}
        self.at_warp_step: dict[int, Any] = {}
        self.waiting: dict[int, list[Any]] = {}
        """Lanes that wait for others of their cluster."""
        self.polling: dict[int, list[Any]] = {}
        """Lanes that have asked in vain for a phase of a barrier in memory, and ask again."""
        self.in_vain = np.zeros(0, np.bool_)
        """Which lanes have asked in vain since they last had not."""
        self.splits: dict[frozenset[int], _Split] = {}
        """By the identities of its parts, what may come together again as it was."""
        self.denied: tuple[int, int] = (0, 0)
        """How often no lane could run but those that ask, and what had happened by then."""

    def run(self) -> None:
        """Runs until every lane has left the kernel."""
        while True:
            if not self.ready:
                if not (self.at_barrier or self.at_warp_step or self.waiting or self.polling):
                    finish_all(self.chunk)
                    return
                self._release()
                continue
            index = min(self.ready)
            pieces = self.ready.pop(index)
            self._advance(self._together(pieces), index, min(self.ready, default=_FAR))

    def _together(self, pieces: list[Any]) -> Any:
        """The lanes of several pieces, in order."""
        if len(pieces) == 1:
            return pieces[0]
        if sum(map(len, pieces)) == self.chunk.width:
            return self.chunk.lanes
        if len(pieces) == 2 and (split := self.splits.pop(frozenset(map(id, pieces)), None)):
            return split.lanes
        return self.chunk.in_order(pieces)

    def _make_ready(self, index: int, lanes: Any) -> None:
        if len(lanes):
            self.ready.setdefault(index, []).append(lanes)

    # -- straight ahead --------------------------------------------------------------------------

    def _advance(self, lanes: Any, index: int, stop: int) -> None:
        """Runs lanes from one instruction on, until they split, wait, end, or reach `stop`."""
        group = Group.of(self.chunk, lanes)
        steps, tally, launch = self.steps, self.launch.tally, self.launch
        warp_hits, lane_hits = tally.warp_hits, tally.lane_hits
        warps, n = group.warp_count, group.n
        registers = group.registers
        marks = self.chunk.marks
        cost = 1 + (n >> 10)
        try:
            while index < stop:
                step = steps[index]
                warp_hits[index] += warps
                lane_hits[index] += n
                launch.budget -= cost
                if launch.budget < 0:
                    raise Fault(
                        FindingKind.BUDGET, "the instruction budget is spent: an endless loop?"
                    )
                if marks:
                    follow(step, group)
                flow = step.flow
                if flow is Flow.NEXT:
                    if step.predicate < 0:
                        step.run(registers, group)  # type: ignore[misc]
                    else:
                        self._run_predicated(step, group)
                    index += 1
                    continue
                following = self._flow(step, index, group, stop)
                if following < 0:
                    return
                index = following
        except Fault as fault:
            raise group.stop(fault, steps[index]) from None
        group.flush(index)
        self._make_ready(index, lanes)

    def _condition(self, step: Step, group: Group) -> Any:
        """True, False, or a mask of the lanes whose predicate holds."""
        value = group.registers[step.predicate]
        if not value.ndim:
            return bool(value) != step.negated
        count = int(np.count_nonzero(value))
        if not count or count == group.n:
            return (count > 0) != step.negated
        return ~value if step.negated else value

    def _run_predicated(self, step: Step, group: Group) -> None:
        condition = self._condition(step, group)
        assert step.run is not None
        if condition is True:
            step.run(group.registers, group)
        elif condition is not False:
            if step.computes and is_cheap(condition, _APART):
                group.run_masked(step, condition, group.registers)
                return
            part = group.part(np.flatnonzero(condition))
            try:
                step.run(part.registers, part)
            except Fault as fault:
                raise part.stop(fault, step) from None
            part.flush()

    # -- where control goes ----------------------------------------------------------------------

    def _flow(self, step: Step, index: int, group: Group, stop: int) -> int:
        """The next instruction for the whole group, or -1 when its lanes were sent elsewhere."""
        condition = True if step.predicate < 0 else self._condition(step, group)
        if condition is False:
            return index + 1
        if step.flow is Flow.BRANCH and condition is True:
            return step.target
        if condition is True:
            if step.flow is Flow.BARRIER and self._barrier_is_complete(group, step):
                self._meet_in_blocks(group.lanes)
                self._pass_barrier(step, group)
                return index + 1
            if step.flow is Flow.POLL and self._poll(step, index, group):
                return index + 1
            if step.flow is Flow.WAIT and step.wait(group).all():  # type: ignore[misc]
                step.run(group.registers, group)  # type: ignore[misc]
                return index + 1
            if step.flow is Flow.WARP and self._is_complete(group, step):
                step.run(group.registers, group)  # type: ignore[misc]
                self._order(step, group)
                return index + 1
        elif step.flow is Flow.BRANCH and self._run_aside(index, group, ~condition, stop):
            return step.target
        group.flush(index)
        lanes = group.lanes
        if step.flow is Flow.POLL and condition is True:  # Some wait, the others have been sent.
            return -1
        if condition is not True:
            lanes, others = self._split(lanes, condition)
            self._make_ready(index + 1, others)
        self._send(step, index, lanes)
        return -1

    def _split(self, lanes: Any, condition: Any) -> tuple[Any, Any]:
        """The lanes for which a condition holds, and the others."""
        split = _Split(lanes, lanes[condition], lanes[~condition])
        if len(self.splits) >= _KEPT_SPLITS:
            self.splits.clear()
        self.splits[frozenset((id(split.first), id(split.second)))] = split
        return split.first, split.second

    def _run_aside(self, index: int, group: Group, running: Any, stop: int) -> bool:
        """Runs the steps that a branch skips where some lanes take them; False where they have to
        be taken apart.
        """
        end = self.asides[index]
        if not 0 < end <= stop or self.chunk.marks or not is_cheap(running, end - index - 1):
            return False
        aside = Aside(group, index, running)
        if not aside.is_affordable():
            return False
        aside.run()
        return True

    def _send(self, step: Step, index: int, lanes: Any) -> None:
        match step.flow:
            case Flow.BRANCH:
                self._make_ready(step.target, lanes)
            case Flow.TABLE:
                self._branch_by_table(step, lanes)
            case Flow.EXIT:
                self._leave(lanes)
            case Flow.POLL:
                group = self._group(lanes)
                if self._poll(step, index, group):
                    group.flush()
                    self._make_ready(index + 1, lanes)
            case Flow.BARRIER:
                self.at_barrier.setdefault(index, []).append(lanes)
            case Flow.WAIT:
                self.waiting.setdefault(index, []).append(lanes)
            case Flow.WARP:
                waiting = self.at_warp_step.pop(index, None)
                if waiting is not None:
                    lanes = np.sort(np.concatenate([waiting, lanes]))
                self._try_warp_step(step, index, lanes)
            case _:
                raise AssertionError(step.flow)

    def _branch_by_table(self, step: Step, lanes: Any) -> None:
        group = self._group(lanes)
        assert step.selector is not None
        choice = np.broadcast_to(step.selector(group.registers), (group.n,))
        for value in np.unique(choice):
            if value >= len(step.targets):
                text = f"a switch jumped to entry {value} of its table"
                raise group.stop(Fault(FindingKind.TRAP, text), step)
            self._make_ready(step.targets[int(value)], lanes[choice == value])

    # -- warp operations ---------------------------------------------------------------------------

    def _is_complete(self, group: Group, step: Step) -> bool:
        """Whether the lanes that a warp operation names are all here."""
        if group.whole_warps:
            mask = step.mask(group.registers) if step.mask else FULL_MASK
            if is_full(mask):
                return True
        return bool(self._arrived(step, group).all())

    def _arrived(self, step: Step, group: Group) -> Any:
        """For each lane, whether all live lanes that its mask names are in the group."""
        mask = step.mask(group.registers) if step.mask else FULL_MASK
        if is_full(mask):
            return (self.chunk.live_bits & ~group.present_bits == 0)[group.warps]
        mask = np.broadcast_to(mask, (group.n,))
        own = np.uint32(1) << group.lanes_in_warp.astype(np.uint32)
        if step.mask is not None and ((mask & own) == 0).any():
            lane = int(((mask & own) == 0).argmax())
            raise Fault(
                FindingKind.BAD_MASK,
                f"a warp operation with the mask {int(mask[lane]):#010x}, which does not name lane "
                f"{int(group.lanes_in_warp[lane])} that runs it",
                lane,
                int(((mask & own) == 0).sum()),
            )
        missing = mask & self.chunk.live_bits[group.warps] & ~group.present_bits[group.warps]
        return missing == 0

    def _try_warp_step(self, step: Step, index: int, lanes: Any) -> bool:
        """Runs a warp operation for the lanes whose partners are here; the others wait."""
        group = self._group(lanes)
        try:
            arrived = self._arrived(step, group)
            if not arrived.all():
                self.at_warp_step[index] = lanes[~arrived]
                lanes = lanes[arrived]
                if not len(lanes):
                    return False
                group = self._group(lanes)
            step.run(group.registers, group)  # type: ignore[misc]
            self._order(step, group)
        except Fault as fault:
            raise group.stop(fault, step) from None
        group.flush()
        self._make_ready(index + 1, lanes)
        return True

    def _order(self, step: Step, group: Group) -> None:
        """Notes what a warp operation that has run orders."""
        shares = self.launch.dependency is not None and step.orders is WarpOrder.ALL
        if step.orders is WarpOrder.NOTHING or not (self.launch.checked or shares):
            return
        mask = step.mask(group.registers) if step.mask else FULL_MASK
        if self.launch.checked:
            self.chunk.note_meeting(group, mask, step.orders is WarpOrder.ALL)
        if shares:
            whole = np.broadcast_to(mask == FULL_MASK, (group.n,))
            share_waits(self.chunk.waited, group.lanes[whole], self.chunk.warp)

    # -- block barriers ----------------------------------------------------------------------------

    def _barrier_is_complete(self, group: Group, step: Step) -> bool:
        """Whether the group is all that its blocks have left, and no one waits elsewhere."""
        if self.at_barrier or self._barrier_name(step, group)[1]:
            return False
        if group.everyone:
            return self.chunk.all_live
        counts = np.bincount(group.block_slots, minlength=self.chunk.blocks)
        present = counts > 0
        return bool((counts[present] == self.chunk.live_in_block[present]).all())

    def _barrier_name(self, step: Step, group: Group) -> tuple[int, int]:
        """The number of the barrier, and how many threads it waits for (0: all of the block)."""
        assert step.barrier is not None
        number, count = step.barrier(group.registers)
        return int(np.asarray(number).flat[0]), int(np.asarray(count).flat[0])

    def _pass_barrier(self, step: Step, group: Group) -> None:
        chunk = self.chunk
        group.pass_barrier()
        if not group.whole_warps:
            chunk.epochs_split = True
        if step.run is not None:
            step.run(group.registers, group)
        if chunk.all_live:
            return
        left = chunk.live_in_block[group.block_slots] < self.launch.threads
        if left.any():
            group.warn(
                FindingKind.EXITED_BEFORE_BARRIER,
                "some threads of this block have left the kernel before this barrier",
                step,
                int(left.argmax()),
            )

    def _meet_in_blocks(self, lanes: Any) -> None:
        """Lanes pass a barrier, those of a block together."""
        chunk = self.chunk
        if self.launch.dependency is not None:
            share_waits(chunk.waited, lanes, chunk.block_slot)
        if chunk.clocks is not None:
            chunk.clocks.meet(lanes, chunk.block_slot[lanes])

    def _release(self) -> None:
        """Called when no lane can run: completes what can be completed now."""
        for index in sorted(self.at_warp_step):
            lanes = self.at_warp_step.pop(index)
            if self._try_warp_step(self.steps[index], index, lanes):
                return
        if self._release_barriers() or self._release_waiting() or self._release_polling():
            return
        if finish_oldest(self.chunk) or self._deny():
            return
        raise self._stuck()

    # -- barriers in memory ------------------------------------------------------------------------

    def _poll(self, step: Step, index: int, group: Group) -> bool:
        """Asks for phases; whether all lanes have an answer. Those that ask again in vain wait.

        The first time in vain they are told so, which hardware may do at any time.
        """
        assert step.wait is not None
        assert step.run is not None
        if not len(self.in_vain):
            self.in_vain = np.zeros(self.chunk.width, np.bool_)
        passed = step.wait(group)
        waiting = ~passed & self.in_vain[group.lanes]
        self.in_vain[group.lanes] = ~passed
        if not waiting.any():
            step.run(group.registers, group)
            return True
        self.polling.setdefault(index, []).append(group.lanes[waiting])
        if not waiting.all():
            answered = group.part(np.flatnonzero(~waiting))
            step.run(answered.registers, answered)
            answered.flush()
            self._make_ready(index + 1, answered.lanes)
        return False

    def _release_polling(self) -> bool:
        """Lets lanes continue whose phases are complete; whether there were any."""
        released = False
        for index, pieces in list(self.polling.items()):
            lanes = np.sort(np.concatenate(pieces))
            step, group = self.steps[index], self._group(lanes)
            assert step.wait is not None
            try:
                passed = step.wait(group)
                if passed.any():
                    released = True
                    self._answer(index, lanes, passed)
            except Fault as fault:
                raise group.stop(fault, step) from None
        return released

    def _answer(self, index: int, lanes: Any, which: Any) -> None:
        """Lanes that poll continue with an answer, the others stay."""
        step = self.steps[index]
        assert step.run is not None
        self.polling.pop(index)
        if not which.all():
            self.polling[index] = [lanes[~which]]
        group = self._group(lanes[which])
        self.in_vain[group.lanes] = ~step.wait(group)  # type: ignore[misc]
        step.run(group.registers, group)
        group.flush()
        self._make_ready(index + 1, group.lanes)

    def _deny(self) -> bool:
        """Tells all that poll that their phases are not complete: they may do something else.

        Not again where nothing changed since.
        """
        events = self.chunk.barriers.events if self.polling else 0
        times = self.denied[0] + 1 if self.denied[1] == events else 1
        if not self.polling or times > _DENIALS:
            return False
        self.denied = times, events
        for index, pieces in list(self.polling.items()):
            lanes = np.sort(np.concatenate(pieces))
            self._answer(index, lanes, np.ones(len(lanes), np.bool_))
        return True

    # -- the end -----------------------------------------------------------------------------------

    def _leave(self, lanes: Any) -> None:
        """Lanes leave the kernel. Raises EmulationStopped for what they leave behind."""
        chunk = self.chunk
        if chunk.clocks is not None and chunk.has_bulk_copies:
            unread = chunk.bulk_copies.unread_by(lanes)
            if unread is not None:
                raise self._left_behind(unread.lanes, unread.step, _UNREAD)
        before = chunk.live_in_block > 0
        chunk.end(lanes)
        if chunk.clocks is not None:
            for slot in np.flatnonzero(before & (chunk.live_in_block == 0)).tolist():
                self._require_no_use(slot)

    def _require_no_use(self, slot: int) -> None:
        """Nothing may still use the shared memory of a block that has left."""
        chunk, clocks = self.chunk, self.chunk.clocks
        assert clocks is not None
        if chunk.has_bulk_copies:
            copies = chunk.bulk_copies.writing_to(slot)
            if copies is not None:
                raise self._left_behind(copies.lanes, copies.step, _UNWAITED)
        own = np.arange(slot * self.launch.threads, (slot + 1) * self.launch.threads)
        rank = int(chunk.rank[slot])
        unknown = clocks.unknown_to(own, rank)
        if unknown is not None:
            thread, step = unknown
            text = (
                f"an access to shared memory of block {rank} of the cluster, which may have left "
            )
            text += "the kernel: nothing makes it wait"
            lanes = np.flatnonzero(clocks.thread == thread)
            fault = Fault(FindingKind.ABSENT_BLOCK, text)
            raise self._group(lanes).stop(fault, self.steps[step])

    def _left_behind(self, lanes: Any, step: int, text: str) -> EmulationStopped:
        fault = Fault(FindingKind.IN_FLIGHT, text, 0, len(lanes))
        return self._group(np.sort(lanes)).stop(fault, self.steps[step])

    # -- others of the cluster ---------------------------------------------------------------------

    def _release_waiting(self) -> bool:
        """Lets lanes continue that need not wait any more; whether there were any."""
        released = False
        for index, pieces in list(self.waiting.items()):
            step, lanes = self.steps[index], np.sort(np.concatenate(pieces))
            group = self._group(lanes)
            assert step.wait is not None
            assert step.run is not None
            try:
                going = step.wait(group)
                if not going.any():
                    continue
                self.waiting.pop(index)
                if not going.all():
                    self.waiting[index] = [lanes[~going]]
                    group = self._group(lanes[going])
                step.run(group.registers, group)
            except Fault as fault:
                raise group.stop(fault, step) from None
            group.flush()
            self._make_ready(index + 1, group.lanes)
            released = True
        return released

    def _release_barriers(self) -> bool:
        chunk = self.chunk
        waiting: list[tuple[Any, Any, Any]] = []
        for index, pieces in self.at_barrier.items():
            lanes = np.sort(np.concatenate(pieces))
            name = self._barrier_name(self.steps[index], self._group(lanes))
            waiting.append((index, lanes, name))
        released = False
        for number, count in sorted({name for _, _, name in waiting}):
            here = [(index, lanes) for index, lanes, name in waiting if name == (number, count)]
            together = np.concatenate([lanes for _, lanes in here])
            counts = np.bincount(chunk.block_slot[together], minlength=chunk.blocks)
            wanted = np.full(chunk.blocks, count) if count else chunk.live_in_block
            complete = (counts > 0) & (counts >= wanted)
            if complete.any():
                self._check_same_barrier(here, complete)
                self._pass_blocks(here, complete)
                released = True
        return released

    def _check_same_barrier(self, here: list[tuple[Any, Any]], complete: Any) -> None:
        """All threads of a warp have to wait at one barrier of the source.

        PTX asks for no more. CUDA C++ asks it of a block, which is a caution: kernels are shipped
        whose warps take part in the same barriers from different lines.
        """
        if len({self.steps[index].location.here for index, _ in here}) == 1:
            return
        of_warp: dict[int, Location] = {}
        of_block: dict[int, Location] = {}
        for index, lanes in here:
            step, lanes = self.steps[index], lanes[complete[self.chunk.block_slot[lanes]]]
            for warp in np.unique(self.chunk.warp[lanes]):
                other = of_warp.setdefault(int(warp), step.location)
                if other.here != step.location.here:
                    mine = lanes[self.chunk.warp[lanes] == warp]
                    text = _at_different_barriers("a warp", other, step.location)
                    fault = Fault(FindingKind.DIVERGENT_BARRIER, text, 0, len(mine))
                    raise self._group(mine).stop(fault, step)
            for block in np.unique(self.chunk.block_slot[lanes]):
                other = of_block.setdefault(int(block), step.location)
                if other.here != step.location.here:
                    text = _at_different_barriers("a block", other, step.location)
                    mine = lanes[self.chunk.block_slot[lanes] == block]
                    self._group(mine).warn(FindingKind.DIFFERENT_BARRIERS, text, step, 0)

    def _pass_blocks(self, here: list[tuple[Any, Any]], complete: Any) -> None:
        if self.launch.dependency is not None or self.chunk.clocks is not None:
            together = np.concatenate([lanes for _, lanes in here])
            self._meet_in_blocks(together[complete[self.chunk.block_slot[together]]])
        for index, lanes in here:
            going = complete[self.chunk.block_slot[lanes]]
            staying = lanes[~going]
            if len(staying):
                self.at_barrier[index] = [staying]
            else:
                del self.at_barrier[index]
            if going.any():
                group = self._group(lanes[going])
                self._pass_barrier(self.steps[index], group)
                group.flush()
                self._make_ready(index + 1, group.lanes)

    def _stuck(self) -> EmulationStopped:
        if self.at_warp_step:
            index, lanes = next(iter(self.at_warp_step.items()))
            text = "a warp operation waits for lanes of its mask that never arrive"
        elif self.polling:
            index, pieces = next(iter(self.polling.items()))
            lanes = np.sort(np.concatenate(pieces))
            polled = self.steps[index].polled
            assert polled is not None
            text = f"threads wait for what never comes: {polled(self._group(lanes))}"
        elif self.waiting:
            index, pieces = next(iter(self.waiting.items()))
            lanes = np.sort(np.concatenate(pieces))
            text = "threads wait for others of their cluster that never arrive"
        else:
            index, pieces = next(iter(self.at_barrier.items()))
            lanes = np.sort(np.concatenate(pieces))
            text = "threads wait at this barrier for others that never arrive"
        fault = Fault(FindingKind.DEADLOCK, text, 0, len(lanes))
        return self._group(lanes).stop(fault, self.steps[index])

    def _group(self, lanes: Any) -> Group:
        return Group.of(self.chunk, lanes)


def _at_different_barriers(group: str, one: Location, other: Location) -> str:
    return (
        f"some threads of {group} wait at the barrier of {one.here}, others at that of {other.here}"
    )
