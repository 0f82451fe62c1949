"""GPU: what the device is and how it does; on the emulator, what is missing and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_tui.model.gpu import GpuIdentity, GpuSample
from astra_tui.model.settings import EMULATOR
from astra_tui.present.tones import Tone
from astra_tui.tui.text_layout import Line, Page, Span, padded, span
from astra_tui.tui.view import View
from astra_tui.tui.widgets.pane import Pane

_BARS = "▁▂▃▄▅▆▇█"
_GIB = 1 << 30

_Reading = Callable[[GpuSample], float | None]

_STRIPS: tuple[tuple[str, str, str, _Reading], ...] = (
    ("SM clock", "sm_mhz", "MHz", lambda s: s.sm_mhz),
    ("power", "power_w", "W", lambda s: s.power_w),
    ("temperature", "temperature_c", "°C", lambda s: s.temperature_c),
    ("utilisation", "utilisation_percent", "%", lambda s: s.utilisation_percent),
    ("memory", "memory_used_bytes", "GiB", lambda s: _gib(s.memory_used_bytes)),
)


def gpu_line(view: View) -> Line:
    """The device and its latest reading, in one line."""
    opened, device = view.state.opened, view.state.device
    label = Span(" GPU    ", Tone.DIM)
    if opened is None:
        return (label,)
    if device is None or device.device == EMULATOR:
        return (label, Span("none: the emulator counts, and gives no times"))
    if device.gpu is None:
        return (label, span(device.device))
    last = view.samples[-1] if view.samples else None
    readings = [(read(last), unit) for _, _, unit, read in _STRIPS] if last else []
    told = ", ".join(f"{value:.4g} {unit}" for value, unit in readings if value is not None)
    return (label, span(f"{device.gpu.name}  "), Span(told or "no readings", Tone.DIM))


class GpuPane(Pane):
    """The device that candidates run on."""

    TITLE = "GPU"
    HELP = (
        "The device on which candidates run. On a GPU: clock, power, temperature, utilisation "
        "and memory from NVML over the last minute, reasons for throttling, and other processes. "
        "Nothing is sampled while replays are timed. On the emulator there is nothing to watch."
    )

    def part(self, view: View) -> tuple[object, ...]:
        """The device and its latest reading."""
        last = view.samples[-1] if view.samples else None
        return (view.state.opened, view.state.device, last, view.state.usage.gpu_seconds)

    def draw(self, view: View, page: Page) -> None:
        """Who it is, how it does, and the versions that results depend on."""
        opened, device = view.state.opened, view.state.device
        if opened is None:
            return
        gpu = device.gpu if device else None
        page.field("device", view.state.device_name)
        if gpu is not None:
            _draw_identity(page, gpu)
            _draw_samples(page, view.samples)
            page.field("timed", f"{view.state.usage.gpu_seconds:.1f} s of GPU time so far")
        else:
            page.blank()
            page.paragraph(
                "The emulator runs on the CPU: there is no clock, power or temperature to watch, "
                "and nothing it says is a time. It counts memory traffic exactly; see Profile."
            )
        page.heading("Versions")
        for name, version in opened.versions.items():
            page.field(name, version, Tone.PLAIN, column=22)


def _draw_identity(page: Page, gpu: GpuIdentity) -> None:
    page.field("name", gpu.name or gpu.missing.get("name", "not told"))
    memory = _gib(gpu.memory_bytes)
    about = [
        f"driver {gpu.driver}" if gpu.driver else "",
        f"CUDA {gpu.cuda_driver}" if gpu.cuda_driver else "",
        f"{gpu.sm_count} SMs" if gpu.sm_count else "",
        f"{memory:.0f} GiB" if memory else "",
        "MIG is on" if gpu.mig_enabled else "",
    ]
    page.field("", ", ".join(filter(None, about)), Tone.DIM)


def _draw_samples(page: Page, samples: Sequence[GpuSample]) -> None:
    page.heading("Now")
    if not samples:
        text = "No readings: none are taken while replays are timed, and a journal keeps none."
        page.paragraph(text, Tone.DIM)
        return
    last = samples[-1]
    for title, field, unit, read in _STRIPS:
        now = read(last)
        if now is None:
            page.field(title, last.missing.get(field, "not told"), Tone.DIM, column=13)
            continue
        value = f"{now:.4g} {unit}"
        strip = _strip([read(s) for s in samples], page.width - 13 - 12)
        page.line(Span(padded(title, 13), Tone.DIM), Span(padded(value, 12)), Span(strip))
    reasons = last.throttle_reasons
    if reasons:
        said = ", ".join(reason.value.replace("_", " ") for reason in reasons)
        page.field("throttled", said, Tone.CAUTION, column=13)
    elif reasons is None:
        page.field("throttled", last.missing.get("throttle_reasons", "not told"), Tone.DIM, 13)
    if last.other_processes:
        others = [str(process.pid) for process in last.other_processes]
        which = f"process {others[0]} uses" if len(others) == 1 else f"{', '.join(others)} use"
        text = f"{which} this GPU too; times may suffer"
        page.field("others", text, Tone.CAUTION, column=13)
    elif last.other_processes is None:
        page.field("others", last.missing.get("other_processes", "not told"), Tone.DIM, 13)


def _strip(values: Sequence[float | None], width: int) -> str:
    """The latest readings as bars, from the smallest to the largest of them."""
    shown = values[-max(width, 0) :] if width > 0 else []
    known = [v for v in shown if v is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if v is None else _BARS[int((v - low) * scale)] for v in shown)


def _gib(size: int | None) -> float | None:
    return None if size is None else size / _GIB
