"""The moves, one a file."""

from astra_tui.playbook.api import Move
from astra_tui.playbook.moves.batch_loads import BatchLoads
from astra_tui.playbook.moves.cache_hints import CacheHints
from astra_tui.playbook.moves.cheap_division import CheapDivision
from astra_tui.playbook.moves.drop_tail import DropTail
from astra_tui.playbook.moves.early_loads import EarlyLoads
from astra_tui.playbook.moves.fast_math import FastMath
from astra_tui.playbook.moves.first_warp import FirstWarp
from astra_tui.playbook.moves.fit_block import FitBlock
from astra_tui.playbook.moves.flat_grid import FlatGrid
from astra_tui.playbook.moves.flush_exp import FlushExp
from astra_tui.playbook.moves.full_grid import FullGrid
from astra_tui.playbook.moves.group_factors import GroupFactors
from astra_tui.playbook.moves.hoist_invariants import HoistInvariants
from astra_tui.playbook.moves.keep_row import KeepRow
from astra_tui.playbook.moves.keep_values import KeepValues
from astra_tui.playbook.moves.loads_first import LoadsFirst
from astra_tui.playbook.moves.one_barrier import OneBarrier
from astra_tui.playbook.moves.one_path import OnePath
from astra_tui.playbook.moves.online_softmax import OnlineSoftmax
from astra_tui.playbook.moves.overlap_launches import OverlapLaunches
from astra_tui.playbook.moves.pack_rows import PackRows
from astra_tui.playbook.moves.reciprocal import Reciprocal
from astra_tui.playbook.moves.row_grid import RowGrid
from astra_tui.playbook.moves.row_in_registers import RowInRegisters
from astra_tui.playbook.moves.shuffle_reduction import ShuffleReduction
from astra_tui.playbook.moves.single_turn import SingleTurn
from astra_tui.playbook.moves.store_early import StoreEarly
from astra_tui.playbook.moves.trigger_early import TriggerEarly
from astra_tui.playbook.moves.tune_block import TuneBlock
from astra_tui.playbook.moves.warp_rows import WarpRows
from astra_tui.playbook.moves.wide_accesses import WideAccesses


def all_moves() -> tuple[Move, ...]:
    """Every move of the playbook, in a fixed order."""
    return (
        DropTail(),
        OnlineSoftmax(),
        WideAccesses(),
        KeepRow(),
        RowInRegisters(),
        ShuffleReduction(),
        OneBarrier(),
        FirstWarp(),
        HoistInvariants(),
        Reciprocal(),
        FastMath(),
        GroupFactors(),
        OnePath(),
        RowGrid(),
        FitBlock(),
        FullGrid(),
        FlatGrid(),
        CheapDivision(),
        PackRows(),
        SingleTurn(),
        EarlyLoads(),
        BatchLoads(),
        KeepValues(),
        StoreEarly(),
        WarpRows(),
        TuneBlock(),
        CacheHints(),
        OverlapLaunches(),
        LoadsFirst(),
        FlushExp(),
        TriggerEarly(),
    )


BY_TIME = (
    "drop_tail",
    "row_grid",
    "full_grid",
    "reciprocal",
    "fast_math",
    "group_factors",
    "online_softmax",
    "one_path",
    "wide_accesses",
    "flat_grid",
    "cheap_division",
    "pack_rows",
    "shuffle_reduction",
    "fit_block",
    "keep_row",
    "row_in_registers",
    "single_turn",
    "early_loads",
    "batch_loads",
    "keep_values",
    "store_early",
    "overlap_launches",
    "loads_first",
    "flush_exp",
    "trigger_early",
    "warp_rows",
    "hoist_invariants",
    "tune_block",
    "one_barrier",
    "first_warp",
    "cache_hints",
)
"""The order in which moves come where times decide, as measured on an H100.

A grid that fills the GPU comes first. Arithmetic becomes cheap before accesses become wide: a
thread computes the elements of a pack one after the other, so that accurate functions would make
small sizes slower; and where rows are long, registers that divisions need keep blocks out. Blocks
grow once no tree reduction needs a power of two of them, and a row is kept once a thread has few
iterations of it.
"""

FOR_SLOW = frozenset(BY_TIME[: BY_TIME.index("cheap_division")]) | {
    *("pack_rows", "shuffle_reduction", "keep_row")
}
"""Moves of which a kernel that is written as others ship theirs has no use."""
