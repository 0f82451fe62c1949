"""The state of one launch, which its chunks and groups of lanes share."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from astra_tui.emulator import special
from astra_tui.emulator.fences import Fences
from astra_tui.emulator.grid_dependency import GridDependency
from astra_tui.emulator.memory import GlobalMemory, LocalMemory, SharedMemory
from astra_tui.emulator.program import Program
from astra_tui.emulator.races import AccessHistory
from astra_tui.emulator.tally import Tally
from astra_tui.emulator.traffic import TrafficLog
from astra_tui.model.device import PLAIN, Accepts, Variation, accept_nothing
from astra_tui.model.findings import Finding, FindingKind
from astra_tui.model.occupancy import NO_CLUSTER, WARP


class Launch:
    """A launch: its program, memories, findings and what is left of its budget."""

    def __init__(
        self,
        program: Program,
        memory: GlobalMemory,
        shared: SharedMemory,
        local: LocalMemory,
        parameters: bytes,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        *,
        tally: Tally,
        budget: int,
        kernel: str,
        launch_line: int,
        dynamic_shared: int,
        checked: bool,
        counted: bool,
        variation: Variation = PLAIN,
        accepts: Accepts = accept_nothing,
        dependency: GridDependency | None = None,
        traffic: TrafficLog | None = None,
        cluster: tuple[int, int, int] = NO_CLUSTER,
    ):
        self.program = program
        self.memory = memory
        self.shared = shared
        self.local = local
        self.parameter_bytes = len(parameters)
        padded = parameters.ljust(-(-max(len(parameters), 1) // 16) * 16, b"\0")
        self.parameters = np.frombuffer(padded, np.uint8)
        self.grid = grid
        self.block = block
        self.cluster = cluster
        self.cluster_blocks = cluster[0] * cluster[1] * cluster[2]
        self.threads = block[0] * block[1] * block[2]
        self.blocks = grid[0] * grid[1] * grid[2]
        self.tally = tally
        self.budget = budget
        self.kernel = kernel
        self.launch_line = launch_line
        self.dynamic_shared = dynamic_shared
        self.checked = checked
        self.counted = counted
        self.variation = variation
        self.accepts = accepts
        self.dependency = dependency
        """Set while this launch may have begun before those before it have ended."""
        self.traffic = traffic
        """Set where what is loaded and stored again is counted."""
        self.warps_per_block = -(-self.threads // WARP)
        self.block_bits = 5 + max(self.warps_per_block - 1, 0).bit_length()
        self.warnings: dict[tuple[FindingKind, int, str], Finding] = {}
        self.time = 1
        """Advances at each operation that orders lanes of a warp."""
        self.fences = Fences(self.block_bits)
        self.sides: dict[int, int] = {}
        """The sides that reporting conditions took, as bits."""

    @property
    def history(self) -> AccessHistory:
        """Who touched global memory in this launch; kernel boundaries order everything."""
        self._history.reach(len(self.memory.defined))
        return self._history

    @cached_property
    def _history(self) -> AccessHistory:
        # Not the launch: memory of far sizes is to be freed when that ends.
        memory, bits = self.memory, self.memory.granule_bits
        return AccessHistory(
            len(memory.defined),
            FindingKind.GLOBAL_RACE,
            self.block_bits,
            lambda word: memory.describe_physical(word << bits),
            bits,
        )

    def cluster_of(self, block: Any) -> tuple[Any, Any]:
        """The cluster of blocks by their linear indices, and their rank in it."""
        return special.cluster_of(block, self.grid, self.cluster)

    @cached_property
    def rank_order(self) -> Any:
        """The ranks of a cluster's blocks in the order in which these take their turns."""
        return self.ordered(self.cluster_blocks)

    @cached_property
    def thread_order(self) -> tuple[int, ...] | None:
        """The threads of a block in the order in which they take their turns, warp by warp; None
        where that is their own.
        """
        if self.threads % WARP or not self.variation.order:
            return None
        warps = self.ordered(self.warps_per_block)
        return tuple((warps[:, None] * WARP + np.arange(WARP)).reshape(-1).tolist())

    def ordered(self, count: int) -> Any:
        """Blocks, or the warps of a block, in the order of this variation."""
        order = self.variation.order
        if order > 1:
            return np.random.Generator(np.random.Philox([order, count])).permutation(count)
        return np.arange(count)[:: -1 if order else 1]
