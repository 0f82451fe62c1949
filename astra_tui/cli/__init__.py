"""The command line: every command and flag. Each command loads what it needs.

What is imported here is loaded before a Ctrl-C can be taken: as little as possible.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    import click

__all__ = ["main"]

COMPLETE = "_ASTRA_TUI_COMPLETE"
"""Set by shells that complete a command line."""

INTERRUPTED, PIPE_CLOSED, NOT_WRITTEN, TROUBLE = 130, 141, 2, 6
"""As `ExitCode` has them, which would have to be imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Errors are one or two lines on stderr."""
    try:
        from astra_tui.cli.streams import mend_streams
        from astra_tui.processes.exit_with_parent import hide_process

        hide_process()  # Keys of models are in the environment.
        mend_streams()
        return _finished(_run(arguments))
    except KeyboardInterrupt:
        print("astra-tui: interrupted", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return PIPE_CLOSED
    except (OSError, MemoryError, RuntimeError, ImportError, SystemError) as error:
        if isinstance(error, OSError) and _is_output_lost():
            return NOT_WRITTEN
        if not _is_shortage(error):
            raise
        print(f"astra-tui: {_shortage_words(error)}", file=sys.stderr)  # noqa: T201
        return TROUBLE


def _finished(code: int) -> int:
    """The exit code, once all of the output is written."""
    sys.stdout.flush()
    return NOT_WRITTEN if _is_output_lost() else code


def _is_output_lost() -> bool:
    """Whether stdout could not be written, which is reported."""
    from astra_tui.cli.streams import stdout_error

    error = stdout_error()
    if error is None:
        return False
    _discard_output()
    print(f"astra-tui: cannot write the output: {error.strerror}", file=sys.stderr)  # noqa: T201
    return True


def _is_shortage(error: Exception) -> bool:
    """Whether the machine, or a limit on this process, is why; see ulimit."""
    import errno

    if isinstance(error, OSError):
        full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, *full)
    # Python has no own error for a thread that cannot start, nor for a module without room.
    signs = (
        "can't start new thread",
        "allocate memory",
        "map segment",
        "open files",
        "error return without exception set",
    )
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in signs)


def _shortage_words(error: Exception) -> str:
    if isinstance(error, OSError):
        what, file = error.strerror or str(error), error.filename
        return f"{what}{f': {file}' if file else ''}\n  see: ulimit -a, df"
    what = str(error) or "there is not enough memory"
    return f"{what}\n  raise the limits of this process: ulimit -v, -u, -n"


def _discard_output() -> None:
    """Python flushes stdout once more at exit; that must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str] | None) -> int:
    import click

    from astra_tui.cli.click_command import exit_with_usage
    from astra_tui.cli.commands import COMMANDS
    from astra_tui.model.errors import UserError

    given = list(sys.argv[1:] if arguments is None else arguments)
    if COMPLETE in os.environ:
        return _complete(COMMANDS)
    try:
        with COMMANDS.make_context("astra-tui", given) as context:
            return int(COMMANDS.invoke(context))
    except click.UsageError as error:
        return exit_with_usage(error, as_json="--json" in given)
    except UserError as error:  # Of the screen that opens without a command.
        from astra_tui.cli.exit_codes import report_failure

        return report_failure(error, as_json=False)
    except click.exceptions.Exit as ended:  # --help or --version, which are done
        return ended.exit_code


def _complete(commands: click.Group) -> int:
    """What a shell asks for while its user types; see docs/commands.md."""
    from click.shell_completion import shell_complete

    return shell_complete(commands, {}, "astra-tui", COMPLETE, os.environ[COMPLETE])
