"""What leaves a session: its winner as source, patch, C++, PyTorch operator, TVM-FFI module.

Everything here is text made from a journal and a task; nothing is compiled, run or written. The
checks are in `astra_tui.export.exporting`.
"""

from __future__ import annotations

from astra_tui.export.artefact import Files, Subject
from astra_tui.export.formats import FORMATS
from astra_tui.export.origin import (
    GENERATED,
    Header,
    check_origin,
    compare_text,
    made_by_another_version,
    read_header,
)
from astra_tui.export.torch_package import package_name
from astra_tui.export.winner import BEST, Winner, find_winner
from astra_tui.model.export import (
    DeliveryReport,
    ExportReport,
    ExportStep,
    Format,
    Framework,
    StepOutcome,
)

__all__ = [
    "BEST",
    "FORMATS",
    "GENERATED",
    "DeliveryReport",
    "ExportReport",
    "ExportStep",
    "Files",
    "Format",
    "Framework",
    "Header",
    "StepOutcome",
    "Subject",
    "Winner",
    "check_origin",
    "compare_text",
    "export_files",
    "find_winner",
    "made_by_another_version",
    "package_name",
    "read_header",
]


def export_files(subject: Subject, to: Format) -> Files:
    """The files of an export. Raises UserError for what a format cannot hold."""
    return FORMATS[to].write(subject)
