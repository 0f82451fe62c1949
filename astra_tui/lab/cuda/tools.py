"""Compiles our own kernels for the GPU processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_tui.lab.check.drawing import QUANTILES
from astra_tui.lab.compiler import Compiler, CompilerUnavailable

_SOURCE = Path(__file__).with_name("tools.cu")
_EXPRESSIONS = {
    "draw": "draw",
    "copy16x1": "copy16<1>",
    "copy16x4": "copy16<4>",
    "digest": "digest",
    "empty": "empty",
    "spin": "spin",
    "clock_rate": "clock_rate",
}


@dataclass(frozen=True)
class ToolKernels:
    """The compiled tools.cu; `symbols` are lowered names by the names that we use."""

    cubin: bytes
    symbols: dict[str, str]


def tools_source() -> str:
    """The text of tools.cu, with the generator's table in its place."""
    text = _SOURCE.read_text(encoding="utf-8")
    return text.replace("{QUANTILES}", "{" + ", ".join(map(str, QUANTILES)) + "}")


def compile_tools(compiler: Compiler, arch: str) -> ToolKernels:
    """Raises CompilerUnavailable, also when this NVRTC cannot compile them."""
    compiled = compiler.compile(tools_source(), tuple(_EXPRESSIONS.values()), arch)
    if not compiled.ok:
        first = compiled.errors[0]
        where = f"{_SOURCE.name}:{first.line}"
        raise CompilerUnavailable(f"{where}: {first.message} ({compiled.compiler})")
    symbols = {name: compiled.kernel(e).symbol for name, e in _EXPRESSIONS.items()}
    return ToolKernels(compiled.cubin, symbols)
