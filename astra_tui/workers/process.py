"""A worker of this machine: `python -m astra_tui.workers.process READ_FD WRITE_FD`.

It is a Dask worker with one of its environment's allow-list, as all children of ours have, and
ends with its engine.
"""

from __future__ import annotations

import asyncio
import os
import sys

import dask
import msgspec
from distributed import Security, Worker

from astra_tui.processes.exit_with_parent import exit_with_parent
from astra_tui.processes.frames import read_frame
from astra_tui.workers.jobs import own_identity

CONFIG = {
    # Nothing listens but for TLS, and what is told is told by us.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.worker-ttl": "30s",
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    # Processors belong to the jobs, and to no statistics of Dask.
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.host.cpu": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "1h",
    "logging": {"distributed": "critical", "tornado": "critical"},
}
HOST = "127.0.0.1"


class WorkerOptions(msgspec.Struct, frozen=True):
    """What a worker of this machine is told by its engine, through a pipe."""

    scheduler: str
    name: str
    folder: str
    tls_ca: str
    tls_key: str
    gpu: str = ""
    """The UUID of its GPU."""
    slots: int = 1
    """How many jobs it does at a time, next to a timing."""


def main() -> None:
    """Serves until the scheduler or our parent is gone."""
    read_fd = int(sys.argv[1])
    options = msgspec.convert(read_frame(read_fd), WorkerOptions)
    exit_with_parent(read_fd)
    if options.gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = options.gpu

    own_identity()  # All is loaded before the first job, which is expected to begin at once.
    with dask.config.set(CONFIG):
        asyncio.run(_serve(options))


async def _serve(options: WorkerOptions) -> None:
    security = Security(
        require_encryption=True,
        tls_ca_file=options.tls_ca,
        tls_worker_cert=options.tls_ca,
        tls_worker_key=options.tls_key,
    )
    worker = Worker(
        options.scheduler,
        host=HOST,
        dashboard_address=f"{HOST}:0",
        dashboard=False,
        nthreads=options.slots + bool(options.gpu),
        name=options.name,
        resources={"GPU": 1} if options.gpu else None,
        security=security,
        local_directory=options.folder,
        memory_limit=0,
    )
    async with worker:
        await worker.finished()


if __name__ == "__main__":
    main()
