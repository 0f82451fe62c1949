"""GPU: what the device is and how it does; on the emulator, what is missing and why."""

from __future__ import annotations

from astra_tui.tui.page import Page, Tone
from astra_tui.tui.view import View
from astra_tui.tui.widgets.pane import Pane


class GpuPane(Pane):
    """The device that candidates run on."""

    TITLE = "GPU"
    HELP = (
        "The device on which candidates run. On a GPU: clock, power, temperature, utilisation "
        "and memory from NVML, reasons for throttling, and other processes. On the emulator "
        "there is nothing to watch."
    )

    def part(self, view: View) -> tuple[object, ...]:
        """What opened the session."""
        return (view.state.opened,)

    def draw(self, view: View, page: Page) -> None:
        """The device in words."""
        opened = view.state.opened
        if opened is None:
            return
        page.field("device", opened.settings.device)
        if opened.settings.device == "emulator":
            page.blank()
            page.paragraph(
                "The emulator runs on the CPU: there is no clock, power or temperature to watch, "
                "and nothing it says is a time. It counts memory traffic exactly; see Profile."
            )
        page.heading("Versions")
        for name, version in opened.versions.items():
            page.field(name, version, Tone.PLAIN, column=22)
