"""A worker with a scripted GPU; it takes the arguments of the real one."""

from __future__ import annotations

from typing import Any

import pytest

from astra_tui.processes.child import Child
from astra_tui.workers import process, station
from tests.cli.scripted_gpu import plug_in


def scripted_lab(module: str, *arguments: Any, **named: Any) -> Child:
    """The lab process on the worker's GPU in the place of the real one."""
    assert module == "astra_tui.lab.worker"
    return Child("tests.gpu_tools.scripted_worker", *arguments, **named)


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patched:
        plug_in(patched)
        patched.setattr(station, "Child", scripted_lab)
        process.main()
