"""How many warps of a kernel fit on one multiprocessor.

Limits: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications. Allocation
granularities: CUDA Occupancy Calculator. Launch attributes such as clusters are not considered.
"""

from __future__ import annotations

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


def occupancy(arch: str, threads: int, registers: int, shared_bytes: int) -> float:
    """Resident warps over the most that fit, 0 to 1; 0 when not even one block fits.

    `arch` is as in "sm_90" or "sm_90a"; raises KeyError for an unknown one. `threads` is the size
    of a block, `registers` are those of one thread, `shared_bytes` those of one block.
    """
    limits = MULTIPROCESSORS[arch.rstrip("af")]
    warps = -(-threads // WARP)
    by_registers = limits.registers // (_up(registers * WARP, _REGISTER_UNIT) * warps or 1)
    shared = _up(shared_bytes + limits.reserved_shared_bytes, _SHARED_UNIT)
    blocks = min(limits.warps // warps, limits.blocks, by_registers, limits.shared_bytes // shared)
    return blocks * warps / limits.warps


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
