"""Which bytes launches load and store again: counted by buffer, place and launch.

Accesses are kept while a chunk of blocks runs and looked at once it has ended. A byte that several
lanes of one request want counts once: a warp's request brings it once. The history of a byte is
followed in three steps, each on what the step before has left: within a warp, within a block, and
in the whole buffer, where blocks meet and launches follow each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from astra_tui.emulator.memory import Buffer, GlobalMemory
from astra_tui.emulator.places import Places, Shape, shape_of
from astra_tui.emulator.step import AccessSpec, Step
from astra_tui.model.counters import Place
from astra_tui.model.occupancy import WARP
from astra_tui.model.traffic import HALF_LINE, SECTOR, ArgumentTraffic, Waste, WasteKind

WINDOW = 1 << 22
"""Accesses of lanes that are kept. A block that makes more is looked at in parts: what it loads
in two of them counts as shared."""

_LARGEST = 1024
_TABLES = ("loaded", "stored", "loader", "storer")


class TrafficLog:
    """The traffic of the launches of one case."""

    def __init__(self, memory: GlobalMemory):
        self.memory = memory
        self.buffers = [_BufferTraffic(b) for b in memory.buffers]
        self.sources = _Sources()
        self._pending: list[_Access] = []
        self._lanes = 0

    def begin_launch(self, steps: tuple[Step, ...], warps_per_block: int) -> None:
        """Says which launch the accesses from here on belong to."""
        self.settle()
        self.sources.launch += 1
        self.steps, self.warps_per_block = steps, warps_per_block
        self._numbers: dict[int, int] = {}
        """By step, the number of its place in this launch."""

    def note(
        self,
        spec: AccessSpec,
        places: Places,
        warps: Any,
        whole_warps: bool,
        buffer: Buffer | None,
    ) -> None:
        """Keeps one access by the lanes of a group, within one buffer or None for several.

        `warps` are numbered in the chunk that runs; `whole_warps` as in `GroupAccess`.
        """
        if self._lanes + len(places) > WINDOW:
            self.settle()
        self._lanes += len(places)
        source = self._numbers.get(spec.index)
        if source is None:
            silent = spec.direction == "atomic" or spec.synchronising
            source = self.sources.number(self.steps[spec.index], silent)
            self._numbers[spec.index] = source
        if buffer is not None:
            at = buffer.number
            self._pending.append(_Access.of(at, source, spec, places, warps, whole_warps))
            return
        offsets = places.offsets
        owners = self.memory.owners(offsets)
        for at in np.unique(owners[owners >= 0]).tolist():
            # An access that an engineer accepts may go past the end.
            mine = (owners == at) & (offsets + spec.size <= self.memory.buffers[at].end)
            if mine.any():
                access = _Access.of_lanes(at, source, spec, offsets[mine], warps[mine])
                self._pending.append(access)

    def settle(self) -> None:
        """Looks at what was kept: the blocks that made these accesses have ended."""
        by_buffer: dict[int, list[_Access]] = {}
        for access in self._pending:
            by_buffer.setdefault(access.buffer, []).append(access)
        self._pending, self._lanes = [], 0
        for at, accesses in by_buffer.items():
            self.buffers[at].settle(accesses, self.sources, self.warps_per_block)

    def arguments(self) -> tuple[ArgumentTraffic, ...]:
        """The traffic of all arguments and workspaces that were touched, in the order of memory."""
        self.settle()
        arguments = (b for b in self.buffers if b.buffer.use is not None)
        found = (b.result(self.sources) for b in arguments if b.loader is not None)
        return tuple(t for t in found if t.loaded or t.stored)


class _Access(NamedTuple):
    """One access by the lanes of a group to one buffer: the bytes that the requests of warps want,
    each once for a warp, as stretches without gaps.
    """

    buffer: int
    source: int
    spec: AccessSpec
    begin: Any
    """Of each stretch; where all have one size, that of the first alone."""
    size: Any
    """Of each stretch, or one of all."""
    warp: Any
    within: Shape | None = None
    """Where the stretches lie from the first, a lane each, where all have one size."""

    @classmethod
    def of(
        cls, buffer: int, source: int, spec: AccessSpec, places: Places, warps: Any, whole: bool
    ) -> _Access:
        """That of lanes of these warps; `whole` warps in the order of their lanes, or any."""
        rows, size = places.rows, spec.size
        if rows is None or not whole:
            return cls.of_lanes(buffer, source, spec, places.offsets, warps)
        shape = rows.shape
        if shape.length % WARP or shape.step not in (0, size):
            return cls.of_lanes(buffer, source, spec, places.offsets, warps)
        within = shape_of(shape.count, shape.length // WARP, shape.pitch, WARP * shape.step)
        size = WARP * size if shape.step else size
        return cls(buffer, source, spec, rows.first, size, warps[::WARP], within)

    @classmethod
    def of_lanes(
        cls, buffer: int, source: int, spec: AccessSpec, offsets: Any, warps: Any
    ) -> _Access:
        """As `of`, for lanes in any order."""
        if len(offsets) > 1 and not (offsets[1:] > offsets[:-1]).all():
            key = (warps.astype(np.int64) << 44) | offsets
            if (key[1:] >= key[:-1]).all():
                key = key[np.concatenate([[True], key[1:] != key[:-1]])]
            else:
                key = np.unique(key)
            offsets, warps = key & ((1 << 44) - 1), key >> 44
        apart = (offsets[1:] != offsets[:-1] + spec.size) | (warps[1:] != warps[:-1])
        first = np.concatenate([[0], np.flatnonzero(apart) + 1])
        size = np.diff(first, append=len(offsets)) * spec.size
        return cls(buffer, source, spec, offsets[first], size, warps[first])

    def edges(self) -> int:
        """The bits that are set in any begin or end."""
        if self.within is not None:
            shape = self.within
            return int(self.begin | self.size | shape.pitch | shape.step * (shape.length > 1))
        return int(np.bitwise_or.reduce(self.begin) | np.bitwise_or.reduce(self.size))

    def pieces(self, unit: int) -> tuple[Any, Any]:
        """The pieces of `unit` bytes in them, numbered from offset 0, and the warp of each."""
        if self.within is not None:
            count = self.size // unit
            return self.begin // unit + _pieces(self.within, count, unit), self.warp.repeat(count)
        first, counts = self.begin // unit, self.size // unit
        behind = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(first, counts) + behind, np.repeat(self.warp, counts)


@lru_cache(maxsize=64)
def _pieces(within: Shape, count: int, unit: int) -> Any:
    """`count` pieces at each place of a shape, in order."""
    begin = within.pitch * np.arange(within.count)[:, None] + (
        within.step * np.arange(within.length)
    )
    pieces = (begin // unit)[:, :, None] + np.arange(count)
    pieces.setflags(write=False)
    return pieces.reshape(-1)


class _Sources:
    """Where accesses come from: launch and place, numbered from 1."""

    def __init__(self) -> None:
        self.launch = 0
        self.known: dict[tuple[int, tuple[Place, ...], bool], int] = {}
        self.launches: list[int] = [0]
        self.frames: list[tuple[Place, ...]] = [((0, ""),)]
        """From the kernel on inwards."""
        self.silent: list[bool] = [False]
        """Atomics, and accesses that synchronise: others may follow them, they follow none."""

    def number(self, step: Step, silent: bool) -> int:
        """The number of an instruction's place in the launch that runs."""
        frames = step.location.frames
        key = (self.launch, frames, silent)
        if key not in self.known:
            self.known[key] = len(self.launches)
            self.launches.append(self.launch)
            self.frames.append(frames)
            self.silent.append(silent)
        return self.known[key]

    def waste(
        self, kind: WasteKind, size: int, source: int, earlier: int, other_block: bool = False
    ) -> Waste:
        """Bytes in vain, at the outermost places in which two sources differ."""
        here, before = self.frames[source], self.frames[earlier]
        shorter = min(len(here), len(before))
        differs = (n for n in range(shorter) if here[n] != before[n])
        depth = next(differs, 0 if here == before else shorter)
        (line, header), (earlier_line, earlier_header) = (
            frames[min(depth, len(frames) - 1)] for frames in (here, before)
        )
        launches = self.launches[source], self.launches[earlier]
        return Waste(kind, line, earlier_line, size, *launches, other_block, header, earlier_header)


@dataclass(frozen=True)
class _Events:
    """What happened to pieces of a buffer, in order: arrays of one length."""

    piece: Any
    warp: Any
    source: Any
    store: Any

    def at(self, which: Any) -> _Events:
        return _Events(*(a[which] for a in (self.piece, self.warp, self.source, self.store)))


@dataclass
class _BufferTraffic:
    """What is known of one buffer, in pieces of `unit` bytes."""

    buffer: Buffer
    unit: int = _LARGEST
    loaded: Any = None
    """For each piece, the source that first loaded it in the last launch that did, since the last
    store; 0 for none."""
    stored: Any = None
    """The source that stored it last; 0 for none."""
    loader: Any = None
    """The source that first loaded a piece at any time; 0 for none."""
    storer: Any = None
    """The source that last stored it, atomics left out; 0 for none."""
    loads: int = 0
    stores: int = 0
    shared: int = 0
    waste: dict[tuple[WasteKind, int, int, bool], int] = field(default_factory=dict)
    """Bytes by kind, source, earlier source, and whether another block came before."""

    def settle(self, accesses: list[_Access], sources: _Sources, warps_per_block: int) -> None:
        """Takes in the accesses of blocks that make no others."""
        edges = _LARGEST
        for access in accesses:
            edges |= access.edges()
        self._refine(edges & -edges)
        events = self._events(accesses)
        silent = np.array(sources.silent)
        counted = ~silent[events.source]
        loads = int(np.count_nonzero(counted & ~events.store))
        self.loads += loads * self.unit
        self.stores += (int(np.count_nonzero(counted)) - loads) * self.unit
        _History(self, events, counted, sources, warps_per_block).follow()
        self._remember(events, counted, sources)

    def add(
        self, kind: WasteKind, source: Any, earlier: Any, other_block: bool | Any = False
    ) -> None:
        """Counts pieces by their sources."""
        if not len(source):
            return
        other = np.broadcast_to(np.asarray(other_block, np.int64), source.shape)
        key = (source.astype(np.int64) << 32) | (earlier.astype(np.int64) << 1) | other
        for value, count in zip(*np.unique(key, return_counts=True), strict=True):
            pair = (kind, int(value >> 32), int(value >> 1 & 0x7FFF_FFFF), bool(value & 1))
            self.waste[pair] = self.waste.get(pair, 0) + int(count) * self.unit

    def result(self, sources: _Sources) -> ArgumentTraffic:
        """The counts so far."""
        waste = [
            sources.waste(kind, count, source, earlier, other_block)
            for (kind, source, earlier, other_block), count in self.waste.items()
        ]
        half_lines, half_used = self._half_lines(sources)
        sectors_stored, part_stored = self._parts_of_sectors(sources)
        waste += [*half_used, *part_stored]
        return ArgumentTraffic(
            argument=self.buffer.name,
            size=self.buffer.size,
            loaded=self.loads,
            stored=self.stores,
            distinct_loaded=int(np.count_nonzero(self.loader)) * self.unit,
            distinct_stored=int(np.count_nonzero(self.storer)) * self.unit,
            shared=self.shared,
            half_lines=half_lines,
            sectors_stored=sectors_stored,
            waste=_joined(waste),
        )

    def _half_lines(self, sources: _Sources) -> tuple[int, list[Waste]]:
        """The half lines that loads touch, and those of which one sector is not loaded."""
        use = self.buffer.use
        if use is None or use.starts_undefined or not self.loads:
            return 0, []
        if not self.unit % HALF_LINE:
            return int(np.count_nonzero(self.loader)) * (self.unit // HALF_LINE), []
        loader = self._in_sectors(self.loader).max(axis=0)
        inside = self._in_sectors(np.ones_like(self.loader)).any(axis=0)
        half = np.maximum(loader[::2], loader[1::2])
        one = inside[::2] & inside[1::2] & ((loader[::2] > 0) != (loader[1::2] > 0))
        return int(np.count_nonzero(half)), _by_source(WasteKind.HALF_LINE, half[one], sources)

    def _parts_of_sectors(self, sources: _Sources) -> tuple[int, list[Waste]]:
        """The sectors that stores touch, and those that nothing loads and stores touch in part."""
        if not self.unit % SECTOR or not self.stores:
            return int(np.count_nonzero(self.storer)) * (self.unit // SECTOR), []
        sectors = self._in_sectors(self.storer)
        inside = self._in_sectors(np.ones_like(self.storer)).sum(axis=0)
        stored = (sectors > 0).sum(axis=0)
        loaded = self._in_sectors(self.loader).any(axis=0)
        part = (stored > 0) & (stored < inside) & ~loaded
        waste = _by_source(WasteKind.PART_OF_SECTOR, sectors.max(axis=0)[part], sources)
        return int(np.count_nonzero(stored)), waste

    def _in_sectors(self, pieces: Any) -> Any:
        """A table of pieces as columns of a sector each, from a half line's begin to one's end."""
        first = self.buffer.begin // self.unit % (HALF_LINE // self.unit)
        end = first + len(pieces)
        padded = np.zeros(end + -end % (HALF_LINE // self.unit), pieces.dtype)
        padded[first:end] = pieces
        return np.ascontiguousarray(padded.reshape(-1, SECTOR // self.unit).T)

    def _refine(self, unit: int) -> None:
        """Makes pieces no larger than `unit` bytes."""
        if self.loaded is None:
            self.unit = unit
            first, last = self.buffer.begin // self.unit, (self.buffer.end - 1) // self.unit
            pieces = max(last - first + 1, 1)
            for name in _TABLES:
                setattr(self, name, np.zeros(pieces, np.int32))
        elif unit < self.unit:
            times = self.unit // unit
            before = self.buffer.begin // unit - self.buffer.begin // self.unit * times
            count = (self.buffer.end - 1) // unit - self.buffer.begin // unit + 1
            for name in _TABLES:
                finer = np.repeat(getattr(self, name), times)[before:][:count]
                setattr(self, name, finer)
            self.unit = unit

    def _events(self, accesses: list[_Access]) -> _Events:
        parts: list[tuple[Any, Any, int, bool]] = []
        for access in accesses:
            piece, warps = access.pieces(self.unit)
            piece = piece - self.buffer.begin // self.unit
            if access.spec.reads:
                parts.append((piece, warps, access.source, False))
            if access.spec.writes:
                parts.append((piece, warps, access.source, True))
        sizes = [len(p[0]) for p in parts]
        return _Events(
            np.concatenate([p[0] for p in parts]),
            np.concatenate([p[1] for p in parts]).astype(np.int64),
            np.repeat(np.array([p[2] for p in parts], np.int32), sizes),
            np.repeat(np.array([p[3] for p in parts], np.bool_), sizes),
        )

    def _remember(self, events: _Events, counted: Any, sources: _Sources) -> None:
        """What later blocks and launches find."""
        stores, loads = np.flatnonzero(events.store), np.flatnonzero(~events.store)
        plain = np.flatnonzero(events.store & counted)
        self.storer[events.piece[plain]] = events.source[plain]
        plain = np.flatnonzero(~events.store & counted)[::-1]
        plain = plain[self.loader[events.piece[plain]] == 0]
        self.loader[events.piece[plain]] = events.source[plain]
        if len(stores):
            pieces = events.piece[stores]
            self.stored[pieces] = events.source[stores]  # The last of several stays.
            self.loaded[pieces] = 0
            last = np.full(len(self.stored), -1, np.int64)
            last[pieces] = stores
            loads = loads[loads > last[events.piece[loads]]]
        launches = np.array(sources.launches)
        loads = loads[launches[self.loaded[events.piece[loads]]] != sources.launch][::-1]
        self.loaded[events.piece[loads]] = events.source[loads]


def _by_source(kind: WasteKind, source: Any, sources: _Sources) -> list[Waste]:
    """A sector each that some sources move in vain, by place and launch."""
    if not len(source):
        return []
    numbers, counts = np.unique(source, return_counts=True)
    pairs = zip(numbers.tolist(), counts.tolist(), strict=True)
    found = (sources.waste(kind, count * SECTOR, number, number) for number, count in pairs)
    return [replace(waste, earlier_line=0, earlier_header="") for waste in found]


def _joined(waste: list[Waste]) -> tuple[Waste, ...]:
    """Waste at the same places as one; most bytes first."""
    sums: dict[Waste, int] = {}
    for each in waste:
        key = replace(each, bytes=0)
        sums[key] = sums.get(key, 0) + each.bytes
    joined = (replace(key, bytes=size) for key, size in sums.items())
    return tuple(sorted(joined, key=lambda w: (-w.bytes, w.place, w.earlier, w.kind)))


class _History:
    """The events of some blocks on one buffer, each with what came before it."""

    def __init__(
        self,
        traffic: _BufferTraffic,
        events: _Events,
        counted: Any,
        sources: _Sources,
        warps_per_block: int,
    ):
        self.traffic = traffic
        self.events = events
        self.counted = counted
        self.sources = sources
        self.silent = np.array(sources.silent)
        self.block = events.warp // warps_per_block

    def follow(self) -> None:
        """Counts every event that waste another."""
        events = self.events
        every = np.arange(len(events.piece))
        if np.bincount(events.piece).max() == 1:  # Nothing is touched twice here,
            traffic = self.traffic
            if traffic.stored[events.piece].any() or traffic.loaded[events.piece].any():
                self._in_buffer(every, every[:0])
            return  # or was before.
        line = _Line.of(self._key(events.piece, self.block), events.store)
        stores = every[events.store]
        self._stored_again(stores, line.previous[stores], other_block=False)
        first_stores = stores[line.stores_before[stores] == 0]
        loads = every[~events.store]
        first_loads, known = self._in_block(self._in_warps(loads, line), line)
        self._in_buffer(np.sort(np.concatenate([first_stores, first_loads])), known)

    def _in_warps(self, loads: Any, line: _Line) -> Any:
        """The loads that their warp has not made before."""
        events = self.events
        key = self._key(events.piece, events.warp, line.stores_before)[loads]
        before = _previous(key)
        again = before >= 0
        self._add(WasteKind.LOADED_AGAIN, loads[again], loads[before[again]])
        return loads[~again]

    def _in_block(self, loads: Any, line: _Line) -> tuple[Any, Any]:
        """Of these loads, the first that a block makes of a piece, or after it stored it.

        The second part has those that it has stored.
        """
        events = self.events
        first = loads[_first(self._key(events.piece, self.block, line.stores_before)[loads])]
        is_first = first == loads
        ours = first[is_first]
        known = ours[line.stores_before[ours] > 0]
        self._add(WasteKind.READ_BACK, known, line.last_store[known])
        others, first = loads[~is_first], first[~is_first]
        # A warp that ran the earlier line as well could have kept or passed on the value.
        ran = np.zeros((len(self.silent), int(events.warp.max()) + 1), np.bool_)
        ran[events.source, events.warp] = True
        source = events.source
        again = (source[others] != source[first]) & ran[source[first], events.warp[others]]
        self._add(WasteKind.LOADED_AGAIN, others[again], first[again])
        self._share(others[~again])
        return ours, known

    def _in_buffer(self, which: Any, known: Any) -> None:
        """The first events of blocks on pieces, against other blocks and earlier launches.

        `known` are loads that have been counted.
        """
        events, traffic = self.events.at(which), self.traffic
        stored, loaded = traffic.stored[events.piece], traffic.loaded[events.piece]
        line = _Line.of(events.piece, events.store)
        launches = np.array(self.sources.launches)
        now = self.sources.launch
        # Stores.
        behind = events.store & (line.previous >= 0)
        self._stored_again(which[behind], which[line.previous[behind]], other_block=True)
        again = events.store & ~behind & (stored > 0) & (loaded == 0)
        again &= ~self.silent[stored] & self.counted[which]
        same = launches[stored[again]] == now
        traffic.add(WasteKind.STORED_AGAIN, events.source[again], stored[again], same)
        # Loads.
        loads = np.flatnonzero(~events.store)
        first = loads[_first(self._key(events.piece, line.stores_before)[loads])]
        counted_before = self._among(known)[which[loads]]
        self._share(which[loads[(first != loads) & ~counted_before]])
        loads = loads[(first == loads) & ~counted_before]
        here = loads[line.stores_before[loads] > 0]
        self._add(WasteKind.READ_BACK, which[here], which[line.last_store[here]], other_block=True)
        loads = loads[(line.stores_before[loads] == 0) & self.counted[which[loads]]]
        seen = loaded[loads] > 0
        shared = seen & (launches[loaded[loads]] == now)
        self._share(which[loads[shared]])
        later = loads[seen & ~shared]
        traffic.add(WasteKind.LOADED_AGAIN, events.source[later], loaded[later])
        back = loads[~seen & (stored[loads] > 0)]
        same = launches[stored[back]] == now
        traffic.add(WasteKind.READ_BACK, events.source[back], stored[back], same)

    def _stored_again(self, stores: Any, before: Any, other_block: bool) -> None:
        """Counts the stores of which a store came right before, that of an atomic left out."""
        again = before >= 0
        stores, before = stores[again], before[again]
        again = self.events.store[before] & ~self.silent[self.events.source[before]]
        self._add(WasteKind.STORED_AGAIN, stores[again], before[again], other_block)

    def _add(self, kind: WasteKind, which: Any, before: Any, other_block: bool = False) -> None:
        counted = self.counted[which]
        source = self.events.source
        self.traffic.add(kind, source[which[counted]], source[before[counted]], other_block)

    def _share(self, which: Any) -> None:
        self.traffic.shared += int(np.count_nonzero(self.counted[which])) * self.traffic.unit

    def _among(self, which: Any) -> Any:
        """A mask of some events."""
        mask = np.zeros(len(self.counted), np.bool_)
        mask[which] = True
        return mask

    def _key(self, *parts: Any) -> Any:
        """One number for each event that is the same where all parts are."""
        key = parts[0].astype(np.int64)
        for part in parts[1:]:
            most = int(part.max())
            if most:
                key = key * (most + 1) + part
        return key


@dataclass(frozen=True)
class _Line:
    """The events with equal keys as a line in time; arrays about all events."""

    previous: Any
    """The event before, -1 for none; not told where nothing is stored."""
    stores_before: Any
    """How many stores came before."""
    last_store: Any
    """The last store before, where there is one."""

    @classmethod
    def of(cls, key: Any, store: Any) -> _Line:
        count = len(key)
        if not store.any():
            return cls(np.full(count, -1), np.zeros(count, np.int64), np.full(count, -1))
        order, begin = _groups(key)
        places = np.arange(count)
        stored = store[order]
        before = np.cumsum(stored) - stored
        last = np.maximum.accumulate(np.where(stored, places, -1))
        last = np.concatenate([[-1], last[:-1]])
        previous, stores_before, last_store = (np.empty(count, np.int64) for _ in range(3))
        previous[order] = np.where(begin == places, -1, order[places - 1])
        stores_before[order] = before - before[begin]
        last_store[order] = order[last]
        return cls(previous, stores_before, last_store)


def _previous(key: Any) -> Any:
    """For each place the one before it with an equal key, -1 for none."""
    order, begin = _groups(key)
    places = np.arange(len(key))
    previous = np.empty(len(key), np.int64)
    previous[order] = np.where(begin == places, -1, order[places - 1])
    return previous


def _first(key: Any) -> Any:
    """For each place the first one with an equal key."""
    order, begin = _groups(key)
    first = np.empty(len(key), np.int64)
    first[order] = order[begin]
    return first


def _groups(key: Any) -> tuple[Any, Any]:
    """The places by key, those of one key in their order; for each, where its key begins."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    begins = np.zeros(len(order), np.int64)
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    begins[changes] = changes
    return order, np.maximum.accumulate(begins)
