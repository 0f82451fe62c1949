"""Finds nvdisasm and runs it on a cubin, within limits of time, memory and output."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from astra_tui.lab.cache import ContentCache, content_key
from astra_tui.processes.tool import run_tool

WHEEL = "nvidia-cuda-nvdisasm"
SECONDS = 20.0

_REMEDY = f"pip install {WHEEL}"
_OPTIONS = ("-c", "-gi")
_VERSION = re.compile(r"^.*release .*?\b(V[\d.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Output:
    """What one run printed, or the problem with it and what to do."""

    text: str
    tool: str = ""
    problem: str = ""
    remedy: str = ""


def find_nvdisasm() -> Path | None:
    """The wheel's own, else the one on PATH, else that of an installed toolkit."""
    spec = importlib.util.find_spec("nvidia")
    wheels = [Path(p) / "cu13" for p in (spec.submodule_search_locations if spec else None) or ()]
    on_path = shutil.which("nvdisasm")
    named = [os.environ[v] for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    toolkits = [Path(p) for p in (*named, "/usr/local/cuda", "/opt/cuda")]
    candidates = [root / "bin" / "nvdisasm" for root in wheels]
    candidates += [Path(on_path)] if on_path else []
    candidates += [root / "bin" / "nvdisasm" for root in toolkits]
    return next((c for c in candidates if c.is_file() and os.access(c, os.X_OK)), None)


def run_nvdisasm(cubin: bytes, path: Path | None, seconds: float = SECONDS) -> Output:
    """The listing of a cubin with source lines, from the cache when it was made before.

    `path` is what `find_nvdisasm` gave. What goes wrong is in the answer.
    """
    if path is None:
        return Output("", problem="nvdisasm was not found", remedy=_REMEDY)
    try:
        return _listing(cubin, path, seconds)
    except OSError as error:
        return Output("", problem=f"no temporary file can be written: {error.strerror}")


def _listing(cubin: bytes, path: Path, seconds: float) -> Output:
    version = _version(path, seconds)
    if version.problem:
        return version
    cache = ContentCache("sass")
    key = content_key(str(path), version.tool, *_OPTIONS, cubin)
    stored = cache.get(key)
    if stored is not None:
        return Output(stored.decode(errors="replace"), version.tool)
    with tempfile.TemporaryDirectory(prefix="astra-tui-") as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        listing = _run([str(path), *_OPTIONS, str(file)], folder, seconds)
    if listing.problem:
        return Output("", version.tool, listing.problem.replace(str(file), "the cubin"))
    cache.put(key, listing.text.encode())
    return Output(listing.text, version.tool)


def _version(path: Path, seconds: float) -> Output:
    with tempfile.TemporaryDirectory(prefix="astra-tui-") as folder:
        answer = _run([str(path), "--version"], folder, seconds)
    if answer.problem:
        return Output("", problem=answer.problem, remedy=_REMEDY)
    found = _VERSION.search(answer.text)
    if found is None:
        return Output("", problem=f"{path} is no nvdisasm of NVIDIA's", remedy=_REMEDY)
    return Output("", f"nvdisasm {found[1]}")


def _run(command: list[str], folder: str, seconds: float) -> Output:
    ran = run_tool(command, folder, seconds, "nvdisasm")
    return Output(ran.text, problem=ran.problem)
