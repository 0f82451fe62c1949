"""Stand-ins for the headers that NVRTC does not have, by the names under which they are included.

Kernels include them for a handful of names, and files that hold kernels with their launchers for
the names of the host side; with these they compile unchanged. The texts lie in `headers/`. What is
written out there is everyday and quick to read. Where CUDA's own C++ library (libcu++) has a header
that few kernels need, its stand-in takes that one over, which costs a second of compile time. What
only hosts use is declared and has no body: a kernel that calls it does not link. All of it can be
included together with libcu++ itself.
"""

from __future__ import annotations

from pathlib import Path

PRELUDE_NAME = "astra_tui_prelude.h"
"""What nvcc includes in every file by itself (through cuda_runtime.h), and NVRTC does not."""

EXTRA_NAME = "astra_tui_extra.h"
"""A header that one compilation may have of its own."""

HEADERS = Path(__file__).with_name("headers")
"""The folder of the stand-ins, laid out as a folder of headers is."""


def _texts() -> dict[str, str]:
    files = sorted(file for file in HEADERS.rglob("*") if file.is_file())
    return {file.relative_to(HEADERS).as_posix(): file.read_text() for file in files}


STAND_INS: dict[str, str] = _texts()
"""Header name to text. NVRTC refuses cub/cub.cuh itself for the sake of its host code."""
