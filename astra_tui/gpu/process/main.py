"""Started by the judge as `python -m astra_tui.gpu.process.main READ_FD WRITE_FD`."""

from __future__ import annotations

import os
import resource
import sys

from astra_tui.processes.confine import confine, driver_roots, unlimit_memory


def confine_after_opening() -> bool:
    """No core dumps, and from now on nothing is written, connected or started.

    After the context exists: CUDA opens its devices and names its threads while it starts.
    Memory is not limited, since CUDA reserves far more address space than it uses. The driver's
    own threads, which run no code of candidates, keep their files; the rest holds for them too.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return bool(confine(driver_roots()))


def main() -> int:
    """Serves requests with the real driver."""
    unlimit_memory()
    os.environ["CUDA_CACHE_DISABLE"] = "1"
    os.environ["CUDA_MODULE_LOADING"] = "EAGER"
    from astra_tui.gpu.process.bindings import CudaDriver
    from astra_tui.gpu.process.serving import serve

    return serve(CudaDriver(), int(sys.argv[1]), int(sys.argv[2]), confine_after_opening)


if __name__ == "__main__":
    sys.exit(main())
