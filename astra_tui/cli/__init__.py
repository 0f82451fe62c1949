"""The command line: every command and flag. Each command loads what it needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from astra_tui.cli.exit_codes import ExitCode

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Errors are one or two lines on stderr."""
    from astra_tui.cli.commands import build_parser
    from astra_tui.model.errors import UserError

    parser = build_parser()
    options = parser.parse_args(arguments)
    if getattr(options, "run", None) is None:
        parser.print_help()
        return ExitCode.OK
    try:
        return int(options.run(options))
    except UserError as error:
        print(f"astra-tui: {error.describe()}", file=sys.stderr)  # noqa: T201
        return ExitCode.BAD_INPUT
    except KeyboardInterrupt:
        print("astra-tui: interrupted", file=sys.stderr)  # noqa: T201
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return ExitCode.OK
