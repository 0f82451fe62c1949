"""Records paired times of two equal fills on a GPU: what real rounds look like.

    python tests/timing/record_memsets.py OUT.json

Needs an NVIDIA driver and nothing else. Both versions fill 450 MiB, in buffers of their own, so
that their true ratio is 1 but for where the buffers lie. 1,000 rounds, in mirror pairs; each second
pair begins with the other version.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
from pathlib import Path

MIB = 1 << 20
FILLED = 450 * MIB
BUFFERS = (0, 500 * MIB)
PAIRS = 500
BATCH = 50


class Driver:
    """The few calls of the CUDA driver that a fill between two events takes."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.stream, self.memory = ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(1024 * MIB))
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        self.name = name.value.decode()

    def call(self, function: str, *arguments: object) -> None:
        """Calls it, and raises if it fails."""
        result = getattr(self.cuda, function)(*arguments)
        if result:
            raise RuntimeError(f"{function} gave {result}")

    def event(self) -> ctypes.c_void_p:
        """A new event."""
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        return event

    def times(self, fills: list[tuple[int, int]]) -> list[float]:
        """Microseconds of each fill (offset, bytes; 0 bytes: nothing), an event pair round each."""
        events = []
        for offset, size in fills:
            begin, end = self.event(), self.event()
            self.call("cuEventRecord", begin, self.stream)
            if size:
                place = ctypes.c_uint64(self.memory.value + offset)
                self.call("cuMemsetD8Async", place, 1, ctypes.c_size_t(size), self.stream)
            self.call("cuEventRecord", end, self.stream)
            events.append((begin, end))
        self.call("cuStreamSynchronize", self.stream)
        return [self._elapsed(*pair) for pair in events]

    def _elapsed(self, begin: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
        self.call("cuEventDestroy_v2", begin)
        self.call("cuEventDestroy_v2", end)
        return round(1e3 * milliseconds.value, 3)


def main() -> None:
    """Records and writes one JSON object."""
    driver = Driver()
    driver.times([(0, FILLED)] * 1000)  # until the clocks have risen
    base, copy, base_first = [], [], []
    for begin in range(0, PAIRS, BATCH):
        orders = [
            (0, 1, 1, 0) if pair % 2 else (1, 0, 0, 1) for pair in range(begin, begin + BATCH)
        ]
        versions = list(itertools.chain(*orders))
        times = driver.times([(BUFFERS[v], FILLED) for v in versions])
        base += [t for t, v in zip(times, versions, strict=True) if v == 0]
        copy += [t for t, v in zip(times, versions, strict=True) if v == 1]
        base_first += [v == 0 for v in versions[::2]]
    record = {
        "device": driver.name,
        "empty_us": driver.times([(0, 0)] * 200),
        "base_us": base,
        "copy_us": copy,
        "base_first": base_first,
    }
    Path(sys.argv[1]).write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
