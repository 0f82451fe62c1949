"""compute-sanitizer on a source, whatever the device is."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tui.lab.compiler import Compiler
from astra_tui.lab.cuda.sanitizer.gate import sanitize
from astra_tui.lab.cuda.sources import compile_source
from astra_tui.lab.devices import Opened
from astra_tui.model.check import Case
from astra_tui.model.sanitizer import SanitizerReport, SanitizerVerdict, not_looked_at
from astra_tui.model.task import KernelTask

ON_EMULATOR = (
    "compute-sanitizer needs a GPU; the emulator checks bounds, alignment, races, barriers and "
    "uninitialised reads itself"
)


def sanitize_source(
    task: KernelTask,
    compiler: Compiler,
    opened: Opened,
    text: str,
    file: str,
    cases: Sequence[Case] | None = None,
) -> tuple[SanitizerReport, ...]:
    """One report a tool for a source that has passed its check; by default on small cases.

    On the emulator no tool looks at it, and the reports say what does. Raises UserError for a
    source that does not compile or whose launch plan is wrong.
    """
    if opened.gpu is None:
        return not_looked_at(SanitizerVerdict.UNAVAILABLE, ON_EMULATOR)
    compiled = compile_source(task, compiler, opened.device.attributes, text, file)
    return sanitize(task, compiled, opened.gpu.facts, cases=cases)
