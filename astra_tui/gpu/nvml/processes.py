"""Whose processes NVML lists: it names those of the host, which a container cannot match."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from astra_tui.gpu.nvml.refusal import NvmlRefusal
from astra_tui.model.gpu import GpuProcess

_HOST_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the Linux kernel: the inode of the first PID namespace."""


def sees_host_processes(link: Path = Path("/proc/self/ns/pid")) -> bool:
    """Whether process ids here are those of the host."""
    try:
        return str(link.readlink()) == _HOST_NAMESPACE
    except OSError:
        return False


def named_processes(listed: tuple[GpuProcess, ...], on_host: bool) -> tuple[GpuProcess, ...]:
    """The processes on the GPU, by ids that mean something here. Raises NvmlRefusal."""
    if on_host:
        return listed
    count = "no process" if not listed else f"{len(listed)} process ids of the host"
    raise NvmlRefusal(f"not visible from this container: NVML lists {count}")


def other_processes(
    listed: tuple[GpuProcess, ...], own: Collection[int], on_host: bool
) -> tuple[GpuProcess, ...]:
    """The processes that are not the session's own. Raises NvmlRefusal where that is hidden.

    `own` are processes that hold a context on this GPU now. A list without them shows that NVML
    does not list everybody. With none of our own, whoever is listed is somebody else.
    """
    if not own and listed:
        return listed
    found = named_processes(listed, on_host)
    if not set(own) <= {process.pid for process in found}:
        raise NvmlRefusal("not visible here: NVML does not list the session's own process")
    return tuple(process for process in found if process.pid not in own)


def strangers(
    listed: tuple[GpuProcess, ...], own: Collection[int], on_host: bool
) -> tuple[GpuProcess, ...]:
    """The processes on the GPU that are not among `own`, of which any may be there or not.

    Raises NvmlRefusal where ids cannot be matched.
    """
    return tuple(p for p in named_processes(listed, on_host) if p.pid not in own)
