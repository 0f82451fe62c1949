"""The command line: every command and flag. Each command loads what it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from astra_tui.cli.exit_codes import ExitCode

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Errors are one or two lines on stderr."""
    from astra_tui.cli.commands import build_parser
    from astra_tui.cli.parsing import write_anything
    from astra_tui.model.errors import UserError

    write_anything()
    try:
        parser = build_parser()
        options = parser.parse_args(arguments)
        if getattr(options, "run", None) is None:
            parser.print_help()
            return ExitCode.OK
        try:
            code = int(options.run(options))
        except UserError as error:
            from astra_tui.cli.failures import report_failure

            code = report_failure(error, as_json=getattr(options, "json", False))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("astra-tui: interrupted", file=sys.stderr)  # noqa: T201
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout once more at exit; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PIPE_CLOSED
