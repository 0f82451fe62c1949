"""What workers are at: folded into a line, or a line a device."""

from __future__ import annotations

from astra_tui.model.workers import WorkersStatus, WorkerStatus
from astra_tui.present import document as doc
from astra_tui.present.numbers import count, pluralised, seconds
from astra_tui.present.tones import Tone


def summary_words(status: WorkersStatus) -> str:
    """All in one line: how many, what they do, what waits, and with whom something is wrong."""
    at_work = [w for w in status.workers if not w.left_out]
    gpus = sum(bool(w.kind) for w in at_work)
    parts = {
        "running": sum(len(w.doing) for w in at_work),
        "waiting": sum(status.waiting.values()),
        "with trouble": sum(bool(w.trouble) for w in at_work),
        "left out": len(status.workers) - len(at_work),
    }
    of_gpus = [pluralised(gpus, "GPU")] if gpus else []
    counted = [f"{count(number)} {what}" for what, number in parts.items() if number]
    return ", ".join([pluralised(len(at_work), "worker"), *of_gpus, *(counted or ["idle"])])


def worker_words(worker: WorkerStatus) -> str:
    """One of them in one line."""
    if worker.left_out:
        return f"{worker.name}: left out: {worker.trouble}"
    gpu = f" ({worker.kind}, {_short(worker.uuid)})" if worker.kind else ""
    return f"{worker.name}{gpu}: {_said(worker)}"


def status_lines(status: WorkersStatus) -> tuple[str, ...]:
    """The summary, and a line for each."""
    return summary_words(status), *(f"  {worker_words(w)}" for w in status.workers)


def news_lines(status: WorkersStatus, before: WorkersStatus) -> tuple[str, ...]:
    """A line for each that came, went, proved itself or met trouble since."""
    known = {w.name: _lasting(w) for w in before.workers}
    here = {w.name for w in status.workers}
    told = [worker_words(w) for w in status.workers if known.get(w.name) != _lasting(w)]
    return *told, *(f"{name}: it is gone" for name in known if name not in here)


def _lasting(worker: WorkerStatus) -> tuple[object, ...]:
    return worker.kind, worker.uuid, worker.proven, worker.trouble, worker.left_out


def workers_blocks(status: WorkersStatus) -> list[doc.Block]:
    """A row for each, and what waits."""
    rows: list[doc.Row] = []
    for worker in status.workers:
        kind = worker.kind.removeprefix("NVIDIA ")
        did = count(worker.done) if worker.done else ""
        now: doc.Cell = ", ".join(worker.doing) or "idle"
        if worker.trouble:
            what = "left out: " if worker.left_out else "".join(f"{d}; " for d in worker.doing)
            now = doc.Badge(f"{what}{worker.trouble}", Tone.CAUTION)
        rows.append((worker.name, kind, worker.proven, did, now))
    waiting = [f"{count(number)} {_WAITS[use]}" for use, number in status.waiting.items()]
    told = [f"Waiting: {', '.join(waiting)}."] if waiting else []
    table = doc.table(("worker", "GPU", "A/A tells", "jobs", "now"), rows)
    return [table, *doc.paragraphs(*told)]


_WAITS = {
    "cpu": "for a processor",
    "host": "for a processor next to a GPU",
    "gpu": "for a GPU",
    "alone": "to be timed",
}


def _said(worker: WorkerStatus) -> str:
    """What it does, how much it did, what its A/A timing showed, and what went wrong."""
    done = f"{pluralised(worker.done, 'job')} in {seconds(worker.seconds)}" if worker.done else ""
    proven = f"A/A tells {worker.proven}" if worker.proven else ""
    doing = ", ".join(worker.doing) or ("" if worker.trouble else "idle")
    return "; ".join(part for part in (doing, done, proven, worker.trouble) if part)


def _short(uuid: str) -> str:
    """The first digits of a UUID, as `nvidia-smi -L` begins it."""
    return uuid[:12]
