"""Finds NVRTC and the CUDA headers: the PyPI wheels first, then an installed toolkit."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

LIBRARY_VARIABLE = "ASTRA_TUI_NVRTC"
"""Environment variable that names the libnvrtc to use in place of the one that is found."""

HEADER_PROBES = ("cuda_fp16.h", "cuda_runtime.h")


@dataclass(frozen=True)
class Toolchain:
    """Where the compiler's parts are; `problem` says what is missing, with the remedy."""

    include_dirs: tuple[Path, ...]
    library: Path | None
    problem: str = ""

    @property
    def readable_roots(self) -> tuple[Path, ...]:
        """The folders that the compiler's process has to read."""
        roots = list(self.include_dirs)
        if self.library is not None:
            roots.append(self.library.parent)
        return tuple(roots)


def find_toolchain() -> Toolchain:
    """Looks without loading anything; the child that compiles proves it by loading."""
    if sys.platform != "linux":
        return Toolchain((), None, _platform_problem())
    if importlib.util.find_spec("cuda") is None:
        return Toolchain((), None, "cuda-bindings is not installed; pip install cuda-bindings")
    includes = _include_dirs()
    if not includes:
        return Toolchain(
            (), None, "no CUDA headers were found; pip install nvidia-cuda-runtime nvidia-cuda-crt"
        )
    library = _library()
    chosen = os.environ.get(LIBRARY_VARIABLE)
    if chosen and not Path(chosen).is_file():
        return Toolchain(includes, None, f"{LIBRARY_VARIABLE} names {chosen}, which is no file")
    if library is None:
        return Toolchain(includes, None, "NVRTC was not found; pip install nvidia-cuda-nvrtc")
    return Toolchain(includes, library)


def load_nvrtc(toolchain: Toolchain) -> None:
    """Loads NVRTC and its builtins by full path, before cuda-bindings looks for them itself.

    The 13.0 wheel's builtins are not found by the loader otherwise. Raises OSError.
    """
    assert toolchain.library is not None
    for builtins in sorted(toolchain.library.parent.glob("libnvrtc-builtins.so.*")):
        if ".alt." not in builtins.name:
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(toolchain.library), mode=ctypes.RTLD_GLOBAL)


@functools.cache
def wheel_version(name: str) -> str:
    """The version of an installed NVIDIA wheel, or ""."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _wheel_roots() -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    locations = spec.submodule_search_locations if spec else None
    found = [Path(place) / "cu13" for place in locations or ()]
    return [root for root in found if root.is_dir()]


def _toolkit_roots() -> list[Path]:
    named = [os.environ[v] for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    return [Path(p) for p in (*named, "/usr/local/cuda", "/opt/cuda") if Path(p).is_dir()]


def _include_dirs() -> tuple[Path, ...]:
    """CUDA's headers; CCCL's and the compiler's, which pip may have put into other places."""
    folders = [root / "include" for root in (*_wheel_roots(), *_toolkit_roots())]
    whole = (f for f in folders if all((f / probe).is_file() for probe in HEADER_PROBES))
    include = next(whole, None)
    if include is None:
        return ()
    cccl = (f / "cccl" for f in (include, *folders))
    crt = (f for f in (include, *folders) if (f / "crt" / "host_defines.h").is_file())
    more = (next((f for f in one if f.is_dir()), include) for one in (cccl, crt))
    return tuple(dict.fromkeys((include, *more)))


def _library() -> Path | None:
    chosen = os.environ.get(LIBRARY_VARIABLE)
    if chosen:
        return Path(chosen)
    for root in (*_wheel_roots(), *_toolkit_roots()):
        for folder in (root / "lib", root / "lib64"):
            for library in sorted(folder.glob("libnvrtc.so.13*")):
                return library
    return None


def _platform_problem() -> str:
    if sys.platform == "win32":
        return "native Windows is not supported; run astra-tui in WSL 2 (https://aka.ms/wsl)"
    return (
        f"NVIDIA publishes no NVRTC for {sys.platform}, so kernels cannot be compiled here; "
        "replay of sessions works, and everything works on Linux"
    )
