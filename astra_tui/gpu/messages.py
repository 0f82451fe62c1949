"""What the judge asks of the process that holds the GPU, and what that answers.

Plain data in frames (processes/frames.py), decoded into these types at both ends; never pickle.
"""

from __future__ import annotations

from typing import Any

import msgspec

from astra_tui.model.device import ArgumentRole
from astra_tui.model.occupancy import NO_CLUSTER
from astra_tui.processes.escapes import Targets

LATE_CYCLES = 40_000
"""About 20 us by which a producer is late: longer than a launch takes to begin."""


class Fill(msgspec.Struct, frozen=True):
    """How the elements of a tensor are drawn: as `model.task.Values`, with all names resolved."""

    dtype: str
    kind: str
    low: float
    high: float
    limit: float
    planted: tuple[float, ...]
    group: int = 0
    """How many in a row, from each multiple of so many on, follow from each other: they differ
    (integers; 0 for none), rise from `low` to `high` (offsets), sum to 1 (a distribution), or are
    `low` but for one (lone)."""
    apart: int = 0
    """How far neighbouring offsets are apart at least."""


class DeviceFacts(msgspec.Struct, frozen=True):
    """What the driver says of a device. Sizes in bytes."""

    ordinal: int
    name: str
    uuid: str
    pci: str
    capability: tuple[int, int]
    driver: int
    """CUDA version of the driver, as in 13000."""
    memory: int
    attributes: dict[str, int]
    """The names that launch plans may read."""
    peak_bytes_per_us: float = 0.0
    """What the memory's clock and width allow, in bytes a microsecond; 0 where they are unknown."""

    @property
    def arch(self) -> str:
        """The architecture to compile for; "a" has the features of exactly this one."""
        major, minor = self.capability
        return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


class Kernel(msgspec.Struct, frozen=True):
    """A launch whose pointers are still names: (offset in `parameters`, buffer).

    The buffer's address is added to the word there.
    """

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: bytes
    pointers: tuple[tuple[int, str], ...]
    pdl: bool = False
    """Programmatic dependent launch: it may begin before what was launched before has ended."""
    cluster: tuple[int, int, int] = NO_CLUSTER
    """Blocks of a thread block cluster by axis."""


class CaseBuffer(msgspec.Struct, frozen=True):
    """A buffer of one case, at `misalignment` bytes past a multiple of 256."""

    name: str
    content: bytes
    misalignment: int = 0
    produced: bool = False
    """Whether a launch just before a call may write it; and whether it is an output."""
    is_output: bool = False


class SetBuffer(msgspec.Struct, frozen=True):
    """A buffer of which there is one in every set; `fill` is None for what is written first."""

    name: str
    use: ArgumentRole
    size: int
    elements: int
    fill: Fill | None = None
    stable: bool = False
    """Whether no launch just before a call may write it."""


class Version(msgspec.Struct, frozen=True):
    """One version to be timed: its module's cubin, its launches and its own workspaces."""

    cubin: bytes
    kernels: tuple[Kernel, ...]
    workspaces: tuple[tuple[str, int], ...] = ()


class List(msgspec.Struct, frozen=True, tag="list"):
    """Asks which devices there are. Answered by Listed."""


class Open(msgspec.Struct, frozen=True, tag="open"):
    """Takes a device. Answered by Opened."""

    uuid: str
    tools: bytes
    """The cubin of our own kernels (tools.cu)."""
    tool_symbols: dict[str, str]
    confine: bool = True
    window: int = -1
    """Descriptor of the memory into which Fetch puts bytes (processes/frames.py)."""
    use: int = -1
    """Descriptor that keeps others from timing while the device is taken; closed after that."""


class RunCase(msgspec.Struct, frozen=True, tag="run_case"):
    """Runs launches on fresh buffers. Answered by CaseRan."""

    cubin: bytes
    """Empty when it is the one of the call before."""
    kernels: tuple[Kernel, ...]
    buffers: tuple[CaseBuffer, ...]
    repeats: int = 1
    """Runs in all; every one has to give the same bytes."""
    may_vary: bool = False
    """Whether two runs of right kernels may differ, in the order of their float atomics."""


class Prepare(msgspec.Struct, frozen=True, tag="prepare"):
    """Loads versions and estimates their times on one set. Answered by Prepared.

    What an earlier Prepare took is given back first.
    """

    buffers: tuple[SetBuffer, ...]
    versions: tuple[Version, ...]
    seed: int
    replicas: int = 1
    """How many replicas of all buffer sets there are: the same values in other places."""
    estimate: bool = True
    red_zone: int = 0
    """Bytes after every buffer that nothing may write."""


class RunSets(msgspec.Struct, frozen=True, tag="run_sets"):
    """Runs the first version once on every set there is, without a graph. Answered by SetsRan."""

    poison: int
    """The byte that fills outputs and workspaces before."""
    key: int
    late_cycles: int = LATE_CYCLES


class Fetch(msgspec.Struct, frozen=True, tag="fetch"):
    """Copies what some sets hold into the window, range by range. Answered by Fetched.

    `ranges` are (buffer, first byte, bytes, where in the window the first set goes); the sets
    follow each other there without gaps.
    """

    first_set: int
    sets: int
    ranges: tuple[tuple[str, int, int, int], ...]


class Build(msgspec.Struct, frozen=True, tag="build"):
    """Makes buffer sets and graphs of `launches` and twice as many. Answered by Built.

    Launch i of a graph uses set i modulo `sets`.
    """

    launches: int
    sets: int
    flush_bytes: int
    producer: bool = False
    """Whether each call follows a kernel that writes part of its inputs: process/producer.py."""


class Poison(msgspec.Struct, frozen=True):
    """What outputs hold before a replay: a byte in all sets, but another from set to set."""

    byte: int = 0xFF
    other: int = 0xFF
    first: int = 0
    last: int = 0
    """The sets from `first` to before `last` get the other byte."""


class Rounds(msgspec.Struct, frozen=True, tag="rounds"):
    """Replays every version once a round, in a given order. Answered by a Block.

    Before a replay, what is changed in place is restored, outputs and workspaces are poisoned, and
    L2 is flushed; after it, the outputs' digests are taken. None of that is timed.
    """

    orders: tuple[tuple[int, ...], ...]
    """Order of the versions, a round each."""
    replicas: tuple[tuple[int, ...], ...] = ()
    """The replica of the sets that each version uses, a round each; empty: all use the first."""
    short: tuple[int, ...] = ()
    """The rounds, counted from 0, in which the short graphs are replayed as well."""
    stale: tuple[int, ...] = ()
    """The rounds in which each long graph is replayed once more on its own outputs."""
    late: tuple[int, ...] = ()
    """The rounds in which each long graph is replayed once more after late producers."""
    late_cycles: int = LATE_CYCLES
    """By how much they are late."""
    poisons: tuple[Poison, ...] = ()
    """A round each; empty: outputs become NaN."""
    key: int = 0
    """Of the digests; 0: none are taken."""


class PaperRun(msgspec.Struct, frozen=True, tag="paper_run"):
    """Times a version by the paper's protocol. Answered by PaperTimes."""

    version: int
    warm_ups: int = 20
    launches: int = 100


class Spin(msgspec.Struct, frozen=True, tag="spin"):
    """Replays for a time, for power and energy. Answered by Spun."""

    version: int
    seconds: float


class Drop(msgspec.Struct, frozen=True, tag="drop"):
    """Gives back what Prepare and Build took. Answered by Dropped."""


class TryEscapes(msgspec.Struct, frozen=True, tag="try_escapes"):
    """Has the process try to get out, as `processes/escapes.py` does. Answered by Escapes."""

    targets: Targets


Request = (
    List
    | Open
    | RunCase
    | Prepare
    | RunSets
    | Fetch
    | Build
    | Rounds
    | PaperRun
    | Spin
    | Drop
    | TryEscapes
)


class Listed(msgspec.Struct, frozen=True, tag="listed"):
    """The devices that the driver shows."""

    devices: tuple[DeviceFacts, ...]


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """The device; whether the process is confined."""

    facts: DeviceFacts
    confined: bool
    pid: int


class CaseRan(msgspec.Struct, frozen=True, tag="case_ran"):
    """Contents after the run; which red zones were written, and which buffers differed."""

    contents: dict[str, bytes]
    overrun: dict[str, int]
    """Buffer to the nearest changed byte: negative before the buffer, else past its end."""
    unstable: tuple[str, ...] = ()
    early: bool = False
    """Whether a run stored before it waited for the late launch before it."""
    unwaited: tuple[int, ...] = ()
    """Launches that used what launches of their own call write before they had waited."""


class Prepared(msgspec.Struct, frozen=True, tag="prepared"):
    """Microseconds of one call of every version, roughly; bytes that can be allocated."""

    estimates_us: tuple[float, ...]
    free_bytes: int
    resident_blocks: tuple[tuple[int, ...], ...]
    """Blocks that one multiprocessor holds, by version and launch."""


class SetsRan(msgspec.Struct, frozen=True, tag="sets_ran"):
    """Digests after a run: of the outputs of every set; of all that is only read; of red zones.

    The last two are there as they were before the run, too.
    """

    outputs: tuple[int, ...]
    inputs: tuple[int, int]
    red_zones: tuple[int, int]
    early: bool = False
    """Whether a call stored before it waited for the late launch before it."""


class Fetched(msgspec.Struct, frozen=True, tag="fetched"):
    """The bytes are in the window."""


class Node(msgspec.Struct, frozen=True):
    """A kernel node of a graph, as the driver tells it."""

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    pdl: bool = False
    """Whether it may begin before the node before it has ended."""
    cluster: tuple[int, int, int] = NO_CLUSTER


class Built(msgspec.Struct, frozen=True, tag="built"):
    """Sets and graphs are ready. `calls` says what the long graphs hold, by version.

    The nodes of one call, and of how many such calls in a row the graph consists.
    """

    seconds: float
    calls: tuple[tuple[tuple[Node, ...], int], ...] = ()


class Block(msgspec.Struct, frozen=True, tag="block"):
    """Microseconds of replays, a row a round, a column a version (not in order of replay).

    `long` are 2N launches, `short` N launches, a row for each round that asked for them.
    """

    long: tuple[tuple[float, ...], ...]
    short: tuple[tuple[float, ...], ...]
    sm_mhz: float
    seconds: float
    stale: tuple[tuple[float, ...], ...] = ()
    digests: tuple[tuple[int, bytes], ...] = ()
    """A replay each, in no particular order: the version, and a 64-bit digest a set it used."""
    early: tuple[int, ...] = ()
    """Versions of which a launch stored before it waited for the late launch before it."""


class PaperTimes(msgspec.Struct, frozen=True, tag="paper_times"):
    """Microseconds between the events of every launch."""

    times_us: tuple[float, ...]


class Spun(msgspec.Struct, frozen=True, tag="spun"):
    """How often the version ran in how many seconds."""

    launches: int
    seconds: float


class Dropped(msgspec.Struct, frozen=True, tag="dropped"):
    """Done."""


class Escapes(msgspec.Struct, frozen=True, tag="escapes"):
    """Why each try was refused; an empty text where it was done."""

    outcomes: dict[str, str]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The driver, or this process, could not do it. After a sticky error it is gone."""

    code: int
    name: str
    message: str
    sticky: bool


Reply = (
    Listed
    | Opened
    | CaseRan
    | Prepared
    | SetsRan
    | Fetched
    | Built
    | Block
    | PaperTimes
    | Spun
    | Dropped
    | Escapes
    | Failed
)


def encode(message: Request | Reply) -> Any:
    """A message as plain data for a frame."""
    return msgspec.to_builtins(message, builtin_types=(bytes,))


def decode_request(data: Any) -> Request:
    """Raises msgspec.ValidationError."""
    request: Request = msgspec.convert(data, Request)
    return request


def decode_reply(data: Any) -> Reply:
    """Raises msgspec.ValidationError."""
    reply: Reply = msgspec.convert(data, Reply)
    return reply
