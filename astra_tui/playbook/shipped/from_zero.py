"""Loops over a row in elements of the row, where they count elements of all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from astra_tui.cuda_source.functions import Function
from astra_tui.cuda_source.indices import BLOCK_THREADS, THREAD, IndexReader, Polynomial
from astra_tui.cuda_source.polynomial import of_atom
from astra_tui.cuda_source.syntax import contains, field
from astra_tui.playbook.edits import Edit
from astra_tui.playbook.edits import replace as put
from astra_tui.playbook.kernel_text import KernelText
from astra_tui.playbook.loops import Loop, loops_of


@dataclass(frozen=True)
class _Shifted:
    """`for (i = base + thread; i < base + length; i += threads)`."""

    loop: Loop
    base: str
    length: str


def from_zero(source: KernelText) -> str:
    """The source in which loops of threads over a row begin at its first element."""
    edits = [
        edit for kernel in source.kernels for loop in loops_of(kernel)
        if (shifted := _shifted(kernel, loop)) is not None
        for edit in _edits(kernel, shifted)
    ]  # fmt: skip
    return source.changed(edits)


def _shifted(kernel: Function, loop: Loop) -> _Shifted | None:
    reader = IndexReader(kernel)
    if not loop.counts_up() or loop.declaration is not None:
        return None
    if loop.node.type != "for_statement" or loop.step_form(reader) != BLOCK_THREADS:
        return None
    base = loop.start_form(reader) - THREAD
    if base.number == 0 or reader.depends_on(base, THREAD.text()):
        return None
    length = reader.read(loop.bound) - base
    texts = [_written(form, kernel, loop.node, reader) for form in (base, length)]
    return _Shifted(loop, texts[0], texts[1]) if all(texts) else None


def _written(form: Polynomial, kernel: Function, at: Node, reader: IndexReader) -> str:
    """A sum as the kernel may write it, by a name of its own if it has one; "" where it may not."""
    for variable in (*kernel.parameters, *kernel.locals):
        is_known = variable.is_scalar and kernel.lookup(variable.name, at) == variable
        if not is_known or not kernel.is_constant(variable):
            continue
        value = variable.value
        if form == (reader.read(value) if value is not None else of_atom(variable.name)):
            return variable.name
    return form.text() if all(_stays(atom, kernel, at) for atom in form.atoms()) else ""


def _stays(atom: str, kernel: Function, at: Node) -> bool:
    """Whether an atom is the name of a value that never changes."""
    if atom.partition(".")[0] in ("blockIdx", "blockDim", "gridDim"):
        return True
    variable = kernel.lookup(atom, at)
    return variable is not None and variable.is_scalar and kernel.is_constant(variable)


def _edits(kernel: Function, shifted: _Shifted) -> Iterator[Edit]:
    loop, base = shifted.loop, shifted.base
    yield put(loop.start, THREAD.text())
    yield put(loop.bound, shifted.length)
    body = field(loop.node, "body")
    for use in kernel.uses(loop.variable):
        if contains(body, use):
            above = use.parent
            alone = above is not None and above.type == "subscript_argument_list"
            yield put(use, f"{base} + {loop.name}" if alone else f"({base} + {loop.name})")
