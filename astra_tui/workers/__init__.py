"""The lab's jobs on many workers: processes of this machine, or of a cluster that Dask holds.

Nothing of Dask is imported before `open_workers` is called.
"""

from __future__ import annotations

from astra_tui.workers.jobs import WorkersFailed
from astra_tui.workers.opening import WorkersAsked, open_workers
from astra_tui.workers.remote_child import RemoteChild, Workers

__all__ = ["RemoteChild", "Workers", "WorkersAsked", "WorkersFailed", "open_workers"]
