"""Takes a kernel's cubin out of a library that a package ships, by NVIDIA's cuobjdump.

cuobjdump itself comes from the package index, by a pin. It runs in a process of its own with a
deadline, on a copy of the library in a temporary folder.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from astra_tui.gpu.elf import ElfError, launch_facts
from astra_tui.lab.cache import ContentCache, content_key
from astra_tui.model.errors import OutOfResources, UserError, nearest
from astra_tui.model.pin import Pin
from astra_tui.packages import Archive, Packages
from astra_tui.packages.pip import Progress
from astra_tui.processes.tool import run_tool

SECONDS = 300.0
MAX_LIBRARY_BYTES = 1 << 31
_CACHE_VERSION = "1"
_MEMBER = "nvidia/cu13/bin/cuobjdump"
_LICENCE = "LicenseRef-NVIDIA-Proprietary"
_TOOLS = {
    machine: Pin(
        "nvidia-cuda-cuobjdump",
        "13.5.37",
        f"nvidia_cuda_cuobjdump-13.5.37-py3-none-manylinux2014_{machine}.manylinux_2_17_{machine}"
        ".whl",
        sha256,
        _LICENCE,
        date(2026, 11, 4),
    )
    for machine, sha256 in {
        "x86_64": "38780fee50863252a0b8926357faa91615ca1c8346490563f33a06100cd73f58",
        "aarch64": "f48e3148535365161a268547b285fd01d92c80e4b457275375933825b5fc26b2",
    }.items()
}


def tool_pin() -> Pin:
    """The cuobjdump for this machine. Raises UserError where NVIDIA has none."""
    found = _TOOLS.get(platform.machine()) if sys.platform == "linux" else None
    if found is None:
        raise UserError(
            f"machine code cannot be taken out of a library on {sys.platform} "
            f"{platform.machine()}: the pinned cuobjdump runs on Linux"
        )
    return found


def cubin_of(
    packages: Packages,
    package: Pin,
    file: str,
    symbols: tuple[str, ...],
    arch: str,
    progress: Progress | None = None,
) -> bytes:
    """The cubin for `arch` that holds kernels of these mangled names.

    Once it is in the cache the package is not needed. One for exactly `arch` (sm_90a) is preferred
    to one for its base (sm_90), as the driver does. Raises UserError: no such file or kernel, a
    library that cuobjdump cannot read.
    """
    cache = ContentCache("yardsticks")
    key = content_key(_CACHE_VERSION, package.sha256, file, arch, *symbols)
    stored = cache.get(key)
    if stored is not None:
        return stored
    tool = packages.fetch(tool_pin(), progress)
    wheel = packages.fetch(package, progress)
    try:
        with tempfile.TemporaryDirectory(prefix="astra-tui-") as folder:
            extracted = _extract(tool, wheel, file, arch, Path(folder))
            cubin = _holding(extracted, symbols, f"{package}: {file}")
    except OSError as error:
        what = f"{package}: the machine code cannot be taken out"
        raise OutOfResources.or_bad_input(error, what, Path(file)) from None
    cache.put(key, cubin)
    return cubin


def _extract(tool: Archive, wheel: Archive, file: str, arch: str, folder: Path) -> list[Path]:
    """The cubins of a library for an architecture, as files in `folder`, the best fit first."""
    program, library, out = folder / "cuobjdump", folder / "library.so", folder / "cubins"
    tool.copy(_MEMBER, program)
    program.chmod(0o700)
    wheel.copy(file, library, MAX_LIBRARY_BYTES)
    out.mkdir()
    base = arch.rstrip("af")
    ran = run_tool([str(program), "-xelf", base, str(library)], out, SECONDS, "cuobjdump")
    if ran.problem:
        raise UserError(f"{wheel.pin}: {file}: {ran.problem.replace(str(library), file)}")
    exact = sorted(out.glob(f"*.{arch}.cubin"))
    return [*exact, *sorted(set(out.glob(f"*.{base}.cubin")) - set(exact))]


def _holding(cubins: list[Path], symbols: tuple[str, ...], where: str) -> bytes:
    """The first cubin that has all kernels. Raises UserError that names the nearest."""
    known: set[str] = set()
    for cubin, kernels in _kernels(cubins):
        known |= kernels
        if kernels.issuperset(symbols):
            return cubin
    missing = [symbol for symbol in symbols if symbol not in known]
    if missing:
        hint = nearest(missing[0], known)
        shown = hint if len(hint) < 400 else f"it has {len(known)} kernels for this architecture"
        raise UserError(f"{where} has no kernel {missing[0]}", hint=shown)
    raise UserError(f"{where}: the kernels lie in several cubins; declare a yardstick for each")


def _kernels(cubins: list[Path]) -> Iterator[tuple[bytes, set[str]]]:
    for path in cubins:
        cubin = path.read_bytes()
        try:
            yield cubin, set(launch_facts(cubin))
        except ElfError:
            continue
