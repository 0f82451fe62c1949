"""Prints what NVML tells on this machine, as JSON: identity, samples, counters, what is missing.

    python benchmarks/nvml_probe.py [--gpu UUID-OR-PCI-BUS-ID] [--samples N] [--seconds S]

Without --gpu it looks at every GPU that NVML lists. The counters are read before and after the
samples, which take S seconds; times of readings are host times.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from typing import Any

import msgspec
from environment import describe

from astra_tui.gpu.nvml import (
    EnergyMeter,
    GpuReader,
    GpuSampler,
    NvmlRefusal,
    gpu_uuids,
    summarise,
)
from astra_tui.model.gpu import GpuSample


def timed_samples(reader: GpuReader, count: int, seconds: float) -> tuple[Any, list[float]]:
    """So many samples over so many seconds, and how many milliseconds each reading took."""
    samples: list[GpuSample] = []
    milliseconds: list[float] = []
    enough = threading.Event()

    def read() -> GpuSample:
        begin = time.perf_counter()
        sample = reader.sample()
        milliseconds.append((time.perf_counter() - begin) * 1e3)
        return sample

    def keep(sample: GpuSample) -> None:
        samples.append(sample)
        if len(samples) >= count:
            enough.set()

    with GpuSampler(read, keep, rate_hz=count / seconds):
        enough.wait(seconds * 10)
    return samples[:count], milliseconds[:count]


def probe(address: str, count: int, seconds: float) -> dict[str, Any]:
    """What NVML tells about one GPU."""
    with GpuReader(address) as reader:
        if reader.problem:
            return {"gpu": address, "problem": reader.problem}
        before = reader.counters()
        meter = EnergyMeter(reader.counters)
        meter.start()
        samples, milliseconds = timed_samples(reader, count, seconds)
        energy = meter.stop(launches=1)
        result = {
            "gpu": address,
            "identity": reader.identity(),
            "occupants": reader.occupants(),
            "summary": summarise(samples, before, reader.counters()),
            "energy_as_of_one_launch": energy,
            "sample_ms": {
                "first": round(milliseconds[0], 3),
                "median": round(statistics.median(milliseconds), 3),
                "max": round(max(milliseconds), 3),
            },
            "samples": samples,
        }
    encoded: dict[str, Any] = msgspec.to_builtins(result)
    encoded["missing"] = {
        part: encoded[part]["missing"] for part in ("identity", "occupants", "summary")
    } | {"sample": samples[-1].missing, "counters": before.missing}
    return encoded


def main() -> int:
    """Prints the JSON; 1 if no GPU could be read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", default="")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    result: dict[str, Any] = {"environment": describe()}
    try:
        addresses = (arguments.gpu,) if arguments.gpu else gpu_uuids()
    except NvmlRefusal as error:
        result["problem"] = str(error)
        addresses = ()
    result["gpus"] = [probe(a, arguments.samples, arguments.seconds) for a in addresses]
    json.dump(result, sys.stdout, indent=1)
    print()
    return 0 if any("samples" in gpu for gpu in result["gpus"]) else 1


if __name__ == "__main__":
    sys.exit(main())
