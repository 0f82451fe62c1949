"""What the gate and the timing do on a GPU, in one run of a few minutes.

    python benchmarks/gpu_gate.py [--out FOLDER] [--part NAME ...] [--seconds S]

tests      pytest -m gpu: the twins of the generator, faults, one real check
size       all rows at a workload's own size: wall and CPU time in started processes
control    A/A trials and planted differences (gpu_control, gpu_planted)
cheats     kernels that lean on what a benchmark does: each has to be wrong or void
honest     tuned against baseline on all workloads, and honest kernels that must pass

A file a part goes to the folder (default: $OUT, else the current one), with the environment.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent))


from astra_tui.gpu.device import CudaDevice
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.on_gpu.measuring import MeasurementFailed, Options
from astra_tui.lab.on_gpu.own_size import OwnSize
from astra_tui.lab.on_gpu.workload import Compiled
from astra_tui.model.check import CaseResult, CheckReport
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, Workload
from astra_tui.model.timing import Timing, TimingVerdict, WorkloadTiming
from benchmarks import gpu, gpu_control, gpu_planted

ROOT = Path(__file__).resolve().parents[1]
SILU = "silu_and_mul"
CHEATS_ON = ("64x8192", "4096x14336")

_HEAD = """
/* @launch
   when d % 8 == 0 and aligned(out, 16) and aligned(input, 16):
       ROWS<T> grid=tokens block=256 args=(out, input, d)
   otherwise:
       plain<T> grid=tokens block=256 args=(out, input, d)
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

template <typename T> struct alignas(16) Pack { T value[8]; };

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

template <typename T>
__global__ void plain(T* __restrict__ out, const T* __restrict__ input, int64_t d) {
    for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
        const float gate = (float)input[blockIdx.x * 2 * d + i];
        out[blockIdx.x * d + i] = (T)(silu(gate) * (float)input[blockIdx.x * 2 * d + d + i]);
    }
}

template <typename T>
__device__ Pack<T> vector(const T* input, int64_t d, int64_t i) {
    const T* row = input + blockIdx.x * 2 * d;
    const Pack<T> g = reinterpret_cast<const Pack<T>*>(row)[i];
    const Pack<T> u = reinterpret_cast<const Pack<T>*>(row + d)[i];
    Pack<T> r;
    for (int k = 0; k < 8; ++k) r.value[k] = (T)(silu((float)g.value[k]) * (float)u.value[k]);
    return r;
}
"""

_ROWS = """
template <typename T>
__global__ void ROWS(T* out, const T* input, int64_t d) {
    Pack<T>* row = reinterpret_cast<Pack<T>*>(out + blockIdx.x * d);
    BEFORE
    for (int64_t i = threadIdx.x; i < d / 8; i += blockDim.x) row[i] = vector(input, d, i);
}
"""

# Each skips a row whose first 16 bytes are what they are to become; only how it looks differs.
_SAME = """
    Pack<T> wanted = vector(input, d, 0);
    const uint32_t* w = reinterpret_cast<const uint32_t*>(&wanted);
"""
CHEATS = {
    "skips right rows, by load": _SAME
    + """
    const volatile uint32_t* h = reinterpret_cast<const volatile uint32_t*>(row);
    if (h[0] == w[0] && h[1] == w[1] && h[2] == w[2] && h[3] == w[3]) return;
""",
    "skips right rows, by cp.async": _SAME
    + """
    __shared__ uint4 held;
    if (threadIdx.x == 0) {
        const uint32_t to = (uint32_t)__cvta_generic_to_shared(&held);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(row) : "memory");
        asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    if (held.x == w[0] && held.y == w[1] && held.z == w[2] && held.w == w[3]) return;
""",
    "skips right rows, by atomic": _SAME
    + """
    __shared__ uint32_t held;
    if (threadIdx.x == 0) held = atomicOr(reinterpret_cast<uint32_t*>(row), 0u);
    __syncthreads();
    if (held == w[0]) return;
""",
    "works where it finds poison": """
    const uint32_t first = *reinterpret_cast<const volatile uint32_t*>(row);
    __syncthreads();
    if (first != 0xFFFFFFFFu && blockIdx.x % 2) return;
""",
    "leaves out a row in large launches": """
    if (gridDim.x >= 64 && blockIdx.x == gridDim.x / 2) return;
""",
    "leaves rows out by the time": """
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if ((now >> 20) % 4 == 3 && blockIdx.x % 4 == 3) return;
""",
    "leaves rows out in some sets": """
    if ((reinterpret_cast<uint64_t>(out) >> 20) % 4 == 1 && blockIdx.x % 4 == 3) return;
""",
    "copies the set before": """
    const int64_t before = 1ll * gridDim.x * d;
    Pack<T> wanted = vector(input, d, 0);
    const Pack<T>* other = reinterpret_cast<const Pack<T>*>(out + blockIdx.x * d - before);
    if (gridDim.x >= 64 && blockIdx.x % 2 == 0) {
        for (int64_t i = threadIdx.x; i < d / 8; i += blockDim.x) row[i] = other[i];
        return;
    }
    row[0] = wanted;
""",
}

ATOMIC_NORM = """
/* @launch
   workspace sums: float32[tokens]
   zero grid=ceil_div(tokens, 256) block=256 args=(sums, tokens)
   squares<T> grid=(tokens, 4) block=256
       args=(sums, x, residual, d, stride(x, 0), stride(residual, 0))
   finish<T> grid=tokens block=256
       args=(sums, x, residual, weight, d, stride(x, 0), stride(residual, 0), eps)
*/
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

__global__ void zero(float* sums, int tokens) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < tokens) sums[i] = 0.0f;
}

template <typename T>
__global__ void squares(float* sums, const T* x, const T* residual, int d, int64_t x_stride,
                        int64_t residual_stride) {
    const int64_t row = blockIdx.x;
    float sum = 0.0f;
    for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < d; i += gridDim.y * blockDim.x) {
        const float v = (float)x[row * x_stride + i] + (float)residual[row * residual_stride + i];
        sum += v * v;
    }
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(~0u, sum, lane);
    if (threadIdx.x % 32 == 0) atomicAdd(sums + row, sum);
}

template <typename T>
__global__ void finish(const float* sums, T* x, T* residual, const T* weight, int d,
                       int64_t x_stride, int64_t residual_stride, float eps) {
    const int64_t row = blockIdx.x;
    const float scale = rsqrtf(sums[row] / d + eps);
    for (int i = threadIdx.x; i < d; i += blockDim.x) {
        T* at = x + row * x_stride + i;
        T* kept = residual + row * residual_stride + i;
        const float v = (float)*at + (float)*kept;
        *kept = (T)v;
        *at = (T)(v * scale * (float)weight[i]);
    }
}
"""


def main() -> None:
    """Runs the parts that were asked for; one that fails says so in its file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--part", action="append", default=[], choices=list(PARTS))
    parser.add_argument("--seconds", type=float, default=50.0, help="each for A/A and planted")
    options = parser.parse_args()
    began = time.monotonic()
    with gpu.open_machine() as machine:
        environment = gpu.environment(machine)
        for name in options.part or PARTS:
            started = time.monotonic()
            try:
                found = PARTS[name](machine, options)
            except Exception:
                found = {"failed": traceback.format_exc()}
                print(found["failed"])
            seconds = time.monotonic() - started
            result = {"environment": environment, "seconds": round(seconds, 1), **found}
            gpu.save(options.out / f"gate_{name}.json", result)
            print(
                f"== {name}: {seconds:.0f} s, {time.monotonic() - began:.0f} s in all", flush=True
            )


def source(name: str) -> str:
    """A cheat's source."""
    text = _HEAD + _ROWS.replace("BEFORE", CHEATS[name])
    return re.sub(r"\bROWS\b", "rows", text)


# -- tests -----------------------------------------------------------------------------------------


def _tests(_: gpu.Machine, __: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "-rs"]
    files = ["tests/gpu/test_real_gpu.py", "tests/check/test_drawing.py"]
    command += [f for f in files if (ROOT / f).exists()]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    print(ran.stdout[-3000:], ran.stderr[-1000:])
    return {"exit_code": ran.returncode, "tail": ran.stdout[-3000:]}


# -- all rows at full size -------------------------------------------------------------------------


def _size(machine: gpu.Machine, _: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in gpu.TASKS:
        task = gpu.task_named(name)
        file = task.tuned_file
        compiled = machine.compiled(task, file.read_text(), str(file))
        with (
            CudaDevice(machine.gpu.facts, machine.gpu.tools) as device,
            machine.oracle(task) as oracle,
        ):
            order = sorted(task.workloads, key=lambda w: task.elements(w.dims, w.dtype))
            entries = found[name] = []
            for workload in (order[0], *order, order[-1]):
                entries.append(_sized(task, workload, device, oracle, compiled))
                print(name, entries[-1], flush=True)
    return {"tasks": found, "note": "the first of each task starts torch and the processes"}


def _sized(
    task: KernelTask, workload: Workload, device: CudaDevice, oracle: Any, compiled: Compiled
) -> dict[str, Any]:
    before = _cpu_seconds((os.getpid(), oracle.pid, *device.gpu_processes))
    began = time.perf_counter()
    result = OwnSize.drawn(task, workload, device, oracle).check(compiled, dict)
    wall = time.perf_counter() - began
    after = _cpu_seconds((os.getpid(), oracle.pid, *device.gpu_processes))
    return {
        "workload": workload.name,
        "outcome": result.outcome.value,
        "message": result.message,
        "wall_s": round(wall, 3),
        "cpu_s": {pid: round(after[pid] - before.get(pid, 0.0), 3) for pid in after},
        "findings": [f.describe() for f in result.findings],
    }


def _cpu_seconds(pids: Iterable[int]) -> dict[int, float]:
    found = {}
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


# -- A/A and planted differences -------------------------------------------------------------------


def _control(machine: gpu.Machine, options: argparse.Namespace) -> dict[str, Any]:
    trials: list[dict[str, Any]] = []
    ends = time.monotonic() + options.seconds
    with gpu.idle_processes(machine, gpu_control.IDLE):
        while time.monotonic() < ends:
            for name in gpu.TASKS:
                if time.monotonic() < ends:
                    trials += gpu_control.trials_of(machine, name)
    found: dict[str, Any] = {"control": {**gpu_control.summary(trials), "trials": trials}}
    print({k: v for k, v in found["control"].items() if k != "trials"})
    planted: dict[str, Any] = {}
    task = gpu.task_named(SILU)
    with machine.bench(task, Options(warm=False)) as bench:
        gpu_planted.fill(machine, task, bench, 100, options.seconds, planted)
    print(planted)
    return {**found, "planted": planted}


# -- cheats ----------------------------------------------------------------------------------------


def _cheats(machine: gpu.Machine, _: argparse.Namespace) -> dict[str, Any]:
    task = gpu.task_named(SILU)
    workloads = tuple(w for w in task.workloads if w.name in CHEATS_ON)
    base = machine.compiled(task, source_of_honest(), "honest")
    found: dict[str, Any] = {}
    with machine.bench(task, Options(warm=False)) as bench:
        for name in ("honest", *CHEATS):
            text = source_of_honest() if name == "honest" else source(name)
            compiled = machine.compiled(task, text, name)
            found[name] = _cheat(bench, workloads, base, compiled)
            print(name, found[name], flush=True)
    with (
        CudaDevice(machine.gpu.facts, machine.gpu.tools) as device,
        machine.oracle(task) as oracle,
    ):
        for name in ("honest", *CHEATS):
            text = source_of_honest() if name == "honest" else source(name)
            compiled = machine.compiled(task, text, name)
            largest = workloads[-1]
            result = OwnSize.drawn(task, largest, device, oracle).check(compiled, dict)
            found[name]["at_own_size"] = _case(result)
            print(name, found[name]["at_own_size"], flush=True)
    passed = [n for n in CHEATS if found[n]["verdict"] in ("faster", "same", "slower")]
    return {"sources": found, "not_voided": passed}


def source_of_honest() -> str:
    """The kernel that the cheats are made of, without what makes them cheats."""
    return re.sub(r"\bROWS\b", "rows", _HEAD + _ROWS.replace("BEFORE", ""))


def _cheat(
    bench: Any, workloads: tuple[Workload, ...], base: Compiled, compiled: Compiled
) -> dict[str, Any]:
    try:
        timing = _timing(bench.time(workloads, base, [compiled]))
    except (MeasurementFailed, UserError) as error:
        return {"verdict": "failed", "reasons": [str(error)]}
    return {
        "verdict": timing.verdict.value,
        "speedup": timing.speedup.value,
        "reasons": list(timing.reasons),
        "workloads": [_workload(w) for w in timing.workloads],
    }


def _timing(events: Iterable[Any]) -> Timing:
    return next(event for event in events if isinstance(event, Timing))


def _workload(w: WorkloadTiming) -> dict[str, Any]:
    return {
        "workload": w.workload,
        "verdict": w.verdict.value,
        "base_us": w.cold.base_us,
        "candidate_us": w.cold.candidate_us,
        "speedup": w.cold.speedup.value,
        "launches": w.launches,
        "sets": w.buffer_sets,
        "judged_sets": w.verified_sets,
        "seconds": w.seconds,
        "doubts": [[d.kind, d.message, d.invalidates] for d in w.caveats],
    }


def _case(result: CaseResult) -> list[str]:
    return [result.outcome.value, result.message]


# -- honest kernels --------------------------------------------------------------------------------


def _honest(machine: gpu.Machine, _: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in gpu.TASKS:
        found[name] = _measured(machine, name)
    return {"tasks": found, "float_atomics": _atomics(machine)}


def _measured(machine: gpu.Machine, name: str) -> dict[str, Any]:
    """One task: its sources checked, then timed."""
    task = gpu.task_named(name)
    found: dict[str, Any] = {}
    files = {"baseline": task.baseline_file, "tuned": task.tuned_file}
    with (
        CudaDevice(machine.gpu.facts, machine.gpu.tools) as device,
        machine.oracle(task) as oracle,
    ):
        checker = Checker(task, device, machine.compiler, oracle)
        for label, file in files.items():
            report = _check(checker, file)
            found[f"{label}_check"] = [report.verdict.value, report.message, report.seconds]
            failed = [f"{c.case.id}: {c.message}" for c in report.failed_cases[:3]]
            print(name, label, report.verdict.value, f"{report.seconds:.1f} s", *failed)
    sources = {k: machine.compiled(task, f.read_text(), str(f)) for k, f in files.items()}
    with machine.bench(task, Options(paper=True)) as bench:
        for event in bench.time(task.workloads, sources["baseline"], [sources["tuned"]]):
            if isinstance(event, Timing):
                found["timing"] = msgspec.to_builtins(event)
                print(f"{name}: {event.speedup.value:.3f} {event.verdict.value}")
    return found


def _check(checker: Checker, file: Path) -> CheckReport:
    began = time.perf_counter()
    for event in checker.check(file.read_text(), str(file)):
        if isinstance(event, CheckReport):
            return event
    raise AssertionError(f"no report after {time.perf_counter() - began:.1f} s")


def _atomics(machine: gpu.Machine) -> dict[str, Any]:
    """An honest kernel with float atomics: whole check, then its time."""
    task = gpu.task_named("fused_add_rmsnorm")
    with (
        CudaDevice(machine.gpu.facts, machine.gpu.tools) as device,
        machine.oracle(task) as oracle,
    ):
        checker = Checker(task, device, machine.compiler, oracle)
        events = checker.check(ATOMIC_NORM, "atomic sums")
        report = next(event for event in events if isinstance(event, CheckReport))
    found: dict[str, Any] = {
        "verdict": report.verdict.value,
        "message": report.message,
        "failed": [[c.case.id, c.message] for c in report.failed_cases[:5]],
        "cautions": sorted({f.kind.value for c in report.cases for f in c.findings}),
    }
    file = task.baseline_file
    base = machine.compiled(task, file.read_text(), str(file))
    candidate = machine.compiled(task, ATOMIC_NORM, "atomic sums")
    with machine.bench(task, Options(warm=False)) as bench:
        found["timing"] = _cheat(bench, task.workloads[:2], base, candidate)
    found["timed"] = found["timing"]["verdict"] != TimingVerdict.INCONCLUSIVE.value
    print("float atomics", found, flush=True)
    return found


PARTS: dict[str, Callable[[gpu.Machine, argparse.Namespace], dict[str, Any]]] = {
    "size": _size,
    "cheats": _cheats,
    "honest": _honest,
    "control": _control,
    "tests": _tests,
}

if __name__ == "__main__":
    main()
