"""Gives jobs to workers: each to one that is fit and free, and again to another if that is lost.

All of it runs on one event loop, that of the cluster's client.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

import msgspec
from distributed import Client

from astra_tui.workers.jobs import (
    Answer,
    Job,
    WorkersFailed,
    decode_answer,
    encode,
    own_identity,
    proven_by,
)
from astra_tui.workers.roster import LOST_SECONDS, Member, Need, Roster, Use, silent, unfit
from astra_tui.workers.station import perform, rest, stop

MOST_LOSSES = 10
"""After so many workers that were lost at it, a job is given up."""

EMPTY_SECONDS = 60.0
"""How long jobs wait for a worker where all that can do them were lost."""

_LOOK_SECONDS = 0.25
_ORDER = Use.ALONE, Use.GPU, Use.HOST, Use.CPU
"""Who is seated first."""
_ANY = Need()
_PROVING = "A/A timing"


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

    number: str
    job: Job
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
        self._waiting: dict[Need, deque[_Waiting]] = {}
        """In the order in which they are seated."""
        self._running: dict[str, _Running] = {}
        self._beats: dict[str, float] = {}
        self._admitting: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> Counter[Use]:
        """How many jobs wait for a worker."""
        counted: Counter[Use] = Counter()
        for need, queue in tuple(self._waiting.items()):
            counted[need.use] += len(queue)
        return counted

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
        while self._admitting or len(self.roster.members) + len(self.roster.excluded) < wanted:
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
            name = str(facts["name"])
            asked = _Running(f"{self._topic}-look-{next(self._numbers)}", address)
            answer = await self._at(asked, Job(asked.job, self._topic), Use.CPU)
            if answer is None:
                return
            reason = await self._unfit(answer)
            if reason:
                self._change(self.roster.exclude(name, reason))
                return
            slots = max(1, int(facts["nthreads"]) - (answer.device is not None))
            self._change(self.roster.join(Member(address, name, slots, answer.device)))
        except Exception as error:  # It does not even know what to run.
            self._change(self.roster.exclude(address, f"it cannot run a job: {error}"))
        finally:
            del self._admitting[address]

    async def _unfit(self, answer: Answer) -> str:
        if answer.identity is None:
            return answer.trouble or "it does not say what it is"
        gpu = answer.device.uuid if answer.device is not None else None
        if gpu and self.roster.has_gpu(gpu):
            await self._find()  # That one may be gone, and this be the one that was started again.
        if gpu and (other := self.roster.has_gpu(gpu)):
            return f"its GPU is that of {other.name}: each worker needs one of its own"
        return unfit(own_identity(), answer.identity)

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
        last, empty = loop.time(), dict[Need, float]()
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
            lacking = (n for n, q in self._waiting.items() if q and not self.roster.can_now(n))
            empty = {need: empty.get(need, 0.0) + _LOOK_SECONDS for need in lacking}
            for need, waited in empty.items():
                if not self.roster.can_ever(need):
                    self._give_up(need, "none is left")
                elif waited > EMPTY_SECONDS:
                    why = f"all were lost, and none came within {EMPTY_SECONDS:g} s"
                    self._give_up(need, why)

    # -- jobs --------------------------------------------------------------------------------------

    async def ask(self, job: Job, need: Need = _ANY, prefer: str = "") -> Done:
        """Has a worker do a job, and another one if that is lost; its number is made here.

        Cancelled, it ends the job. Raises WorkersFailed.
        """
        loop, waited, losses = asyncio.get_running_loop(), 0.0, 0
        name = f"{self._topic}-{next(self._numbers)}"
        while True:
            begun, number = loop.time(), f"{name}.{losses}"
            waiting = _Waiting(number, job, prefer, loop.create_future())
            member = await self._seat(waiting, need)
            waited += loop.time() - begun
            running, answer = _Running(number, member.address), None
            try:
                named = msgspec.structs.replace(job, id=number, topic=self._topic, proof=None)
                is_proven = await self._is_proven(member, job, number)
                if is_proven and member.address in self.roster.members:  # It may have ended by now.
                    answer = await self._at(running, named, need.use)
            finally:
                seconds = answer.seconds if answer is not None else None
                self._change(self.roster.end(member.address, number, seconds))
            if answer is not None:
                if job.proof is not None and answer.trouble:
                    self._change(self.roster.doubt(member.address, answer.trouble))
                return Done(answer, member, waited, losses)
            if member.name in self.roster.excluded:
                continue
            losses += 1
            if losses == MOST_LOSSES:
                raise WorkersFailed(f"{losses} workers were lost at one job")

    async def _seat(self, waiting: _Waiting, need: Need) -> Member:
        if need.use is not Use.CPU and not self.roster.can_ever(need):
            raise WorkersFailed(self._why_none(f"none has {need.kind or 'a GPU'}"))
        if need not in self._waiting:
            known = {**self._waiting, need: deque[_Waiting]()}
            self._waiting = dict(sorted(known.items(), key=lambda item: _ORDER.index(item[0].use)))
        self._waiting[need].append(waiting)
        self._serve()
        try:
            return await waiting.seat
        except asyncio.CancelledError:
            if waiting.seat.done() and not waiting.seat.cancelled():
                self._change(self.roster.end(waiting.seat.result().address, waiting.number, None))
            raise

    def _serve(self) -> None:
        """Seats those that wait, in turn."""
        for need, queue in self._waiting.items():
            while queue:
                if queue[0].seat.done():  # It was cancelled a moment ago.
                    queue.popleft()
                    continue
                timings = self._timings_for(need.kind) if need.use is Use.GPU else 0
                member = self.roster.choose(need, queue[0].prefer, timings)
                if member is None:
                    break
                waiting = queue.popleft()
                words = waiting.job.words if _is_ready(member, waiting.job) else _PROVING
                self.roster = self.roster.begin(member.address, waiting.number, need.use, words)
                waiting.seat.set_result(member)
        self._told(self.roster)

    def _timings_for(self, kind: str) -> int:
        """How many timings wait for a GPU of a kind."""
        return sum(
            len(queue)
            for need, queue in self._waiting.items()
            if need.use is Use.ALONE and (not need.kind or kind in ("", need.kind))
        )

    def _give_up(self, need: Need, why: str) -> None:
        queue = self._waiting[need]
        while queue:
            if not (seat := queue.popleft().seat).done():
                seat.set_exception(WorkersFailed(self._why_none(why)))

    async def _at(self, running: _Running, job: Job, use: Use) -> Answer | None:
        """The answer of one worker; None where it was lost first. Cancelled, it ends the job."""
        self._running[running.job] = running
        if self._own:  # It has nothing else to do, and says so at once.
            self._beats[running.job] = asyncio.get_running_loop().time()
        future = self._client.submit(
            perform,
            encode(job),
            key=running.job,
            workers=[running.address],
            allow_other_workers=False,
            pure=False,
            resources={"GPU": 1} if use is Use.ALONE else None,
        )
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

    async def _is_proven(self, member: Member, job: Job, number: str) -> bool:
        """Whether a worker can have a timing; where its GPU has not proven itself, it does first.

        One that cannot tell what it has to is left out, and a lost one is none.
        """
        known = self.roster.members.get(member.address)
        if known is None or _is_ready(known, job):
            return known is not None
        asked = _Running(f"{number}-proof", member.address)
        proof = msgspec.structs.replace(
            job, id=asked.job, topic=self._topic, request=job.proof, proof=None
        )
        answer = await self._at(asked, proof, Use.ALONE)
        if answer is None:
            return False
        proven, reason = proven_by(answer)
        if reason:
            reason = f"{reason} ({member.kind}, {member.gpu})"
            self._change(self.roster.exclude(member.name, reason))
            return False
        proved = self.roster.prove(member.address, proven)
        if member.address in proved.members:
            proved = proved.begin(member.address, number, Use.ALONE, job.words)
        self._change(proved)
        return True

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


def _is_ready(member: Member, job: Job) -> bool:
    """Whether a worker can begin a job at once: the GPU of a timing has to prove itself first."""
    return job.proof is None or bool(member.proven)


async def _result(future: Any) -> bytes:
    data: bytes = await future
    return data
