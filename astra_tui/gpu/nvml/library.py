"""The one place that calls pynvml: opens the library, finds a GPU, and asks one question a method.

Every method raises NvmlRefusal and nothing else. pynvml is imported when the library is opened.
Drivers that can run CUDA 13 (580 and later) have all functions named here. A call may never return:
it is made on a thread that can be left behind.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from types import ModuleType
from typing import Any, TypeVar

from astra_tui.model.gpu import GpuProcess, ThrottleReason

_REASONS = {
    1: "NVML is closed",
    3: "not supported by this GPU",
    4: "not permitted to this user",
    6: "no GPU with this UUID or PCI bus id",
    8: "the GPU's power cables are not connected",
    9: "the NVIDIA driver is not loaded",
    10: "the driver did not answer in time",
    12: "no NVIDIA driver here: libnvidia-ml.so.1 was not found",
    13: "not known to this driver's NVML",
    15: "the GPU is lost: it no longer answers on the bus",
    16: "the GPU needs a reset",
    18: "driver and NVML library differ in version: load the updated driver, or restart",
    21: "no data yet",
}
"""By code of nvmlReturn_t in nvml.h."""

NOT_SUPPORTED = 3
FUNCTION_NOT_FOUND = 13


class NvmlRefusal(Exception):
    """NVML gave no answer. The text says why; `code` is its nvmlReturn_t, 0 if it has none."""

    def __init__(self, reason: str, code: int = 0) -> None:
        super().__init__(reason)
        self.code = code

    @property
    def unsupported(self) -> bool:
        """Whether the GPU or its driver does not know the question."""
        return self.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND)


def refusal(code: int, text: str = "") -> NvmlRefusal:
    """The refusal of an error code; `text` is NVML's own name for it."""
    named = f"NVML error {code}: {text}" if text else f"NVML error {code}"
    return NvmlRefusal(_REASONS.get(code, named), code)


T = TypeVar("T")


class CallTimeout(Exception):
    """A call did not return in time, and may still be running."""


class CallWithTimeout:
    """Makes calls one after another on a daemon thread, and waits so long for each.

    While a call hangs (a driver can hold one in the kernel, where no signal reaches it), every
    further call fails at once; when it returns after all, calls work again.
    """

    def __init__(self, seconds: float, name: str) -> None:
        self.seconds = seconds
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]
        self._work = queue.SimpleQueue()
        self._hung: Future[Any] | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises. Raises CallTimeout."""
        if self._hung is not None and not self._hung.done():
            raise CallTimeout("an earlier call has not returned")
        future: Future[T] = Future()
        self._work.put((work, future))
        try:
            return future.result(self.seconds)
        except NotInTime:
            if future.done():  # `work` itself raised a TimeoutError
                raise
            self._hung = future
            raise CallTimeout(f"no answer within {self.seconds:g} s") from None

    def close(self) -> bool:
        """Ends the thread; False if it hangs in a call and was left behind."""
        self._work.put(None)
        self._thread.join(0 if self._hung and not self._hung.done() else self.seconds)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            work, future = item
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)


_FIRST_AVERAGED = (8, 6)
"""From this compute capability on, nvmlDeviceGetPowerUsage is an average over a second (nvml.h)."""

_CORES_PER_SM = {(7, 0): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128}
_CORES_PER_SM |= {(9, 0): 128, (10, 0): 128, (10, 3): 128, (12, 0): 128}
"""FP32 lanes of an SM (CUDA C++ Programming Guide, arithmetic instructions)."""

_REASON_BITS = (
    ThrottleReason.GPU_IDLE,
    ThrottleReason.APPLICATION_CLOCKS,
    ThrottleReason.SW_POWER_CAP,
    ThrottleReason.HW_SLOWDOWN,
    ThrottleReason.SYNC_BOOST,
    ThrottleReason.SW_THERMAL,
    ThrottleReason.HW_THERMAL,
    ThrottleReason.HW_POWER_BRAKE,
    ThrottleReason.DISPLAY_CLOCKS,
    ThrottleReason.BOARD_LIMIT,
    ThrottleReason.RELIABILITY,
)
"""From bit 0 upwards (nvmlClocksEventReason* in nvml.h)."""


def throttle_reasons(bits: int) -> tuple[ThrottleReason, ...]:
    """The reasons that are set in a mask of nvmlDeviceGetCurrentClocksEventReasons."""
    named = [reason for place, reason in enumerate(_REASON_BITS) if bits >> place & 1]
    if bits >> len(_REASON_BITS):
        named.append(ThrottleReason.OTHER)
    return tuple(named)


class NvmlLibrary:
    """NVML, initialised. Raises NvmlRefusal where it is absent or has no driver."""

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError:
            raise NvmlRefusal("nvidia-ml-py is not installed") from None
        self._pynvml: ModuleType = pynvml
        self.ask("nvmlInit")

    def ask(self, function: str, *arguments: Any) -> Any:
        """The answer of one NVML function, by the name that pynvml gives it."""
        try:
            return getattr(self._pynvml, function)(*arguments)
        except self._pynvml.NVMLError as error:
            raise refusal(error.value, str(error)) from None
        except AttributeError:
            raise NvmlRefusal(f"this nvidia-ml-py has no {function}") from None
        except UnicodeDecodeError:
            raise NvmlRefusal("the driver's answer is not text") from None

    def constant(self, name: str) -> int:
        """A number that pynvml names."""
        return int(getattr(self._pynvml, name))

    def close(self) -> None:
        """Releases NVML."""
        self.ask("nvmlShutdown")

    def uuids(self) -> tuple[str, ...]:
        """The GPUs that NVML lists, whether CUDA may use them or not."""
        handles = [
            self.ask("nvmlDeviceGetHandleByIndex", index)
            for index in range(self.ask("nvmlDeviceGetCount"))
        ]
        return tuple(_text(self.ask("nvmlDeviceGetUUID", handle)) for handle in handles)

    def find(self, address: str) -> NvmlDevice:
        """The GPU with this UUID or PCI bus id."""
        by_uuid = address.startswith(("GPU-", "MIG-"))
        function = "nvmlDeviceGetHandleByUUID" if by_uuid else "nvmlDeviceGetHandleByPciBusId"
        return NvmlDevice(self, self.ask(function, address.encode()))


class NvmlDevice:
    """One GPU: a question a method, the answer in the units of model/gpu.py."""

    def __init__(self, library: NvmlLibrary, handle: Any) -> None:
        self._library = library
        self._handle = handle

    def _ask(self, function: str, *arguments: Any) -> Any:
        return self._library.ask(function, self._handle, *arguments)

    def _ask_about(self, function: str, *constants: str) -> Any:
        return self._ask(function, *(self._library.constant(name) for name in constants))

    def driver(self) -> str:
        """Version of the driver."""
        return _text(self._library.ask("nvmlSystemGetDriverVersion"))

    def cuda_driver(self) -> str:
        """The newest CUDA version that the driver supports."""
        version = int(self._library.ask("nvmlSystemGetCudaDriverVersion_v2"))
        return f"{version // 1000}.{version % 1000 // 10}"

    def name(self) -> str:
        """Product name."""
        return _text(self._ask("nvmlDeviceGetName"))

    def uuid(self) -> str:
        """UUID, beginning with GPU-."""
        return _text(self._ask("nvmlDeviceGetUUID"))

    def pci(self) -> str:
        """PCI bus id."""
        return _text(self._ask("nvmlDeviceGetPciInfo").busId)

    def vbios(self) -> str:
        """Version of the video BIOS."""
        return _text(self._ask("nvmlDeviceGetVbiosVersion"))

    def compute_capability(self) -> tuple[int, int]:
        """Major and minor compute capability."""
        major, minor = self._ask("nvmlDeviceGetCudaComputeCapability")
        return int(major), int(minor)

    def sm_count(self) -> int:
        """Multiprocessors, from the number of cores, which is what NVML tells."""
        capability = self.compute_capability()
        if capability not in _CORES_PER_SM:
            raise NvmlRefusal("NVML tells cores only, and cores an SM are not known here")
        return int(self._ask("nvmlDeviceGetNumGpuCores")) // _CORES_PER_SM[capability]

    def max_sm_mhz(self) -> int:
        """Highest SM clock, boost included."""
        return int(self._ask_about("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"))

    def max_mem_mhz(self) -> int:
        """Highest memory clock."""
        return int(self._ask_about("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_MEM"))

    def power_limit_w(self) -> float:
        """The power limit in force."""
        return int(self._ask("nvmlDeviceGetEnforcedPowerLimit")) / 1e3

    def ecc_enabled(self) -> bool:
        """Whether ECC is on; a GPU without ECC has it off."""
        return self._mode("nvmlDeviceGetEccMode")

    def mig_enabled(self) -> bool:
        """Whether the GPU is cut into MIG slices; one that cannot be is not."""
        return self._mode("nvmlDeviceGetMigMode")

    def _mode(self, function: str) -> bool:
        try:
            current, _ = self._ask(function)
        except NvmlRefusal as error:
            if error.unsupported:
                return False
            raise
        return bool(current)

    def persistence(self) -> bool:
        """Whether the driver stays loaded with no one using the GPU."""
        return bool(self._ask("nvmlDeviceGetPersistenceMode"))

    def sm_mhz(self) -> int:
        """SM clock of this instant."""
        return int(self._ask_about("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"))

    def mem_mhz(self) -> int:
        """Memory clock of this instant."""
        return int(self._ask_about("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"))

    def power_w(self) -> float:
        """Power of this instant."""
        return self._power("NVML_FI_DEV_POWER_INSTANT", averaged=False)

    def average_power_w(self) -> float:
        """Power over the last second."""
        return self._power("NVML_FI_DEV_POWER_AVERAGE", averaged=True)

    def _power(self, field: str, *, averaged: bool) -> float:
        """A field in milliwatts, else the one reading of older GPUs where it means the same."""
        try:
            return self._field(field) / 1e3
        except NvmlRefusal as error:
            if not error.unsupported or averaged != (self.compute_capability() >= _FIRST_AVERAGED):
                raise
        return int(self._ask("nvmlDeviceGetPowerUsage")) / 1e3

    def _field(self, name: str) -> int:
        (value,) = self._ask("nvmlDeviceGetFieldValues", [self._library.constant(name)])
        if value.nvmlReturn:
            raise refusal(value.nvmlReturn)
        return int(value.value.uiVal)

    def temperature_c(self) -> int:
        """Temperature of the GPU's die."""
        return int(self._ask_about("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"))

    def utilisation_percent(self) -> int:
        """Share of the last sampling period in which a kernel ran."""
        return int(self._ask("nvmlDeviceGetUtilizationRates").gpu)

    def memory_bytes(self) -> tuple[int, int]:
        """Memory that processes use, without the driver's own reserve, and all there is."""
        memory = self._ask_about("nvmlDeviceGetMemoryInfo", "nvmlMemory_v2")
        return int(memory.used), int(memory.total)

    def throttle_reasons(self) -> tuple[ThrottleReason, ...]:
        """Why the clocks are not the highest now."""
        return throttle_reasons(int(self._ask("nvmlDeviceGetCurrentClocksEventReasons")))

    def uncorrected_ecc(self) -> int:
        """Uncorrected memory errors since the driver was loaded."""
        constants = ("NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_VOLATILE_ECC")
        return int(self._ask_about("nvmlDeviceGetTotalEccErrors", *constants))

    def energy_mj(self) -> int:
        """Energy of the board since the driver was loaded."""
        return int(self._ask("nvmlDeviceGetTotalEnergyConsumption"))

    def power_violation_ns(self) -> int:
        """Time below the wanted clocks because of the power limit."""
        return self._violation("NVML_PERF_POLICY_POWER")

    def thermal_violation_ns(self) -> int:
        """Time below the wanted clocks because of heat."""
        return self._violation("NVML_PERF_POLICY_THERMAL")

    def _violation(self, policy: str) -> int:
        return int(self._ask_about("nvmlDeviceGetViolationStatus", policy).violationTime)

    def processes(self) -> tuple[GpuProcess, ...]:
        """Processes with a context: compute, graphics, MPS clients. Ids are those of the host."""
        found = {p.pid: p.usedGpuMemory for p in self._ask("nvmlDeviceGetComputeRunningProcesses")}
        for kind in ("Graphics", "MPSCompute"):
            try:
                listed = self._ask(f"nvmlDeviceGet{kind}RunningProcesses")
            except NvmlRefusal as error:
                if not error.unsupported:
                    raise
                continue
            for process in listed:
                found.setdefault(process.pid, process.usedGpuMemory)
        return tuple(GpuProcess(pid, memory) for pid, memory in sorted(found.items()))


def _text(answer: str | bytes) -> str:
    """The answer, which pynvml gives in bytes or in text, depending on its version."""
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer
