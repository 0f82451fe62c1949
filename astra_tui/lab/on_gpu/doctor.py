"""Tries the GPU: what it lets us see, how its process is confined, what differences it can tell."""

from __future__ import annotations

from collections.abc import Iterator

from astra_tui.gpu.device import CudaDevice
from astra_tui.gpu.gpu_process import GpuFailure, GpuProcess, find_devices
from astra_tui.gpu.launcher.tools import tool_version
from astra_tui.gpu.messages import DeviceFacts, Escapes, TryEscapes
from astra_tui.gpu.ncu import may_read_counters
from astra_tui.gpu.ncu.permission import REMEDY
from astra_tui.gpu.nvml import GpuReader
from astra_tui.gpu.timing.stopping import minimum_detectable
from astra_tui.lab.compiler import Compiler, CompilerUnavailable
from astra_tui.lab.on_gpu.bench import Bench
from astra_tui.lab.on_gpu.hardware_counters import find_ncu
from astra_tui.lab.on_gpu.measuring import MeasurementFailed, Options
from astra_tui.lab.on_gpu.opening import OLDEST, Gpu, open_gpu, open_oracle
from astra_tui.lab.on_gpu.sanitizing import find_sanitizer
from astra_tui.lab.on_gpu.workload import compile_source
from astra_tui.model.environment import Health, Probe
from astra_tui.model.errors import UserError
from astra_tui.model.task import find_task
from astra_tui.model.timing import Timing, TimingVerdict
from astra_tui.processes.child import ChildDied
from astra_tui.processes.containment import probe_containment
from astra_tui.processes.escapes import Targets

TASK = "silu_and_mul"
_ANSWER_SECONDS = 60.0


def examine_gpu() -> Iterator[Probe]:
    """Probes of the first GPU; without one a single probe that says so. None of them is needed."""
    gives = "timing kernels, and checking them on a real GPU"
    found = find_devices()
    if not found.devices:
        detail = f"{found.problem}; everything but times comes from the emulator"
        health, remedy = Health.MISSING, "a machine with an NVIDIA GPU"
        if found.has_driver:
            health, remedy = Health.BROKEN, "check with: nvidia-smi"
        yield Probe("GPU", health, detail, gives, remedy, needed=False)
        return
    facts = found.devices[0]
    others = f", and {len(found.devices) - 1} more" if len(found.devices) > 1 else ""
    detail = f"{_in_words(facts)}{others}"
    if facts.capability < OLDEST:
        text = f"{detail}: NVRTC 13 compiles for {OLDEST[0]}.{OLDEST[1]} and newer"
        yield Probe("GPU", Health.BROKEN, text, gives, needed=False)
        return
    yield Probe("GPU", Health.OK, detail, gives, needed=False)
    yield _nvml(facts)
    yield from _on_the_gpu(facts)
    yield _sanitizer()
    yield _ncu()


def _in_words(facts: DeviceFacts) -> str:
    major, minor = facts.capability
    cuda = f"{facts.driver // 1000}.{facts.driver % 1000 // 10}"
    return (
        f"cuda:{facts.ordinal}, {facts.name}, compute capability {major}.{minor}, "
        f"{facts.memory / (1 << 30):.0f} GiB, driver for CUDA {cuda}"
    )


def _nvml(facts: DeviceFacts) -> Probe:
    gives = "clocks, power, throttling and other processes with every timing"
    with GpuReader(facts.uuid) as reader:
        identity, sample = reader.identity(), reader.sample()
    if identity.driver is None:
        reason = identity.missing.get("driver", "nothing can be read")
        return Probe("NVML", Health.MISSING, reason, gives, "check with: nvidia-smi", needed=False)
    detail = f"driver {identity.driver}, SM clock {sample.sm_mhz} of {identity.max_sm_mhz} MHz"
    unread = {**identity.missing, **sample.missing}
    if unread:
        named = ", ".join(name.replace("_", " ") for name in unread)
        detail += f"; not readable: {named} ({next(iter(unread.values()))})"
    return Probe("NVML", Health.OK, detail, gives, needed=False)


def _on_the_gpu(facts: DeviceFacts) -> Iterator[Probe]:
    """The probes that run kernels."""
    gives = "speedups that can be trusted"
    try:
        with Compiler() as compiler:
            gpu = open_gpu(facts, compiler)
            yield _gpu_contained(gpu)
            yield _self_comparison(gpu, compiler)
    except (CompilerUnavailable, RuntimeError, UserError) as error:
        yield Probe("GPU timing", Health.BROKEN, str(error), gives, needed=False)


def _gpu_contained(gpu: Gpu) -> Probe:
    def outcomes(targets: Targets) -> dict[str, str]:
        process = GpuProcess(gpu.facts.uuid, gpu.tools)
        try:
            return process.ask(TryEscapes(targets), Escapes, _ANSWER_SECONDS).outcomes
        except GpuFailure as error:
            raise ChildDied(str(error)) from None
        finally:
            process.close()

    gives = "candidates that cannot reach your files while they run on the GPU"
    return probe_containment("GPU process", gives, outcomes)


def _self_comparison(gpu: Gpu, compiler: Compiler) -> Probe:
    """Times a kernel against itself: the A/A test."""
    gives = "speedups that can be trusted"
    try:
        timing = time_against_itself(gpu, compiler)
    except (MeasurementFailed, UserError) as error:
        return Probe("GPU timing", Health.BROKEN, str(error), gives, needed=False)
    workload = timing.workloads[0]
    same = timing.verdict is TimingVerdict.SAME
    detail = (
        f"{TASK} {workload.workload} against itself reads {timing.verdict.value}"
        f"{'' if same else ', and should be the same'}: ratio {timing.speedup.value:.4f} "
        f"({timing.speedup.low:.4f} to {timing.speedup.high:.4f}); differences down to "
        f"{100 * minimum_detectable(timing.control):.2f} % can be told ({timing.seconds:.1f} s)"
    )
    if workload.caveats:
        detail += "; with caveats: " + ", ".join(dict.fromkeys(d.kind for d in workload.caveats))
    health, remedy = Health.OK, ""
    if not same:
        health, remedy = Health.BROKEN, "a GPU that nothing else uses, with steady clocks"
    return Probe("GPU timing", health, detail, gives, remedy, needed=False)


def time_against_itself(gpu: Gpu, compiler: Compiler) -> Timing:
    """The tuned kernel of a task against itself, on the first workload.

    Raises UserError for a task that cannot be used, MeasurementFailed.
    """
    task = find_task(TASK)
    file = task.tuned_file if task.tuned_file.is_file() else task.baseline_file
    with CudaDevice(gpu.facts, gpu.tools) as device, open_oracle(task, gpu) as oracle:
        text = file.read_text(encoding="utf-8")
        version = compile_source(task, compiler, device.attributes, text, str(file))
        with Bench(task, gpu.facts, gpu.tools, oracle, Options(warm=False)) as bench:
            events = list(bench.time(task.workloads[:1], version, [version]))
    timing = events[-1]
    assert isinstance(timing, Timing), "a bench ends with its timings"
    return timing


def _sanitizer() -> Probe:
    gives = "races and accesses out of bounds found on the GPU itself"
    path = find_sanitizer()
    if path is None:
        remedy = "install the CUDA toolkit, or put compute-sanitizer on PATH"
        return Probe("sanitizer", Health.MISSING, "not found", gives, remedy, needed=False)
    detail = f"compute-sanitizer {tool_version(path) or 'of unknown version'}, {path}"
    return Probe("sanitizer", Health.OK, detail, gives, needed=False)


def _ncu() -> Probe:
    gives = "hardware counters of a kernel"
    path = find_ncu()
    if path is None:
        remedy = "install Nsight Compute, or put ncu on PATH"
        return Probe("ncu", Health.MISSING, "not found", gives, remedy, needed=False)
    permission = may_read_counters()
    detail = f"ncu {tool_version(path) or 'of unknown version'}, {path}; {permission.reason}"
    if permission.allowed is False:
        return Probe("ncu", Health.MISSING, detail, gives, REMEDY, needed=False)
    return Probe("ncu", Health.OK, detail, gives, needed=False)
