"""Proves that the adapter is in use: `python -m PACKAGE.prove [--only proof,graph,compile,times]`.

The cases in proof.json were written with the adapter, by the task's model of its contract, not by
the guard that is looked at here. Every case is called twice through the framework's API, without
and with the adapter. Launches are counted where the driver is called, apart from the adapter's
own counter. The last line printed is JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from . import _contract, _driver, _operator  # type: ignore[attr-defined]  # one is generated

Given = dict[str, Any]

_HERE = Path(__file__).parent
_MADE: dict[str, Any] = json.loads((_HERE / "proof.json").read_text(encoding="utf-8"))
_KERNEL = re.compile(r"(?:void )?([\w:]+)")
"""The name of a kernel as the profiler writes it, without template arguments."""

_PAIRS = 15
_CALLS = 20
_CACHE_BYTES = 256 << 20
"""Inputs are rotated over at least this much memory, several times the largest L2 cache."""


def adapter() -> Any:
    """The adapter's module for the framework."""
    return importlib.import_module(f"{__package__}.{_MADE['module']}")


def widths() -> tuple[int, ...]:
    """The widths of rows in the cases and workloads."""
    return tuple(_MADE["widths"])


def tensors_of(case: dict[str, Any], device: str, seed: int) -> Given:
    """The inputs of a case, drawn from its seed, with its layouts; then its numbers."""
    given: Given = {}
    generator = torch.Generator(device).manual_seed(seed)
    for name, (dtype, shape, strides, offset) in case["tensors"].items():
        if _contract.TENSORS[name][0] == "out":
            continue
        span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        memory = torch.randn(span + offset, generator=generator, device=device)
        kept = memory.to(getattr(torch, dtype))
        given[name] = kept[offset:].as_strided(shape, strides)
    return {**given, **case["scalars"]}


class Launches:
    """Counts calls of the driver's launch functions while it is entered."""

    NAMES = ("cuLaunchKernel", "cuLaunchKernelEx")

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Launches:
        self._library = _driver._library()
        self._kept = {name: getattr(self._library, name) for name in self.NAMES}
        for name, function in self._kept.items():
            setattr(self._library, name, self._counting(function))
        _operator.forget()  # A call that was checked before holds the function that it found then.
        return self

    def __exit__(self, *_: object) -> None:
        for name, function in self._kept.items():
            setattr(self._library, name, function)
        _operator.forget()

    def _counting(self, function: Callable[..., int]) -> Callable[..., int]:
        def launch(*arguments: Any) -> int:
            self.count += 1
            return function(*arguments)

        return launch


def _outcome(call: Callable[[Given], dict[str, torch.Tensor]], given: Given) -> Any:
    """What a call writes, or how it fails."""
    try:
        found = call(given)
        _settle()
        return found
    except Exception as error:
        with suppress(Exception):
            _settle()
        return f"{type(error).__name__}: {error}"[:200]


def _settle() -> None:
    """Raises here what a launch left behind, which else the next launch would be blamed for.

    The runtime keeps a refused launch until it is asked for errors, as PyTorch does after a launch.
    """
    if torch.cuda.is_available():
        torch.ones(1, device="cuda")
        torch.cuda.synchronize()


def _named(outcome: Any) -> str:
    return outcome if isinstance(outcome, str) else "results"


def _same_bits(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    return all(
        torch.equal(one[n].contiguous().view(torch.uint8), other[n].contiguous().view(torch.uint8))
        for n in one
    )


def _close(got: Any, wanted: Any, dtype: str) -> bool:
    if isinstance(got, str) or isinstance(wanted, str):
        return False
    atol, rtol = _MADE["tolerances"][dtype]
    # Two right results may each be off by as much.
    return all(
        torch.allclose(got[n].float(), wanted[n].float(), 2 * rtol, 2 * atol, equal_nan=True)
        for n in wanted
    )


def _failed_anew(old: Any, new: Any, dtype: str) -> bool:
    """Whether a call inside fails or differs; where the framework failed, it only must not fail."""
    return isinstance(new, str) if isinstance(old, str) else not _close(new, old, dtype)


def prove(device: str) -> dict[str, Any]:
    """Hits, launches and results of every case, against what its contract and plan say.

    A call that the framework itself fails on has no results to compare with: it is listed in
    "only_delivered", and is none of the "shapes".
    """
    used = adapter()
    cases = _MADE["cases"]
    used.uninstall()
    before = [_outcome(used.call, tensors_of(c, device, i)) for i, c in enumerate(cases)]
    used.install(widths())
    _operator.calls.reset()
    wrong: dict[str, list[str]] = {"counts": [], "bits_outside": [], "results_inside": []}
    only_delivered: list[str] = []
    tally: Counter[str] = Counter()
    shapes = set()
    with Launches() as launches:
        for seed, (case, old) in enumerate(zip(cases, before, strict=True)):
            given = tensors_of(case, device, seed)
            hits = sum(_operator.calls.counts()["hits"].values())
            launched = launches.count
            new = _outcome(used.call, given)
            hits = sum(_operator.calls.counts()["hits"].values()) - hits
            launched = launches.count - launched
            inside = case["inside"]
            tally["inside" if inside else "outside"] += 1
            tally["hits"] += hits
            tally["launches"] += launched
            if inside and isinstance(old, str):
                only_delivered.append(f"{case['name']}: {old}, then {_named(new)}")
            elif inside:
                shapes.add(json.dumps(case["tensors"], sort_keys=True))
            if hits != int(inside) or launched != case["launches"]:
                wrong["counts"].append(
                    f"{case['name']}: {hits} hits and {launched} launches, "
                    f"not {int(inside)} and {case['launches']}"
                )
            elif not inside and not _same_bits(old, new):
                wrong["bits_outside"].append(f"{case['name']}: {_named(old)}, then {_named(new)}")
            elif inside and _failed_anew(old, new, case["dtype"]):
                wrong["results_inside"].append(f"{case['name']}: {_named(old)}, then {_named(new)}")
    counts = _operator.calls.counts()
    return {
        "calls": len(cases),
        "shapes": len(shapes),
        **tally,
        "fallbacks": counts["fallbacks"],
        "only_delivered": only_delivered,
        "failed_before_and_after": sum(isinstance(old, str) for old in before)
        - len(only_delivered),
        "wrong": wrong,
    }


def seen_by_cupti(device: str) -> dict[str, Any]:
    """The same launches as the profiler below the driver sees them, over the cases inside."""
    used = adapter()
    used.install(widths())
    cases = [c for c in _MADE["cases"] if c["inside"]]
    given = [tensors_of(case, device, seed) for seed, case in enumerate(cases)]
    names = {kernel.partition("<")[0] for kernel in _manifest()["kernels"]}
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with Launches() as launches, torch.profiler.profile(activities=activities) as profile:
        for each in given:
            used.call(each)
        torch.cuda.synchronize()
    seen = Counter(
        found[1]
        for event in profile.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
        and (found := _KERNEL.match(event.name))
        and found[1] in names
    )
    return {
        "launches": launches.count,
        "seen": dict(seen),
        "equal": sum(seen.values()) == launches.count,
    }


def _manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_HERE / "manifest.json").read_text(encoding="utf-8"))
    return found


def graph(device: str) -> dict[str, Any]:
    """A captured call, replayed on other values: equal to a plain call on them."""
    used, case = adapter(), _largest_inside()
    used.install(widths())
    given = tensors_of(case, device, 1)
    used.call(tensors_of(case, device, 2))
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    _operator.calls.reset()
    with torch.cuda.graph(captured):
        results = used.call(given)
    hits = sum(_operator.calls.counts()["hits"].values())
    fresh, plain = tensors_of(case, device, 3), tensors_of(case, device, 3)
    for name, value in fresh.items():
        if isinstance(value, torch.Tensor):
            given[name].copy_(value)
    captured.replay()
    torch.cuda.synchronize()
    return {"case": case["name"], "hits": hits, "equal": _same_bits(results, used.call(plain))}


def compiled(device: str) -> dict[str, Any]:
    """A call under torch.compile, without graph breaks: equal to a plain call."""
    used, case = adapter(), _largest_inside()
    used.install(widths())
    plain = used.call(tensors_of(case, device, 4))
    _operator.calls.reset()
    torch._dynamo.reset()
    results = torch.compile(used.call, fullgraph=True)(tensors_of(case, device, 4))
    hits = sum(_operator.calls.counts()["hits"].values())
    return {"case": case["name"], "hits": hits, "equal": _same_bits(results, plain)}


def _largest_inside() -> dict[str, Any]:
    def elements(case: dict[str, Any]) -> int:
        return max(int(math.prod(shape)) for _, shape, _, _ in case["tensors"].values())

    return max((c for c in _MADE["cases"] if c["inside"]), key=elements)


def times(device: str, seconds: float) -> list[dict[str, Any]]:
    """Microseconds a call through the API, as replayed graphs in turns, and on the host as well."""
    rows: list[dict[str, Any]] = []
    end = time.monotonic() + seconds
    for work in _MADE["workloads"]:
        if time.monotonic() > end:
            rows.append({"name": work["name"], "skipped": "no time left"})
            continue
        used = adapter()
        size = sum(torch.Size(t[1]).numel() for t in work["tensors"].values()) * 2
        copies = max(2, min(_CALLS, -(-_CACHE_BYTES // size)))
        calls = -(-_CALLS // copies) * copies
        given = [tensors_of(work, device, seed) for seed in range(copies)]
        sides: dict[str, Callable[[], float]] = {}
        host: dict[str, float] = {}
        for name in ("framework", "delivered"):
            if name == "framework":
                used.uninstall()
            else:
                used.install(widths())
            host[name] = _host_time(used.call, given)
            sides[name] = _replayed(used.call, given, calls)
        pairs = [(sides["framework"](), sides["delivered"]()) for _ in range(_PAIRS)]
        ratios = sorted(a / b for a, b in pairs)
        rows.append(
            {
                "name": work["name"],
                "framework_us": statistics.median(a for a, _ in pairs),
                "delivered_us": statistics.median(b for _, b in pairs),
                "ratio": statistics.median(ratios),
                # The 4th and 12th of 15 ordered ratios hold the median with 96 %.
                "low": ratios[3],
                "high": ratios[-4],
                "framework_host_us": host["framework"],
                "delivered_host_us": host["delivered"],
            }
        )
    return rows


def _host_time(call: Callable[[Given], Any], given: list[Given]) -> float:
    """Microseconds of the host for a call, the best of five runs; the GPU is not waited for."""
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for each in given:
            call(each)
        best = min(best, (time.perf_counter() - begin) / len(given) * 1e6)
    torch.cuda.synchronize()
    return best


def _replayed(call: Callable[[Given], Any], given: list[Given], calls: int) -> Callable[[], float]:
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        kept = [call(given[i % len(given)]) for i in range(calls)]
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    captured.replay()

    def measure() -> float:
        assert kept is not None  # The graph's memory lives as long.
        begin.record()
        captured.replay()
        end.record()
        end.synchronize()
        found: float = begin.elapsed_time(end) * 1000 / calls
        return found

    return measure


@contextmanager
def _said(found: dict[str, Any], part: str) -> Iterator[None]:
    """Keeps what a part found to fail, so that the others still run."""
    try:
        yield
    except Exception as error:
        found[part] = {"error": f"{type(error).__name__}: {error}"[:2000]}


def main() -> int:
    """Runs the parts that are asked for; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="proof,cupti,graph,compile,times")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    found: dict[str, Any] = {"api": adapter().API, "torch": torch.__version__}
    if options.device == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    parts: dict[str, Callable[[], Any]] = {
        "proof": lambda: prove(options.device),
        "cupti": lambda: seen_by_cupti(options.device),
        "graph": lambda: graph(options.device),
        "compile": lambda: compiled(options.device),
        "times": lambda: times(options.device, options.seconds),
    }
    for name in options.only.split(","):
        with _said(found, name):
            found[name] = parts[name]()
    print(json.dumps(found))
    good = [
        not any(found.get("proof", {}).get("wrong", {}).values()),
        *(found.get(part, {}).get("equal", True) for part in ("cupti", "graph", "compile")),
        not any(isinstance(f, dict) and "error" in f for f in found.values()),
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
