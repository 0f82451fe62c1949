"""What a compiler says about a kernel source: diagnostics, kernels and their resources."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from astra_tui.model.digest import content_hash
from astra_tui.model.dtypes import DType

SOURCE_NAME = "kernel.cu"
"""What a source is called in the messages and line tables of the compiler."""

UPSTREAM_PREFIX = "/upstream/"
"""What the names of a task's upstream files begin with there: no path on disk is opened."""


def upstream_place(file: str, line: int) -> str:
    """A line of an upstream file as users read it, `upstream/a/b.cuh:12`; "" for other files."""
    return f"{file[1:]}:{line}" if line and file.startswith(UPSTREAM_PREFIX) else ""


def is_own(file: str) -> bool:
    """Whether the compiler means the source itself by a file name, with or without folders."""
    return file.rpartition("/")[2] == SOURCE_NAME and not file.startswith(UPSTREAM_PREFIX)


class Severity(StrEnum):
    """How much a message matters."""

    ERROR = "error"
    WARNING = "warning"


class Diagnostic(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of the compiler about the source; line and column are 1-based, 0 if unknown.

    `kernel` is the C++ name that the launch plan asked for, where the message is about that name.
    """

    severity: Severity
    message: str
    line: int = 0
    column: int = 0
    source_line: str = ""
    kernel: str = ""


def describe_errors(errors: Iterable[Diagnostic]) -> str:
    """The compiler's errors, one a line, as an agent or an engineer reads them."""
    lines = []
    for diagnostic in errors:
        where = f"line {diagnostic.line}: " if diagnostic.line else ""
        lines.append(f"{where}{diagnostic.message}")
        if diagnostic.source_line:
            lines.append(f"    {diagnostic.source_line.strip()}")
    return "\n".join(lines)


class Parameter(msgspec.Struct, frozen=True, omit_defaults=True):
    """One kernel parameter, as its C++ type says.

    `kind` is "pointer", "integer", "float", "bool" or "struct" (any class by value). For a
    pointer, `type` names what it points to. `offset` is its place in the packed parameter buffer,
    in bytes; `alignment` is a structure's, the other types are aligned to their size.
    """

    kind: str
    type: str
    size: int
    offset: int
    dtype: DType | None = None
    const: bool = False
    alignment: int = 0


class Resources(msgspec.Struct, frozen=True):
    """What ptxas says that one kernel needs; bytes but for the registers of one thread."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    static_shared: int
    barriers: int


class CompiledKernel(msgspec.Struct, frozen=True):
    """One kernel of a compiled source; `expression` is the C++ name that asked for it."""

    expression: str
    symbol: str
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    resources: Resources


_INSTRUCTION = re.compile(r"^\s*(?:\{\s*)?(?:@!?%\w+\s+)?([a-z][\w.:]*)[\s;]", re.MULTILINE)
_DIRECTIVE = re.compile(
    r"(?<![\w.%])(\.(?:shared|local|maxntid|minnctapersm|reqntid|\w*cluster\w*))"
)


def instructions_in(ptx: str) -> tuple[str, ...]:
    """The distinct instructions of PTX with their suffixes, and directives that say how a kernel
    is launched or what memory it has, such as `.shared`; in order of the alphabet.
    """
    return tuple(sorted({*_INSTRUCTION.findall(ptx), *_DIRECTIVE.findall(ptx)}))


_ASSEMBLY = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.DOTALL)
_REGISTER = re.compile(r"%\w+")


def assembly_in(ptx: str) -> tuple[str, ...]:
    """The distinct pieces of inline assembly that PTX has, registers aside. CUDA's own headers,
    such as that of `__half`, bring some too.
    """
    pieces = (_REGISTER.sub("%", piece) for piece in _ASSEMBLY.findall(ptx))
    return tuple(sorted({" ".join(piece.split()) for piece in pieces}))


_DEBUG = re.compile(
    r"^[ \t]*(?:\.loc\b.*|\.file\b.*|//.*|\.section\b.*\n[ \t]*\{[^}]*\}|)\n", re.MULTILINE
)
"""What only says from which lines code came, comments, and empty lines."""


def code_hash(ptx: str, launch_plan: str) -> str:
    """The same for sources that run the same: equal PTX but for its lines, and an equal plan."""
    return content_hash(f"{_DEBUG.sub('', ptx)}\0{launch_plan}")


class Compilation(msgspec.Struct, frozen=True):
    """The outcome of compiling one source for one architecture."""

    diagnostics: tuple[Diagnostic, ...]
    kernels: tuple[CompiledKernel, ...]
    ptx: str
    cubin: bytes
    arch: str
    compiler: str
    """The compiler with its version, as in "NVRTC 13.5 (13.5.37)"."""
    seconds: float
    """Time in the compiler when it really ran, also for an answer from the cache."""
    from_cache: bool = False

    @property
    def ok(self) -> bool:
        """Whether there is something to run."""
        return not self.errors and bool(self.ptx)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that stopped the compilation."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that did not."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.WARNING)

    def kernel(self, expression: str) -> CompiledKernel:
        """The kernel that a launch plan names. Raises KeyError when it was not asked for."""
        for kernel in self.kernels:
            if kernel.expression == expression:
                return kernel
        raise KeyError(expression)
