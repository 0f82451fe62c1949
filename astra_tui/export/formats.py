"""The forms of an export: one row each, from which writing, README and `verify FILE` follow.

A form's name and what it is are in `model/export.py`; the steps that check it in `checks.py`; what
its README says in `templates/readme_FORMAT.md.jinja`. Where it runs on a GPU,
`artefact_process.py` opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import astra_tui
from astra_tui.export.artefact import Files, Subject, rendered
from astra_tui.export.cpp_project import cpp_project, cpp_words, tvm_ffi_project
from astra_tui.export.source_files import cu_file, patch_file
from astra_tui.export.torch_package import torch_project, torch_words
from astra_tui.model.export import ExportStep, Format

_NVCC_UNSEEN = "the emulator ran NVRTC's code of this source, not nvcc's"


@dataclass(frozen=True)
class FormatRow:
    """What is particular to a form."""

    write: Callable[[Subject], Files]
    """Its files. Raises UserError for what the form cannot hold."""
    words: Callable[[Subject], dict[str, Any]]
    """What the template of its README is filled with."""
    headings: tuple[str, ...]
    """How the headers of its files end their first line, after the task's name."""
    without_gpu: str = ""
    """What stands for a run where there is no GPU; "" for a form that is not run by itself."""

    @property
    def is_source(self) -> bool:
        """Whether it is made without a compiler."""
        return not self.without_gpu


FORMATS: Mapping[Format, FormatRow] = {
    Format.CU: FormatRow(cu_file, cpp_words, (": kernels and launch plan",)),
    Format.PATCH: FormatRow(patch_file, cpp_words, (": the winner",)),
    Format.CPP: FormatRow(
        cpp_project,
        cpp_words,
        (": the call", ": the launch plan", ": the launcher", ": the kernels"),
        _NVCC_UNSEEN,
    ),
    Format.TORCH: FormatRow(
        torch_project,
        torch_words,
        (" for PyTorch",),
        "the emulator ran the PTX from which the cubins come",
    ),
    Format.TVM_FFI: FormatRow(tvm_ffi_project, cpp_words, (": the TVM-FFI entry",), _NVCC_UNSEEN),
}


def format_of(what: str) -> Format | None:
    """The form whose files say that they are this, as in "NAME: the call"; None for no form's."""
    for form, row in FORMATS.items():
        if what.endswith(row.headings):
            return form
    return None


def readme(subject: Subject, to: Format, steps: Sequence[ExportStep]) -> str:
    """The README of an export: how to build and call it, what it takes, limits, and what was
    checked and how that ended.
    """
    found = {
        **FORMATS[to].words(subject),
        "subject": subject,
        "winner": subject.winner,
        "format": to,
        "steps": steps,
        "version": astra_tui.__version__,
    }
    return rendered(f"readme_{to.value}.md.jinja", found)
