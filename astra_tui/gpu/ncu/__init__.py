"""Nsight Compute: which counters are read, whether this user may read them, and its table."""

from astra_tui.gpu.ncu.metrics import METRICS
from astra_tui.gpu.ncu.permission import may_read_counters

__all__ = ["METRICS", "may_read_counters"]
