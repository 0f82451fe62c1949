"""What a caller has to know of an export whose plan says `pdl=`: programmatic dependent launch."""

from __future__ import annotations

import re
import textwrap

from astra_tui.export.artefact import Subject

_NEEDS_SM_90 = re.compile(
    r"\b(cudaGridDependencySynchronize|cudaTriggerProgrammaticLaunchCompletion|griddepcontrol)\b"
)


def caller_notice(subject: Subject, width: int) -> list[str]:
    """Lines of plain text, none where no launch of the plan says `pdl=`."""
    if not subject.pdl:
        return []
    text = f"{_EARLY} {_reads(subject)} {_BEHIND}"
    calls = sorted(set(_NEEDS_SM_90.findall(subject.winner.text)))
    if calls:
        text += f" {_ARCHITECTURE.format(' and '.join(calls))}"
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


_EARLY = (
    "Programmatic dependent launch: on GPUs of compute capability 9.0 or later, a kernel may begin "
    "before the kernel launched just before it on the stream has ended, which for the first kernel "
    "of a call is one of the caller's; on other GPUs it may not."
)
_BEFORE = "Before the caller's kernels have ended, a call"
_BEHIND = (
    "A kernel that the caller launches in this way after a call may begin before the call has "
    "ended, and has to wait (cudaGridDependencySynchronize) before it uses what the call reads or "
    "writes."
)
_ARCHITECTURE = (
    "The source uses {}, which needs sm_90 or later: for older GPUs it compiles only where a test "
    "of __CUDA_ARCH__ leaves that out."
)


def _reads(subject: Subject) -> str:
    """What a call may read at once, and so must be complete before it."""
    stable = [a.name for a in subject.task.tensors if a.stable]
    if not stable:
        return f"{_BEFORE} neither reads nor writes a tensor."
    names = " and ".join(filter(None, (", ".join(stable[:-1]), stable[-1])))
    return (
        f"{_BEFORE} writes no tensor, and reads none but {names}: so the kernel launched just "
        f"before a call must not write {names}, nor, where that one was launched in this way too, "
        "must those before it."
    )
