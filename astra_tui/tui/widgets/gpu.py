"""GPU: what the device is and how it does; on the emulator, what is missing and why."""

from __future__ import annotations

from astra_tui.present import devices
from astra_tui.present.layout import Line, Span
from astra_tui.present.tones import Tone
from astra_tui.tui.text_layout import Page, toned
from astra_tui.tui.view import View
from astra_tui.tui.widgets.pane import Pane


def gpu_line(view: View) -> Line:
    """The device and its latest reading, or all workers, in one line."""
    told = devices.gpu_line(view.state, view.samples, view.workers)
    return (Span(" GPU    ", Tone.DIM), *toned(told))


class GpuPane(Pane):
    """The device that candidates run on."""

    TITLE = "GPU"
    HELP = (
        "The device on which candidates run. On a GPU: clock, power, temperature, utilisation "
        "and memory from NVML over the last minute, reasons for throttling, and other processes. "
        "Nothing is sampled while replays are timed. On the emulator there is nothing to watch. "
        "Of a run on workers: what each does, how much it did, what its A/A timing tells apart, "
        "and why one is left out."
    )

    def part(self, view: View) -> tuple[object, ...]:
        """The device, its latest reading, and the workers."""
        last = view.samples[-1] if view.samples else None
        state = view.state
        return (state.opened, state.device, last, view.workers, state.usage.gpu_seconds)

    def draw(self, view: View, page: Page) -> None:
        """Who it is, how it does, and the versions that results depend on."""
        page.blocks(devices.gpu_blocks(view.state, view.samples, view.workers, page.width))
