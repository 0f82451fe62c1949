"""`astra-tui resume`: goes on with a session, wherever and however it ended."""

from __future__ import annotations

import argparse

from astra_tui.cli.going_on import go_on
from astra_tui.cli.saved import saved_session
from astra_tui.cli.settings import read_choices


def run(options: argparse.Namespace) -> int:
    """Says what differs, then runs on, like `run`."""
    choices = read_choices(options)
    return go_on(saved_session(options.session, choices.sessions), options, choices)
