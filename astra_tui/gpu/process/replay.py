"""Times versions by replaying graphs of many launches, with an event pair round each replay.

The method is described in docs/timing.md. Everything that has to happen between two replays
(restoring arguments, poisoning outputs, flushing L2, digests) lies outside the events and on the
same stream.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
from msgspec.structs import replace

from astra_tui.gpu.messages import (
    Block,
    Build,
    Built,
    Fetch,
    Fetched,
    Node,
    PaperRun,
    PaperTimes,
    Poison,
    Prepare,
    Prepared,
    Rounds,
    RunSets,
    SetsRan,
    Spin,
    Spun,
    Version,
)
from astra_tui.gpu.process.case import bind, run_together
from astra_tui.gpu.process.driver import Driver, Launch
from astra_tui.gpu.process.producer import CHECKED_PIECES, TIMED_PIECES, ProducedBuffer, Producer
from astra_tui.gpu.process.sets import NAN, BufferSets
from astra_tui.gpu.process.tools import ClockProbe, Tools, queue_delay
from astra_tui.processes.frames import window_bytes

_ESTIMATE_LAUNCHES = 10
_HEAD_START_CYCLES = 400_000
"""About 0.2 ms: the host queues the first replays meanwhile."""
_RED_ZONE_BYTE = 0xA5
_DIGEST_BYTES = 8
_STALE = 0x11
"""What stale inputs differ by from the poison of outputs."""


class _Graphs:
    """The short and the long graph of one version."""

    def __init__(self, short: int, long: int):
        self.short = short
        self.long = long


Kind = Literal["long", "short", "stale", "late"]


@dataclass(frozen=True)
class _Queued:
    """One replay on its way: what it is of, its events, and where its digests go."""

    round: int
    version: int
    kind: Kind
    events: tuple[int, int]
    digests: tuple[int, int]
    """The first, and how many sets."""


class _Loaded:
    """One version: its module, its workspaces, and the buffer sets that it works on."""

    def __init__(self, driver: Driver, version: Version):
        self._driver = driver
        self.version = version
        self.module = driver.load(version.cubin)
        self._workspaces: dict[str, int] = {}
        try:
            for name, size in version.workspaces:
                self._workspaces[name] = driver.allocate(size)
            self.poison(NAN.byte)
        except BaseException:
            self.free()
            raise

    def call(self, sets: BufferSets, number: int) -> list[Launch]:
        """The launches of one call on one set."""
        addresses = {**sets.addresses(number), **self._workspaces}
        return [bind(self._driver, self.module, k, addresses) for k in self.version.kernels]

    def poison(self, byte: int) -> None:
        """Fills the workspaces, in stream order: nothing gets from one replay to the next."""
        for name, size in self.version.workspaces:
            self._driver.fill(self._workspaces[name], byte, size)

    def written(self) -> tuple[ProducedBuffer, ...]:
        """Its workspaces, as a call before this one would write them."""
        return tuple(
            ProducedBuffer(self._workspaces[name], size, 0, is_output=True)
            for name, size in self.version.workspaces
        )

    def resident_blocks(self) -> tuple[int, ...]:
        """Blocks of every launch that one multiprocessor holds."""
        found = []
        for kernel in self.version.kernels:
            function = self._driver.function(self.module, kernel.symbol, kernel.shared_bytes)
            x, y, z = kernel.block
            found.append(self._driver.occupancy(function, x * y * z, kernel.shared_bytes))
        return tuple(found)

    def free(self) -> None:
        """Gives everything back."""
        for address in self._workspaces.values():
            self._driver.free(address)
        self._workspaces = {}
        self._driver.unload(self.module)


class Replayer:
    """Versions of one workload, side by side."""

    def __init__(self, driver: Driver, tools: Tools, request: Prepare, window: int = -1):
        self._driver = driver
        self._tools = tools
        self._request = request
        self._window = window
        self._versions: list[_Loaded] = []
        self._sets: list[BufferSets] = []
        self._producers: dict[tuple[int, int], Producer] = {}
        """By version and replica of sets, where calls follow one."""
        self._graphs: dict[tuple[int, int], _Graphs] = {}
        self._flush = 0
        self._flush_bytes = 0
        self._launches = 0
        self._events = [(driver.event(), driver.event()) for _ in range(64)]
        self._clock = ClockProbe(driver, tools)
        try:
            for version in request.versions:
                self._versions.append(_Loaded(driver, version))
            self._draw_sets(1)
        except BaseException:
            self.free()
            raise

    def prepare(self) -> Prepared:
        """Runs every version a few times on the only set that there is so far, if asked to."""
        estimated = range(len(self._versions) if self._request.estimate else 0)
        return Prepared(
            estimates_us=tuple(map(self._estimate, estimated)),
            free_bytes=self._driver.free_memory(),
            resident_blocks=tuple(v.resident_blocks() for v in self._versions),
        )

    def build(self, request: Build) -> Built:
        """Draws the sets again, as many as asked for, and makes the graphs."""
        began = time.perf_counter()
        self._free_built()
        if self._sets[0].count != request.sets:
            self._free_sets()
            self._draw_sets(request.sets)
        if request.producer:
            for version in range(len(self._versions)):
                for replica in range(len(self._sets)):
                    producer = self._producer(version, replica, 2 * request.launches, TIMED_PIECES)
                    self._producers[version, replica] = producer
        self._launches = request.launches
        self._flush_bytes = request.flush_bytes
        if request.flush_bytes:
            self._flush = self._driver.allocate(request.flush_bytes)
        for version in range(len(self._versions)):
            for replica in range(len(self._sets)):
                graphs = self._capture(version, replica, request.launches)
                self._graphs[version, replica] = graphs
        calls = tuple(self._calls(version) for version in range(len(self._versions)))
        return Built(time.perf_counter() - began, calls)

    def rounds(self, request: Rounds) -> Block:
        """Replays as asked for, without the host ever waiting for the GPU in between."""
        began = time.perf_counter()
        digests = self._digest_memory(request)
        try:
            queue_delay(self._driver, self._tools, _HEAD_START_CYCLES)
            queued = self._queue(request, digests)
            self._clock.start()
            rows = self._rows(request, queued)
            return Block(
                long=rows["long"],
                short=rows["short"],
                sm_mhz=self._clock.read(),
                seconds=time.perf_counter() - began,
                stale=rows["stale"],
                digests=self._digests(queued, digests),
                early=self._early(),
            )
        finally:
            if digests:
                self._driver.free(digests)

    def run_sets(self, request: RunSets) -> SetsRan:
        """Runs the first version on all sets, one after the other."""
        sets, version, driver = self._sets[0], self._versions[0], self._driver
        count = sets.count
        memory = driver.allocate((count + 4) * _DIGEST_BYTES)
        try:
            driver.fill(memory, 0, (count + 4) * _DIGEST_BYTES)
            places = [memory + (count + i) * _DIGEST_BYTES for i in range(4)]
            sets.restore()
            sets.poison(Poison(request.poison))
            version.poison(request.poison)
            sets.fill_red_zones(_RED_ZONE_BYTE)
            sets.digest_inputs(request.key, places[0])
            sets.digest_red_zones(request.key, places[2])
            early = self._call_all(request)
            sets.digest_outputs(request.key, memory, count)
            sets.digest_inputs(request.key, places[1])
            sets.digest_red_zones(request.key, places[3])
            found = driver.download(memory, (count + 4) * _DIGEST_BYTES).view(np.uint64).tolist()
        finally:
            driver.free(memory)
        *outputs, before, after, zones_before, zones_after = found
        return SetsRan(tuple(outputs), (before, after), (zones_before, zones_after), early)

    def _call_all(self, request: RunSets) -> bool:
        """The first version on all sets; after a late producer where a launch may begin early.

        Whether it stored before it waited.
        """
        sets, version, driver = self._sets[0], self._versions[0], self._driver
        producer = None
        if any(kernel.pdl for kernel in version.version.kernels):
            producer = self._producer(0, 0, sets.count, CHECKED_PIECES)
        try:
            if producer is not None:
                producer.delay(request.late_cycles)
                producer.spoil(request.poison ^ _STALE, sets.count)
            for number in range(sets.count):
                if producer is None:
                    for launch in version.call(sets, number):
                        driver.launch(launch)
                else:
                    run_together(driver, [producer.before(number), *version.call(sets, number)])
            return producer is not None and producer.touched()
        finally:
            if producer is not None:
                producer.free()

    def _producer(self, version: int, replica: int, count: int, pieces: int) -> Producer:
        sets = self._sets[replica]
        written = (*sets.produced(), *self._versions[version].written())
        return Producer(self._driver, self._tools, written, min(sets.count, count), pieces)

    def fetch(self, request: Fetch) -> Fetched:
        """Copies what the sets hold now into the window."""
        window, sets = window_bytes(self._window), self._sets[0]
        by_name = {b.name: b for b in sets.buffers}
        for name, first, size, at in request.ranges:
            for number in range(request.sets):
                address = sets.address(by_name[name], request.first_set + number) + first
                place = at + number * size
                self._driver.download_into(address, window[place : place + size])
        self._driver.wait()
        return Fetched()

    def paper(self, request: PaperRun) -> PaperTimes:
        """Launches from the host, an event pair round each."""
        sets = self._sets[0]
        sets.restore()
        launches = self._versions[request.version].call(sets, 0)
        pairs = [(self._driver.event(), self._driver.event()) for _ in range(request.launches)]
        for _ in range(request.warm_ups):
            for launch in launches:
                self._driver.launch(launch)
        self._driver.wait()
        for start, end in pairs:
            self._driver.record(start)
            for launch in launches:
                self._driver.launch(launch)
            self._driver.record(end)
        self._driver.wait()
        times = tuple(self._driver.elapsed(start, end) for start, end in pairs)
        for event in (e for pair in pairs for e in pair):
            self._driver.free_event(event)
        return PaperTimes(times)

    def spin(self, request: Spin) -> Spun:
        """Replays without a pause until the time is over."""
        sets = self._sets[0]
        graph = self._graphs[request.version, 0].long
        began = time.perf_counter()
        replays = 0
        while (passed := time.perf_counter() - began) < request.seconds:
            sets.restore()
            self._driver.run_graph(graph)
            replays += 1
            if replays % 8 == 0:
                self._driver.wait()
        self._driver.wait()
        passed = time.perf_counter() - began
        return Spun(replays * 2 * self._launches, passed)

    def free(self) -> None:
        """Gives everything back."""
        self._free_built()
        self._free_sets()
        for version in self._versions:
            version.free()
        self._versions = []
        for event in (e for pair in self._events for e in pair):
            self._driver.free_event(event)
        self._events = []
        self._clock.free()

    def _draw_sets(self, count: int) -> None:
        request = self._request
        for _ in range(request.replicas):
            replica = BufferSets(
                self._driver, self._tools, request.buffers, count, request.seed, request.red_zone
            )
            self._sets.append(replica)

    def _estimate(self, version: int) -> float:
        sets = self._sets[0]
        sets.restore()
        launches = self._versions[version].call(sets, 0)
        for launch in launches:
            self._driver.launch(launch)
        graph = self._driver.build_graph(launches * _ESTIMATE_LAUNCHES)
        start, end = self._events[0]
        try:
            sets.restore()
            self._driver.run_graph(graph)
            sets.restore()
            self._driver.record(start)
            self._driver.run_graph(graph)
            self._driver.record(end)
            return self._driver.elapsed(start, end) / _ESTIMATE_LAUNCHES
        finally:
            self._driver.free_graph(graph)

    def _capture(self, version: int, replica: int, launches: int) -> _Graphs:
        loaded, sets = self._versions[version], self._sets[replica]
        calls = [loaded.call(sets, k) for k in range(min(sets.count, 2 * launches))]
        if self._producers:
            before = self._producers[version, replica].before
            calls = [[before(number), *call] for number, call in enumerate(calls)]
        long = [calls[i % len(calls)] for i in range(2 * launches)]
        flat = [[launch for call in part for launch in call] for part in (long[:launches], long)]
        return _Graphs(*map(self._driver.build_graph, flat))

    def _calls(self, version: int) -> tuple[tuple[Node, ...], int]:
        """What the long graphs of a version hold. Raises ValueError where calls differ."""
        width, found = len(self._versions[version].version.kernels), set()
        width += bool(self._producers)
        for replica in range(len(self._sets)):
            nodes = self._driver.graph_nodes(self._graphs[version, replica].long)
            if nodes and not self._producers:  # Nothing precedes the first call.
                nodes[0] = replace(nodes[0], pdl=self._versions[version].version.kernels[0].pdl)
            calls = [tuple(nodes[i : i + width]) for i in range(0, len(nodes), width or 1)]
            if len(set(calls)) > 1:
                raise ValueError(f"the calls in the graph of version {version} are not alike")
            found.add((calls[0] if calls else (), len(calls)))
        if len(found) > 1:
            raise ValueError(f"the graphs of version {version} are not alike")
        return found.pop()

    def _digest_memory(self, request: Rounds) -> int:
        """Zeros for the digests of all replays that are asked for; 0 where none are."""
        if not request.key:
            return 0
        replays = sum(map(len, request.orders)) + sum(
            len(request.orders[number])
            for number in (*request.short, *request.stale, *request.late)
        )
        size = max(1, replays * self._used(True)) * _DIGEST_BYTES
        memory = self._driver.allocate(size)
        self._driver.fill(memory, 0, size)
        return memory

    def _used(self, is_long: bool) -> int:
        """Sets that a graph uses."""
        return min(self._sets[0].count, self._launches * (2 if is_long else 1))

    def _queue(self, request: Rounds, digests: int) -> list[_Queued]:
        queued: list[_Queued] = []
        for number, order in enumerate(request.orders):
            poison = request.poisons[number] if request.poisons else NAN
            kinds: tuple[Kind, ...] = ("long",)
            kinds += ("stale",) if number in request.stale else ()
            kinds += ("late",) if number in request.late else ()
            steps = [(version, kind) for version in order for kind in kinds]
            if number in request.short:
                steps += [(version, "short") for version in order]
            for version, kind in steps:
                replica = request.replicas[number][version] if request.replicas else 0
                first = sum(q.digests[1] for q in queued[-1:]) + (
                    queued[-1].digests[0] if queued else 0
                )
                place = (first, self._used(kind != "short"))
                events = self._events_of(len(queued))
                cycles = request.late_cycles if kind == "late" else 0
                self._replay((version, replica), kind, poison, events, cycles)
                if digests:
                    target = digests + first * _DIGEST_BYTES
                    self._sets[replica].digest_outputs(request.key, target, place[1])
                queued.append(_Queued(number, version, kind, events, place))
        return queued

    def _rows(
        self, request: Rounds, queued: list[_Queued]
    ) -> dict[Kind, tuple[tuple[float, ...], ...]]:
        """Microseconds by kind, a row a round that asked for it; waits for the replays."""
        width = len(self._versions)
        asked: dict[Kind, tuple[int, ...]] = {
            "long": tuple(range(len(request.orders))),
            "short": request.short,
            "stale": request.stale,
            "late": request.late,
        }
        table = {(kind, n): [0.0] * width for kind, numbers in asked.items() for n in numbers}
        for q in queued:
            table[q.kind, q.round][q.version] = self._driver.elapsed(*q.events)
        return {k: tuple(tuple(table[k, n]) for n in numbers) for k, numbers in asked.items()}

    def _early(self) -> tuple[int, ...]:
        """The versions that stored before they waited, as late producers saw it."""
        found = {version for (version, _), p in self._producers.items() if p.touched()}
        return tuple(sorted(found))

    def _digests(self, queued: list[_Queued], memory: int) -> tuple[tuple[int, bytes], ...]:
        if not memory or not queued:
            return ()
        first, count = queued[-1].digests
        data = self._driver.download(memory, (first + count) * _DIGEST_BYTES)
        words = data.reshape(-1, _DIGEST_BYTES)
        return tuple((q.version, words[q.digests[0] : sum(q.digests)].tobytes()) for q in queued)

    def _events_of(self, number: int) -> tuple[int, int]:
        while number >= len(self._events):
            self._events.append((self._driver.event(), self._driver.event()))
        return self._events[number]

    def _replay(
        self,
        key: tuple[int, int],
        kind: Kind,
        poison: Poison,
        events: tuple[int, int],
        late_cycles: int,
    ) -> None:
        sets, graphs = self._sets[key[1]], self._graphs[key]
        sets.restore()
        if kind != "stale":
            sets.poison(poison)
        self._versions[key[0]].poison(poison.byte)
        if self._producers:
            self._producers[key].spoil(poison.byte ^ _STALE, self._used(kind != "short"))
            self._producers[key].delay(late_cycles)
        if self._flush:
            self._driver.fill(self._flush, poison.byte, self._flush_bytes)
        self._driver.record(events[0])
        self._driver.run_graph(graphs.short if kind == "short" else graphs.long)
        self._driver.record(events[1])

    def _free_built(self) -> None:
        for graphs in self._graphs.values():
            self._driver.free_graph(graphs.short)
            self._driver.free_graph(graphs.long)
        self._graphs = {}
        for producer in self._producers.values():
            producer.free()
        self._producers = {}
        if self._flush:
            self._driver.free(self._flush)
            self._flush = 0

    def _free_sets(self) -> None:
        for sets in self._sets:
            sets.free()
        self._sets = []
