"""The child process that runs NVRTC. It can open nothing but the headers, and has no secrets.

Started by `service.py` as `python -m astra_tui.lab.compiler.worker READ_FD WRITE_FD`.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Any

from cuda.bindings import nvrtc

from astra_tui.lab.compiler.toolchain import (
    LIBRARY_VARIABLE,
    find_toolchain,
    load_nvrtc,
    wheel_version,
)
from astra_tui.processes.confine import confine, limit_resources
from astra_tui.processes.escapes import try_escapes
from astra_tui.processes.exit_with_parent import exit_with_parent
from astra_tui.processes.frames import FrameError, read_frame, write_frame

MEMORY_LIMIT = 6 << 30


class _Failed(Exception):
    pass


def main() -> None:
    """Loads NVRTC, locks the process down, then compiles what it is asked to, one by one."""
    read_fd, write_fd = int(sys.argv[1]), int(sys.argv[2])
    toolchain = find_toolchain()
    load_nvrtc(toolchain)
    major, minor = _call(nvrtc.nvrtcVersion())
    chosen = os.environ.get(LIBRARY_VARIABLE)
    origin = (_own_version() or chosen) if chosen else wheel_version("nvidia-cuda-nvrtc")
    os.chdir(toolchain.include_dirs[0])  # NVRTC looks for includes in the current folder too.
    limit_resources(MEMORY_LIMIT)
    confined = bool(confine(toolchain.readable_roots))
    exit_with_parent(read_fd)  # Not before: a thread that exists already is not confined.
    write_frame(write_fd, {"version": f"{major}.{minor}", "origin": origin, "confined": confined})
    while True:
        try:
            request = read_frame(read_fd)
        except FrameError:
            return
        escapes = request.get("escapes")
        write_frame(write_fd, try_escapes(escapes) if escapes else compile_source(request))


def _own_version() -> str:
    """The full version, which NVRTC tells only at the head of the PTX that it makes."""
    program = _call(nvrtc.nvrtcCreateProgram(b"", b"empty.cu", 0, [], []))[0]
    try:
        _call(nvrtc.nvrtcCompileProgram(program, 0, []))
        head = _text(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    except _Failed:
        return ""
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    match = re.search(r"\bV(\d+\.\d+\.\d+)\b", head)
    return match[1] if match else ""


def compile_source(request: dict[str, Any]) -> dict[str, Any]:
    """Compiles one source. The answer holds the log, and on success PTX, cubin and symbols."""
    started = time.perf_counter()
    headers = request["headers"]
    program = _call(
        nvrtc.nvrtcCreateProgram(
            request["source"].encode(),
            request["name"].encode(),
            len(headers),
            [text.encode() for text in headers.values()],
            [name.encode() for name in headers],
        )
    )[0]
    try:
        answer = _compile(program, request)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    answer["seconds"] = time.perf_counter() - started
    return answer


def _compile(program: Any, request: dict[str, Any]) -> dict[str, Any]:
    for expression in request["expressions"]:
        _call(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
    options = [option.encode() for option in request["options"]]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    answer: dict[str, Any] = {
        "status": status.name,
        "log": _text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog),
        "ptx": "",
        "cubin": b"",
        "symbols": {},
    }
    if status == nvrtc.nvrtcResult.NVRTC_SUCCESS:
        answer["ptx"] = _text(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        if request["cubin"]:
            answer["cubin"] = _data(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        for expression in request["expressions"]:
            (symbol,) = _call(nvrtc.nvrtcGetLoweredName(program, expression.encode()))
            answer["symbols"][expression] = symbol.decode()
    return answer


def _call(result: tuple[Any, ...]) -> tuple[Any, ...]:
    status, *values = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise _Failed(f"NVRTC: {status.name}")
    return tuple(values)


def _data(program: Any, size_of: Any, read: Any) -> bytes:
    (size,) = _call(size_of(program))
    buffer = bytearray(max(size, 1))
    _call(read(program, buffer))
    return bytes(buffer[:size])


def _text(program: Any, size_of: Any, read: Any) -> str:
    return _data(program, size_of, read).replace(b"\0", b"").decode(errors="replace")


if __name__ == "__main__":
    main()
