"""What a scripted "cubin" says: its kernels, what they do, how long they take, what goes wrong.

The text of a script travels to the GPU process in the place of machine code, so that everything in
between (messages, frames, processes, deadlines) is the real thing.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from astra_tui.gpu.messages import DeviceFacts

ILLEGAL_ADDRESS, OUT_OF_RESOURCES, TIMEOUT = 700, 701, 702
MISALIGNED, LAUNCH_FAILED = 716, 719
OUT_OF_MEMORY, INVALID_VALUE, NOT_FOUND = 2, 1, 500

NAMES = {
    INVALID_VALUE: "CUDA_ERROR_INVALID_VALUE",
    OUT_OF_MEMORY: "CUDA_ERROR_OUT_OF_MEMORY",
    NOT_FOUND: "CUDA_ERROR_NOT_FOUND",
    ILLEGAL_ADDRESS: "CUDA_ERROR_ILLEGAL_ADDRESS",
    OUT_OF_RESOURCES: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    TIMEOUT: "CUDA_ERROR_LAUNCH_TIMEOUT",
    MISALIGNED: "CUDA_ERROR_MISALIGNED_ADDRESS",
    LAUNCH_FAILED: "CUDA_ERROR_LAUNCH_FAILED",
}

SEPARATOR = b"scripted:"
LARGEST_SHARED = 232_448
"""Dynamic shared memory that a block of an H100 may have."""

FACTS = DeviceFacts(
    ordinal=0,
    name="Scripted GPU",
    uuid="GPU-00000000-0000-4000-8000-000000000001",
    pci="0000:01:00.0",
    capability=(9, 0),
    driver=13000,
    memory=80 << 20,
    attributes={
        "sm_count": 132,
        "warp_size": 32,
        "max_threads_per_block": 1024,
        "max_threads_per_sm": 2048,
        "max_shared_memory_per_block": LARGEST_SHARED,
        "max_shared_memory_per_sm": 233_472,
        "l2_cache_bytes": 8 << 10,
    },
)
"""A device so small that buffer sets of five times its L2 cache are drawn in no time."""

_UUID = "GPU-00000000-0000-4000-8000-00000000000"
OTHER_KIND = "Other scripted GPU"
GPUS = {
    "first": FACTS,
    "second": msgspec.structs.replace(FACTS, uuid=f"{_UUID}2"),
    "noisy": msgspec.structs.replace(FACTS, uuid=f"{_UUID}3"),
    "other": msgspec.structs.replace(FACTS, uuid=f"{_UUID}4", name=OTHER_KIND),
}
"""Those that workers may have, one each."""


def facts_here() -> DeviceFacts:
    """The one that CUDA_VISIBLE_DEVICES names by UUID; else the first."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return next((facts for facts in GPUS.values() if facts.uuid == named), FACTS)


def with_memory(size: int) -> DeviceFacts:
    """The device with so many bytes of memory."""
    return msgspec.structs.replace(FACTS, memory=size)


class Scripted(msgspec.Struct, frozen=True):
    """One kernel: what it does (see behaviours.py), microseconds of a launch, and its fault."""

    does: str = "nothing"
    us: float = 50.0
    options: dict[str, Any] = {}
    refused: int = 0
    """The error that the launch itself gives."""
    error: int = 0
    """The error that the kernel dies of; a caller that waits for it is told."""
    trouble: str = ""
    """What becomes of the process: see gpu_process.py."""
    spared: int = 0
    """Launches before the first that goes wrong."""


class Machine(msgspec.Struct, frozen=True):
    """How time passes on the device."""

    noise: float = 0.001
    """Standard deviation of the logarithm of a replay's time."""
    drift: float = 0.0
    """By how much everything gets slower in a second of the device's time, as a fraction."""
    offset_us: float = 5.0
    """What a graph takes to start."""
    placement: float = 0.0
    """By how much a launch is slower for every allocation that lies before its first buffer."""
    mhz: float = 1755.0
    seed: int = 1


def machine_here() -> Machine:
    """That of the GPU that CUDA_VISIBLE_DEVICES names."""
    return Machine(noise=0.2) if facts_here() is GPUS["noisy"] else Machine()


class Script(msgspec.Struct, frozen=True):
    """A module. That of the tools sets the machine up as well."""

    kernels: dict[str, Scripted]
    machine: Machine | None = None
    nonce: str = ""
    """Two modules with the same kernels are different candidates if this differs."""

    def cubin(self) -> bytes:
        """The script in the place of machine code."""
        return msgspec.json.encode(self)

    def behind(self, cubin: bytes) -> bytes:
        """Machine code that says what a launch has to know, and does what the script says."""
        return cubin + SEPARATOR + self.cubin()
