"""Bytes that are moved again: against a count of byte after byte, and on kernels that do it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tui.emulator.memory import GlobalMemory
from astra_tui.emulator.places import Places
from astra_tui.emulator.ptx.module import Location
from astra_tui.emulator.step import AccessSpec, Flow, Step
from astra_tui.emulator.traffic import TrafficLog
from astra_tui.lab.compiler import Compiler
from astra_tui.model.device import ArgumentRole, DeviceBuffer
from astra_tui.model.traffic import ArgumentTraffic, Waste, WasteKind

from .harness import line_of, run_kernel

SIZE = 256
BEGIN = 8
"""Where the buffer begins in its half line."""
PLACES = (0, 1, 2, 3, 5, 8, 13, 21)
"""Where accesses are, in units of their size and counted from the ends as well: few, so that they
meet."""
BLOCKS, WARPS = 2, 2
"""Of a launch, and of a block."""
LINES = 4
SECTORS = (WasteKind.HALF_LINE, WasteKind.PART_OF_SECTOR)
_DIRECTIONS = ("load", "load", "store", "store", "atomic")


@dataclass(frozen=True)
class Access:
    """One instruction at a line: for each lane its warp and its place in units of its size."""

    line: int
    direction: str
    size: int
    lanes: tuple[tuple[int, int], ...]

    @property
    def warps(self) -> list[int]:
        return [warp for warp, _ in self.lanes]

    @property
    def has_whole_warps(self) -> bool:
        """Whether it has all lanes of each warp that it has any of."""
        return not len(self.lanes) % 32 and len(self.lanes) == 32 * len(set(self.warps))

    def bytes_of(self, warp: int) -> list[int]:
        """The bytes that the request of one warp moves, each once."""
        begins = {place * self.size for w, place in self.lanes if w == warp}
        return sorted(b for begin in begins for b in range(begin, begin + self.size))


@st.composite
def accesses(draw: Callable[..., Any]) -> Access:
    size = draw(st.sampled_from((1, 2, 4, 8)))
    warp = st.integers(0, BLOCKS * WARPS - 1)
    place = st.sampled_from([*PLACES, *(SIZE // size - 1 - n for n in PLACES)])
    lanes = draw(st.lists(st.tuples(warp, place), min_size=1))
    line = draw(st.integers(1, LINES))
    return Access(line, draw(st.sampled_from(_DIRECTIONS)), size, tuple(sorted(lanes)))


@st.composite
def rows(draw: Callable[..., Any]) -> Access:
    """All lanes of some warps, each block's next to each other or all at one place."""
    size, step = draw(st.sampled_from(((1, 1), (2, 1), (2, 1), (4, 0), (8, 0))))
    pitch = draw(st.sampled_from((0, 1, 16, 32, 64)))
    last = SIZE // size - 1 - pitch * step - step * (32 * WARPS - 1)
    first = draw(st.sampled_from([p for p in (0, 1, 4, 8, 16, 32) if p <= last]))
    lanes = tuple(
        (block * WARPS + lane // 32, first + step * (pitch * block + lane))
        for block in range(draw(st.integers(1, BLOCKS)))
        for lane in range(32 * WARPS)
    )
    return Access(draw(st.integers(1, LINES)), draw(st.sampled_from(_DIRECTIONS)), size, lanes)


events = st.one_of(accesses(), accesses(), accesses(), rows())
launches = st.lists(st.lists(events, max_size=6), min_size=1, max_size=3)


def counted(case: list[list[Access]]) -> ArgumentTraffic | None:
    """As the emulator counts; all blocks of a launch run together."""
    data = np.zeros(SIZE, np.uint8)
    memory = GlobalMemory((DeviceBuffer("a", ArgumentRole.INOUT, data, BEGIN),), (), 1)
    log = TrafficLog(memory)
    for launch in case:
        steps = []
        for access in launch:
            step = Step(Flow.NEXT)
            step.location = Location(access.line)
            steps.append(step)
        log.begin_launch(tuple(steps), WARPS)
        for index, access in enumerate(launch):
            offsets = np.array([place * access.size for _, place in access.lanes], np.int64)
            log.note(
                AccessSpec(index, access.size, access.direction),
                Places.of(offsets + memory.buffers[0].begin),
                np.array(access.warps, np.int64),
                access.has_whole_warps,
                memory.buffers[0],
            )
        log.settle()
    found = log.arguments()
    return found[0] if found else None


class Oracle:
    """The same, byte after byte, in the words of the definitions."""

    def __init__(self) -> None:
        self.loaded = self.stored = self.shared = 0
        self.touched: dict[str, set[int]] = {"load": set(), "store": set()}
        self.waste: Counter[Waste] = Counter()
        self.before: dict[int, list[tuple[str, int, int, bool]]] = {}
        """By byte, what earlier launches did: direction, line, launch, whether an atomic did."""

    def run(self, case: list[list[Access]]) -> None:
        for number, launch in enumerate(case, 1):
            events = [
                (access, warp, byte, direction)
                for access in launch
                for direction in self._directions(access)
                for warp in dict.fromkeys(access.warps)
                for byte in access.bytes_of(warp)
            ]
            for byte in range(SIZE):
                mine = [(a, w, d) for a, w, b, d in events if b == byte]
                ran = {(a.line, a.direction == "atomic", w) for a, w, _, _ in events}
                for position in range(len(mine)):
                    self._event(byte, mine, position, number, ran)
                self.before.setdefault(byte, []).extend(
                    (d, a.line, number, a.direction == "atomic") for a, _, d in mine
                )

    @staticmethod
    def _directions(access: Access) -> tuple[str, ...]:
        return ("load", "store") if access.direction == "atomic" else (access.direction,)

    def _event(self, byte: int, mine: Any, position: int, launch: int, ran: Any) -> None:
        access, warp, direction = mine[position]
        if access.direction == "atomic":
            return
        self.touched[direction].add(byte)
        block = warp // WARPS
        past = mine[:position]
        own = [e for e in past if e[1] // WARPS == block]
        if direction == "store":
            self.stored += 1
            self._store(byte, access, past, own, launch)
        else:
            self.loaded += 1
            self._load(byte, access, warp, past, own, launch, ran)

    def _store(self, byte: int, access: Access, past: Any, own: Any, launch: int) -> None:
        kind = WasteKind.STORED_AGAIN
        stored_here = any(d == "store" for _, _, d in own)
        if stored_here:  # Only what the block did itself matters.
            if own[-1][2] == "store" and own[-1][0].direction != "atomic":
                self._repeat(kind, access, own[-1][0].line, launch, launch, False)
            return
        past = _firsts_of_blocks(past)
        if past:
            if past[-1][2] == "store" and past[-1][0].direction != "atomic":
                self._repeat(kind, access, past[-1][0].line, launch, launch, True)
            return
        if own:  # It loaded the byte before.
            return
        before = self.before.get(byte, [])
        if before and before[-1][0] == "store" and not before[-1][3]:
            self._repeat(kind, access, before[-1][1], launch, before[-1][2], False)

    def _load(
        self, byte: int, access: Access, warp: int, past: Any, own: Any, launch: int, ran: Any
    ) -> None:
        stores = [n for n, e in enumerate(own) if e[2] == "store"]
        recent = own[stores[-1] + 1 :] if stores else own
        by_warp = [e for e in recent if e[1] == warp]
        if by_warp:
            line = by_warp[-1][0].line
            self._repeat(WasteKind.LOADED_AGAIN, access, line, launch, launch, False)
        elif recent:
            first = recent[0][0]
            same = (first.line, first.direction) == (access.line, access.direction)
            if not same and (first.line, first.direction == "atomic", warp) in ran:
                self._repeat(WasteKind.LOADED_AGAIN, access, first.line, launch, launch, False)
            else:
                self.shared += 1
        elif stores:
            line = own[stores[-1]][0].line
            self._repeat(WasteKind.READ_BACK, access, line, launch, launch, False)
        else:
            self._first_of_block(byte, access, _firsts_of_blocks(past), launch)

    def _first_of_block(self, byte: int, access: Access, past: Any, launch: int) -> None:
        stores = [n for n, e in enumerate(past) if e[2] == "store"]
        if any(e[2] == "load" for e in (past[stores[-1] + 1 :] if stores else past)):
            self.shared += 1
        elif stores:
            line = past[stores[-1]][0].line
            self._repeat(WasteKind.READ_BACK, access, line, launch, launch, True)
        else:
            before = self.before.get(byte, [])
            stored = [n for n, e in enumerate(before) if e[0] == "store"]
            since = before[stored[-1] + 1 :] if stored else before
            if since:
                last = [e for e in since if e[2] == since[-1][2]]
                kind, (_, line, earlier, _) = WasteKind.LOADED_AGAIN, last[0]
                self._repeat(kind, access, line, launch, earlier, False)
            elif stored:
                _, line, earlier, _ = before[stored[-1]]
                self._repeat(WasteKind.READ_BACK, access, line, launch, earlier, False)

    def _repeat(
        self, kind: WasteKind, access: Access, line: int, launch: int, earlier: int, other: bool
    ) -> None:
        self.waste[Waste(kind, access.line, line, 0, launch, earlier, other)] += 1

    def sectors(self, bytes_: Any) -> dict[int, set[int]]:
        """By sector of memory, the bytes that are in it."""
        found: dict[int, set[int]] = {}
        for byte in bytes_:
            found.setdefault((byte + BEGIN) // 32, set()).add(byte)
        return found

    def half_lines(self) -> tuple[int, int]:
        """How many are loaded from, and of how many one sector alone, where both are ours."""
        loaded, ours = self.sectors(self.touched["load"]), self.sectors(range(SIZE))
        halves = Counter(sector // 2 for sector in loaded)
        return len(halves), sum(
            n == 1 and 2 * h in ours and 2 * h + 1 in ours for h, n in halves.items()
        )

    def parts_of_sectors(self) -> tuple[int, int]:
        """How many sectors are stored to, and how many in part and never loaded."""
        stored, ours = self.sectors(self.touched["store"]), self.sectors(range(SIZE))
        loaded = self.sectors(self.touched["load"])
        parts = [s for s, bytes_ in stored.items() if bytes_ != ours[s] and s not in loaded]
        return len(stored), len(parts)


def _firsts_of_blocks(past: Any) -> Any:
    """What each block did first: its first store, and its first load of each value."""
    kept, seen = [], set()
    stores: Counter[int] = Counter()
    for event in past:
        block, direction = event[1] // WARPS, event[2]
        key = (block, direction, stores[block] if direction == "load" else 0)
        if key not in seen:
            kept.append(event)
        seen.add(key)
        stores[block] += direction == "store"
    return kept


@settings(deadline=None)
@given(case=launches)
def test_bytes_moved_again_are_those_of_a_count_byte_by_byte(case: list[list[Access]]) -> None:
    oracle = Oracle()
    oracle.run(case)
    found = counted(case)
    if found is None:
        assert not oracle.loaded + oracle.stored
        return
    assert (found.loaded, found.stored, found.shared) == (
        oracle.loaded, oracle.stored, oracle.shared,
    )  # fmt: skip
    assert found.distinct_loaded == len(oracle.touched["load"])
    assert found.distinct_stored == len(oracle.touched["store"])
    assert _as_counts(found) == oracle.waste
    halves, parts = oracle.half_lines(), oracle.parts_of_sectors()
    assert (found.half_lines, _in_vain(found, WasteKind.HALF_LINE)) == (halves[0], 32 * halves[1])
    in_part = _in_vain(found, WasteKind.PART_OF_SECTOR)
    assert (found.sectors_stored, in_part) == (parts[0], 32 * parts[1])


def _in_vain(found: ArgumentTraffic, kind: WasteKind) -> int:
    return sum(w.bytes for w in found.waste if w.kind is kind)


def _as_counts(found: ArgumentTraffic) -> Counter[Waste]:
    counts: Counter[Waste] = Counter()
    for waste in (w for w in found.waste if w.kind not in SECTORS):
        counts[msgspec.structs.replace(waste, bytes=0)] += waste.bytes
    return counts


# Two blocks of two warps; a0 is read, a1 written. FIRST and AGAIN mark the lines that are named.
KERNELS = {
    "a warp's broadcast is one load, other warps and blocks share it": (
        "a1[i] = a0[i] + a0[0];  // AGAIN",
        {"a0": (4 * (128 + 4), 4 * 3, [(WasteKind.LOADED_AGAIN, "AGAIN", "AGAIN", 4)])},
    ),
    "weights of every block are reuse": (
        "a1[i] = a0[threadIdx.x];",
        {"a0": (512, 256, []), "a1": (512, 0, [])},
    ),
    "a second pass over what the warp has loaded": (
        """float sum = a0[i];  // FIRST
           for (int k = 16; k; k /= 2) sum += __shfl_xor_sync(~0u, sum, k);
           __syncthreads();
           a1[i] = sum * a0[i];  // AGAIN""",
        {"a0": (1024, 0, [(WasteKind.LOADED_AGAIN, "AGAIN", "FIRST", 512)])},
    ),
    "what another warp loaded by a line that this one ran as well": (
        """float own = a0[i];  // FIRST
           a1[i] = own + a0[i ^ 32];  // AGAIN""",
        {"a0": (1024, 0, [(WasteKind.LOADED_AGAIN, "AGAIN", "FIRST", 512)])},
    ),
    "warps that take different ways to the same bytes share them": (
        """if (threadIdx.x < 32)
             a1[i] = a0[i];
           else
             a1[i] = 2 * a0[i - 32];""",
        {"a0": (512, 256, [])},
    ),
    "a tail that stores what is stored": (
        """a1[i] = a0[i];  // FIRST
           if (threadIdx.x >= 48) a1[i ^ 16] = a0[i ^ 16];  // AGAIN""",
        {
            "a0": (512 + 128, 0, [(WasteKind.LOADED_AGAIN, "AGAIN", "FIRST", 128)]),
            "a1": (512 + 128, 0, [(WasteKind.STORED_AGAIN, "AGAIN", "FIRST", 128)]),
        },
    ),
    "a way through memory": (
        """a1[i] = a0[i];  // FIRST
           __syncthreads();
           const float other = a1[i ^ 1];  // AGAIN
           __syncthreads();
           a1[i] = other;""",
        {"a1": (512 * 3, 0, [(WasteKind.READ_BACK, "AGAIN", "FIRST", 512)])},
    ),
    "atomics and what they follow are no waste": (
        "atomicAdd(&a1[0], a0[i]); __threadfence(); atomicAdd(&a1[0], 1.0f);",
        {"a0": (512, 0, [])},
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_seen_to_move_bytes_again(compiler: Compiler, name: str) -> None:
    body, expected = KERNELS[name]
    source = f"""__global__ void k(const float* a0, float* a1) {{
           const int i = blockIdx.x * blockDim.x + threadIdx.x;
           {body}
    }}"""
    arrays = (np.arange(128, dtype=np.float32), np.zeros(128, np.float32))
    ran = run_kernel(compiler, source, arrays, grid=2, block=64, read_only=(0,), traffic=True)
    assert not ran.findings
    assert expected.keys() <= {traffic.argument for traffic in ran.traffic}
    for traffic in ran.traffic:
        if traffic.argument in expected:
            moved, shared, waste = expected[traffic.argument]
            assert (traffic.loaded + traffic.stored, traffic.shared) == (moved, shared)
            again = [w for w in traffic.waste if w.kind not in SECTORS]
            assert [(w.kind, w.line, w.earlier_line, w.bytes) for w in again] == [
                (kind, line_of(source, line), line_of(source, before), count)
                for kind, line, before, count in waste
            ]
