"""The lab process on a scripted GPU; it takes the arguments of the real one."""

import pytest

from tests.cli.scripted_gpu import plug_in

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patched:
        plug_in(patched)
        # Not before: it takes the compiler by its name.
        from astra_tui.lab.worker import main

        main()
