"""The process that holds a task's reference.py and torch.

The reference is chosen by the user and trusted to be right, but a task folder may come from
elsewhere: it is loaded after the process has closed itself, and may read its own folder only.

Started by `oracle.py` as `python -m astra_tui.lab.check.oracle_worker READ_FD WRITE_FD FILE [gpu]`.
With "gpu", the first message names the GPU on which whole outputs are judged.
"""

from __future__ import annotations

import gc
import inspect
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from astra_tui.lab.check.bulk import BulkJob
from astra_tui.lab.check.bulk_worker import BulkWorker, OracleGpu, first_words, widened
from astra_tui.model.bit_patterns import decode, raw_dtype
from astra_tui.model.dtypes import DType
from astra_tui.processes.confine import (
    confine,
    driver_roots,
    limit_files,
    limit_memory,
    program_roots,
)
from astra_tui.processes.escapes import try_escapes
from astra_tui.processes.exit_with_parent import exit_with_parent
from astra_tui.processes.frames import FrameError, read_frame, write_frame

MEMORY_LIMIT = 16 << 30
OUTPUT_LIMIT = 16 << 20
"""How much the reference may print, in bytes."""


def main() -> None:
    """Imports torch and the reference, then answers cases one by one."""
    read_fd, write_fd, file = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    # CUDA reserves far more address space than it uses.
    limit = 0 if "gpu" in sys.argv[4:] else limit_memory(MEMORY_LIMIT)
    try:
        gc.disable()  # Nearly all that importing torch makes is there to stay.
        import torch

        gc.enable()
        torch.set_num_threads(1)
        on_gpu = "gpu" in sys.argv[4:]
        gpu = open_gpu(read_fd) if on_gpu else ""
        torch.ones(2, dtype=torch.float64).sum()  # Loads what is loaded on first use.
        limit_files(OUTPUT_LIMIT)
        roots = driver_roots() if on_gpu else program_roots()
        confined = bool(confine((file.parent, *roots)))
        exit_with_parent(read_fd)  # Not before: a thread that exists already is not confined.
        reference = load_reference(file)
    except Exception:
        write_frame(write_fd, {"error": last_words(file)})
        return
    write_frame(write_fd, {"torch": str(torch.__version__), "confined": confined})
    bulk = BulkWorker(lambda values: call(reference, values), gpu)
    while True:
        try:
            request = read_frame(read_fd)
        except FrameError:
            return
        if "escapes" in request:
            write_frame(write_fd, try_escapes(request["escapes"]))
            continue
        try:
            answer: dict[str, Any] = _answer(reference, bulk, request)
        except Exception as error:
            answer = {"error": last_words(file)}
            if limit and (isinstance(error, MemoryError) or "can't allocate memory" in str(error)):
                answer["error"] += f" (it may have {limit / (1 << 30):.1f} GiB)"
        write_frame(write_fd, answer)


def open_gpu(read_fd: int) -> OracleGpu | str:
    """The GPU that the first message names, or why there is none."""
    request = read_frame(read_fd)
    try:
        return OracleGpu(request["uuid"], request["tools"], request["symbols"])
    except Exception as error:  # Of torch, the driver, or a library that is not there.
        return f"the oracle has no GPU ({first_words(error)})"


def _answer(
    reference: Callable[..., Any], bulk: BulkWorker, request: dict[str, Any]
) -> dict[str, Any]:
    if "bulk" in request:
        return {"bulk": msgspec.to_builtins(bulk.answer(msgspec.convert(request["bulk"], BulkJob)))}
    if "finish" in request:
        bulk.finish()
        return {}
    return {"outputs": evaluate(reference, request)}


def load_reference(file: Path) -> Callable[..., Any]:
    """The function `reference` of a reference.py."""
    module = runpy.run_path(str(file))
    reference = module.get("reference")
    if not callable(reference):
        raise TypeError("reference.py has to define a function reference(...)")
    return reference  # type: ignore[no-any-return]


def call(reference: Callable[..., Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Calls the reference with the arguments that it names. Raises TypeError for a bad answer."""
    parameters = inspect.signature(reference).parameters
    unknown = [name for name in parameters if name not in values]
    if unknown:
        raise TypeError(
            f"reference() asks for '{unknown[0]}', which is no input, scalar or dimension"
        )
    outputs = reference(**{name: values[name] for name in parameters})
    if not isinstance(outputs, dict):
        raise TypeError("reference() has to return a dict of tensors by output name")
    return outputs


def evaluate(reference: Callable[..., Any], request: dict[str, Any]) -> dict[str, Any]:
    """Calls the reference with the arguments that it names; float64 tensors and plain numbers.

    Tensors come as bit patterns, which take a part of the bytes.
    """
    import torch

    values: dict[str, Any] = dict(request["arguments"])
    for name, (of_type, shape, raw) in request["tensors"].items():
        dtype = DType(of_type)
        bits = np.frombuffer(raw, raw_dtype(dtype)).reshape(shape)
        values[name] = torch.from_numpy(decode(bits, dtype))
    outputs = call(reference, values)
    answer = {}
    for name, tensor in outputs.items():
        array = np.ascontiguousarray(widened(torch.as_tensor(tensor).detach()).numpy())
        answer[name] = [array.dtype.str, list(array.shape), array.tobytes()]
    return answer


def last_words(file: Path) -> str:
    """The current exception in one line, with the line of reference.py that it passed through."""
    kind, error, trace = sys.exc_info()
    lines = [f.lineno for f in traceback.extract_tb(trace) if Path(f.filename) == file]
    place = f"line {lines[-1]}: " if lines else ""
    name = kind.__name__ if kind else "error"
    return f"{place}{name}: {error}"


if __name__ == "__main__":
    main()
