"""NVRTC in a child process with limits, and a cache: source text to PTX, cubin and resources."""

from astra_tui.lab.compiler.service import Build, Compiler, CompilerUnavailable
from astra_tui.lab.compiler.toolchain import Toolchain, find_toolchain

__all__ = ["Build", "Compiler", "CompilerUnavailable", "Toolchain", "find_toolchain"]
