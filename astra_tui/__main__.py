"""`python -m astra_tui`."""

import sys

try:
    from astra_tui.cli import main

    code = main()
except KeyboardInterrupt:  # Before there was anything that takes it.
    print("astra-tui: interrupted", file=sys.stderr)  # noqa: T201
    code = 130
sys.exit(code)
