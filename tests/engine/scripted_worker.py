"""The lab process on a scripted GPU: `python -m tests.engine.scripted_worker` as the real one."""

from __future__ import annotations

import pytest

from tests.cli.scripted_gpu import plug_in

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patched:
        plug_in(patched)
        from astra_tui.lab import worker  # It takes its compiler by name, from what is plugged in.

        worker.main()
