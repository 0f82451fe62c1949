"""Compiles kernel sources: refuses the unsafe, asks the cache, else the child that holds NVRTC."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from astra_tui.cuda_source.stand_ins import EXTRA_NAME, PRELUDE_NAME, STAND_INS
from astra_tui.lab.cache import ContentCache, content_key
from astra_tui.lab.compiler.directives import is_known_header, refuse_unsafe
from astra_tui.lab.compiler.headers import (
    NOTHING,
    HeaderTree,
    Included,
    included_headers,
    without_launches,
)
from astra_tui.lab.compiler.log import parse_diagnostics, parse_instantiations, parse_resources
from astra_tui.lab.compiler.signature import SignatureError, parse_parameters
from astra_tui.lab.compiler.toolchain import (
    LIBRARY_VARIABLE,
    Toolchain,
    find_toolchain,
    wheel_version,
)
from astra_tui.model.compilation import (
    SOURCE_NAME,
    UPSTREAM_PREFIX,
    Compilation,
    CompiledKernel,
    Diagnostic,
    Resources,
    Severity,
    is_own,
)
from astra_tui.model.errors import UserError
from astra_tui.processes.child import Child, ChildDied, ChildTimeout
from astra_tui.processes.escapes import Targets

ARCH = "sm_90a"
COMPILE_SECONDS = 30.0
START_SECONDS = 60.0

# Raised whenever what a cached answer means changes.
_CACHE_VERSION = "5"

_HEADER_WHEELS = ("nvidia-cuda-runtime", "nvidia-cuda-cccl", "nvidia-cuda-crt")
_SUCCESS = "NVRTC_SUCCESS"
_LASTING = {_SUCCESS, "NVRTC_ERROR_COMPILATION"}  # Other answers depend on more than the source.
_NO_RESOURCES = Resources(0, 0, 0, 0, 0, 0)
_STANDARD = "--std="
_ARCHITECTURE = "--gpu-architecture="
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_LAMBDA_SPACE = re.compile(r"(?<=\])(\s*)((?:__(?:host|device)__\s*)+)(?=[({])")


class CompilerUnavailable(Exception):
    """NVRTC or its headers are missing; the message names the remedy."""


@dataclass(frozen=True)
class CompilerInfo:
    """Which compiler answers, and whether its process is locked down.

    `origin` is its full version; the path that was chosen only where that cannot be had.
    """

    version: str
    origin: str
    confined: bool

    def __str__(self) -> str:
        return f"NVRTC {self.version}" + (f" ({self.origin})" if self.origin else "")


class _Answer(msgspec.Struct):
    """What the child sends back, and what the cache keeps."""

    status: str
    log: str
    ptx: str
    cubin: bytes
    symbols: dict[str, str]
    seconds: float
    failed_ptx: str = ""


@dataclass(frozen=True)
class _Inputs:
    """What the process gets besides a source: headers by name, and options."""

    headers: Mapping[str, str]
    options: list[str]


class Build(msgspec.Struct, frozen=True):
    """What `Compiler.build` made: symbols by the C++ name that asked for them, and the code.

    `problem` is the compiler's first error, with its file and line; "" where there is none.
    """

    symbols: dict[str, str]
    ptx: str
    cubin: bytes
    compiler: str
    problem: str


class Compiler:
    """One compiler process, started on first use; `compile` answers from the cache when it can.

    Sources may include the files of `upstream`, which reach the process in memory.
    """

    def __init__(
        self,
        cache: ContentCache | None = None,
        seconds: float = COMPILE_SECONDS,
        arch: str = ARCH,
        upstream: HeaderTree | None = None,
    ):
        self.seconds = seconds
        self.arch = arch
        """What is compiled for where a call does not say."""
        self.upstream = upstream
        self.toolchain: Toolchain = find_toolchain()
        self._cache = cache or ContentCache("compile")
        self._child = Child("astra_tui.lab.compiler.worker", name="the compiler")
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        """Where the process keeps precompiled headers."""
        self._info: CompilerInfo | None = None
        self._identity = ""

    def start(self) -> CompilerInfo:
        """Starts the process and proves that NVRTC loads. Raises CompilerUnavailable."""
        if self._info is not None and self._child.running:
            return self._info
        if self.toolchain.problem:
            raise CompilerUnavailable(self.toolchain.problem)
        self.close()
        self._scratch = tempfile.TemporaryDirectory(prefix="astra-tui-", ignore_cleanup_errors=True)
        self._child.arguments = (self._scratch.name,)
        try:
            self._child.start()
            hello = self._child.receive(START_SECONDS)
        except (ChildDied, ChildTimeout) as error:
            raise CompilerUnavailable(f"NVRTC did not start: {error}") from None
        self._info = CompilerInfo(**hello)
        return self._info

    def identify(self) -> str:
        """The compiler with its version. Starts no process for a library that was known before.

        Raises CompilerUnavailable.
        """
        if not self._identity:
            key = self._identity_key()
            stored = self._cache.get(key) if key else None
            self._identity = stored.decode() if stored else str(self.start())
            if key and not stored:
                self._cache.put(key, self._identity.encode())
        return self._identity

    def _identity_key(self) -> str:
        """Changes with the library and with what names it; empty where there is none."""
        if self.toolchain.library is None:
            return ""
        chosen = os.environ.get(LIBRARY_VARIABLE, "")
        try:
            state = _file_state(self.toolchain.library)
        except OSError:
            return ""
        return content_key("compiler", *state, chosen, wheel_version("nvidia-cuda-nvrtc"))

    def close(self) -> None:
        """Ends the compiler's process."""
        self._child.close()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def compile(
        self, source: str, expressions: tuple[str, ...] = (), arch: str = ""
    ) -> Compilation:
        """Compiles a source and instantiates the kernels named by C++ `expressions`.

        What is wrong with the source is in the answer's diagnostics. Raises CompilerUnavailable
        only when there is no compiler.
        """
        arch = arch or self.arch
        expressions = tuple(dict.fromkeys(expressions))
        try:
            included = self.included(source)
        except UserError as error:
            return _failure([Diagnostic(Severity.ERROR, error.message)], arch, "directive scan")
        unsafe = refuse_unsafe(source, self.toolchain.include_dirs, included, self.upstream)
        unsafe = unsafe or _unfit_names(expressions)
        if unsafe:
            return _failure(unsafe, arch, "directive scan")
        compiler = self.identify()
        inputs = self._inputs(included, arch)
        key = self._key(compiler, source, expressions, inputs)
        answer = self._stored(key)
        from_cache = answer is not None
        if answer is None:
            try:
                answer = self._ask(source, expressions, inputs)
            except ChildTimeout:
                return _failure(_gave_up(f"not done after {self.seconds:g} s"), arch, compiler)
            except ChildDied as error:
                return _failure(_gave_up(str(error)), arch, compiler)
            if answer.status in _LASTING:
                self._cache.put(key, msgspec.msgpack.encode(answer))
        return self._compilation(answer, compiler, source, expressions, arch, from_cache)

    def compile_to_ptx(self, source: str, expressions: tuple[str, ...], header: str) -> Compilation:
        """Compiles a source to PTX that is never assembled, `header` included before it.

        For the emulator alone: such PTX may hold instructions that no GPU has.
        """
        arch = self.arch.replace("sm_", "compute_")
        expressions = tuple(dict.fromkeys(expressions))
        compiler = self.identify()
        inputs = self._inputs(self.included(source), arch, header)
        key = self._key(compiler, source + "\0" + header, expressions, inputs)
        answer = self._stored(key)
        from_cache = answer is not None
        if answer is None:
            try:
                answer = self._request(source, expressions, inputs, cubin=False)
            except (ChildTimeout, ChildDied) as error:
                return _failure(_gave_up(str(error)), arch, compiler)
            if answer.status in _LASTING:
                self._cache.put(key, msgspec.msgpack.encode(answer))
        return self._compilation(answer, compiler, source, expressions, arch, from_cache)

    def build(
        self,
        source: str,
        expressions: tuple[str, ...],
        headers: Mapping[str, str],
        flags: tuple[str, ...],
        arch: str = "",
    ) -> Build:
        """Compiles a text that was not written here, with headers by name and flags of its own.

        Unlike in `compile` a kernel may take structures. The stand-ins are there, those in
        `headers` come first. Raises CompilerUnavailable.
        """
        arch = arch or self.arch
        compiler = self.identify()
        options = self._build_options(flags, arch)
        named = [part for name, text in sorted(headers.items()) for part in (name, text)]
        key = content_key(
            *(_CACHE_VERSION, compiler, *self._header_versions(), *STAND_INS.values(), "--"),
            *(*named, "--", *options, "--", *expressions, source),
        )
        answer = self._stored(key)
        if answer is None:
            message = {
                "source": _without_lambda_spaces(source),
                "name": SOURCE_NAME,
                "expressions": expressions,
                "headers": {**STAND_INS, **_for_nvrtc(headers)},
                "options": options,
                "cubin": True,
            }
            self.start()
            try:
                answer = msgspec.convert(self._child.ask(message, self.seconds, cpu=True), _Answer)
            except (ChildTimeout, ChildDied) as error:
                return Build({}, "", b"", compiler, f"compilation was given up: {error}")
            if answer.status in _LASTING:
                self._cache.put(key, msgspec.msgpack.encode(answer))
        problem = "" if answer.status == _SUCCESS else _first_error(answer)
        return Build(answer.symbols, answer.ptx, answer.cubin, compiler, problem)

    def _stored(self, key: str) -> _Answer | None:
        stored = self._cache.get(key)
        if stored is None:
            return None
        try:
            return msgspec.msgpack.decode(stored, type=_Answer)
        except ValueError:
            return None

    def refused_instantiations(self, source: str) -> list[tuple[str, ...]]:
        """For each error in a source, the instantiations that led there, as NVRTC names them.

        For a source of ours about upstream files. Raises UserError for one that includes too much,
        CompilerUnavailable without a compiler; where it gives up nothing is refused.
        """
        inputs = self._inputs(self.included(source), self.arch)
        try:
            return parse_instantiations(self._request(source, (), inputs, cubin=False).log)
        except (ChildTimeout, ChildDied):
            return []

    def raw_log(self, source: str) -> str:
        """The compiler's own log for a source that was not scanned first, for `doctor`."""
        return self._request(source, (), _Inputs({}, self._options(ARCH)), cubin=False).log

    def included(self, source: str) -> Included:
        """What a source needs of the upstream files; nothing of them is compiled for that.

        Raises UserError for a source that includes too much.
        """
        if self.upstream is None:
            return NOTHING
        return included_headers(self.upstream, source, None, self._is_known, STAND_INS)

    def _is_known(self, name: str) -> bool:
        return is_known_header(name, self.toolchain.include_dirs)

    def _inputs(self, included: Included, arch: str, header: str = "") -> _Inputs:
        """`header` is included first. Macros, and C++20, which frameworks are written in, are for
        those who use upstream files: all other sources compile as they do in any other task.
        """
        headers, options = dict(included.headers), self._options(arch)
        if headers and self.upstream is not None:
            defines = (f"-D{d}" for d in self.upstream.defines)
            options = self._build_options(("--std=c++20", *defines), arch, quiet=False)
        if header:
            headers[EXTRA_NAME] = header
            options.append(f"--pre-include={EXTRA_NAME}")
        return _Inputs(headers, options)

    def content_hash(self) -> str:
        """SHA-256 of the library with its builtins: what makes the code, wherever it lies.

        Computed once for a file of some size and time. Empty where there is no library.
        """
        library = self.toolchain.library
        if library is None:
            return ""
        digest = hashlib.sha256()
        for file in (library, *sorted(library.parent.glob("libnvrtc-builtins.so.*"))):
            digest.update(self._file_hash(file))
        return digest.hexdigest()

    def _file_hash(self, file: Path) -> bytes:
        try:
            key = content_key("library", *_file_state(file))
            found = self._cache.get(key)
            if found is None:
                with file.open("rb") as stream:
                    found = hashlib.file_digest(stream, "sha256").digest()
                self._cache.put(key, found)
        except OSError:
            return b""
        return found

    def try_escapes(self, targets: Targets) -> dict[str, str]:
        """Has the process try to get out, see `escapes`. Raises ChildDied, ChildTimeout."""
        self.start()
        outcomes: dict[str, str] = self._child.ask(
            {"escapes": msgspec.to_builtins(targets)}, self.seconds
        )
        return outcomes

    def _key(
        self, compiler: str, source: str, expressions: tuple[str, ...], inputs: _Inputs
    ) -> str:
        named = (part for pair in sorted(inputs.headers.items()) for part in pair)
        return content_key(
            *(_CACHE_VERSION, compiler, *self._header_versions(), *STAND_INS.values(), "--"),
            *(*named, "--", *inputs.options, "--", *expressions, source),
        )

    def _header_versions(self) -> list[str]:
        return [f"{name}={wheel_version(name)}" for name in _HEADER_WHEELS]

    def _build_options(self, flags: tuple[str, ...], arch: str, *, quiet: bool = True) -> list[str]:
        standard = [flag for flag in flags if flag.startswith(_STANDARD)]
        kept = [o for o in self._options(arch) if not (standard and o.startswith(_STANDARD))]
        return [*kept, *(["--disable-warnings"] if quiet else []), *flags]

    def _options(self, arch: str) -> list[str]:
        return [
            f"{_ARCHITECTURE}{arch}",
            "--std=c++17",
            "-default-device",
            "--generate-line-info",
            "--ptxas-options=-v",
            f"--pre-include={PRELUDE_NAME}",
            *(f"--include-path={folder}" for folder in self.toolchain.include_dirs),
        ]

    def _ask(self, source: str, expressions: tuple[str, ...], inputs: _Inputs) -> _Answer:
        """Compiles for real. A message of ptxas names a line of PTX, so that is fetched too."""
        answer = self._request(source, expressions, inputs, cubin=True)
        if "ptxas" in answer.log and answer.status != _SUCCESS:
            to_ptx = _Inputs(
                inputs.headers,
                [
                    o.replace("=sm_", "=compute_", 1) if o.startswith(_ARCHITECTURE) else o
                    for o in inputs.options
                ],
            )
            answer.failed_ptx = self._request(source, expressions, to_ptx, cubin=False).ptx
        return answer

    def _request(
        self, source: str, expressions: tuple[str, ...], inputs: _Inputs, cubin: bool
    ) -> _Answer:
        self.start()
        message = {
            "source": _without_lambda_spaces(source),
            "name": SOURCE_NAME,
            "expressions": expressions,
            "headers": {**STAND_INS, **_for_nvrtc(inputs.headers)},
            "options": inputs.options,
            "cubin": cubin,
            "precompile": True,
        }
        return msgspec.convert(self._child.ask(message, self.seconds, cpu=True), _Answer)

    def _compilation(
        self,
        answer: _Answer,
        compiler: str,
        source: str,
        expressions: tuple[str, ...],
        arch: str,
        from_cache: bool,
    ) -> Compilation:
        log = answer.log
        ptx_lines = _source_lines(answer.failed_ptx)
        diagnostics = list(
            parse_diagnostics(log, SOURCE_NAME, source, self.toolchain.include_dirs, ptx_lines)
        )
        succeeded = answer.status == _SUCCESS
        failed = [d for d in diagnostics if d.severity is Severity.ERROR]
        if not succeeded and not failed:
            diagnostics.append(
                Diagnostic(
                    Severity.ERROR,
                    f"the compiler failed ({answer.status}) for a reason outside this source",
                )
            )
        kernels: list[CompiledKernel] = []
        resources = parse_resources(log)
        for expression in expressions if succeeded else ():
            symbol = answer.symbols[expression]
            try:
                parameters, size = parse_parameters(symbol, answer.ptx)
            except SignatureError as error:
                diagnostics.append(Diagnostic(Severity.ERROR, str(error), kernel=expression))
                continue
            kernels.append(
                CompiledKernel(
                    expression, symbol, parameters, size, resources.get(symbol, _NO_RESOURCES)
                )
            )
        return Compilation(
            diagnostics=tuple(diagnostics),
            kernels=tuple(kernels),
            ptx=answer.ptx,
            cubin=answer.cubin,
            arch=arch,
            compiler=compiler,
            seconds=answer.seconds,
            from_cache=from_cache,
        )


def _file_state(file: Path) -> tuple[str, str, str]:
    """What changes when a file does, without reading it. Raises OSError."""
    known = file.stat()
    return str(file), str(known.st_size), str(known.st_mtime_ns)


def _without_lambda_spaces(source: str) -> str:
    """A text of the same length in which no lambda says where it runs.

    nvcc knows `[] __device__ (int x) {...}` by --extended-lambda; NVRTC refuses it, and takes each
    lambda for one of the device anyway.
    """
    return _LAMBDA_SPACE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)


def _for_nvrtc(headers: Mapping[str, str]) -> dict[str, str]:
    return {n: _without_lambda_spaces(without_launches(text)) for n, text in headers.items()}


def _first_error(answer: _Answer) -> str:
    """The first line of a log that names an error; its file is a name that was included."""
    errors = [line.strip() for line in answer.log.splitlines() if "error" in line]
    first = (errors or [f"the compiler failed ({answer.status})"])[0]
    return first.removeprefix("/") if first.startswith(UPSTREAM_PREFIX) else first


def _source_lines(ptx: str) -> dict[int, int]:
    """For each line of PTX, the source line that the last `.loc` of the source before it named."""
    own = {match[1] for match in _FILE.finditer(ptx) if is_own(match[2])}
    current = 0
    found: dict[int, int] = {}
    for number, text in enumerate(ptx.splitlines(), 1):
        match = _LOC.match(text)
        if match and match[1] in own:
            current = int(match[2])
        found[number] = current
    return found


def _unfit_names(expressions: tuple[str, ...]) -> list[Diagnostic]:
    """Errors for names of more than one line: NVRTC would take the other lines for source."""
    return [
        Diagnostic(Severity.ERROR, "a kernel's name has to be one line of text", kernel=expression)
        for expression in expressions
        if not expression.strip() or not expression.isprintable()
    ]


def _gave_up(reason: str) -> list[Diagnostic]:
    return [Diagnostic(Severity.ERROR, f"compilation was given up: {reason}")]


def _failure(diagnostics: list[Diagnostic], arch: str, compiler: str) -> Compilation:
    return Compilation(
        diagnostics=tuple(diagnostics),
        kernels=(),
        ptx="",
        cubin=b"",
        arch=arch,
        compiler=compiler,
        seconds=0.0,
    )
