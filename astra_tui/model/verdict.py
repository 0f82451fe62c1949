"""What a round says about a candidate, and the comparison that it rests on."""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

from astra_tui.model.counters import Counters
from astra_tui.model.dtypes import DType
from astra_tui.model.sass import HistogramRow, InstructionClass
from astra_tui.model.timing import Ratio
from astra_tui.model.traffic import ArgumentTraffic, WastedTraffic, wasted_traffic


class Waves(msgspec.Struct, frozen=True):
    """How the blocks of one workload fill the GPU, launch by launch the most that was needed.

    `tail` is the share of the last wave's places that stay empty; below one wave, of the only one.
    """

    waves: float
    tail: float


def waves_of(blocks: int, resident_blocks: int, sm_count: int) -> Waves | None:
    """None where it is not known how many blocks one SM holds."""
    places = resident_blocks * sm_count
    if not places:
        return None
    waves = blocks / places
    return Waves(waves, math.ceil(waves) - waves)


class WorkloadProfile(msgspec.Struct, frozen=True):
    """What one workload cost. `dims` are those that were run: rows may be fewer than declared.

    `blocks` and `threads` (a block) describe the launches at the workload's own size, added up
    over launches and the largest of them; `compulsory_bytes` is what that size has to move.
    """

    workload: str
    dims: dict[str, int]
    dtype: DType
    kernels: tuple[str, ...]
    counters: Counters
    blocks: int
    threads: int
    compulsory_bytes: int
    waves: Waves | None = None
    traffic: tuple[ArgumentTraffic, ...] = ()
    """Empty in sessions of before it was counted, and where nothing was."""


class KernelUse(msgspec.Struct, frozen=True):
    """Resources of one compiled kernel at the block size with which it is launched."""

    kernel: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    occupancy: float
    """Resident warps over the most that one SM of the compiled architecture can hold."""
    resident_blocks: int = 0
    """Blocks that one SM holds at once; 0 where it is not known."""
    limited_by: str = ""
    """What keeps more blocks off an SM; empty in sessions of before it was kept."""


class KernelCode(msgspec.Struct, frozen=True):
    """What one kernel's machine code is made of: counts of instructions, not of executions."""

    kernel: str
    histogram: tuple[HistogramRow, ...]

    @property
    def instructions(self) -> int:
        """All of them, padding aside."""
        return sum(r.count for r in self.histogram if r.category is not InstructionClass.PADDING)


class Profile(msgspec.Struct, frozen=True):
    """What a device tells about a candidate, one entry a workload.

    The emulator counts and never times, so that a profile of it holds no time and no speedup.
    """

    device: str
    workloads: tuple[WorkloadProfile, ...]
    """Counted by the emulator, whatever the device is."""
    kernels: tuple[KernelUse, ...] = ()
    code: tuple[KernelCode, ...] = ()
    missing: dict[str, str] = {}
    """What could not be told ("counters", "occupancy", "code"), with the reason."""
    compiler_content: str = ""
    """SHA-256 of the compiler's library; empty in sessions of before it was kept."""
    arch: str = ""
    """What was compiled for, such as sm_90; empty in sessions of before it was kept."""

    def ranking_key(self) -> tuple[int, int, int]:
        """Sectors, requests and warp instructions, each added up over the workloads."""
        keys = [w.counters.ranking_key() for w in self.workloads]
        sectors, requests, instructions = (sum(k[i] for k in keys) for i in range(3))
        return sectors, requests, instructions

    @property
    def uncounted(self) -> str:
        """Why workloads are without counters, on a GPU; "" where all were counted."""
        return self.missing.get("counters", "")

    @property
    def wasted(self) -> tuple[WastedTraffic, ...]:
        """What the source moves in vain on its workloads; what moves most bytes first."""
        return wasted_traffic((w.workload, w.traffic) for w in self.workloads)

    def total(self, counter: str) -> int:
        """One counter, added up over the workloads; `counter` names a property of Counters."""
        return sum(int(getattr(w.counters, counter)) for w in self.workloads)


class Profiled(msgspec.Struct, frozen=True):
    """What a profile step gives: the profile, and the machine code as `sass.packed` writes it."""

    profile: Profile
    machine_code: str = ""
    """Empty where there is none; `profile.missing` says why."""


class Outcome(StrEnum):
    """How a candidate ended; only BETTER makes it the base of the next round."""

    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    INCONCLUSIVE = "inconclusive"
    WRONG = "wrong"
    NOT_COMPILED = "not_compiled"
    UNSUPPORTED = "unsupported"
    REJECTED = "rejected"
    """The engineer rejected the plan or the code."""
    NOT_WRITTEN = "not_written"
    """There is no usable code for the plan."""

    @property
    def measured(self) -> bool:
        """Whether the candidate was correct, so that its profile was compared."""
        return self in (Outcome.BETTER, Outcome.SAME, Outcome.WORSE, Outcome.INCONCLUSIVE)


REJECTED_BEFORE = "you rejected it in round"
"""What the reason begins with for which something rejected is not proposed again."""


class Comparison(msgspec.Struct, frozen=True):
    """Counters of a candidate and those of the version it started from."""

    basis: str
    """"counters": the ranking key decided, as on the emulator; "time": the paired timing did."""
    base_key: tuple[int, int, int]
    candidate_key: tuple[int, int, int]
    ratios: dict[str, float]
    """New over old, for every counter that a plan may name."""
    speedup: Ratio | None = None
    """Geometric mean over the workloads; only where it was timed."""

    @property
    def rank(self) -> tuple[float, ...]:
        """Orders candidates of one base; less is better."""
        return (-self.speedup.value,) if self.speedup is not None else self.candidate_key


def first_moved(
    before: tuple[int, int, int], now: tuple[int, int, int]
) -> tuple[str, float] | None:
    """The first counter of a ranking key that moved, and its ratio, new over old."""
    counted = zip(("sectors", "requests", "warp instructions"), before, now, strict=True)
    return next(((name, new / old) for name, old, new in counted if old and old != new), None)


class RoundVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The verdict on one candidate, with its reasons, the most important first."""

    outcome: Outcome
    reasons: tuple[str, ...]
    candidate: str = ""
    base: str = ""
    comparison: Comparison | None = None
