"""Delivers recorded winners to frameworks on a GPU, proves their use, and times a model with them.

    python benchmarks/gpu_deliver.py [--out FILE] [--minutes N] [--tests FOLDER] [--only PART,...]

FlashInfer 0.7.2.post1 and kernels 0.17.2 have to be importable for their parts; what is not is said
in the result. TESTS is a folder with FlashInfer's own operator tests (`utils/test_activation.py`).
The file of results is written after every part. Parts that it has are not run again.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import environment  # noqa: E402 - found by the line above

SESSIONS = {
    "silu_and_mul": "h200-playbook-silu",
    "fused_add_rmsnorm": "h200-playbook-rmsnorm",
}
WIDTHS = {
    "silu_and_mul": (128, 256, 512, 2048, 4096, 11008, 14336, 16384),
    "fused_add_rmsnorm": (111, 500, 1024, 3072, 3584, 4096, 8192, 16384),
}
"""Those of FlashInfer's operator tests, and of the model."""

TESTS = {
    "silu_and_mul": ("utils/test_activation.py", "test_fused_silu_mul"),
    "fused_add_rmsnorm": (
        "utils/test_norm.py",
        "test_fused_add_rmsnorm and not quant and not gemma",
    ),
}
STEP = 240.0
_PLUGIN = """
import importlib, json, os
adapters = []
for name, widths in json.loads(os.environ["DELIVERED"]).items():
    adapters.append(importlib.import_module(f"astra_{name}.flashinfer"))
    adapters[-1].install(widths)

def pytest_sessionfinish(session):
    counts = {n: importlib.import_module(f"astra_{n}").calls.counts()
              for n in json.loads(os.environ["DELIVERED"])}
    from flashinfer.trace_apply import stats
    with open(os.environ["COUNTED"], "w") as file:
        json.dump({"counts": counts, "trace_apply": stats()}, file)
"""


class Run:
    """The results so far, and what time is left."""

    def __init__(self, out: Path, minutes: float, folder: Path, tests: Path | None):
        self.out, self.folder, self.tests = out, folder, tests
        self.end = time.monotonic() + minutes * 60
        self.found: dict[str, Any] = json.loads(out.read_text()) if out.is_file() else {}

    def part(self, name: str, work: Callable[[], Any]) -> None:
        """Runs a part unless it was run before, and keeps its result."""
        known = self.found.get(name)
        if known and "error" not in known and not known.get("exit_code"):
            return
        if self.left() < 20:
            print(f"{name}: no time left", flush=True)
            return
        began = time.monotonic()
        try:
            result = work()
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"[-3000:]}
        self.found[name] = result
        self.out.write_text(json.dumps(self.found, indent=1) + "\n")
        said = result.get("error", "done") if isinstance(result, dict) else "done"
        print(f"{name}: {said[:300]}, {time.monotonic() - began:.0f} s", flush=True)

    def left(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()

    def ran(self, command: list[str], seconds: float = STEP, **extra: str) -> Any:
        """What a command prints on its last line, as JSON. Raises RuntimeError."""
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=max(1.0, min(seconds, self.left())),
            env={**os.environ, **extra}, check=False, cwd=self.folder,
        )  # fmt: skip
        lines = done.stdout.strip().splitlines()
        if not lines or not lines[-1].startswith("{"):
            raise RuntimeError(
                f"exit code {done.returncode}: {(done.stderr or done.stdout)[-2500:]}"
            )
        return {"exit_code": done.returncode, **json.loads(lines[-1])}

    def adapter(self, name: str, framework: str) -> Path:
        """An adapter's folder, written without a check where it is not there yet."""
        out = self.folder / f"{name}-for-{framework}"
        if not out.is_dir():
            self.deliver(name, framework, out, "--no-check")
        return out

    def deliver(self, name: str, framework: str, out: Path, *flags: str) -> Any:
        """What `astra-tui deliver` reports. Raises RuntimeError."""
        command = [sys.executable, "-m", "astra_tui", "deliver", SESSIONS[name], "--json"]
        command += ["--sessions", str(ROOT / "sessions"), "--to", framework, "--out", str(out)]
        done = subprocess.run(
            [*command, *flags], capture_output=True, text=True, cwd=ROOT, check=False,
            timeout=max(1.0, min(STEP, self.left())),
        )  # fmt: skip
        if not done.stdout.startswith("{"):
            raise RuntimeError(f"{done.returncode}: {done.stderr[-2000:]}")
        return json.loads(done.stdout)


def main() -> None:
    """Runs the parts in the order of their worth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu_deliver.json"))
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--tests", type=Path)
    parser.add_argument("--work", type=Path, help="a folder to keep adapters and builds in")
    parser.add_argument("--only", default="")
    parser.add_argument("--model", metavar="FOLDERS", help="used by the script itself")
    options = parser.parse_args()
    if options.model:
        print(json.dumps(_model(json.loads(options.model))))
        return
    work = options.work or Path(tempfile.mkdtemp(prefix="gpu-deliver-"))
    work.mkdir(parents=True, exist_ok=True)
    _prepare(work)
    run = Run(options.out.resolve(), options.minutes, work.resolve(), options.tests)
    building = _start_building(run)
    parts: dict[str, Callable[[], Any]] = {"environment": _environment}
    for name in SESSIONS:
        parts[f"{name} torch"] = lambda name=name: _prove(run, name, "torch", "eager")
    parts["built"] = lambda: _built(run, building)
    for name in SESSIONS:
        parts[f"{name} flashinfer"] = lambda name=name: _prove(
            run, name, "flashinfer", "flashinfer"
        )
    for name in SESSIONS:
        parts[f"{name} tests"] = lambda name=name: _tests(run, name)
    parts["model"] = lambda: _run_model(run)
    for name in SESSIONS:
        parts[f"{name} hf"] = lambda name=name: _hf(run, name)
    for name in SESSIONS:
        parts[f"{name} deliver --prove"] = lambda name=name: run.deliver(
            name, "flashinfer", run.folder / f"{name}-proved", "--prove", "--device", "cuda:0"
        )
    wanted = set(options.only.split(",")) if options.only else set(parts)
    for part, work_of_part in parts.items():
        if part in wanted:
            run.part(part, work_of_part)
    if building is not None and building.poll() is None:
        building.kill()


def _prepare(work: Path) -> None:
    """The environment in which FlashInfer builds its modules: for this GPU, in the folder."""
    import torch

    major, minor = torch.cuda.get_device_capability()
    suffix = "a" if major >= 9 else ""
    os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", f"{major}.{minor}{suffix}")
    os.environ.setdefault("FLASHINFER_WORKSPACE_BASE", str(work / "flashinfer"))
    os.environ["FLASHINFER_USE_CUDA_NORM"] = "1"
    stubs = work / "stubs"
    stubs.mkdir(exist_ok=True)
    driver = next(
        (line.split()[-1] for line in _loadable() if line.strip().startswith("libcuda.so.1 ")), ""
    )
    if driver and not (stubs / "libcuda.so").exists():
        (stubs / "libcuda.so").symlink_to(driver)
    headers = sorted(
        {str(p.parent) for f in sys.path for p in Path(f).glob("nvidia/*/include/*.h")}
    )
    found = next((h for h in headers if Path(h, "cublasLt.h").is_file()), "")
    if found and not any(Path(c, "include/cublasLt.h").is_file() for c in _toolkits()):
        os.environ["CPATH"] = f"{found}:{os.environ.get('CPATH', '')}".rstrip(":")
    os.environ["LIBRARY_PATH"] = f"{stubs}:{os.environ.get('LIBRARY_PATH', '')}".rstrip(":")


def _toolkits() -> list[str]:
    return [t for t in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if t]


def _loadable() -> list[str]:
    done = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def _environment() -> dict[str, Any]:
    import torch

    versions = {}
    for name in ("torch", "triton", "flashinfer-python", "kernels", "nvidia-cutlass-dsl"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    norm = "FLASHINFER_USE_CUDA_NORM=1: CUDA, compiled by nvcc; CuTe-DSL is not used"
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    return {
        **environment.describe(),
        "gpu": torch.cuda.get_device_name(),
        "driver": driver,
        "versions": versions,
        "flashinfer_norm": norm,
    }


_BUILD = """
import json, time, flashinfer
specs = [flashinfer.jit.gen_act_and_mul_module("silu"), flashinfer.jit.norm.gen_norm_module()]
begin = time.time()
flashinfer.jit.build_jit_specs(specs, verbose=False)
print(json.dumps({"seconds": time.time() - begin}))
"""


def _start_building(run: Run) -> subprocess.Popen[str] | None:
    """FlashInfer's own kernels compile while other parts run."""
    if "built" in run.found and "error" not in run.found["built"]:
        return None
    return subprocess.Popen(
        [sys.executable, "-c", _BUILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=run.folder,
    )  # fmt: skip


def _built(run: Run, building: subprocess.Popen[str] | None) -> dict[str, Any]:
    assert building is not None
    out, error = building.communicate(timeout=max(1.0, run.left()))
    if building.returncode:
        raise RuntimeError(f"{out[-1500:]} {error[-1500:]}")
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found


def _prove(run: Run, name: str, framework: str, module: str) -> Any:
    """The adapter's own proof, in a process that knows nothing of this program."""
    folder = run.adapter(name, framework)
    command = [sys.executable, "-P", "-m", f"astra_{name}.prove", "--seconds", "40"]
    found = run.ran(command, PYTHONPATH=_path(folder))
    off = run.ran(
        [sys.executable, "-P", "-c", _OFF.format(name=name, module=module)],
        PYTHONPATH=_path(folder), **{f"ASTRA_{name.upper()}": "0"},
    )  # fmt: skip
    return {**found, "switched_off": off}


_OFF = """
import json
from astra_{name} import prove, calls
case = next(c for c in prove._MADE["cases"] if c["inside"])
used = prove.adapter()
if prove._MADE["module"] == "flashinfer":
    used.install(prove.widths())
else:
    from astra_{name} import _operator
    _operator.set_fallback(getattr(used, "{name}"))
used.call(prove.tensors_of(case, "cuda", 1))
print(json.dumps(calls.counts()))
"""


def _path(*folders: Path) -> str:
    """PYTHONPATH without this program, which an adapter must not need."""
    given = [p for p in os.environ.get("PYTHONPATH", "").split(":") if p and Path(p) != ROOT]
    return ":".join([*map(str, folders), *given])


def _tests(run: Run, name: str) -> Any:
    """FlashInfer's own operator tests with the adapter on; what they reach is counted."""
    if run.tests is None:
        return {"error": "no --tests"}
    file, chosen = TESTS[name]
    folder = run.adapter(name, "flashinfer")
    (folder / "delivered_plugin.py").write_text(_PLUGIN)
    counted = folder / "counted.json"
    counted.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "delivered_plugin", "--tb=short"]
    command += ["-p", "no:cacheprovider", "-k", chosen, str(run.tests.resolve() / file)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=run.tests, check=False,
        timeout=max(1.0, min(STEP, run.left())),
        env={
            **os.environ,
            "PYTHONPATH": _path(folder),
            "DELIVERED": json.dumps({name: WIDTHS[name]}),
            "COUNTED": str(counted),
        },
    )  # fmt: skip
    summary = done.stdout.strip().splitlines()
    failed = [line for line in summary if line.startswith("FAILED")]
    return {
        "exit_code": done.returncode,
        "summary": summary[-1] if summary else done.stderr[-1000:],
        "failed": failed[:20],
        "tail": "\n".join(summary[-60:]) if done.returncode else "",
        **(json.loads(counted.read_text()) if counted.is_file() else {}),
    }


def _hf(run: Run, name: str) -> Any:
    """The noarch variant, loaded by the package `kernels` and proved."""
    folder = run.adapter(name, "hf")
    return run.ran([sys.executable, "-P", "-c", _HF, str(folder)], PYTHONPATH=_path())


_HF = """
import importlib, json, sys
from pathlib import Path
from kernels import get_local_kernel
module = get_local_kernel(Path(sys.argv[1]))
prove = importlib.import_module(module.__name__ + ".prove")
found = {"module": module.__name__, "proof": prove.prove("cuda"), "graph": prove.graph("cuda"),
         "times": prove.times("cuda", 30.0)}
print(json.dumps(found))
"""


# -- a model ---------------------------------------------------------------------------------------


def _run_model(run: Run) -> Any:
    folders = {name: str(run.adapter(name, "flashinfer")) for name in SESSIONS}
    return run.ran(
        [sys.executable, "-P", str(Path(__file__).resolve()), "--model", json.dumps(folders)],
        PYTHONPATH=_path(*map(Path, folders.values())),
    )


HIDDEN, INNER, HEADS, KV_HEADS, LAYERS, CONTEXT = 4096, 14336, 32, 8, 32, 1024


def _model(folders: dict[str, str]) -> dict[str, Any]:
    """Steps of a Llama-3-8B-sized model with random weights, before and after."""
    import flashinfer
    import torch

    adapters = {n: importlib.import_module(f"astra_{n}.flashinfer") for n in folders}
    calls = {n: importlib.import_module(f"astra_{n}").calls for n in folders}
    dtype, device = torch.float16, "cuda"
    torch.manual_seed(0)

    def weights(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=dtype, device=device) * 0.02

    head = HIDDEN // HEADS
    layers = [
        {
            "qkv": weights(HIDDEN, HIDDEN + 2 * KV_HEADS * head),
            "o": weights(HIDDEN, HIDDEN),
            "gate_up": weights(HIDDEN, 2 * INNER),
            "down": weights(INNER, HIDDEN),
            "norms": torch.ones(2, HIDDEN, dtype=dtype, device=device),
        }
        for _ in range(LAYERS)
    ]

    def step(x: torch.Tensor, cache: list[torch.Tensor] | None) -> torch.Tensor:
        """One forward: a prompt where there is no cache, else one more token of each row."""
        tokens = x.shape[0]
        residual = torch.zeros_like(x)
        x = x.clone()
        for layer in layers:
            flashinfer.norm.fused_add_rmsnorm(x, residual, layer["norms"][0], 1e-5)
            q, k, v = (x @ layer["qkv"]).split([HIDDEN, KV_HEADS * head, KV_HEADS * head], -1)
            if cache is None:
                parts = [t.view(1, tokens, -1, head).transpose(1, 2) for t in (q, k, v)]
                attended = torch.nn.functional.scaled_dot_product_attention(
                    *parts, is_causal=True, enable_gqa=True
                )
                attended = attended.transpose(1, 2).reshape(tokens, HIDDEN)
            else:
                q = q.view(tokens, HEADS, 1, head)
                attended = torch.nn.functional.scaled_dot_product_attention(
                    q, cache[0], cache[1], enable_gqa=True
                ).reshape(tokens, HIDDEN)
            x = attended @ layer["o"]
            flashinfer.norm.fused_add_rmsnorm(x, residual, layer["norms"][1], 1e-5)
            x = flashinfer.activation.silu_and_mul(x @ layer["gate_up"]) @ layer["down"]
        return x

    def install(on: bool) -> None:
        for name, adapter in adapters.items():
            adapter.install(WIDTHS[name]) if on else adapter.uninstall()

    rows = []
    for name, tokens, decode in (("prompt", 2048, False), ("decode", 64, True)):
        x = torch.randn(tokens, HIDDEN, dtype=dtype, device=device)
        cache = None
        if decode:
            shape = (tokens, KV_HEADS, CONTEXT, head)
            cache = [torch.randn(shape, dtype=dtype, device=device) for _ in range(2)]
        graphs, results = {}, {}
        for on in (False, True):
            install(on)
            for each in calls.values():
                each.reset()
            step(x, cache)
            torch.cuda.synchronize()
            counted = {n: c.counts() for n, c in calls.items()}
            graphs[on] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[on]):
                results[on] = step(x, cache)
        pairs = [(_time(graphs[False]), _time(graphs[True])) for _ in range(11)]
        before = statistics.median(a for a, _ in pairs)
        after = statistics.median(b for _, b in pairs)
        gains = sorted(a - b for a, b in pairs)
        costs = {}
        for op, count in (("silu_and_mul", LAYERS), ("fused_add_rmsnorm", 2 * LAYERS)):
            found = {}
            for on in (False, True):
                install(on)
                found[on] = _alone(op, tokens, flashinfer, torch)
            costs[op] = {"calls": count, "framework_us": found[False], "delivered_us": found[True]}
        predicted = sum(
            c["calls"] * (c["framework_us"] - c["delivered_us"]) for c in costs.values()
        )
        exposed = sum(c["calls"] * c["framework_us"] for c in costs.values())
        close = torch.allclose(results[False].float(), results[True].float(), 5e-2, 5e-2)
        rows.append(
            {
                "name": name,
                "tokens": tokens,
                "before_us": before,
                "after_us": after,
                "gain_us": statistics.median(gains),
                "gain_low_us": gains[1],
                "gain_high_us": gains[-2],
                "predicted_gain_us": predicted,
                "exposed_share": exposed / before,
                "operators": costs,
                "counts": counted,
                "results_close": bool(close),
            }
        )
        del graphs, results, cache
    model = {"hidden": HIDDEN, "inner": INNER, "layers": LAYERS, "context": CONTEXT}
    return {"model": model, "steps": rows}


def _time(graph: Any) -> float:
    """Microseconds of a replay."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end) * 1000)


def _alone(op: str, tokens: int, flashinfer: Any, torch: Any) -> float:
    """Microseconds of one call in a graph of many, on inputs that the cache cannot hold."""
    half = {"dtype": torch.float16, "device": "cuda"}
    width = 2 * INNER if op == "silu_and_mul" else HIDDEN
    copies = max(2, min(64, (256 << 20) // (tokens * width * 2)))
    given = [torch.randn(tokens, width, **half) for _ in range(copies)]
    other = [torch.randn(tokens, width, **half) for _ in range(copies)]
    weight = torch.ones(width, **half)

    def call(place: int) -> Any:
        if op == "silu_and_mul":
            return flashinfer.activation.silu_and_mul(given[place])
        return flashinfer.norm.fused_add_rmsnorm(given[place], other[place], weight, 1e-5)

    call(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call(i) for i in range(copies)]
    _time(graph)
    found = statistics.median(_time(graph) for _ in range(7)) / copies
    del kept
    return found


if __name__ == "__main__":
    main()
