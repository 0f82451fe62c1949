"""What the commands' exit codes mean; docs/commands.md is generated from this."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astra_tui.model.check import CheckVerdict


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    COMPILE_ERROR = 3
    UNSUPPORTED = 4
    NEEDS_DECISION = 5
    TROUBLE = 6
    INCONCLUSIVE = 7
    UNFINISHED_DRAFT = 8
    INTERRUPTED = 130
    PIPE_CLOSED = 141


MEANINGS = {
    ExitCode.OK: "done; for a check: every case passed",
    ExitCode.FAILED: "the kernel is wrong, or something that was asked for is missing",
    ExitCode.BAD_INPUT: "bad usage, or a task, plan, reference or output that cannot be used",
    ExitCode.COMPILE_ERROR: "the kernel source does not compile",
    ExitCode.UNSUPPORTED: "this machine or device cannot do it",
    ExitCode.NEEDS_DECISION: "a run waits for a decision and no one is there; it can be resumed",
    ExitCode.TROUBLE: "an error outside of the kernel, such as a model's server",
    ExitCode.INCONCLUSIVE: "nothing wrong was found, but the check could not establish everything",
    ExitCode.UNFINISHED_DRAFT: "a task was drafted, and does not load or compile yet",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.PIPE_CLOSED: "whatever read the output went away",
}


def worst(verdicts: Sequence[CheckVerdict]) -> ExitCode:
    """The exit code for several verdicts: the most telling one."""
    # Most of what a command loads to show its help would be for the verdicts.
    from astra_tui.model.check import CheckVerdict

    by_verdict = {
        CheckVerdict.FAILED: ExitCode.FAILED,
        CheckVerdict.COMPILE_ERROR: ExitCode.COMPILE_ERROR,
        CheckVerdict.PLAN_ERROR: ExitCode.BAD_INPUT,
        CheckVerdict.UNSUPPORTED: ExitCode.UNSUPPORTED,
        CheckVerdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    }
    return next((code for v, code in by_verdict.items() if v in verdicts), ExitCode.OK)
