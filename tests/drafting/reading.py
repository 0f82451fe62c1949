"""Drafts of sources that tests hold as text."""

from __future__ import annotations

import tempfile
from pathlib import Path

from astra_tui.cuda_source.clang import read_translation
from astra_tui.drafting import Draft, draft_task
from astra_tui.lab.compiler.toolchain import find_toolchain


def drafted(name: str, text: str, file: str, kernel: str | None = None) -> Draft:
    """The draft of a source that is written to a file first."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, file)
        path.write_bytes(text.encode(errors="surrogateescape"))
        translation = read_translation(path, [], find_toolchain().include_dirs)
    return draft_task(name, translation, kernel)


def texts(draft: Draft) -> list[str]:
    """The open points of a draft in words."""
    return [point.text for point in draft.open_points]
