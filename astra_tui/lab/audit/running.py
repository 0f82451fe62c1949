"""Runs an audit: which kernels, by how many processes, and the file that holds the results."""

from __future__ import annotations

import hashlib
import os
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

import astra_tui
from astra_tui.lab.audit.zoo import Zoo
from astra_tui.lab.requests import Judge, Judged
from astra_tui.model.audit import NOT_JUDGED, AuditHead, AuditRecord, Group, Outcome
from astra_tui.model.digest import content_hash, short
from astra_tui.model.errors import Place, UserError, nearest
from astra_tui.model.findings import Acceptance
from astra_tui.processes.child import Child, ChildDied, ChildTimeout, StartChild
from astra_tui.rpc import Call

CPU_SECONDS = 240.0
"""CPU time for one kernel, unless told otherwise."""

_WALL_FACTOR = 30
"""How much longer than its CPU time a kernel may take by the clock: it may wait for a GPU."""

_GATE = ("lab", "gpu", "emulator", "cuda_source", "processes", "model")
_NO_GATE = ("lab/audit/", "model/audit.py", "lab/tuning/")
_PACKAGE = Path(astra_tui.__file__).parent


@dataclass(frozen=True)
class Item:
    """One kernel to be judged; a mutant has the text of its original, and perhaps a proof."""

    id: str
    group: Group
    kind: str
    task: str
    text: str
    original: str = ""
    proof: str = ""
    rulings: tuple[Acceptance, ...] = ()
    """Those of an honest kernel, and of its mutants."""


def items_of(zoo: Zoo, mutants: int | None = None) -> tuple[Item, ...]:
    """Planted kernels, honest ones, and the first of the mutants that are drawn."""
    found = [Item(e.id, Group.PLANTED, e.kind, e.task, e.text) for e in zoo.planted]
    found += [
        Item(e.id, Group.HONEST, e.kind, e.task, e.text, rulings=e.rulings) for e in zoo.honest
    ]
    rulings = {e.id: e.rulings for e in zoo.honest}
    originals = {name: text for name, _, text in zoo.sources()}
    for d in zoo.drawn()[:mutants]:
        original, proof = originals[d.source], zoo.proofs.get(d.id, "")
        parts = (d.id, Group.MUTANT, d.mutant.rule, d.task, d.mutant.text, original, proof)
        found.append(Item(*parts, rulings=rulings.get(d.source, ())))
    return tuple(found)


def select(items: Sequence[Item], kinds: Sequence[str], globs: Sequence[str]) -> tuple[Item, ...]:
    """Items of some kinds or groups whose names match. Raises UserError where none is left."""
    known = {item.kind for item in items} | {item.group.value for item in items}
    for kind in kinds:
        if kind not in known:
            raise UserError(f"the zoo has no kind '{kind}'", hint=nearest(kind, known))
    chosen = tuple(
        item
        for item in items
        if (not kinds or item.kind in kinds or item.group.value in kinds)
        and (not globs or any(fnmatchcase(item.id, glob) for glob in globs))
    )
    if not chosen:
        raise UserError("no kernel of the zoo matches", hint="names are as in 'silu-*'")
    return chosen


# -- results ---------------------------------------------------------------------------------------


def head_of(device: str, compiler: str, seed: int = 0) -> AuditHead:
    """What the records of an audit on this machine, now, are about."""
    return AuditHead(
        gate=gate_identity(compiler),
        compiler=compiler,
        device=device,
        machine=f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        version=astra_tui.__version__,
        date=datetime.now(UTC).date().isoformat(),
        seed=seed,
    )


def gate_identity(compiler: str) -> str:
    """A hash over the sources that decide what the gate says, and its compiler's version.

    These are the lab and all that it knows, without the audit itself and the search of tuning.
    """
    digest = hashlib.sha256(compiler.encode())
    for room in _GATE:
        for file in sorted((_PACKAGE / room).rglob("*")):
            inside = file.relative_to(_PACKAGE).as_posix()
            if file.suffix in (".py", ".cu") and not inside.startswith(_NO_GATE):
                digest.update(f"{inside}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


class Results:
    """A file of records, one a line after the head; what it holds is not judged again."""

    def __init__(self, file: Path, head: AuditHead):
        self.file = file
        self.head = head
        """That of the file, where it has one already: its seed holds for all records."""
        self.records: dict[tuple[str, str], AuditRecord] = {}
        self._lock = threading.Lock()
        if file.exists():
            self._read(head)
        else:
            file.write_bytes(msgspec.json.encode(head) + b"\n")

    def _read(self, head: AuditHead) -> None:
        lines = self.file.read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        try:
            held = msgspec.json.decode(whole[0] if whole else b"", type=AuditHead)
        except msgspec.MsgspecError as error:
            text = f"no results of an audit: {error}"
            raise UserError(text, file=str(self.file), place=Place(1)) from None
        if (held.gate, held.device) != (head.gate, head.device):
            raise UserError(
                f"these are the results of another gate ({short(held.gate)} on {held.device}, and "
                f"not {short(head.gate)} on {head.device})",
                file=str(self.file),
                hint="results of two gates are not mixed: name a new file",
            )
        self.head = held
        for number, line in enumerate(whole[1:], 2):
            try:
                record = msgspec.json.decode(line, type=AuditRecord)
            except msgspec.MsgspecError as error:
                place = Place(number)
                raise UserError(str(error), file=str(self.file), place=place) from None
            self.records[record.id, record.text] = record
        if len(whole) < len(lines):  # The last line was cut off: what it was about is asked again.
            self.file.write_bytes(b"".join(whole))

    def add(self, record: AuditRecord) -> None:
        """Keeps one record, and writes its line; from any thread."""
        with self._lock:
            self.records[record.id, record.text] = record
            with self.file.open("ab") as file:
                file.write(msgspec.json.encode(record) + b"\n")

    def lacks(self, item: Item) -> bool:
        """Whether a kernel is still to be judged; an error of the audit is no judgement."""
        outcome = self._outcome(item)
        return outcome is None or outcome in NOT_JUDGED

    def is_untimed(self, item: Item) -> bool:
        """Whether a kernel passed its check, and is still to be timed."""
        return self._outcome(item) is Outcome.UNTIMED

    def _outcome(self, item: Item) -> Outcome | None:
        record = self.records.get((item.id, content_hash(item.text)))
        return None if record is None else record.outcome

    def of(self, items: Sequence[Item]) -> Iterator[AuditRecord]:
        """The records of some items, as far as they are there."""
        for item in items:
            record = self.records.get((item.id, content_hash(item.text)))
            if record is not None:
                yield record


# -- running ---------------------------------------------------------------------------------------


def run_audit(
    zoo: Zoo,
    items: Sequence[Item],
    results: Results,
    device: str,
    *,
    jobs: int = 1,
    timers: int = 1,
    seconds: float = CPU_SECONDS,
    done: Callable[[AuditRecord], None] = lambda _: None,
    start: StartChild = Child,
) -> None:
    """Judges what the results lack. Each process takes the kernels of one task in turn.

    On a GPU all are checked first. Then one process a GPU times what passed, with the GPU to
    itself.
    """

    def judged(record: AuditRecord) -> None:
        if record.outcome is not Outcome.UNTIMED:
            done(record)

    parts = zoo, results, device, seconds, judged, start
    unchecked = [item for item in items if results.lacks(item) and not results.is_untimed(item)]
    _run(unchecked, parts, jobs, timed=False)
    _run([item for item in items if results.is_untimed(item)], parts, timers, timed=True)


_Parts = tuple[Zoo, Results, str, float, Callable[[AuditRecord], None], StartChild]


def _run(items: Sequence[Item], parts: _Parts, jobs: int, *, timed: bool) -> None:
    if not items:
        return
    queue = _Queue(items)
    workers = [_Worker(queue, *parts, timed=timed) for _ in range(jobs)]
    with ThreadPoolExecutor(jobs) as threads:
        try:
            for finished in [threads.submit(worker.run) for worker in workers]:
                finished.result()
        finally:
            queue.close()
            for worker in workers:
                worker.process.kill()


class _Queue:
    """Items by task, so that a process opens few tasks; from any thread."""

    def __init__(self, items: Sequence[Item]):
        self._items: dict[str, list[Item]] = {}
        for item in reversed(items):
            self._items.setdefault(item.task, []).append(item)
        self._lock = threading.Lock()
        self.closed = False
        self._takers: dict[str, int] = dict.fromkeys(self._items, 0)

    def close(self) -> None:
        self.closed = True
        with self._lock:
            self._items.clear()

    def next(self, task: str) -> Item | None:
        """An item of the same task if there is one, else of the task with most for each process."""
        with self._lock:
            if task not in self._items:
                if not self._items:
                    return None
                task = max(self._items, key=lambda t: len(self._items[t]) / (1 + self._takers[t]))
                self._takers[task] += 1
            left = self._items[task]
            item = left.pop()
            if not left:
                del self._items[task]
            return item


class _Worker:
    """One thread with one process that asks the gate."""

    def __init__(
        self,
        queue: _Queue,
        zoo: Zoo,
        results: Results,
        device: str,
        seconds: float,
        done: Callable[[AuditRecord], None],
        start: StartChild,
        *,
        timed: bool,
    ):
        arguments = device, str(results.head.seed)
        self.process = start("astra_tui.lab.audit.worker", arguments, "the audit's process")
        self._zoo, self._queue, self._results = zoo, queue, results
        self._seconds, self._done, self._timed = seconds, done, timed

    def run(self) -> None:
        task = ""
        while (item := self._queue.next(task)) is not None:
            task = item.task
            record = self._judge(item)
            if self._queue.closed:  # What ended the audit ended our process too.
                return
            self._results.add(record)
            self._done(record)

    def _judge(self, item: Item) -> AuditRecord:
        folder = str(self._zoo.task_folder(item.task))
        request = Judge(
            folder, item.id, item.text, item.original, item.rulings, self._seconds, self._timed
        )
        silence = self._seconds * _WALL_FACTOR
        try:
            (judged,) = Call(self.process, request, silence=silence).replies()
        except ChildTimeout as error:
            judged = Judged(Outcome.HANG, str(error))
        except ChildDied as error:
            judged = Judged(Outcome.TROUBLE, str(error))
        outcome, message = judged.outcome, judged.message
        if outcome is Outcome.HANG:
            self.process.close()
        if outcome is Outcome.PASSED and item.proof:
            outcome, message = Outcome.PROVED_EQUIVALENT, item.proof
        return AuditRecord(
            id=item.id,
            group=item.group,
            kind=item.kind,
            task=item.task,
            text=content_hash(item.text),
            outcome=outcome,
            message=message,
            seconds=judged.seconds,
        )
