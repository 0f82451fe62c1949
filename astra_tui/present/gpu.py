"""The device that candidates run on, and how it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_tui.model.gpu import GpuIdentity, GpuSample
from astra_tui.model.settings import EMULATOR
from astra_tui.model.state import SessionState
from astra_tui.model.workers import WorkersStatus
from astra_tui.present import document as doc
from astra_tui.present.numbers import count, seconds, size
from astra_tui.present.tones import Tone
from astra_tui.present.workers import summary_words, workers_blocks

_BARS = "▁▂▃▄▅▆▇█"

_READINGS: dict[str, tuple[str, str, Callable[[GpuSample], float | None]]] = {
    "SM clock": ("sm_mhz", "MHz", lambda s: s.sm_mhz),
    "power": ("power_w", "W", lambda s: s.power_w),
    "temperature": ("temperature_c", "°C", lambda s: s.temperature_c),
    "utilisation": ("utilisation_percent", "%", lambda s: s.utilisation_percent),
    "memory": (
        "memory_used_bytes",
        "GiB",
        lambda s: _gib(s.memory_used_bytes),
    ),
}
"""What is read again and again: its field, its unit, and its value."""


def gpu_facts(gpu: GpuIdentity) -> dict[str, str]:
    """What is known of a GPU, by name."""
    known = {
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
    return {name: str(value) for name, value in known.items() if value}


def _switch(value: bool | None) -> str:
    return "" if value is None else "on" if value else "off"


def gpu_line(state: SessionState, samples: Sequence[GpuSample], workers: WorkersStatus) -> doc.Line:
    """The device and its latest reading, or what workers are at."""
    device = state.device
    if state.opened is None:
        return ()
    if workers.workers:
        troubled = any(w.trouble for w in workers.workers)
        return (doc.Badge(summary_words(workers), Tone.CAUTION if troubled else Tone.PLAIN),)
    if device is None or device.device == EMULATOR:
        return ("none: the emulator counts, and gives no times",)
    if device.gpu is None:
        return (device.device,)
    each = ((unit, _now(read, samples)) for _, unit, read in _READINGS.values())
    readings = [f"{value:.4g} {unit}" for unit, found in each for value in found]
    return f"{device.gpu.name}  ", doc.Badge(", ".join(readings) or "no readings", Tone.DIM)


def gpu_blocks(
    state: SessionState, samples: Sequence[GpuSample], workers: WorkersStatus, width: int
) -> list[doc.Block]:
    """Who the device is, how it does, what workers are at, and the versions that results depend on.

    Readings of the last minute are drawn as bars, on a page `width` wide.
    """
    if state.opened is None:
        return []
    gpu = state.device.gpu if state.device else None
    versions = doc.pairs(state.opened.versions)
    if gpu is not None:
        timed = f"{seconds(state.usage.gpu_seconds)} of GPU time so far"
        facts = {"device": state.device_name, **gpu_facts(gpu), "timed": timed}
        blocks: list[doc.Block] = [doc.pairs(facts)]
        blocks += doc.paragraphs(*(f"not told: {what}: {why}" for what, why in gpu.missing.items()))
        if not workers.workers:
            blocks.append(doc.Section("Now", "", tuple(_samples(samples, width - 30))))
    else:
        blocks = [doc.pairs({"device": state.device_name})]
        blocks += doc.paragraphs(
            "The emulator runs on the CPU: there is no clock, power or temperature to watch, and "
            "nothing it says is a time. It counts memory traffic exactly; see Profile."
        )
    if workers.workers:
        at_work = doc.Section("Workers", "", tuple(workers_blocks(workers)))
        device = doc.Section("Device", "", tuple(blocks))
        blocks = [at_work, device]
    return [*blocks, doc.Section("Versions", "", (versions,))]


def _now(read: Callable[[GpuSample], float | None], samples: Sequence[GpuSample]) -> list[float]:
    """The latest reading, where there is one."""
    value = read(samples[-1]) if samples else None
    return [] if value is None else [value]


def _samples(samples: Sequence[GpuSample], room: int) -> list[doc.Block]:
    if not samples:
        text = "No readings: none are taken while replays are timed, and a journal keeps none."
        return [doc.Paragraph((doc.Badge(text, Tone.DIM),))]
    last, missing = samples[-1], samples[-1].missing
    rows: list[doc.Row] = []
    for title, (field, unit, read) in _READINGS.items():
        found = [f"{value:.4g} {unit}" for value in _now(read, samples)]
        now: doc.Cell = found[0] if found else doc.Badge(missing.get(field, "not told"), Tone.DIM)
        rows.append((title, now, _strip([read(s) for s in samples], room)))
    states: dict[str, str] = {}
    if last.throttle_reasons is None or last.throttle_reasons:
        said = ", ".join(r.value.replace("_", " ") for r in last.throttle_reasons or ())
        states["throttled"] = said or missing.get("throttle_reasons", "not told")
    if last.other_processes is None or last.other_processes:
        pids = ", ".join(str(process.pid) for process in last.other_processes or ())
        uses = f"process {pids} uses this GPU too; times may suffer"
        states["others"] = uses if pids else missing.get("other_processes", "not told")
    warnings = ((name, doc.Badge(text, Tone.CAUTION)) for name, text in states.items())
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


def _gib(bytes_: int | None) -> float | None:
    return None if bytes_ is None else bytes_ / 2**30
