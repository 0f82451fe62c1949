"""NVRTC's logs for sources, without any wall: the control of the attacks. JSON in and out."""

from __future__ import annotations

import json
import sys

from astra_tui.lab.compiler.toolchain import find_toolchain, load_nvrtc


def main() -> None:
    """Compiles as the worker does, but in a process that may open any file."""
    toolchain = find_toolchain()
    load_nvrtc(toolchain)
    includes = [f"--include-path={folder}" for folder in toolchain.include_dirs]
    from astra_tui.lab.compiler.worker import compile_source

    def log(source: str) -> str:
        request = {
            "source": source,
            "name": "kernel.cu",
            "expressions": [],
            "headers": {},
            "options": ["--gpu-architecture=sm_90", *includes],
            "cubin": False,
        }
        return str(compile_source(request)["log"])

    print(json.dumps([log(source) for source in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
