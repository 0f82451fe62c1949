"""NVRTC in a child process with limits, behind a cache: source text to PTX, cubin and resources."""

from astra_tui.lab.compiler.service import Compiler, CompilerUnavailable
from astra_tui.lab.compiler.toolchain import Toolchain, find_toolchain

__all__ = ["Compiler", "CompilerUnavailable", "Toolchain", "find_toolchain"]
