"""How long a launch should take by arithmetic alone: what orders the trials of a sweep.

Memory, bytes in flight (Little's law), issue and start of blocks are estimated from the launch, the
resources and the PTX of a kernel, and from the measured floor of its workload. Nothing here was
fitted to times of kernels: the constants are round numbers for Hopper. The model is to rank trials
of one source, and no more: the search corrects it by what it measures (`search.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from astra_tui.emulator.ptx.module import Address, Function, Instruction, Operand
from astra_tui.emulator.ptx.parser import TYPE_SIZES
from astra_tui.model.occupancy import WARP
from astra_tui.model.timing import Floor
from astra_tui.model.tuning import LaunchWork, ThreadWork

MEMORY_LATENCY_US = 0.5
"""Of a load that misses L2: some 850 cycles at 1.7 GHz."""
SM_BYTES_PER_US = 64 * 1700.0
"""What one multiprocessor takes from L2: 64 bytes a cycle."""
WARP_INSTRUCTIONS_PER_US = 4 * 1700.0 * 0.6
"""Of one multiprocessor: four schedulers, of which dependences leave some 60 %."""
BARRIER_US = 0.02
SPREAD_COST = 0.02
"""Of the time of memory, for every neighbouring access of a thread: sectors are asked for twice."""
BLOCK_START_US = 0.3
"""From the end of a block to the first load of the one that takes its place."""


def predicted_us(launches: Iterable[LaunchWork], floor: Floor, multiprocessors: int) -> float:
    """Microseconds that the launches of a workload should take together; infinite if one cannot
    be launched. The bytes of the floor are taken to be shared out among the launches by threads.
    """
    works = tuple(launches)
    if not works or any(not w.resident or not w.blocks for w in works):
        return float("inf")
    threads = sum(w.blocks * w.threads for w in works)
    return sum(_launch_us(w, floor, w.blocks * w.threads / threads, multiprocessors) for w in works)


def _launch_us(work: LaunchWork, floor: Floor, share: float, multiprocessors: int) -> float:
    moved = floor.compulsory_bytes * share
    of_thread = moved / (work.blocks * work.threads)
    code = work.code
    turns = max(1.0, of_thread / code.moved_bytes) if code.moved_bytes else 1.0
    busiest, at_once = work.busiest(multiprocessors), work.at_once(multiprocessors)
    waves = busiest / at_once
    flying = at_once * work.threads * min(code.flying_bytes, of_thread) or 1.0
    rate = min(SM_BYTES_PER_US / min(code.spread, 2), flying / MEMORY_LATENCY_US)
    memory = max(0.0, floor.copy_us - floor.launch_us) * share
    memory *= 1 + SPREAD_COST * (code.spread - 1)
    stream = busiest * moved / work.blocks / rate
    latency = turns * MEMORY_LATENCY_US + code.barriers * BARRIER_US
    warps = busiest * -(-work.threads // WARP)
    issue = warps * code.instructions * turns / WARP_INSTRUCTIONS_PER_US
    started = BLOCK_START_US * max(0.0, waves - 1) / at_once
    # Of the last wave's room a part stays empty while its blocks wait for memory once more.
    tail = MEMORY_LATENCY_US * (math.ceil(waves) - waves) if waves > 1 else 0.0
    return floor.launch_us + latency + started + tail + max(memory, stream - latency, issue)


def code_of(function: Function) -> ThreadWork:
    """What a kernel's PTX, with calls inlined, says of one pass of a thread."""
    pieces = tuple(_pieces(function))
    instructions = [i for piece in pieces for i in piece]
    moved = sum(map(_loaded, instructions)) + sum(map(_stored, instructions))
    flying = max((sum(map(_loaded, piece)) for piece in pieces), default=0)
    barriers = sum(i.operation in ("bar", "barrier") for i in instructions)
    spread = max(map(_spread, pieces), default=1)
    return ThreadWork(len(instructions), moved, flying, barriers, spread)


def _spread(piece: list[Instruction]) -> int:
    """The longest row of 16-byte loads from one register on."""
    offsets: dict[Operand, set[int]] = {}
    for instruction in piece:
        where = instruction.operands[-1] if instruction.operands else None
        if isinstance(where, Address) and _loaded(instruction) == 16:
            offsets.setdefault(where.base, set()).add(where.offset)
    return max((_row(found) for found in offsets.values()), default=1)


def _row(offsets: set[int]) -> int:
    longest = length = 1
    for offset in sorted(offsets):
        length = length + 1 if offset - 16 in offsets else 1
        longest = max(longest, length)
    return longest


def _pieces(function: Function) -> Iterator[list[Instruction]]:
    """The instructions in runs that barriers and the ends of loops separate."""
    piece: list[Instruction] = []
    for at, instruction in enumerate(function.instructions):
        piece.append(instruction)
        targets = [function.labels.get(str(o)) for o in _targets(instruction)]
        ends_loop = any(t is not None and t <= at for t in targets)
        if ends_loop or instruction.operation in ("bar", "barrier"):
            yield piece
            piece = []
    yield piece


def _targets(instruction: Instruction) -> Iterator[str]:
    if instruction.operation == "bra":
        yield instruction.text.rstrip(";").split()[-1]


def _loaded(instruction: Instruction) -> int:
    return _bytes(instruction) if instruction.operation == "ld" else 0


def _stored(instruction: Instruction) -> int:
    return _bytes(instruction) if instruction.operation == "st" else 0


def _bytes(instruction: Instruction) -> int:
    """Of global memory, by one thread."""
    modifiers = instruction.modifiers
    if "global" not in modifiers:
        return 0
    count = next((int(m[1:]) for m in modifiers if m in ("v2", "v4", "v8")), 1)
    return count * next((TYPE_SIZES[m] for m in reversed(modifiers) if m in TYPE_SIZES), 0)
