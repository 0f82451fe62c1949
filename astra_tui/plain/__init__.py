"""The linear front end: tables and text for pipes, dumb terminals and screen readers."""

from astra_tui.plain.audit import print_audit
from astra_tui.plain.counters import CountedSource, print_counters
from astra_tui.plain.drafts import print_draft
from astra_tui.plain.hardware import print_compared
from astra_tui.plain.health import print_probe, print_prognosis
from astra_tui.plain.live_timing import TimingProgress
from astra_tui.plain.output import note, print_json, print_pairs, progress, visible
from astra_tui.plain.reports import (
    print_cases,
    print_compile_errors,
    print_report,
    print_report_table,
    print_tasks,
)
from astra_tui.plain.sass import SassSource, print_sass
from astra_tui.plain.timing import (
    gpu_words,
    print_environment,
    print_paper_timing,
    print_timing,
)

__all__ = [
    "CountedSource",
    "SassSource",
    "TimingProgress",
    "gpu_words",
    "note",
    "print_audit",
    "print_cases",
    "print_compared",
    "print_compile_errors",
    "print_counters",
    "print_draft",
    "print_environment",
    "print_json",
    "print_pairs",
    "print_paper_timing",
    "print_probe",
    "print_prognosis",
    "print_report",
    "print_report_table",
    "print_sass",
    "print_tasks",
    "print_timing",
    "progress",
    "visible",
]
