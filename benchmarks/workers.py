"""Measures workers on a machine without a GPU: what killing them costs, and what a job costs.

    python benchmarks/workers.py kills [--kills 200] [--workers 8]
    python benchmarks/workers.py overhead [--workers 64] [--jobs 2000]

`kills` has worker processes check kernels on the emulator, one less at a time than there are
workers, and kills busy ones at random: every job has to be answered, once, as without kills. It
says when a killed worker was noticed, and when its job had begun at another one that was free.
`overhead` has workers in one process answer jobs that do nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import dask
import psutil
from distributed import Client, Scheduler, Worker
from environment import RESULTS, describe

from astra_tui.lab.audit.mutants import mutants
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.requests import Check, NamedSource
from astra_tui.model.check import CaseResult
from astra_tui.model.errors import UserError
from astra_tui.model.settings import EMULATOR
from astra_tui.model.task import find_task
from astra_tui.processes.child import Child, ChildDied, ChildTimeout
from astra_tui.rpc import Call
from astra_tui.workers import Workers, WorkersAsked, open_workers
from astra_tui.workers.jobs import Job
from astra_tui.workers.pool import Pool
from astra_tui.workers.process import CONFIG
from astra_tui.workers.roster import Roster, Use

SOURCES, CASES = 12, 6
SEED = 1


def requests() -> tuple[Check, ...]:
    """Small checks: of a kernel and some of its mutants, one case each."""
    task = find_task("silu_and_mul")
    text = task.tuned_file.read_text()
    texts = [text, *(m.text for m in mutants(text))][: SOURCES * 5 : 5]
    cases = build_suite(task)[:CASES]
    return tuple(
        Check(NamedSource(text, f"{number}.cu"), only=(case,))
        for number, text in enumerate(texts)
        for case in cases
    )


def lab() -> tuple[str, tuple[str, ...], str]:
    """The lab process of the task."""
    task = find_task("silu_and_mul")
    facts = str(task.folder.resolve()), EMULATOR, task.hash
    return "astra_tui.lab.worker", facts, "the lab process"


def answer(child: object, request: Check) -> str:
    """What is said of a source, without what differs from run to run."""
    results = []
    try:
        for reply in Call(child, request, cpu=True).replies():  # type: ignore[arg-type]
            if isinstance(reply, CaseResult):
                results.append(repr(reply))
    except (UserError, ChildDied, ChildTimeout) as error:
        return f"{type(error).__name__}: {error}"
    return "\n".join(results)


class Watch:
    """When jobs began and workers went, by rosters as they came."""

    def __init__(self) -> None:
        self.roster = Roster()
        self.began: dict[str, float] = {}
        self.went: dict[str, float] = {}
        self._lock = threading.Lock()

    def __call__(self, roster: Roster) -> None:
        """Takes note of a new roster."""
        now = time.monotonic()
        with self._lock:
            for address in self.roster.members.keys() - roster.members.keys():
                self.went[address] = now
            for member in roster.members.values():
                for job in member.jobs:
                    self.began.setdefault(job, now)
            self.roster = roster


def killed(watch: Watch, drawn: random.Random) -> tuple[float, float, bool] | None:
    """Kills a busy worker: seconds until it was noticed, from then until its job had begun again,
    and whether another worker was free then.
    """
    busy = [m for m in watch.roster.members.values() if m.jobs]
    if not busy:
        return None
    member = drawn.choice(sorted(busy, key=lambda m: m.address))
    process = next((p for p in workers_here() if listens(p, member.address)), None)
    if process is None:
        return None
    (job,) = member.jobs
    begun = time.monotonic()
    process.kill()
    while member.address not in watch.went:
        time.sleep(0.001)
    noticed = watch.went[member.address]
    was_free = any(m.takes(Use.CPU) for m in watch.roster.members.values())
    name, _, attempt = job.rpartition(".")
    again = f"{name}.{int(attempt) + 1}"
    while again not in watch.began and time.monotonic() < noticed + 1.5:
        time.sleep(0.001)
    if again not in watch.began:  # It had just ended, or no other worker was free.
        was_free = False
    return noticed - begun, watch.began.get(again, noticed) - noticed, was_free


def workers_here() -> Iterator[psutil.Process]:
    """The worker processes of this one."""
    for process in psutil.Process().children():
        if "astra_tui.workers.process" in process.cmdline():
            yield process


def listens(process: psutil.Process, address: str) -> bool:
    """Whether a process listens at an address."""
    port = int(address.rpartition(":")[2])
    return any(c.status == "LISTEN" and c.laddr.port == port for c in process.net_connections())


def kills(number: int, wanted: int, seconds: float) -> dict[str, object]:
    """Answers under kills, against those of one process here."""
    asked = requests()
    with Child(*lab()) as child:
        expected = [answer(child, request) for request in asked]
    watch, drawn, over = Watch(), random.Random(SEED), threading.Event()
    wrong: list[str] = []
    counts = {"submitted": 0, "answered": 0, "losses": 0}
    lock = threading.Lock()

    def work(workers: Workers, first: int) -> None:
        child = workers.start(*lab())
        place = first
        while not over.is_set():
            place = (place + 1) % len(asked)
            with lock:
                counts["submitted"] += 1
            said = answer(child, asked[place])
            with lock:
                counts["answered"] += 1
                counts["losses"] += child.last.losses if child.last is not None else 0
                if said != expected[place]:
                    wrong.append(f"{asked[place].source.file}: {said}")

    found: list[tuple[float, float, bool]] = []
    begun = time.monotonic()
    with (
        open_workers(WorkersAsked(number), watch) as workers,
        ThreadPoolExecutor(number) as threads,
    ):
        running = [threads.submit(work, workers, first) for first in range(number - 1)]
        try:
            while len(found) < wanted and time.monotonic() < begun + seconds:
                with suppress(psutil.NoSuchProcess):
                    if (one := killed(watch, drawn)) is not None:
                        found.append(one)
                time.sleep(drawn.random() / 4)
        finally:
            over.set()
        for one in running:
            one.result()
    noticed = [one[0] for one in found]
    free = [one[1] for one in found if one[2]]
    return {
        "workers": number,
        "kills": len(found),
        **counts,
        "answered_otherwise": wrong,
        "noticed_ms": spread(noticed),
        "begun_again_ms": spread(free),
        "with_a_free_worker": len(free),
        "seconds": round(time.monotonic() - begun),
    }


def spread(seconds: list[float]) -> dict[str, float]:
    """Middle, largest but 5 %, and largest, in milliseconds."""
    ordered = sorted(1000 * s for s in seconds)
    if not ordered:
        return {}
    middle, most = statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))]
    return {"median": round(middle, 1), "p95": round(most, 1), "max": round(ordered[-1], 1)}


async def overhead(number: int, jobs: int) -> dict[str, object]:
    """Milliseconds for a job that does nothing: of many in a queue, and of one alone."""
    for name in logging.root.manager.loggerDict:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    nowhere = "127.0.0.1:0"
    with dask.config.set(CONFIG):
        async with Scheduler(
            protocol="inproc", port=0, dashboard=False, dashboard_address=nowhere
        ) as scheduler:
            workers = [
                Worker(
                    scheduler.address, nthreads=1, name=f"worker{n}", dashboard_address=nowhere,
                    memory_limit=0,
                )
                for n in range(number)
            ]  # fmt: skip
            await asyncio.gather(*workers)
            async with Client(scheduler.address, asynchronous=True) as client:
                pool = Pool(client, own=True)
                await pool.start(60, number)
                result = await _measured(pool, jobs)
                await pool.close(leave=False)
            for worker in workers:
                await worker.close()
    return {"workers": number, **result}


async def _measured(pool: Pool, jobs: int) -> dict[str, object]:
    nothing = Job("", "")
    await asyncio.gather(*(pool.ask(nothing) for _ in range(100)))
    begun, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(pool.ask(nothing) for _ in range(jobs)))
    mean = (time.perf_counter() - begun) / jobs
    cpu = (time.process_time() - used) / jobs
    alone = []
    for _ in range(200):
        begun = time.perf_counter()
        await pool.ask(nothing)
        alone.append(time.perf_counter() - begun)
    return {
        "jobs": jobs,
        "mean_ms": round(1000 * mean, 2),
        "cpu_ms": round(1000 * cpu, 2),
        "one_job_ms": spread(alone),
    }


def main() -> None:
    """Measures one of both, and writes benchmarks/results/workers_WHAT.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("kills", "overhead"))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3600.0, help="kills no more after so long")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--jobs", type=int, default=2000)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    if options.what == "kills":
        result = kills(options.workers or 8, options.kills, options.seconds)
    else:
        result = asyncio.run(overhead(options.workers or 64, options.jobs))
    result = {**result, "load_before": load, "load_after": os.getloadavg()[0]}
    file = RESULTS / f"workers_{options.what}.json"
    file.write_text(json.dumps({"environment": describe(), **result}, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
