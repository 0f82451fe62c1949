"""The device that candidates run on and how it does, and what workers are at."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tui.model.gpu import GpuSample
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import SessionState
from astra_tui.model.workers import WorkersStatus, WorkerStatus
from astra_tui.present import document as doc
from astra_tui.present.numbers import count, pluralised, seconds, size
from astra_tui.present.tones import Phrase, Tone

_BARS = "▁▂▃▄▅▆▇█"

_READINGS = {
    "SM clock": ("sm_mhz", "MHz"),
    "power": ("power_w", "W"),
    "temperature": ("temperature_c", "°C"),
    "utilisation": ("utilisation_percent", "%"),
    "memory": ("memory_used_bytes", "GiB"),
}
"""What is read again and again: its field in a sample, and its unit."""


def device_facts(state: SessionState) -> tuple[dict[str, str], list[str]]:
    """The device and what is known of it, by name, and what it does not tell."""
    gpu = state.device.gpu if state.device else None
    if gpu is None:
        return {"device": state.device_name}, []
    known = {
        "device": state.device_name,
        "GPU": gpu.name,
        "compute capability": ".".join(map(str, gpu.compute_capability or ())),
        "SMs": gpu.sm_count,
        "memory": gpu.memory_bytes and size(gpu.memory_bytes),
        "L2 cache": gpu.l2_bytes and size(gpu.l2_bytes),
        "driver": gpu.driver,
        "CUDA of the driver": gpu.cuda_driver,
        "highest SM clock": gpu.max_sm_mhz and f"{count(gpu.max_sm_mhz)} MHz",
        "highest memory clock": gpu.max_mem_mhz and f"{count(gpu.max_mem_mhz)} MHz",
        "power limit": gpu.power_limit_w and f"{gpu.power_limit_w:,.0f} W",
        "ECC": _switch(gpu.ecc_enabled),
        "MIG": _switch(gpu.mig_enabled),
        "persistence mode": _switch(gpu.persistence),
        "VBIOS": gpu.vbios,
    }
    missing = [f"not told: {what}: {why}" for what, why in gpu.missing.items()]
    return {name: str(value) for name, value in known.items() if value}, missing


def _switch(value: bool | None) -> str:
    return "" if value is None else "on" if value else "off"


def gpu_line(state: SessionState, samples: Sequence[GpuSample], workers: WorkersStatus) -> doc.Line:
    """The device and its latest reading, or what workers are at."""
    device = state.device
    if state.opened is None:
        return ()
    if workers.workers:
        troubled = any(w.trouble for w in workers.workers)
        return (Phrase(summary_words(workers), Tone.CAUTION if troubled else Tone.PLAIN),)
    if device is None or device.device == EMULATOR:
        return ("none: the emulator counts, and gives no times",)
    if device.gpu is None:
        return (device.device,)
    found = (_now(title, sample) for sample in samples[-1:] for title in _READINGS)
    readings = ", ".join(filter(None, found))
    return f"{device.gpu.name}  ", Phrase(readings or "no readings", Tone.DIM)


def gpu_blocks(
    state: SessionState, samples: Sequence[GpuSample], workers: WorkersStatus, width: int
) -> list[doc.Block]:
    """Who the device is, how it did in the last minute, what workers are at, and versions."""
    if state.opened is None:
        return []
    facts, told = device_facts(state)
    is_gpu = len(facts) > 1
    if is_gpu:
        facts["timed"] = f"{seconds(state.usage.gpu_seconds)} of GPU time so far"
    device = [doc.fields(facts), *doc.paragraphs(*(told if is_gpu else [_EMULATOR]))]
    parts: dict[str, Sequence[doc.Block]] = {"Versions": [doc.fields(state.opened.versions)]}
    if workers.workers:
        return doc.sections({"Workers": workers_blocks(workers), "Device": device, **parts})
    now = _samples(samples, width - 30) if is_gpu else []
    return [*device, *doc.sections({"Now": now, **parts})]


_EMULATOR = (
    "The emulator runs on the CPU: there is no clock, power or temperature to watch, and nothing "
    "it says is a time. It counts memory traffic exactly; see Profile."
)


def _reading(title: str, sample: GpuSample) -> float | None:
    field, unit = _READINGS[title]
    value: float | None = getattr(sample, field)
    return value / 2**30 if value and unit == "GiB" else value


def _now(title: str, sample: GpuSample) -> str:
    """A reading with its unit; empty where there is none."""
    value = _reading(title, sample)
    return "" if value is None else f"{value:.4g} {_READINGS[title][1]}"


def _samples(samples: Sequence[GpuSample], room: int) -> list[doc.Block]:
    if not samples:
        text = "No readings: none are taken while replays are timed, and a journal keeps none."
        return doc.paragraphs(Phrase(text, Tone.DIM))
    last, missing = samples[-1], samples[-1].missing
    rows: list[doc.Row] = []
    for title, (field, _) in _READINGS.items():
        now = _now(title, last) or Phrase(missing.get(field, "not told"), Tone.DIM)
        rows.append((title, now, _strip([_reading(title, s) for s in samples], room)))
    states: dict[str, str] = {}
    if last.throttle_reasons is None or last.throttle_reasons:
        said = ", ".join(r.value.replace("_", " ") for r in last.throttle_reasons or ())
        states["throttled"] = said or missing.get("throttle_reasons", "not told")
    if last.other_processes is None or last.other_processes:
        pids = ", ".join(str(process.pid) for process in last.other_processes or ())
        uses = f"process {pids} uses this GPU too; times may suffer"
        states["others"] = uses if pids else missing.get("other_processes", "not told")
    warnings = ((name, Phrase(text, Tone.CAUTION)) for name, text in states.items())
    return [doc.table(("", "", ""), rows), doc.table(("", ""), warnings)]


def _strip(values: Sequence[float | None], width: int) -> str:
    """The latest readings as bars, from the smallest to the largest of them."""
    shown = values[-max(width, 1) :]
    known = [v for v in shown if v is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if v is None else _BARS[int((v - low) * scale)] for v in shown)


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
    # The first digits of a UUID, as `nvidia-smi -L` begins it.
    gpu = f" ({worker.kind}, {worker.uuid[:12]})" if worker.kind else ""
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
    """A line for each, and what waits."""
    tones = (Tone.CAUTION if w.trouble else Tone.PLAIN for w in status.workers)
    each = map(Phrase, map(worker_words, status.workers), tones)
    waiting = [f"{count(number)} {_WAITS[use]}" for use, number in status.waiting.items()]
    return doc.paragraphs(*each, f"Waiting: {', '.join(waiting)}." if waiting else "")


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
