"""The linear front end: tables and text for pipes, dumb terminals and screen readers."""

from astra_tui.plain.counters import CountedSource, print_counters
from astra_tui.plain.drafts import print_draft
from astra_tui.plain.health import print_probe, print_prognosis
from astra_tui.plain.output import note, print_json, print_pairs, progress, visible
from astra_tui.plain.reports import (
    print_cases,
    print_compile_errors,
    print_report,
    print_report_table,
    print_tasks,
)
from astra_tui.plain.sass import SassSource, print_sass

__all__ = [
    "CountedSource",
    "SassSource",
    "note",
    "print_cases",
    "print_compile_errors",
    "print_counters",
    "print_draft",
    "print_json",
    "print_pairs",
    "print_probe",
    "print_prognosis",
    "print_report",
    "print_report_table",
    "print_sass",
    "print_tasks",
    "progress",
    "visible",
]
