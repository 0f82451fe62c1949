"""Workers by what `--workers` and `--scheduler` say: started here, or those of a cluster."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from astra_tui.model.errors import DeviceMissing, UserError

if TYPE_CHECKING:
    from astra_tui.workers.remote_child import Workers
    from astra_tui.workers.roster import Roster

MOST_LOCAL = 256
LOCAL = "local"
_ADDRESS = re.compile(r"tls://\S+:[0-9]{1,5}")


@dataclass(frozen=True)
class WorkersAsked:
    """Which workers a user asks for: so many here, one for each GPU here, or those of a cluster."""

    number: int = 0
    scheduler: str = ""

    @classmethod
    def read(cls, workers: str | None, scheduler: str | None) -> WorkersAsked | None:
        """What two flags say; None for neither. Raises UserError."""
        if workers and scheduler:
            raise UserError("--workers starts workers here, and --scheduler names others: one only")
        if scheduler:
            return cls(scheduler=_scheduler(scheduler))
        if not workers:
            return None
        if workers == LOCAL:
            return cls()
        if not workers.isdecimal() or not 0 < int(workers) <= MOST_LOCAL:
            raise UserError(f"--workers {workers}: it is 1 to {MOST_LOCAL}, or {LOCAL}")
        return cls(int(workers))


def _scheduler(address: str) -> str:
    if not _ADDRESS.fullmatch(address):
        raise UserError(
            f"--scheduler {address}: it is tls://HOST:PORT",
            hint="all that may talk to a scheduler can run code on all of its workers, and here: "
            "see docs/workers.md for certificates",
        )
    return address


@contextmanager
def open_workers(
    asked: WorkersAsked, changed: Callable[[Roster], None] = lambda _: None
) -> Iterator[Workers]:
    """The workers that were asked for, which end with it; those of a cluster are left.

    `changed` is told every new roster, on a thread of its own. Raises UserError where Dask is not
    installed, the cluster does not answer, or none of its workers is fit.
    """
    if importlib.util.find_spec("distributed") is None:
        raise DeviceMissing(
            "workers need Dask's distributed", hint="install it: pip install 'astra-tui[workers]'"
        )
    from astra_tui.workers.cluster import open_cluster

    with open_cluster(asked.scheduler, asked.number, changed) as workers:
        yield workers
