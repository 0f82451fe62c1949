"""Started by the judge as `python -m astra_tui.lab.cuda.process.main READ_FD WRITE_FD`."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from astra_tui.lab.confine import confine_to_reading


def confine() -> bool:
    """No core dumps, and from now on nothing is written and nothing connects.

    After the context exists: CUDA opens its devices and names its threads while it starts.
    RLIMIT_AS is never set, since CUDA reserves far more address space than it uses.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return confine_to_reading([Path("/")])


def main() -> int:
    """Serves requests with the real driver."""
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    os.environ["CUDA_MODULE_LOADING"] = "EAGER"
    from astra_tui.lab.cuda.process.bindings import CudaDriver
    from astra_tui.lab.cuda.process.serving import serve

    return serve(CudaDriver(), int(sys.argv[1]), int(sys.argv[2]), confine)


if __name__ == "__main__":
    sys.exit(main())
