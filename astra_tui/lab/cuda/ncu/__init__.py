"""Nsight Compute's hardware counters, where the driver lets this user read them."""

from astra_tui.lab.cuda.ncu.counters import find_ncu, read_counters
from astra_tui.lab.cuda.ncu.metrics import METRICS
from astra_tui.lab.cuda.ncu.permission import may_read_counters

__all__ = ["METRICS", "find_ncu", "may_read_counters", "read_counters"]
