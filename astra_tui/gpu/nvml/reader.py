"""One GPU through NVML. Where something is broken, readings come back with the reasons in them.

NVML names the processes of the host, which a container cannot match.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Self, TypeVar

from astra_tui.gpu.nvml.library import (
    CallTimeout,
    CallWithTimeout,
    NvmlDevice,
    NvmlLibrary,
    NvmlRefusal,
)
from astra_tui.model.gpu import GpuCounters, GpuIdentity, GpuOccupants, GpuProcess, GpuSample

_HOST_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the Linux kernel: the inode of the first PID namespace."""

DEADLINE = 2.0
"""Seconds for one reading. NVML answers in milliseconds, or, with a stuck driver, not at all."""


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
    does not list everyone. With none of our own, any that is listed is another's.
    """
    if not own and listed:
        return listed
    found = named_processes(listed, on_host)
    if not set(own) <= {process.pid for process in found}:
        raise NvmlRefusal("not visible here: NVML does not list the session's own process")
    return tuple(process for process in found if process.pid not in own)


def unexpected_processes(
    listed: tuple[GpuProcess, ...], own: Collection[int], on_host: bool
) -> tuple[GpuProcess, ...]:
    """The processes on the GPU that are not among `own`, of which any may be there or not.

    Raises NvmlRefusal where ids cannot be matched.
    """
    return tuple(p for p in named_processes(listed, on_host) if p.pid not in own)


def gpu_uuids(deadline: float = DEADLINE) -> tuple[str, ...]:
    """UUIDs of all GPUs, whether CUDA_VISIBLE_DEVICES shows them or not. Raises NvmlRefusal."""
    patience = CallWithTimeout(deadline, "nvml listing")
    try:
        return patience.call(_list)
    except CallTimeout as error:
        raise NvmlRefusal(f"NVML hangs: {error}") from None
    finally:
        patience.close()


def _list() -> tuple[str, ...]:
    library = NvmlLibrary()
    try:
        return library.uuids()
    finally:
        library.close()


_ADDRESS = re.compile(
    r"(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|([0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(\.[0-7])?"
)

T = TypeVar("T")
R = TypeVar("R", GpuIdentity, GpuSample, GpuCounters, GpuOccupants)


def uuid_of(raw: bytes) -> str:
    """The UUID that NVML knows a GPU by, from the 16 bytes that cuDeviceGetUuid gives."""
    digits = raw.hex()
    if len(digits) != 32:
        raise ValueError(f"a UUID has 16 bytes, not {len(raw)}")
    return "GPU-" + "-".join(re.findall(r"(.{8})(.{4})(.{4})(.{4})(.{12})", digits)[0])


class GpuReader:
    """Reads the GPU with a given UUID or PCI bus id.

    An index is refused with a ValueError: CUDA_VISIBLE_DEVICES renumbers CUDA's devices, and not
    those of NVML. Nothing else raises: without a driver, or with a GPU that was lost, every field
    is None, and `missing` says why. A call that hangs is given up after `deadline` seconds.
    """

    def __init__(
        self,
        address: str,
        *,
        own_processes: Callable[[], Collection[int]] = tuple,
        own_are_holders: bool = True,
        resting: Callable[[], Collection[int]] = tuple,
        deadline: float = DEADLINE,
        clock: Callable[[], float] = time.monotonic,
        on_host: bool | None = None,
    ) -> None:
        """`own_processes` gives those of the session that hold a context on this GPU now.

        With `own_are_holders` false it gives all of the session's, of which any may hold one: then
        NVML is not held to list them. `resting` gives those of others that do nothing while
        readings are taken.
        `on_host` says whether process ids here are the host's; None looks.
        """
        if not _ADDRESS.fullmatch(address):
            raise ValueError(f"a GPU is named by UUID or PCI bus id, not by {address!r}")
        self.address = address
        self.problem = ""
        """Why nothing can be read at all, or ""."""
        self._own = own_processes
        self._resting = resting
        self._told_apart = other_processes if own_are_holders else unexpected_processes
        self._clock = clock
        self._on_host = sees_host_processes() if on_host is None else on_host
        self._patience = CallWithTimeout(deadline, "nvml")
        self._library: NvmlLibrary | None = None
        self._device: NvmlDevice | None = None
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases NVML; leaves a hung call behind rather than wait for it."""
        if self._library is not None:
            library, self._library, self._device = self._library, None, None
            self.problem = "NVML is closed"
            with contextlib.suppress(NvmlRefusal):
                self._with_timeout(library.close)
        self._patience.close()

    def identity(self) -> GpuIdentity:
        """What does not change while a session runs."""
        return self._reading(GpuIdentity, _read_identity)

    def sample(self) -> GpuSample:
        """Clocks, power, heat, memory, and who else is there."""
        own = self._own()

        def read(fields: _Fields, device: NvmlDevice) -> None:
            fields.values["seconds"] = self._clock()
            _read_sample(fields, device)
            fields.read("other_processes", lambda: self._strangers(device, own))

        return self._reading(GpuSample, read, seconds=self._clock())

    def _strangers(self, device: NvmlDevice, own: Collection[int]) -> tuple[GpuProcess, ...]:
        found = self._told_apart(device.processes(), own, self._on_host)
        resting = self._resting() if found else ()
        return tuple(process for process in found if process.pid not in resting)

    def counters(self) -> GpuCounters:
        """Counters that only grow: read them before and after a block."""

        def read(fields: _Fields, device: NvmlDevice) -> None:
            fields.values["seconds"] = self._clock()
            _read_counters(fields, device)

        return self._reading(GpuCounters, read, seconds=self._clock())

    def occupants(self) -> GpuOccupants:
        """All processes on the GPU, and the memory in use."""

        def read(fields: _Fields, device: NvmlDevice) -> None:
            fields.read("processes", lambda: named_processes(device.processes(), self._on_host))
            fields.read_memory(device, used="memory_used_bytes")

        return self._reading(GpuOccupants, read)

    def _open(self) -> None:
        def find() -> tuple[NvmlLibrary, NvmlDevice]:
            library = NvmlLibrary()
            try:
                return library, library.find(self.address)
            except NvmlRefusal:
                library.close()
                raise

        try:
            self._library, self._device = self._with_timeout(find)
        except NvmlRefusal as error:
            self.problem = str(error)

    def _with_timeout(self, work: Callable[[], T]) -> T:
        """What `work` returns. A hang is a refusal."""
        try:
            return self._patience.call(work)
        except CallTimeout as error:
            raise NvmlRefusal(f"NVML hangs: {error}") from None

    def _reading(
        self,
        kind: type[R],
        read: Callable[[_Fields, NvmlDevice], None],
        **known: Any,
    ) -> R:
        """A reading of a kind from what `read` finds, or from `known` alone if that fails."""
        fields, problem = _Fields(), self.problem
        device = self._device
        if device is not None:
            try:
                self._with_timeout(lambda: read(fields, device))
            except NvmlRefusal as error:
                problem = str(error)
        if problem:
            names = set(kind.__struct_fields__) - {"missing", *known}
            return kind(**known, missing=dict.fromkeys(sorted(names), problem))
        return kind(**(known | fields.values), missing=fields.missing)


class _Fields:
    """The fields of a reading: values, or reasons why there are none."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.missing: dict[str, str] = {}

    def read(self, name: str, question: Callable[[], Any]) -> None:
        """Asks one question; its refusal is the reason."""
        try:
            self.values[name] = question()
        except NvmlRefusal as error:
            self.missing[name] = str(error)

    def read_memory(self, device: NvmlDevice, used: str = "", total: str = "") -> None:
        """Asks for memory in use and in all, which NVML tells in one answer."""
        names = [name for name in (used, total) if name]
        try:
            answer = device.memory_bytes()
        except NvmlRefusal as error:
            self.missing.update(dict.fromkeys(names, str(error)))
        else:
            self.values.update((n, v) for n, v in zip((used, total), answer, strict=True) if n)


def _read_identity(fields: _Fields, device: NvmlDevice) -> None:
    fields.read("driver", device.driver)
    fields.read("cuda_driver", device.cuda_driver)
    fields.read("name", device.name)
    fields.read("uuid", device.uuid)
    fields.read("pci", device.pci)
    fields.read("vbios", device.vbios)
    fields.read("compute_capability", device.compute_capability)
    fields.read("sm_count", device.sm_count)
    fields.read_memory(device, total="memory_bytes")
    fields.read("max_sm_mhz", device.max_sm_mhz)
    fields.read("max_mem_mhz", device.max_mem_mhz)
    fields.read("power_limit_w", device.power_limit_w)
    fields.read("ecc_enabled", device.ecc_enabled)
    fields.read("mig_enabled", device.mig_enabled)
    fields.read("persistence", device.persistence)


def _read_sample(fields: _Fields, device: NvmlDevice) -> None:
    fields.read("sm_mhz", device.sm_mhz)
    fields.read("mem_mhz", device.mem_mhz)
    fields.read("power_w", device.power_w)
    fields.read("average_power_w", device.average_power_w)
    fields.read("temperature_c", device.temperature_c)
    fields.read("utilisation_percent", device.utilisation_percent)
    fields.read_memory(device, used="memory_used_bytes", total="memory_total_bytes")
    fields.read("throttle_reasons", device.throttle_reasons)
    fields.read("uncorrected_ecc", device.uncorrected_ecc)


def _read_counters(fields: _Fields, device: NvmlDevice) -> None:
    fields.read("energy_mj", device.energy_mj)
    fields.read("power_violation_ns", device.power_violation_ns)
    fields.read("thermal_violation_ns", device.thermal_violation_ns)
