"""Machine code (SASS) with source lines, histograms and differences between versions."""

from astra_tui.lab.explain.sass.diff import compare, compare_kernels
from astra_tui.lab.explain.sass.disassembly import disassemble
from astra_tui.lab.explain.sass.nvdisasm import find_nvdisasm

__all__ = ["compare", "compare_kernels", "disassemble", "find_nvdisasm"]
