"""The README of an export, for someone who has never heard of this program."""

from __future__ import annotations

from collections.abc import Sequence

import astra_tui
from astra_tui.export.artefact import Subject, rendered
from astra_tui.export.formats import FORMATS
from astra_tui.model.export import ExportStep, Format


def readme(subject: Subject, to: Format, steps: Sequence[ExportStep]) -> str:
    """How to build and call it, what it takes, what was checked and how that ended, limits."""
    found = {
        **FORMATS[to].words(subject),
        "subject": subject,
        "winner": subject.winner,
        "format": to,
        "steps": steps,
        "version": astra_tui.__version__,
    }
    return rendered(f"readme_{to.value}.md.jinja", found)
