"""Machine code for tests: compiled by the real compiler, disassembled by the real nvdisasm."""

from __future__ import annotations

from astra_tui.lab.check.execution import read_source
from astra_tui.lab.check.kernels import compile_workload
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.explain.sass import disassemble
from astra_tui.lab.explain.sass.disassembly import kernel_of
from astra_tui.lab.explain.sass.listing import parse_listing
from astra_tui.model.sass import Disassembly, SassKernel
from astra_tui.model.task import KernelTask

TASKS = ("silu_and_mul", "fused_add_rmsnorm", "merge_attn_states_lse")
SOURCES = ("baseline.cu", "tuned.cu")


def disassembled(task: KernelTask, name: str, compiler: Compiler) -> Disassembly:
    """One of a task's sources, for its first workload."""
    file = task.folder / name
    source = read_source(task, file.read_text(encoding="utf-8"), str(file))
    found = disassemble(compile_workload(task, source, task.workload(), compiler))
    assert found.available, found.problem
    return found


def kernel_from_source(text: str, expression: str, compiler: Compiler) -> SassKernel:
    """The only kernel of a source text."""
    compilation = compiler.compile(text, (expression,))
    assert compilation.ok, compilation.errors
    found = disassemble(compilation)
    assert found.available, found.problem
    (kernel,) = found.kernels
    return kernel


def kernel_from_listing(*lines: str) -> SassKernel:
    """A kernel from instructions and labels in words, 16 bytes an instruction."""
    text = ['\t.section\t.text.k,"ax",@progbits', '  .other k,@"STO_CUDA_ENTRY STV_DEFAULT"', "k:"]
    address = 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
        else:
            text.append(f"        /*{address:04x}*/   {line} ;")
            address += 16
    listing = parse_listing("\n".join(text))
    assert not listing.problem
    (function,) = listing.functions
    return kernel_of(function, "k")


def depths(kernel: SassKernel) -> list[int]:
    """The loop depth of every instruction."""
    return [instruction.loop_depth for instruction in kernel.instructions]
