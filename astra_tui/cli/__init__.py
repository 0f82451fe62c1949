"""The command line: every command and flag. Each command loads what it needs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from astra_tui.cli.exit_codes import ExitCode

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Errors are one or two lines on stderr."""
    from astra_tui.cli.parsing import write_anything

    write_anything()
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("astra-tui: interrupted", file=sys.stderr)  # noqa: T201
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout once more at exit; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PIPE_CLOSED


def _run(arguments: Sequence[str] | None) -> int:
    from astra_tui.cli.commands import build_parser
    from astra_tui.model.errors import UserError

    parser = build_parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as ended:  # --help, --version or bad usage, about which all is said
        return int(ended.code or ExitCode.OK)
    try:
        if getattr(options, "run", None) is None:
            return _begin(parser, options)
        return int(options.run(options))
    except UserError as error:
        from astra_tui.cli.failures import report_failure

        return report_failure(error, as_json=getattr(options, "json", False))


def _begin(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Without a command: the screen, or help where there is no terminal for one."""
    from astra_tui.cli.screen import choices_for_screen, show_home

    choices = choices_for_screen(options)
    if choices is not None:
        return show_home(choices)
    parser.print_help()
    return ExitCode.OK
