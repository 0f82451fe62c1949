"""A GPU process with a scripted driver: python -m tests.gpu.scripted_process READ_FD WRITE_FD."""

from __future__ import annotations

import sys

from astra_tui.gpu.messages import DeviceFacts
from astra_tui.gpu.process.main import confine_after_opening
from astra_tui.gpu.process.serving import serve
from tests.gpu.script import facts_here
from tests.gpu.scripted_driver import ScriptedDriver


def main(facts: tuple[DeviceFacts, ...] | None = None) -> int:
    """Serves requests, confined as the real process is."""
    read_fd, write_fd = int(sys.argv[1]), int(sys.argv[2])
    driver = ScriptedDriver(write_fd, (facts_here(),) if facts is None else facts)
    return serve(driver, read_fd, write_fd, confine_after_opening)


if __name__ == "__main__":
    sys.exit(main())
