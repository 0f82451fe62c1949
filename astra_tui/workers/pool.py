"""Gives jobs to workers: each to one that is fit and free, and again to another if that is lost.

All of it runs on one event loop, that of the cluster's client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

import msgspec
from distributed import Client

from astra_tui.workers.jobs import Answer, Job, WorkersFailed, decode_answer, encode, own_identity
from astra_tui.workers.roster import LOST_SECONDS, Member, Roster, silent, unfit
from astra_tui.workers.station import perform, rest, stop

MOST_LOSSES = 10
"""After so many workers that were lost at it, a job is given up."""

_LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class Done:
    """An answer, by which worker, how long the job waited, and how often it started over."""

    answer: Answer
    worker: Member
    waited: float
    losses: int = 0


@dataclass
class _Waiting:
    """A job that waits for its turn, and the worker that it gets."""

    job: str
    prefer: str
    seat: asyncio.Future[Member]


@dataclass
class _Running:
    """A job at a worker: `lost` is set when that is gone."""

    job: str
    address: str
    lost: asyncio.Future[str] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def lose(self, why: str) -> None:
        if not self.lost.done():
            self.lost.set_result(why)


class Pool:
    """The workers of a cluster as one engine uses them."""

    def __init__(
        self,
        client: Client,
        *,
        own: bool = False,
        lost: Callable[[str], None] = lambda _: None,
        changed: Callable[[Roster], None] = lambda _: None,
    ):
        """Workers of our `own` have no other jobs than ours.

        `lost` is told the names of workers that hang; `changed` every new roster.
        """
        self._own = own
        self.roster = Roster()
        self._client = client
        self._told_lost, self._told = lost, changed
        self._topic = f"astra-{uuid4().hex}"
        self._numbers = count(1)
        self._waiting: dict[bool, deque[_Waiting]] = {True: deque(), False: deque()}
        """Those for a GPU to themselves, and all others."""
        self._running: dict[str, _Running] = {}
        self._beats: dict[str, float] = {}
        self._admitting: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    # -- workers -----------------------------------------------------------------------------------

    async def start(self, seconds: float, wanted: int = 1) -> None:
        """Admits the workers that are there; waits until as many as wanted were looked at.

        Raises WorkersFailed where none of them is fit, or none comes.
        """
        self._client.subscribe_topic(self._topic, self._heard)
        self._client.subscribe_topic("all", self._happened)
        self._looking = asyncio.create_task(self._look())
        await self._find()
        ends = asyncio.get_running_loop().time() + seconds
        while len(self.roster.members) + len(self.roster.excluded) < wanted:
            if asyncio.get_running_loop().time() > ends:
                break
            await asyncio.sleep(_LOOK_SECONDS / 10)
        if not self.roster.members:
            raise WorkersFailed(self._why_none(f"none came within {seconds:g} s"))

    async def close(self, *, leave: bool) -> None:
        """Forgets all jobs; `leave` ends the processes at workers that live on."""
        tasks = [t for t in (self._looking, *self._admitting.values()) if t is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if leave and self.roster.members:
            await self._client.run(rest, workers=list(self.roster.members), on_error="ignore")

    def _why_none(self, otherwise: str) -> str:
        reasons = [f"{name}: {why}" for name, why in self.roster.excluded.items()]
        return "no worker is fit: " + ("; ".join(reasons) or otherwise)

    async def _find(self) -> None:
        info = await self._client.scheduler.identity()
        for address in info["workers"]:
            self._admit(address)
        known = {*self.roster.members, *(r.address for r in self._running.values())}
        for address in known:
            if address not in info["workers"]:
                self._gone(address, "it is gone")

    def _admit(self, address: str) -> None:
        if address not in self.roster.members and address not in self._admitting:
            self._admitting[address] = asyncio.create_task(self._look_at(address))

    async def _look_at(self, address: str) -> None:
        """Has a worker say what it is before its first job."""
        try:
            info = await self._client.scheduler.identity()
            facts = info["workers"].get(address)
            if facts is None or str(facts["name"]) in self.roster.excluded:
                return
            name, gpus = str(facts["name"]), int(facts.get("resources", {}).get("GPU", 0))
            asked = _Running(f"{self._topic}-look-{next(self._numbers)}", address)
            answer = await self._at(asked, Job(asked.job, self._topic), lease=False)
            if answer is None or answer.identity is None:
                return
            reason = unfit(own_identity(), answer.identity)
            if reason:
                self._change(self.roster.exclude(name, reason))
                return
            gpu = (answer.gpu or f"GPU of {name}") if gpus else ""
            slots = max(1, int(facts["nthreads"]) - bool(gpus))
            self._change(self.roster.join(Member(address, name, slots, gpu)))
        except Exception as error:  # It does not even know what to run.
            self._change(self.roster.exclude(address, f"it cannot run a job: {error}"))
        finally:
            del self._admitting[address]

    def _change(self, roster: Roster) -> None:
        self.roster = roster
        self._serve()

    def _gone(self, address: str, why: str) -> None:
        self._change(self.roster.lose(address))
        for running in tuple(self._running.values()):
            if running.address == address:
                running.lose(why)

    def _happened(self, event: tuple[float, Any]) -> None:
        """Something of which the scheduler tells all."""
        _, told = event
        action = told.get("action") if isinstance(told, dict) else None
        if action == "add-worker":
            self._admit(told["worker"])
        elif action == "remove-worker":
            self._gone(told["worker"], "the worker ended")

    def _heard(self, event: tuple[float, Any]) -> None:
        job = event[1]["job"]
        if job in self._running:
            self._beats[job] = asyncio.get_running_loop().time()

    async def _look(self) -> None:
        """Looks for workers that say nothing any more."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        for round_ in count(1):
            await asyncio.sleep(_LOOK_SECONDS)
            late = max(0.0, loop.time() - last - 2 * _LOOK_SECONDS)
            last = loop.time()
            if late:
                self._beats = {job: at + late for job, at in self._beats.items()}
            for job in silent(self._beats, last):
                running = self._running[job]
                if member := self.roster.members.get(running.address):
                    self._told_lost(member.name)
                self._gone(running.address, f"nothing was heard of it for {LOST_SECONDS:g} s")
            if round_ % 8 == 0:
                await self._find()

    # -- jobs --------------------------------------------------------------------------------------

    async def ask(self, job: Job, *, lease: bool = False, prefer: str = "") -> Done:
        """Has a worker do a job, and another one if that is lost; its number is made here.

        A job with a lease has the worker's GPU to itself. Cancelled, it ends the job. Raises
        WorkersFailed.
        """
        loop, waited, losses = asyncio.get_running_loop(), 0.0, 0
        name = f"{self._topic}-{next(self._numbers)}"
        while True:
            begun, number = loop.time(), f"{name}.{losses}"
            waiting = _Waiting(number, prefer, loop.create_future())
            member = await self._seat(waiting, lease=lease)
            waited += loop.time() - begun
            running, answer = _Running(number, member.address), None
            try:
                named = msgspec.structs.replace(job, id=number, topic=self._topic)
                if member.address in self.roster.members:  # It may have ended a moment ago.
                    answer = await self._at(running, named, lease=lease)
            finally:
                seconds = answer.seconds if answer is not None else None
                self._change(self.roster.end(member.address, number, seconds))
            if answer is not None:
                return Done(answer, member, waited, losses)
            losses += 1
            if losses == MOST_LOSSES:
                raise WorkersFailed(f"{losses} workers were lost at one job")

    async def _seat(self, waiting: _Waiting, *, lease: bool) -> Member:
        self._waiting[lease].append(waiting)
        self._serve()
        try:
            return await waiting.seat
        except asyncio.CancelledError:
            if not waiting.seat.cancelled() and waiting.seat.done():
                self._change(self.roster.end(waiting.seat.result().address, waiting.job, None))
            raise

    def _serve(self) -> None:
        """Seats those that wait, in turn."""
        for lease, queue in self._waiting.items():
            while queue:
                if queue[0].seat.done():  # It was cancelled a moment ago.
                    queue.popleft()
                    continue
                member = self.roster.choose(lease=lease, prefer=queue[0].prefer)
                if member is None:
                    break
                waiting = queue.popleft()
                self.roster = self.roster.begin(member.address, waiting.job, lease=lease)
                waiting.seat.set_result(member)
        self._told(self.roster)

    async def _at(self, running: _Running, job: Job, *, lease: bool) -> Answer | None:
        """The answer of one worker; None where it was lost first. Cancelled, it ends the job."""
        self._running[running.job] = running
        if self._own:  # It has nothing else to do, and says so at once.
            self._beats[running.job] = asyncio.get_running_loop().time()
        future = self._client.submit(
            perform, encode(job), key=running.job, workers=[running.address],
            allow_other_workers=False, pure=False, resources={"GPU": 1} if lease else None,
        )  # fmt: skip
        result = asyncio.ensure_future(_result(future))
        try:
            both: list[asyncio.Future[Any]] = [result, running.lost]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if result.done() and result.exception() is None:
                return decode_answer(result.result())
            if running.lost.done() or await self._was_lost(running):
                return None
            raise WorkersFailed(f"a worker broke down: {result.exception()!r}")
        except asyncio.CancelledError:
            await self._stop(running)
            raise
        finally:
            result.cancel()
            future.release()
            self._running.pop(running.job, None)
            self._beats.pop(running.job, None)

    async def _was_lost(self, running: _Running) -> bool:
        """Whether a job failed because its worker is gone, of which we may hear a moment later."""
        await asyncio.wait([running.lost], timeout=LOST_SECONDS)
        if running.lost.done():
            return True
        await self._find()
        return running.lost.done()

    async def _stop(self, running: _Running) -> None:
        if running.address in self.roster.members:
            workers = [running.address]
            await self._client.run(stop, running.job, workers=workers, on_error="ignore")


async def _result(future: Any) -> bytes:
    data: bytes = await future
    return data
