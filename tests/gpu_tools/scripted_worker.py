"""The lab process on a scripted GPU; it takes the arguments of the real one."""

import pytest

from astra_tui.lab import worker
from tests.cli.scripted_gpu import ScriptedCompiler, plug_in

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patched:
        plug_in(patched)
        patched.setattr(worker, "Compiler", ScriptedCompiler)
        worker.main()
