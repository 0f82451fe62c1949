"""Workloads with weights, from what a running service recorded of an operator's calls.

Read are a trace of torch's profiler, SGLang's fused-op trace, FlashInfer's trace dump, the counters
of a delivered adapter, and CSV.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tui.model.drafts import ExposedTime, ServiceWorkload
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.launch.evaluate import Evaluator
from astra_tui.model.launch.scope import Bindings
from astra_tui.model.task import Argument, KernelTask
from astra_tui.model.task.dims import dim_sources

Shape = tuple[int, ...]

_TENSOR = re.compile(r"(?:torch\.)?(\w+)\[([\d, ]*)\]")
_TYPES = {name: d.value for d in DType for name in (d.torch_cuda, *d.spellings)}
"""Element types by the names that C++ and PyTorch's profiler have for them."""
_CHAIN_LIMIT = 1 << 28
"""Bytes of a file that is read."""


@dataclass(frozen=True)
class SeenCalls:
    """Calls with the same tensors: how many, and the time of their kernels where it is known."""

    tensors: tuple[tuple[str, Shape], ...]
    calls: int
    gpu_us: float | None = None


@dataclass(frozen=True)
class Recorded:
    """What a file says of an operator."""

    format: str
    seen: tuple[SeenCalls, ...]
    exposed: ExposedTime | None = None
    others: tuple[str, ...] = ()
    """Operators that it names, where it has none of the one that was asked for."""


def read_recorded(path: Path, task: KernelTask, operator: str, rows: Sequence[int]) -> Recorded:
    """The calls of an operator in a file, or in a folder of FlashInfer's trace dump.

    `rows` are sizes of the task's rows for a source that does not say them. Raises UserError.
    """
    if path.is_dir():
        return _flashinfer_dump(path, operator, rows)
    text = _text_of(path)
    if path.suffix == ".csv":
        return Recorded("csv", tuple(_of_csv(text, task, path)))
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"is neither JSON nor .csv: {error.msg}", file=str(path)) from None
    match found:
        case {"traceEvents": list(events)}:
            return _profiler(events, operator)
        case {"hits": dict(hits), "fallbacks": dict()}:
            seen = (SeenCalls(_tensors(text), int(count)) for text, count in hits.items())
            return Recorded("adapter's counters", tuple(seen))
        case [{"op": str(), "tensor_args": list()}, *_]:
            return _fused_op_trace(found, operator)
    raise UserError(
        "has none of the forms that are known",
        file=str(path),
        hint="a torch profiler trace, SGLang's fused-op trace, an adapter's counts(), .csv, or a "
        "folder of FlashInfer's trace dump",
    )


def workloads_of(
    task: KernelTask, recorded: Recorded, most: int
) -> tuple[tuple[ServiceWorkload, ...], float]:
    """The workloads that count most, and the share of all weight that they have.

    A weight is a share of the kernels' time where that is known, else of the bytes that the calls
    have to move. Calls that are not the task's are left out.
    """
    found: dict[tuple[DType, tuple[tuple[str, int], ...]], list[SeenCalls]] = defaultdict(list)
    for seen in recorded.seen:
        call = _call_of(task, seen.tensors)
        if call is not None:
            found[(call[0], tuple(call[1].items()))].append(seen)
    timed = all(one.gpu_us is not None for ones in found.values() for one in ones)
    weights = {
        key: sum(
            (one.gpu_us or 0.0)
            if timed
            else one.calls * task.compulsory_bytes(dict(key[1]), key[0])
            for one in ones
        )
        for key, ones in found.items()
    }
    whole = sum(weights.values())
    if not whole:
        return (), 0.0
    chosen = sorted(weights, key=lambda key: -weights[key])[:most]
    kept = sum(weights[key] for key in chosen)
    return tuple(
        ServiceWorkload(
            dims=dict(dims),
            dtype=dtype,
            weight=float(f"{weights[dtype, dims] / kept:.4g}"),
            calls=sum(one.calls for one in found[dtype, dims]),
            gpu_us=sum(one.gpu_us or 0.0 for one in found[dtype, dims]) if timed else None,
        )
        for dtype, dims in chosen
        if weights[dtype, dims]
    ), kept / whole


def same_operator(name: str, wanted: str) -> bool:
    """Whether a recorded name means an operator: its last part, without underscores and case."""
    last = re.split(r"[:./]+", name)[-1]
    return last.replace("_", "").lower() == wanted.replace("_", "").lower()


# -- from tensors to dimensions --------------------------------------------------------------------


def _call_of(
    task: KernelTask, tensors: Sequence[tuple[str, Shape]]
) -> tuple[DType, dict[str, int]] | None:
    """Element type and dimensions of a call; None for one that is not the task's.

    Operators take their outputs first, last, or not at all: the order that explains most tensors.
    """
    read = [a for a in task.tensors if a.is_read]
    written = [a for a in task.tensors if not a.is_read]
    for arguments in ([*written, *read], [*read, *written], list(task.tensors), read):
        if len(arguments) <= len(tensors):
            found = _matched(task, arguments, tensors[: len(arguments)])
            if found is not None:
                return found
    return None


def _matched(
    task: KernelTask, arguments: Sequence[Argument], tensors: Sequence[tuple[str, Shape]]
) -> tuple[DType, dict[str, int]] | None:
    sizes, types = {}, {}
    for argument, (dtype, shape) in zip(arguments, tensors, strict=True):
        rank = len(argument.shape)
        if len(shape) < rank:
            return None
        folded = len(shape) - rank + 1
        sizes[argument.name] = (math.prod(shape[:folded]), *shape[folded:]) if rank else ()
        types[argument.name] = dtype
    element = next((types[a.name] for a in arguments if a.dtype is None), task.dtypes[0].value)
    dtype_of_call = next((d for d in task.dtypes if d.value == element), None)
    sources = dim_sources(task, arguments)
    if dtype_of_call is None or set(sources) != set(task.dims):
        return None
    dims = {
        name: Evaluator(
            Bindings(dtype_of_call, {source.size: sizes[source.tensor][source.axis]}, {})
        ).integer(source.value)
        for name, source in sources.items()
    }
    if min(dims.values()) < 1 or task.violated(dims, dtype_of_call):
        return None
    shapes = task.shapes(dims, dtype_of_call)
    wanted = {a.name: (a.dtype or dtype_of_call).value for a in arguments}
    fits = all(shapes[a.name] == sizes[a.name] for a in arguments)
    return (dtype_of_call, dims) if fits and wanted == types else None


# -- the forms -------------------------------------------------------------------------------------


def _text_of(path: Path) -> str:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(_CHAIN_LIMIT + 1)
    except (OSError, EOFError) as error:
        raise UserError(f"cannot be read: {error}", file=str(path)) from None
    if len(data) > _CHAIN_LIMIT:
        raise UserError("is larger than 256 MiB", file=str(path), hint="record fewer steps")
    return data.decode(errors="replace")


def _tensors(text: str) -> tuple[tuple[str, Shape], ...]:
    """Tensors as in "torch.float16[16, 8192] float16[4096]"."""
    return tuple(
        (dtype, tuple(int(size) for size in shape.split(",") if size.strip()))
        for dtype, shape in _TENSOR.findall(text)
    )


def _fused_op_trace(records: Iterable[Mapping[str, Any]], operator: str) -> Recorded:
    names: Counter[str] = Counter()
    seen: Counter[tuple[tuple[str, Shape], ...]] = Counter()
    for record in records:
        names[str(record.get("op"))] += 1
        if same_operator(str(record.get("op")), operator):
            seen[_tensors(" ".join(map(str, record.get("tensor_args", ()))))] += 1
    calls = tuple(SeenCalls(tensors, count) for tensors, count in seen.items())
    return Recorded("SGLang's fused-op trace", calls, others=tuple(names))


def _of_csv(text: str, task: KernelTask, path: Path) -> Iterator[SeenCalls]:
    """Columns: the task's dimensions, `dtype`, `calls`, and `us`, the time of all of them."""
    for number, row in enumerate(csv.DictReader(io.StringIO(text)), 2):
        try:
            dims = {name: int(row[name]) for name in task.dims}
            dtype = next(d for d in task.dtypes if d.value == (row.get("dtype") or d.value))
            calls, us = int(row.get("calls") or 1), row.get("us")
            time = float(us) if us else None
        except (KeyError, TypeError, ValueError, StopIteration) as error:
            raise UserError(
                f"line {number} is not a workload: {error!r}",
                file=str(path),
                hint=f"columns: {', '.join([*task.dims, 'dtype', 'calls', 'us'])}",
            ) from None
        if calls < 1 or min(dims.values()) < 1 or (time is not None and not 0 < time < math.inf):
            raise UserError(f"line {number} has a number below 1", file=str(path))
        shapes = task.shapes(dims, dtype)
        tensors = tuple(
            ((a.dtype or dtype).value, shapes[a.name]) for a in task.tensors if a.is_read
        )
        yield SeenCalls(tensors, calls, time)


def _flashinfer_dump(folder: Path, operator: str, rows: Sequence[int]) -> Recorded:
    """Definitions: widths and types. The dump has one file a width, without rows or counts."""
    seen, names = [], []
    for path in sorted(folder.rglob("*.json")):
        try:
            found = json.loads(_text_of(path))
            api = next(t[7:] for t in found["tags"] if t.startswith("fi_api:"))
            const = {n: a["value"] for n, a in found["axes"].items() if a["type"] == "const"}
            inputs = [i for i in found["inputs"].values() if i["shape"] is not None]
        except (json.JSONDecodeError, KeyError, StopIteration, TypeError, AttributeError):
            continue
        names.append(api)
        if not same_operator(api, operator):
            continue
        if not rows:
            raise UserError(
                "FlashInfer's trace dump does not say how many rows the calls had",
                file=str(path),
                hint="name them: --rows 1,16,256",
            )
        for count in rows:
            shapes = (tuple(const.get(axis, count) for axis in i["shape"]) for i in inputs)
            kinds = (str(i["dtype"]) for i in inputs)
            seen.append(SeenCalls(tuple(zip(kinds, shapes, strict=True)), 1))
    return Recorded("FlashInfer's trace dump", tuple(seen), others=tuple(names))


def _profiler(events: Iterable[Mapping[str, Any]], operator: str) -> Recorded:
    """Operators with their shapes (`record_shapes=True`), and the kernels that they launched."""
    calls: dict[Any, tuple[tuple[str, Shape], ...]] = {}
    kernels, names = [], set()
    for event in events:
        category, args = event.get("cat"), event.get("args", {})
        if category == "cpu_op":
            names.add(str(event.get("name")))
            if same_operator(str(event.get("name")), operator):
                calls[args.get("External id")] = _profiled_tensors(args)
        elif category == "kernel":
            kernels.append(event)
    times: dict[Any, float] = defaultdict(float)
    for kernel in kernels:
        times[kernel["args"].get("External id")] += float(kernel["dur"])
    grouped: dict[tuple[tuple[str, Shape], ...], list[float]] = defaultdict(list)
    for external, tensors in calls.items():
        grouped[tensors].append(times.get(external, 0.0))
    known = all(us > 0 for group in grouped.values() for us in group)
    seen = tuple(
        SeenCalls(tensors, len(group), sum(group) if known else None)
        for tensors, group in grouped.items()
    )
    exposed = _exposed(kernels, set(calls)) if known and seen else None
    return Recorded("torch profiler trace", seen, exposed, tuple(sorted(names)))


def _profiled_tensors(args: Mapping[str, Any]) -> tuple[tuple[str, Shape], ...]:
    kinds, dims = args.get("Input type", ()), args.get("Input Dims", ())
    return tuple(
        (_TYPES.get(str(kind), str(kind)), tuple(map(int, shape)))
        for kind, shape in zip(kinds, dims, strict=False)
        if shape and not isinstance(shape[0], list)
    )


def _exposed(kernels: Sequence[Mapping[str, Any]], own: set[Any]) -> ExposedTime:
    """How much of the recorded time only the operator's kernels ran."""
    edges: list[tuple[float, int, bool]] = []
    for kernel in kernels:
        begin, is_own = float(kernel["ts"]), kernel["args"].get("External id") in own
        edges += [(begin, 1, is_own), (begin + float(kernel["dur"]), -1, is_own)]
    edges.sort(key=lambda edge: (edge[0], edge[1]))
    running = {True: 0, False: 0}
    exposed = total = 0.0
    for (time, step, is_own), (following, *_) in zip(edges, [*edges[1:], edges[-1]], strict=True):
        running[is_own] += step
        if running[True]:
            total += following - time
            exposed += (following - time) if not running[False] else 0.0
    return ExposedTime(edges[-1][0] - edges[0][0], total, exposed)
