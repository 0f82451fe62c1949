"""From a compiled source to its machine code as data."""

from __future__ import annotations

import re
from pathlib import Path

from astra_tui.lab.explain.sass.classes import classify, histogram
from astra_tui.lab.explain.sass.listing import (
    NAMED_LABEL,
    RawFunction,
    RawInstruction,
    parse_listing,
)
from astra_tui.lab.explain.sass.loops import loop_depths, loops_forever
from astra_tui.lab.explain.sass.nvdisasm import SECONDS, find_nvdisasm, run_nvdisasm
from astra_tui.model.compilation import Compilation
from astra_tui.model.sass import (
    Disassembly,
    Instruction,
    InstructionClass,
    SassKernel,
    Subroutine,
)


def disassemble(
    compilation: Compilation, tool: Path | None = None, seconds: float = SECONDS
) -> Disassembly:
    """The kernels of a compilation in the order in which they were asked for, then the rest.

    `tool` is an nvdisasm to use in place of the one that is found. Never raises: what stands in
    the way is in `problem`, with its remedy.
    """
    if not compilation.cubin:
        return Disassembly((), compilation.arch, problem="there is no cubin to disassemble")
    output = run_nvdisasm(compilation.cubin, tool or find_nvdisasm(), seconds)
    if output.problem:
        return Disassembly((), compilation.arch, output.tool, output.problem, output.remedy)
    listing = parse_listing(output.text)
    if listing.problem:
        return Disassembly((), compilation.arch, output.tool, listing.problem)
    names = {kernel.symbol: kernel.expression for kernel in compilation.kernels}
    order = {symbol: i for i, symbol in enumerate(names)}
    functions = sorted(listing.functions, key=lambda f: order.get(f.symbol, len(order)))
    kernels = tuple(kernel_of(f, names.get(f.symbol, f.symbol)) for f in functions)
    return Disassembly(kernels, compilation.arch, output.tool)


def kernel_of(function: RawFunction, name: str) -> SassKernel:
    """The instructions of a function with classes and loops."""
    depths = loop_depths(function)
    instructions = tuple(
        _instruction(raw, function.labels, depth)
        for raw, depth in zip(function.instructions, depths, strict=True)
    )
    subroutines = tuple(
        Subroutine(address, label)
        for label, address in sorted(function.labels.items(), key=lambda item: item[1])
        if not label.startswith(".") and label != function.symbol
    )
    return SassKernel(name, function.symbol, instructions, histogram(instructions), subroutines)


def _instruction(raw: RawInstruction, labels: dict[str, int], depth: int) -> Instruction:
    category, name = classify(raw.opcode, raw.operands)
    if loops_forever(raw, labels):
        category = InstructionClass.PADDING
    return Instruction(
        address=raw.address,
        opcode=raw.opcode,
        operands=tuple(_with_addresses(operand, labels) for operand in raw.operands),
        category=category,
        name=name,
        predicate=raw.predicate,
        line=raw.line,
        header=raw.header,
        loop_depth=depth,
        targets=tuple(labels[label] for label in raw.labels if label in labels),
    )


def _with_addresses(operand: str, labels: dict[str, int]) -> str:
    """The operand with addresses in place of labels; names of functions stay."""

    def address(label: re.Match[str]) -> str:
        local = label[1].startswith(".") and label[1] in labels
        return f"{labels[label[1]]:#x}" if local else label[0]

    return NAMED_LABEL.sub(address, operand)
