"""The child process that runs NVRTC. It can open nothing but the headers, and has no secrets.

Started by `service.py` as `python -m astra_tui.lab.compiler.worker READ_FD WRITE_FD [FOLDER]`.
In FOLDER it keeps what headers come to, for the next source that begins with them.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import sys
import time
from pathlib import Path
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

HEADERS_HEAP = 448 << 20
"""Memory for what headers come to. Those of torch and CCCL take 362 MB, cuda_fp16.h takes 10."""

HEADERS_BYTES = 1 << 30
"""Of all precompiled headers together, beyond which the oldest go."""

HEADERS_FREE = 4 << 30
"""What the file system has to have free for them."""

PRECOMPILES = (12, 8)
"""The first version of NVRTC that does."""


_SUCCESS = nvrtc.nvrtcResult.NVRTC_SUCCESS
_OF_PRECOMPILED = re.compile("mapped memory|temporary file|PCH|precompiled header", re.IGNORECASE)


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
    scratch = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    usable = scratch if (major, minor) >= PRECOMPILES else None
    precompiled = None if usable is None else PrecompiledHeaders(usable)
    limit_resources(MEMORY_LIMIT, HEADERS_BYTES)
    confined = bool(confine(toolchain.readable_roots, scratch=scratch))
    tidy = precompiled.remove if precompiled is not None else lambda: None
    exit_with_parent(read_fd, tidy)  # Not before: a thread that exists already is not confined.
    write_frame(write_fd, {"version": f"{major}.{minor}", "origin": origin, "confined": confined})
    while True:
        try:
            request = read_frame(read_fd)
        except FrameError:
            tidy()
            return
        escapes = request.get("escapes")
        answer = try_escapes(escapes) if escapes else compile_source(request, precompiled)
        write_frame(write_fd, answer)


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


class PrecompiledHeaders:
    """What headers come to, in files that NVRTC writes and reads again.

    It compares the text of a source up to its first declaration, options, and the times of files;
    not what headers in memory hold. So each set of headers has a folder of its own.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._useless: set[str] = set()
        os.environ["TMPDIR"] = str(folder)  # The memory for them is that of a file of NVRTC's.
        _call(nvrtc.nvrtcSetPCHHeapSize(HEADERS_HEAP))

    def options(self, request: dict[str, Any]) -> list[str]:
        """The options with which these headers are taken from a file, or put into one."""
        key = self._key(request)
        if key in self._useless:
            return []
        try:
            if shutil.disk_usage(self._folder).free < HEADERS_FREE:
                return []
            folder = self._folder / key
            folder.mkdir(exist_ok=True)
        except OSError:
            return []
        return ["--pch", f"--pch-dir={folder}", "--pch-messages=false"]

    def settle(self, request: dict[str, Any], answer: dict[str, Any], created: Any) -> bool:
        """Notes what became of them; False where it was they that failed a compilation."""
        failed = answer["status"] != _SUCCESS.name and bool(_OF_PRECOMPILED.search(answer["log"]))
        if failed or created == nvrtc.nvrtcResult.NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED:
            self._useless.add(self._key(request))
        self._make_room()
        return not failed

    def remove(self) -> None:
        """Removes all files."""
        for folder in self._folder.iterdir():
            shutil.rmtree(folder, ignore_errors=True)

    def _key(self, request: dict[str, Any]) -> str:
        digest = hashlib.sha256()
        headers = itertools.chain.from_iterable(request["headers"].items())
        for part in itertools.chain(request["options"], headers):
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()

    def _make_room(self) -> None:
        with contextlib.suppress(OSError):
            files = [(f.stat(), f) for f in self._folder.glob("*/*")]
            files.sort(key=lambda pair: pair[0].st_mtime_ns, reverse=True)
            total = 0
            for state, file in files:
                total += state.st_size
                if total > HEADERS_BYTES:
                    file.unlink()


def compile_source(
    request: dict[str, Any], precompiled: PrecompiledHeaders | None = None
) -> dict[str, Any]:
    """Compiles one source. The answer holds the log, and on success PTX, cubin and symbols."""
    started = time.perf_counter()
    if not request.get("precompile"):
        precompiled = None
    options = [] if precompiled is None else precompiled.options(request)
    answer, created = _compiled(request, options)
    if precompiled is not None and options and not precompiled.settle(request, answer, created):
        answer, _ = _compiled(request, [])
    answer["seconds"] = time.perf_counter() - started
    return answer


def _compiled(request: dict[str, Any], more: list[str]) -> tuple[dict[str, Any], Any]:
    """The answer, and NVRTC's status of the headers that it was to put into a file."""
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
        answer = _compile(program, request, more)
        created = nvrtc.nvrtcGetPCHCreateStatus(program)[0] if more else None
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return answer, created


def _compile(program: Any, request: dict[str, Any], more: list[str]) -> dict[str, Any]:
    for expression in request["expressions"]:
        _call(nvrtc.nvrtcAddNameExpression(program, expression.encode()))
    options = [option.encode() for option in (*request["options"], *more)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    answer: dict[str, Any] = {
        "status": status.name,
        "log": _text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog),
        "ptx": "",
        "cubin": b"",
        "symbols": {},
    }
    if status == _SUCCESS:
        answer["ptx"] = _text(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        if request["cubin"]:
            answer["cubin"] = _data(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        for expression in request["expressions"]:
            (symbol,) = _call(nvrtc.nvrtcGetLoweredName(program, expression.encode()))
            answer["symbols"][expression] = symbol.decode()
    return answer


def _call(result: tuple[Any, ...]) -> tuple[Any, ...]:
    status, *values = result
    if status != _SUCCESS:
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
