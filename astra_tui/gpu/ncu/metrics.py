"""The metrics that we ask ncu for: enough to explain a kernel, few enough to be quick."""

from __future__ import annotations

from astra_tui.model.counters import SHARED_WAVEFRONTS, SHARED_WAVEFRONTS_IDEAL

_STALLS = (
    "long_scoreboard",
    "short_scoreboard",
    "barrier",
    "wait",
    "math_pipe_throttle",
    "lg_throttle",
    "mio_throttle",
)

METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sector_hit_rate.pct",
    "l1tex__t_sector_hit_rate.pct",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "launch__waves_per_multiprocessor",
    "launch__registers_per_thread",
    "launch__occupancy_limit_blocks",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
    *(f"smsp__average_warps_issue_stalled_{s}_per_issue_active.ratio" for s in _STALLS),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",
    "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum",
    SHARED_WAVEFRONTS,
    SHARED_WAVEFRONTS_IDEAL,
)

REQUESTS = tuple(f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st"))
SECTORS = tuple(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st"))
COMPARED = (*REQUESTS, *SECTORS, SHARED_WAVEFRONTS, SHARED_WAVEFRONTS_IDEAL)
"""What the emulator counts as well."""
