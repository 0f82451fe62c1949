"""GPU: what the device is and how it does; on the emulator, what is missing and why."""

from __future__ import annotations

from astra_tui.present import gpu
from astra_tui.present.tones import Tone
from astra_tui.tui.text_layout import Line, Page, Span, toned
from astra_tui.tui.view import View
from astra_tui.tui.widgets.pane import Pane


def gpu_line(view: View) -> Line:
    """The device and its latest reading, in one line."""
    return (Span(" GPU    ", Tone.DIM), *toned(gpu.gpu_line(view.state, view.samples)))


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
        page.blocks(gpu.gpu_blocks(view.state, view.samples, page.width))
