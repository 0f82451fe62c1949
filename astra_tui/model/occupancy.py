"""How many warps of a kernel fit on one multiprocessor.

Limits: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications. Allocation
granularities: CUDA Occupancy Calculator. That blocks of a cluster have to fit together is not
considered.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

WARP = 32


@dataclass(frozen=True)
class Multiprocessor:
    """What one multiprocessor has, per compute capability."""

    warps: int
    blocks: int
    registers: int
    shared_bytes: int
    reserved_shared_bytes: int
    """Shared memory that the system takes for each block."""


MULTIPROCESSORS = {
    "sm_80": Multiprocessor(64, 32, 65536, 164 * 1024, 1024),
    "sm_86": Multiprocessor(48, 16, 65536, 100 * 1024, 1024),
    "sm_89": Multiprocessor(48, 24, 65536, 100 * 1024, 1024),
    "sm_90": Multiprocessor(64, 32, 65536, 228 * 1024, 1024),
    "sm_100": Multiprocessor(64, 32, 65536, 228 * 1024, 1024),
}
_REGISTER_UNIT = 256
_SHARED_UNIT = 128
_WARP_UNIT = 4
_REGISTERS_PER_THREAD = 255
H100_MULTIPROCESSORS = 132
_MEMORY_BYTES = 80 << 30
_LOCAL_BYTES = 512 << 10
"""Of an H100 SXM (NVIDIA H100 white paper): multiprocessors, device memory, and the most local
memory of one thread."""
NO_CLUSTER = (1, 1, 1)
PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every GPU with clusters takes; more need an attribute of the kernel."""
MAX_CLUSTER = 16


class UnknownArchitecture(Exception):
    """There is no table of limits for this architecture."""


def overlaps_launches(arch: str) -> bool:
    """Whether a GPU such as sm_90 has programmatic dependent launch: compute capability 9.0 on."""
    number = re.match(r"sm_(\d+)", arch)
    return number is None or int(number[1]) >= 90


def occupancy(arch: str, threads: int, registers: int, shared_bytes: int) -> float:
    """Resident warps over the most that fit, 0 to 1; 0 when not even one block fits.

    Arguments as for `resident_blocks`.
    """
    blocks = resident_blocks(arch, threads, registers, shared_bytes)
    return blocks * -(-threads // WARP) / _limits(arch).warps


def resident_blocks(arch: str, threads: int, registers: int, shared_bytes: int) -> int:
    """Blocks of a kernel that one multiprocessor holds at once.

    `arch` is as in "sm_90" or "sm_90a". `threads` is the size of a block, `registers` are those of
    one thread, `shared_bytes` those of one block. Raises UnknownArchitecture.
    """
    return min(_fitting(arch, threads, registers, shared_bytes).values())


def limited_by(arch: str, threads: int, registers: int, shared_bytes: int) -> str:
    """What keeps more blocks off a multiprocessor: "warps", "blocks", "registers" or "shared
    memory"; of several the first. Arguments as for `resident_blocks`. Raises UnknownArchitecture.
    """
    fitting = _fitting(arch, threads, registers, shared_bytes)
    return min(fitting, key=fitting.__getitem__)


def _fitting(arch: str, threads: int, registers: int, shared_bytes: int) -> dict[str, int]:
    """Blocks that fit, by what they need."""
    limits = _limits(arch)
    warps = -(-threads // WARP)
    of_block = _up(registers * WARP, _REGISTER_UNIT) * warps or 1
    shared = _up(shared_bytes + limits.reserved_shared_bytes, _SHARED_UNIT)
    return {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": limits.registers // of_block,
        "shared memory": limits.shared_bytes // shared,
    }


def launch_refusal(
    arch: str, threads: int, registers: int, static_shared: int, dynamic_shared: int, local: int
) -> str:
    """Why a GPU refuses a launch of blocks of so many threads, or ""; bytes but for registers.

    `registers` and `local` (stack) are those of one thread, as ptxas reports them. Raises
    UnknownArchitecture.
    """
    limits = _limits(arch)
    warps = -(-threads // WARP)
    of_warp = _up(registers * WARP, _REGISTER_UNIT)
    fitting = limits.registers // of_warp // _WARP_UNIT * _WARP_UNIT if of_warp else limits.warps
    if registers > _REGISTERS_PER_THREAD or warps > fitting:
        return (
            f"{registers} registers a thread: of such warps {fitting} fit into the "
            f"{limits.registers:,} registers of a block, and {threads} threads are {warps}"
        )
    shared, most = (
        static_shared + dynamic_shared,
        limits.shared_bytes - limits.reserved_shared_bytes,
    )
    if shared > most:
        return (
            f"{static_shared:,} bytes of static and {dynamic_shared:,} of dynamic shared memory: "
            f"together at most {most:,} fit"
        )
    resident = H100_MULTIPROCESSORS * limits.warps * WARP
    most = min(_LOCAL_BYTES, _MEMORY_BYTES // resident)
    if local > most:
        return (
            f"{local:,} bytes of local memory a thread: {resident:,} threads that may be resident "
            f"leave {most:,} for each"
        )
    return ""


def cluster_refusal(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> str:
    """Why a GPU refuses a grid in clusters of so many blocks by axis, or ""."""
    if math.prod(cluster) > MAX_CLUSTER:
        return f"clusters of {math.prod(cluster)} blocks; at most {MAX_CLUSTER} fit"
    if any(blocks % size for blocks, size in zip(grid, cluster, strict=True)):
        return (
            f"a grid of {'x'.join(map(str, grid))} blocks is no multiple of clusters of "
            f"{'x'.join(map(str, cluster))}"
        )
    return ""


def _limits(arch: str) -> Multiprocessor:
    name = arch.rstrip("af")
    if name not in MULTIPROCESSORS:
        raise UnknownArchitecture(f"the limits of {arch} are not known to this version")
    return MULTIPROCESSORS[name]


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
