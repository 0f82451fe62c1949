"""Times versions by replaying graphs of many launches, with an event pair round each replay.

The method is described in docs/timing.md. Everything that has to happen between two replays
(restoring arguments, flushing L2) lies outside the events and on the same stream.
"""

from __future__ import annotations

import time

from astra_tui.lab.cuda.messages import (
    Block,
    Build,
    Built,
    Outputs,
    PaperRun,
    PaperTimes,
    Prepare,
    Prepared,
    Rounds,
    Spin,
    Spun,
    Verify,
    Version,
)
from astra_tui.lab.cuda.process.case import bind
from astra_tui.lab.cuda.process.clock import ClockProbe, head_start
from astra_tui.lab.cuda.process.driver import Driver, Launch
from astra_tui.lab.cuda.process.sets import BufferSets
from astra_tui.lab.cuda.process.tools import Tools

_ESTIMATE_LAUNCHES = 10
_HEAD_START_CYCLES = 400_000
"""About 0.2 ms: the host queues the first replays meanwhile."""


class _Graphs:
    """The short and the long graph of one version."""

    def __init__(self, short: int, long: int):
        self.short = short
        self.long = long


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
                driver.fill(self._workspaces[name], 0xFF, size)
        except BaseException:
            self.free()
            raise

    def call(self, sets: BufferSets, number: int) -> list[Launch]:
        """The launches of one call on one set."""
        addresses = {**sets.addresses(number), **self._workspaces}
        return [bind(self._driver, self.module, k, addresses) for k in self.version.kernels]

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

    def __init__(self, driver: Driver, tools: Tools, request: Prepare):
        self._driver = driver
        self._tools = tools
        self._request = request
        self._versions: list[_Loaded] = []
        self._sets: list[BufferSets] = []
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
        """Runs every version a few times on the only set that there is so far."""
        return Prepared(
            estimates_us=tuple(self._estimate(i) for i in range(len(self._versions))),
            free_bytes=self._driver.free_memory(),
            resident_blocks=tuple(v.resident_blocks() for v in self._versions),
        )

    def build(self, request: Build) -> Built:
        """Draws the sets anew, as many as asked for, and makes the graphs."""
        began = time.perf_counter()
        self._free_built()
        if self._sets[0].count != request.sets:
            self._free_sets()
            self._draw_sets(request.sets)
        self._launches = request.launches
        self._flush_bytes = request.flush_bytes
        if request.flush_bytes:
            self._flush = self._driver.allocate(request.flush_bytes)
        for version in range(len(self._versions)):
            for family in range(len(self._sets)):
                graphs = self._capture(version, family, request.launches)
                self._graphs[version, family] = graphs
        return Built(time.perf_counter() - began)

    def rounds(self, request: Rounds) -> Block:
        """Replays as asked for, without the host ever waiting for the GPU in between."""
        began = time.perf_counter()
        head_start(self._driver, self._tools, _HEAD_START_CYCLES)
        queued: list[tuple[int, int, bool, int, int]] = []
        for number, order in enumerate(request.orders):
            for is_long in (True, False) if number in request.short else (True,):
                for version in order:
                    family = request.families[number][version] if request.families else 0
                    events = self._replay((version, family), len(queued), is_long)
                    queued.append((number, version, is_long, *events))
        self._clock.start()
        width = len(self._versions)
        long = [[0.0] * width for _ in request.orders]
        short = {number: [0.0] * width for number in request.short}
        for number, version, is_long, start, end in queued:
            row = long[number] if is_long else short[number]
            row[version] = self._driver.elapsed(start, end)
        return Block(
            long=tuple(map(tuple, long)),
            short=tuple(map(tuple, short.values())),
            sm_mhz=self._clock.read(),
            seconds=time.perf_counter() - began,
        )

    def verify(self, request: Verify) -> Outputs:
        """Replays the short graph, which uses every set once, on restored and poisoned sets."""
        sets = self._sets[0]
        sets.restore()
        sets.poison()
        self._driver.run_graph(self._graphs[request.version, 0].short)
        by_name = {b.name: b for b in sets.buffers}
        pieces = []
        for name, number, first, size in request.ranges:
            address = sets.address(by_name[name], number) + first
            pieces.append(self._driver.download(address, size).tobytes())
        return Outputs(tuple(pieces))

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
        request, draw = self._request, self._tools.function("draw")
        for _ in range(request.families):
            family = BufferSets(self._driver, draw, request.buffers, count, request.seed)
            self._sets.append(family)

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

    def _capture(self, version: int, family: int, launches: int) -> _Graphs:
        loaded, sets = self._versions[version], self._sets[family]
        calls = [loaded.call(sets, k) for k in range(min(sets.count, launches))]
        short = [launch for i in range(launches) for launch in calls[i % len(calls)]]
        return _Graphs(self._driver.build_graph(short), self._driver.build_graph(short + short))

    def _replay(self, key: tuple[int, int], number: int, is_long: bool) -> tuple[int, int]:
        while number >= len(self._events):
            self._events.append((self._driver.event(), self._driver.event()))
        start, end = self._events[number]
        self._sets[key[1]].restore()
        if self._flush:
            self._driver.fill(self._flush, number & 0xFF, self._flush_bytes)
        graphs = self._graphs[key]
        self._driver.record(start)
        self._driver.run_graph(graphs.long if is_long else graphs.short)
        self._driver.record(end)
        return start, end

    def _free_built(self) -> None:
        for graphs in self._graphs.values():
            self._driver.free_graph(graphs.short)
            self._driver.free_graph(graphs.long)
        self._graphs = {}
        if self._flush:
            self._driver.free(self._flush)
            self._flush = 0

    def _free_sets(self) -> None:
        for sets in self._sets:
            sets.free()
        self._sets = []
