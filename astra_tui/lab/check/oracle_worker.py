"""The process that holds a task's reference.py and torch. It is trusted code, chosen by the user.

Started by `oracle.py` as `python -m astra_tui.lab.check.oracle_worker READ_FD WRITE_FD FILE`.
"""

from __future__ import annotations

import inspect
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from astra_tui.lab.frames import FrameError, read_frame, write_frame
from astra_tui.lab.orphan import end_with_owner


def main() -> None:
    """Imports torch and the reference, then answers cases one by one."""
    read_fd, write_fd, file = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    end_with_owner(read_fd)
    try:
        import torch

        torch.set_num_threads(1)
        reference = load_reference(file)
    except Exception:
        write_frame(write_fd, {"error": last_words(file)})
        return
    write_frame(write_fd, {"torch": str(torch.__version__)})
    while True:
        try:
            request = read_frame(read_fd)
        except FrameError:
            return
        try:
            answer: dict[str, Any] = {"outputs": evaluate(reference, request)}
        except Exception:
            answer = {"error": last_words(file)}
        write_frame(write_fd, answer)


def load_reference(file: Path) -> Callable[..., Any]:
    """The function `reference` of a reference.py."""
    module = runpy.run_path(str(file))
    reference = module.get("reference")
    if not callable(reference):
        raise TypeError("reference.py has to define a function reference(...)")
    return reference  # type: ignore[no-any-return]


def evaluate(reference: Callable[..., Any], request: dict[str, Any]) -> dict[str, Any]:
    """Calls the reference with the arguments that it names; float64 tensors and plain numbers."""
    import torch

    values: dict[str, Any] = dict(request["arguments"])
    for name, (kind, shape, raw) in request["tensors"].items():
        array = np.frombuffer(bytearray(raw), np.dtype(kind)).reshape(shape)
        values[name] = torch.from_numpy(array)
    parameters = inspect.signature(reference).parameters
    unknown = [name for name in parameters if name not in values]
    if unknown:
        raise TypeError(
            f"reference() asks for '{unknown[0]}', which is no input, scalar or dimension"
        )
    outputs = reference(**{name: values[name] for name in parameters})
    if not isinstance(outputs, dict):
        raise TypeError("reference() has to return a dict of tensors by output name")
    answer = {}
    for name, tensor in outputs.items():
        array = np.ascontiguousarray(torch.as_tensor(tensor).detach().numpy())
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
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
