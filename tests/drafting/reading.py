"""Drafts of sources that tests hold as text."""

from __future__ import annotations

import tempfile
from pathlib import Path

from astra_tui.cuda_source.clang import Request, read_here
from astra_tui.drafting import Draft, draft_task
from astra_tui.lab.compiler.toolchain import find_toolchain


def drafted(name: str, text: str, file: str, kernel: str | None = None) -> Draft:
    """The draft of a source that is written to a file first, and read in this process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, file)
        path.write_bytes(text.encode(errors="surrogateescape"))
        cuda = tuple(map(str, find_toolchain().include_dirs))
        translation = read_here(Request(str(path.resolve()), (), cuda))
    return draft_task(name, translation, kernel)


def texts(draft: Draft) -> list[str]:
    """The open points of a draft in words."""
    return [point.text for point in draft.open_points]
