"""The scheduler and the workers of this machine, or a client of a cluster: Dask, on one thread."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import dask
import msgspec
from distributed import Client, Scheduler, Security

from astra_tui.gpu.gpu_process import find_devices
from astra_tui.model.errors import DeviceMissing, UserError
from astra_tui.processes.child import Child
from astra_tui.workers.jobs import Job, WorkersFailed
from astra_tui.workers.pool import Done, Pool
from astra_tui.workers.process import CONFIG, HOST, WorkerOptions
from astra_tui.workers.remote_child import Workers
from astra_tui.workers.roster import Need, Roster

START_SECONDS = 60.0
"""How long the first worker may take."""

CONNECT_SECONDS = 10
"""How long a scheduler may take to answer."""

_LOOK_SECONDS = 0.1
_MOST_STARTS = 1000
_END_SECONDS = 2.0


@contextmanager
def open_cluster(
    scheduler: str, number: int, changed: Callable[[Roster], None]
) -> Iterator[Workers]:
    """The workers of a scheduler; without one so many of this machine, 0: one for each GPU.

    Raises UserError.
    """
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # Connections that break are told by the pool.
    opened: Future[Pool] = Future()

    def opening(stack: AsyncExitStack) -> Awaitable[Pool]:
        if scheduler:
            return _connected(stack, scheduler, changed)
        return _started(stack, number, changed)

    closing = asyncio.Event()
    thread = threading.Thread(
        target=loop.run_until_complete, args=(_live(opening, opened, closing),),
        name="astra-workers",
    )  # fmt: skip

    def submit(job: Job, need: Need, prefer: str = "") -> Future[Done]:
        return asyncio.run_coroutine_threadsafe(pool.ask(job, need, prefer), loop)

    thread.start()
    try:
        pool = opened.result()
        yield Workers(submit, lambda: pool.roster, lambda: pool.waiting)
    finally:
        with suppress(RuntimeError):  # The loop has ended by itself, as the error tells.
            loop.call_soon_threadsafe(closing.set)
        thread.join()
        loop.close()


async def _live(
    opening: Callable[[AsyncExitStack], Awaitable[Pool]],
    opened: Future[Pool],
    closing: asyncio.Event,
) -> None:
    """Opens workers and, once it is told to, ends them and all that still runs."""
    this = asyncio.current_task()
    assert this is not None
    close = asyncio.ensure_future(closing.wait())
    # Ctrl-C does not wait for workers that are still to come.
    close.add_done_callback(lambda _: opened.done() or this.cancel())
    try:
        async with AsyncExitStack() as stack:
            _hush()
            opened.set_result(await opening(stack))
            await close
    except BaseException as error:
        if not opened.done():
            opened.set_exception(error)
    tasks = asyncio.all_tasks() - {this}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_END_SECONDS)


def _hush() -> None:
    for name in (*logging.root.manager.loggerDict, "asyncio"):
        if name.partition(".")[0] in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # The pool says what matters.


async def _connected(
    stack: AsyncExitStack, address: str, changed: Callable[[Roster], None]
) -> Pool:
    """The workers of a cluster, which live on."""
    with _connecting(address):
        client = await _client(stack, address, _own_security())
    return await _pool(stack, client, changed, wanted=1, leave=True)


async def _started(stack: AsyncExitStack, number: int, changed: Callable[[Roster], None]) -> Pool:
    """A scheduler here with workers of its own; certificates of its own lie in memory alone."""
    stack.enter_context(dask.config.set(CONFIG))
    security = Security.temporary()
    scheduler = Scheduler(
        host=HOST, port=0, protocol="tls", dashboard=False, dashboard_address=f"{HOST}:0",
        security=security,
    )  # fmt: skip
    await stack.enter_async_context(scheduler)
    names = _names(number)
    local = await stack.enter_async_context(_local(scheduler.address, names, security))
    client = await _client(stack, scheduler.address, security)
    return await _pool(stack, client, changed, wanted=len(names), leave=False, lost=local.kill)


async def _client(stack: AsyncExitStack, address: str, security: Security) -> Client:
    client = Client(
        address, security=security, asynchronous=True, set_as_default=False,
        timeout=CONNECT_SECONDS,
    )  # fmt: skip
    stack.push_async_callback(client.close)  # Also of one that is cancelled as it connects.
    return await client


async def _pool(
    stack: AsyncExitStack,
    client: Client,
    changed: Callable[[Roster], None],
    *,
    wanted: int,
    leave: bool,
    lost: Callable[[str], None] = lambda _: None,
) -> Pool:
    pool = Pool(client, own=not leave, lost=lost, changed=changed)

    async def close() -> None:
        await pool.close(leave=leave)

    stack.push_async_callback(close)
    try:
        await pool.start(START_SECONDS, wanted)
    except WorkersFailed as error:
        raise DeviceMissing(str(error), hint="see docs/workers.md") from None
    return pool


@contextmanager
def _connecting(address: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ssl.SSLError, ValueError, TypeError) as error:
        raise UserError(
            f"the scheduler {address} does not answer: {error}",
            hint="see that it runs there, with certificates of the authority of yours: "
            "docs/workers.md",
        ) from None


def _own_security() -> Security:
    """The certificates that Dask's configuration names, as DASK_DISTRIBUTED__COMM__TLS__CA_FILE."""
    security = Security(require_encryption=True)
    if not (security.tls_ca_file and security.tls_client_cert):
        raise UserError(
            "no certificates for a cluster are named",
            hint="set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ...__TLS__CLIENT__CERT and "
            "...__TLS__CLIENT__KEY: see docs/workers.md",
        )
    for file in (security.tls_ca_file, security.tls_client_cert, security.tls_client_key):
        if file and not Path(file).is_file():
            raise UserError("there is no such certificate or key", file=file)
    return security


# -- workers of this machine -----------------------------------------------------------------------


def _names(number: int) -> dict[str, str]:
    """Workers by name, with the UUIDs of their GPUs; as many as processors where there is none."""
    if not number:
        gpus = find_devices().devices
        if gpus:
            return {f"gpu{facts.ordinal}": facts.uuid for facts in gpus}
        number = len(os.sched_getaffinity(0))
    return {f"worker{n}": "" for n in range(1, number + 1)}


class LocalWorkers:
    """Worker processes of this machine; one that ends is started again."""

    def __init__(self, options: Sequence[WorkerOptions]):
        self._children = [(Child("astra_tui.workers.process", name=o.name), o) for o in options]
        self._pids: dict[str, int] = {}

    @property
    def pids(self) -> tuple[int, ...]:
        """Ids of the processes that run."""
        return tuple(child.pid for child, _ in self._children if child.running)

    def start(self) -> None:
        """Starts those that do not run."""
        for child, options in self._children:
            if not child.running:
                child.start()
                child.send(msgspec.to_builtins(options), 5.0)

    async def keep(self) -> None:
        """Starts again what ends."""
        for _ in range(_MOST_STARTS):
            while len(self.pids) == len(self._children):
                await asyncio.sleep(_LOOK_SECONDS)
            with suppress(Exception):  # It may end while it is spoken to: the next look sees.
                self.start()

    def kill(self, name: str) -> None:
        """Ends the process of a name."""
        for child, options in self._children:
            if options.name == name:
                child.kill()

    def close(self) -> None:
        """Ends all."""
        for child, _ in self._children:
            child.close()


@asynccontextmanager
async def _local(
    scheduler: str, names: dict[str, str], security: Security
) -> AsyncIterator[LocalWorkers]:
    with tempfile.TemporaryDirectory(prefix="astra-workers-") as folder:
        parts = folder, str(security.tls_ca_file), str(security.tls_worker_key)
        share = max(1, len(os.sched_getaffinity(0)) // len(names))  # Of the processors.
        options = [
            WorkerOptions(scheduler, name, *parts, gpu, slots=share if gpu else 1)
            for name, gpu in names.items()
        ]
        workers = LocalWorkers(options)
        keeping = None
        try:
            workers.start()
            keeping = asyncio.create_task(workers.keep())
            yield workers
        finally:
            if keeping is not None:
                keeping.cancel()
            workers.close()
