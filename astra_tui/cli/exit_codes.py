"""What the commands' exit codes mean, and what a command says when it cannot do what was asked.

docs/commands.md is generated from this.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from astra_tui.model.errors import DeviceMissing, OutOfResources, UserError

if TYPE_CHECKING:
    from astra_tui.cli.json_answers import ErrorEntry
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


class UnavailableHere(UserError):
    """Something that the command needs is not on this machine."""


class KernelFailed(UserError):
    """A kernel that had passed its check could not be run to the end."""


def report_failure(error: UserError, as_json: bool) -> ExitCode:
    """Prints the error on stderr, and as JSON on stdout if asked; returns the exit code."""
    from astra_tui import plain
    from astra_tui.cli.json_answers import ErrorAnswer

    code = _exit_code(error)
    print_error(error)
    if as_json:
        plain.print_json(ErrorAnswer(int(code), error_entry(error)))
    return code


def _exit_code(error: UserError) -> ExitCode:
    from astra_tui.rpc import ServiceFailed
    from astra_tui.sessions.client import EngineGone
    from astra_tui.sessions.engines import EngineNotStarted

    if isinstance(error, UnavailableHere | DeviceMissing):
        return ExitCode.UNSUPPORTED
    if isinstance(error, KernelFailed):
        return ExitCode.FAILED
    if isinstance(error, EngineGone | EngineNotStarted | OutOfResources | ServiceFailed):
        return ExitCode.TROUBLE
    return ExitCode.BAD_INPUT


def print_error(error: UserError) -> None:
    """The error on stderr."""
    from astra_tui import plain

    plain.note(f"astra-tui: {error.describe()}")


def error_entry(error: UserError) -> ErrorEntry:
    """The error as data."""
    from astra_tui.cli.json_answers import ErrorEntry

    return ErrorEntry(error.message, error.file, error.place.line, error.place.column, error.hint)
