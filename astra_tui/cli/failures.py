"""What a command says when it cannot do what was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_tui import plain
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.errors import DeviceMissing, OutOfResources, UserError

if TYPE_CHECKING:
    from astra_tui.cli.answers import ErrorEntry


class UnavailableHere(UserError):
    """Something that the command needs is not on this machine."""


class KernelFailed(UserError):
    """A kernel that had passed its check could not be run to the end."""


def report_failure(error: UserError, as_json: bool) -> ExitCode:
    """Prints the error on stderr, and as JSON on stdout if asked; returns the exit code."""
    from astra_tui.cli.answers import ErrorAnswer

    code = _exit_code(error)
    print_error(error)
    if as_json:
        plain.print_json(ErrorAnswer(int(code), error_entry(error)))
    return code


def _exit_code(error: UserError) -> ExitCode:
    from astra_tui.sessions.client import EngineGone
    from astra_tui.sessions.engines import EngineNotStarted

    if isinstance(error, UnavailableHere | DeviceMissing):
        return ExitCode.UNSUPPORTED
    if isinstance(error, KernelFailed):
        return ExitCode.FAILED
    if isinstance(error, EngineGone | EngineNotStarted | OutOfResources):
        return ExitCode.TROUBLE
    return ExitCode.BAD_INPUT


def print_error(error: UserError) -> None:
    """The error on stderr."""
    plain.note(f"astra-tui: {error.describe()}")


def error_entry(error: UserError) -> ErrorEntry:
    """The error as data."""
    from astra_tui.cli.answers import ErrorEntry

    return ErrorEntry(error.message, error.file, error.place.line, error.place.column, error.hint)
