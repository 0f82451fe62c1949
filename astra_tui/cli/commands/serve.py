"""`astra-tui serve`: the screen in a browser."""

from __future__ import annotations

import shlex
import sys

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag, whole_number
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.errors import UserError, nearest

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_WITH_A_SCREEN = ("run", "attach", "resume", "replay", "compare")


@command(
    "show the screen in a browser",
    "Prints an address for the browser, which is a key: it lets its owner do what you can do "
    "on the screen. It is new at every start. Closing the page ends no run. From another machine, "
    "forward the port: ssh -L 8000:127.0.0.1:8000 HOST.",
    argument(
        "words",
        "COMMAND",
        "what to show, in quotes, such as 'attach NAME' or 'run silu_and_mul'; by default all "
        "kernels and sessions",
        required=False,
    ),
    flag(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="the address to listen at (default: 127.0.0.1, which only this machine reaches)",
    ),
    flag(
        "--port",
        metavar="N",
        type=whole_number,
        default=8000,
        help="the port (default: 8000; 0: any that is free)",
    ),
    example="astra-tui serve 'run silu_and_mul'",
)
def run(options: Options) -> int:
    """Serves until it is interrupted. Raises UserError."""
    shown = _command(options.words)
    try:
        from astra_tui.web.server import ScreenServer, listening
    except ImportError as error:
        raise UserError(
            f"the browser's screen needs textual-serve: {error}",
            hint="install it: pip install 'astra-tui[serve]'",
        ) from None
    with listening(options.host, options.port) as socket:
        server = ScreenServer(shown, socket)
        if options.host not in _LOOPBACK:
            plain.note(
                f"other machines reach {options.host}, and nothing on the way is encrypted: "
                "ssh -L to 127.0.0.1 is safer"
            )
        plain.note(f"open {server.url}", sys.stdout)
        sys.stdout.flush()
        plain.note("Ctrl-C ends the server; runs keep running")
        server.serve()
    return ExitCode.OK


def _command(words: str | None) -> str:
    """The shell command whose screen is shown. Raises UserError for one that shows none."""
    try:
        given = shlex.split(words or "")
    except ValueError as error:
        raise UserError(f"cannot read '{words}': {error}") from None
    if given and given[0] not in _WITH_A_SCREEN:
        hint = nearest(given[0], _WITH_A_SCREEN)
        raise UserError(f"'{given[0]}' has no screen", hint=hint)
    return shlex.join([sys.executable, "-m", "astra_tui", *given])
