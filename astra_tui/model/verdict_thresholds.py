"""From where on a verdict says better, worse or inconclusive: every number that decides it.

They are read by timings (`gpu/timing/`), by rounds (`engine/judging.py`), by sweeps and searches;
prompts and documents quote them. When a timing may end early is in `gpu/timing/stopping.py`.
"""

from __future__ import annotations

MIN_DIFFERENCE = 0.003
"""No smaller difference of times counts, however quiet the machine."""

LARGEST_LOSS = 0.02
"""By how much a single workload may be slower in a candidate that is called faster."""

MIN_OCCUPANCY = 0.25
"""Below it, and below its base's, a candidate with better counters is inconclusive."""

MOST_IDLE = 0.5
"""The share of the traffic above which workloads that leave multiprocessors idle decide so too."""
