"""Uses an exported PyTorch package on a GPU, without astra_tui. Started by gpu_exports.py.

    python exported_package.py PACKAGE_FOLDER OPERATOR '{"dims": {...}, "scalars": {...}}'

Its last line is JSON: what was tried, and its result. Results of the operator are compared
with its own plain call, which gpu_exports.py has compared with the reference before.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

CALLS = 2000
THREADS = 4


class Used:
    """The package with inputs for one element type."""

    def __init__(self, package: Path, name: str, given: dict[str, Any]):
        sys.path.insert(0, str(package.parent))
        self.name = name
        self.module = importlib.import_module(package.name)
        self.contract = importlib.import_module(f"{package.name}._contract")
        self.function = getattr(self.module, name)
        self.numbers = [*given["scalars"].values()]
        self.numbers += [given["dims"][d] for d in self.contract.PASSED_DIMS]
        self.dims = given["dims"]

    def inputs(self, dtype: str, seed: int = 0) -> list[torch.Tensor]:
        """New inputs in the order of the operator."""
        shapes = self.contract.shapes(dtype, **self.dims)
        generator = torch.Generator(device="cuda").manual_seed(seed)
        return [
            torch.randn(shapes[name], device="cuda", generator=generator).to(
                getattr(torch, dtype if declared == "T" else declared)
            )
            for name, (role, declared, _) in self.contract.TENSORS.items()
            if role != "out"
        ]

    def results(self, function: Callable[..., Any], inputs: list[torch.Tensor]) -> list[Any]:
        """The outputs of a call, those in place included."""
        made = function(*inputs, *self.numbers)
        new = [] if made is None else [made] if isinstance(made, torch.Tensor) else list(made)
        return [*new, *inputs]

    def expected(self, inputs: list[torch.Tensor]) -> list[Any]:
        """The results of a plain call on copies."""
        return self.results(self.function, [t.clone() for t in inputs])


def opcheck(used: Used, dtype: str) -> str:
    """PyTorch's own checks of schema, fake kernel and tracing, for every overload."""
    space = torch.ops.astra
    inputs = used.inputs(dtype)
    torch.library.opcheck(getattr(space, used.name).default, (*inputs, *used.numbers))
    outputs = [n for n, (role, _, _) in used.contract.TENSORS.items() if role == "out"]
    if not outputs:
        return "one overload"
    made = used.results(used.function, inputs)[: len(outputs)]
    out = [torch.empty_like(t) for t in made]
    torch.library.opcheck(
        getattr(space, f"{used.name}_out").default, (*out, *inputs, *used.numbers)
    )
    return "two overloads"


def compiled(used: Used, dtype: str) -> str:
    """torch.compile without graph breaks, with exact operations around, sizes fixed and dynamic."""

    def around(*arguments: Any) -> Any:
        tensors = [a.neg() for a in arguments if isinstance(a, torch.Tensor)]
        return [r.neg() for r in used.results(used.function, tensors)]

    inputs = used.inputs(dtype)
    wanted = around(*inputs)
    for dynamic in (False, True):
        torch._dynamo.reset()
        got = torch.compile(around, fullgraph=True, dynamic=dynamic)(*inputs)
        _same(got, wanted)
    return "equal to eager, bit by bit, with fixed and dynamic sizes"


def graphed(used: Used, dtype: str) -> str:
    """A CUDA graph, replayed on other inputs."""
    static = used.inputs(dtype)
    used.results(used.function, [t.clone() for t in static])  # loads the kernels
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = used.results(used.function, static)
    for seed in (1, 2):
        other = used.inputs(dtype, seed)
        wanted = used.expected(other)
        for target, source in zip(static, other, strict=True):
            target.copy_(source)
        graph.replay()
        torch.cuda.synchronize()
        _same(results, wanted)
    return "equal to eager on two replays with new inputs"


def streamed(used: Used, dtype: str) -> str:
    """Work of another stream, which the launches have to wait for."""
    inputs = used.inputs(dtype)
    wanted = used.expected(inputs)
    zeros = [torch.zeros_like(t) for t in inputs]
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        for target, source in zip(zeros, inputs, strict=True):
            target.copy_(source)
        results = used.results(used.function, zeros)
    stream.synchronize()
    _same(results, wanted)
    return "in order behind other work of a stream"


def outside(used: Used, dtype: str) -> str:
    """Outside the contract: refused without a fallback, given to it with one."""
    inputs = [t.double() if t.dtype == getattr(torch, dtype) else t for t in used.inputs(dtype)]
    try:
        used.function(*inputs, *used.numbers)
    except ValueError as error:
        said = str(error)
    else:
        raise AssertionError("float64 was not refused")
    calls: list[int] = []

    def original(*arguments: Any) -> Any:
        calls.append(len(arguments))
        shapes = used.contract.shapes("float64", **used.dims)
        made = [
            arguments[0].new_full(shapes[n], 7, dtype=_declared(declared))
            for n, (role, declared, _) in used.contract.TENSORS.items()
            if role == "out"
        ]
        return made[0] if len(made) == 1 else tuple(made)

    used.module.set_fallback(original)
    try:
        results = used.results(used.function, inputs)
    finally:
        used.module.set_fallback(None)
    if calls != [len(inputs) + len(used.numbers)]:
        raise AssertionError(f"the fallback was called with {calls} arguments")
    new = results[: len(results) - len(inputs)]
    if any((r != 7).any() for r in new):
        raise AssertionError("the fallback's results did not come back")
    return f"refused ({said.partition(';')[0]}), then given to the fallback"


def _declared(name: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, "float64" if name == "T" else name)
    return found


def threaded(used: Used, dtype: str) -> str:
    """Threads that did nothing on the GPU before, each with inputs and a stream of its own."""
    used.expected(used.inputs(dtype))  # loads the kernels
    given = [used.inputs(dtype, seed) for seed in range(THREADS)]
    wanted = [used.expected(inputs) for inputs in given]
    torch.cuda.synchronize()
    streams = [
        torch.cuda.Stream() if n % 2 else torch.cuda.default_stream() for n in range(THREADS)
    ]
    ready = threading.Barrier(THREADS)

    def work(number: int) -> list[Any]:
        ready.wait()
        with torch.cuda.stream(streams[number]):
            for _ in range(200):
                used.function(*[t.clone() for t in given[number]], *used.numbers)
            return used.results(used.function, given[number])

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(work, range(THREADS)))
    torch.cuda.synchronize()
    for got, expected in zip(results, wanted, strict=True):
        _same(got, expected)
    return f"{THREADS} new threads, each with its own inputs"


def host_time(used: Used, dtype: str) -> str:
    """Time on the host of one call, the queue of the GPU never full for long.

    An operator of PyTorch in C++ is timed in turn with it: clocks of hosts differ and change.
    """
    inputs = used.inputs(dtype)
    made = used.function(*inputs, *used.numbers)
    with torch.inference_mode():
        frozen = used.inputs(dtype)
    ways = {
        "us a call": lambda: used.function(*inputs, *used.numbers),
        "in inference mode": lambda: used.function(*frozen, *used.numbers),
        "for torch.neg": lambda: torch.neg(inputs[0]),
    }
    if made is not None:
        ways["with out"] = lambda: used.function(*inputs, *used.numbers, out=made)
    best = dict.fromkeys(ways, math.inf)
    for _ in range(5):
        for name, way in ways.items():
            with torch.inference_mode(name == "in inference mode"):
                best[name] = min(best[name], _seconds_a_call(way))
    times = ", ".join(f"{seconds * 1e6:.1f} {name}" for name, seconds in best.items())
    return f"{times}; each the best of five runs of {CALLS // 5}"


def _seconds_a_call(way: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(CALLS // 5):
        way()
    return (time.perf_counter() - started) / (CALLS // 5)


def _same(got: list[Any], wanted: list[Any]) -> None:
    for number, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if not torch.equal(a, b):
            worst = (a.double() - b.double()).abs().max().item()
            raise AssertionError(f"result {number} differs by up to {worst}")


def main() -> None:
    """Tries everything with every element type."""
    used = Used(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
    found = []
    for dtype in used.contract.DTYPES:
        for trial in (opcheck, compiled, graphed, streamed, threaded, outside, host_time):
            try:
                outcome, detail = "passed", trial(used, dtype)
            except Exception as error:
                outcome, detail = "failed", f"{type(error).__name__}: {error}"[:800]
            found.append(
                {"name": f"{trial.__name__} {dtype}", "outcome": outcome, "detail": detail}
            )
    if any(name.partition(".")[0] == "astra_tui" for name in sys.modules):
        found.append({"name": "alone", "outcome": "failed", "detail": "astra_tui was imported"})
    found.append({"name": "torch", "outcome": "passed", "detail": torch.__version__})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
