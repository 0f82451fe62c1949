"""The source itself: as one annotated file, and as a patch against the task's baseline."""

from __future__ import annotations

import difflib

from astra_tui.export.artefact import Files, Subject
from astra_tui.export.header import comment, header_lines
from astra_tui.export.winner import Winner
from astra_tui.model.errors import UserError

BASELINE = "baseline.cu"
"""What the patch changes, relative to the task's folder."""

_NO_NEWLINE = "\\ No newline at end of file\n"


def cu_file(subject: Subject) -> Files:
    """The kernels with their launch plan, under a comment that says where they come from."""
    winner = subject.winner
    return {f"{subject.task.name}.cu": with_header(winner, subject.task.name), **subject.headers}


def with_header(winner: Winner, name: str) -> str:
    """The candidate's text, byte for byte, below the comment."""
    return comment(header_lines(winner, f"{name}: kernels and launch plan."), "//") + winner.text


def patch_file(subject: Subject) -> Files:
    """A unified diff from the session's baseline. Raises UserError where there is none."""
    winner = subject.winner
    if winner.is_baseline:
        raise UserError(
            "the candidate is the baseline: there is nothing to patch", hint="use: --to cu"
        )
    return {f"{subject.task.name}.patch": patch_text(winner, subject.task.name)}


def patch_text(winner: Winner, name: str) -> str:
    """The diff below the comment."""
    mark = comment(header_lines(winner, f"{name}: the winner."), "#")
    return mark + unified_patch(winner.baseline, winner.text)


def unified_patch(old: str, new: str) -> str:
    """A diff that git and unidiff read; lines end at line feeds only, as git has it."""
    lines = difflib.unified_diff(_lines(old), _lines(new), f"a/{BASELINE}", f"b/{BASELINE}")
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


def _lines(text: str) -> list[str]:
    """Lines with their line feeds; a carriage return is part of its line."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
