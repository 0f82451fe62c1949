"""`astra-tui report`: a session as one HTML file and one Markdown file."""

from __future__ import annotations

import argparse
from pathlib import Path

from astra_tui import plain
from astra_tui.cli.answers import ReportAnswer
from astra_tui.cli.exit_codes import ExitCode


def run(options: argparse.Namespace) -> int:
    """Writes the files and names them; damage of the journal is said on stderr and in them."""
    from astra_tui.sessions.report import write_report
    from astra_tui.sessions.store import find_session, sessions_folder

    folder = find_session(options.session, sessions_folder(options.sessions))
    written = write_report(
        folder,
        Path(options.out),
        html=not options.markdown_only,
        markdown=not options.html_only,
    )
    for damage in written.damage:
        plain.note(damage)
    if not (written.trust.whole or written.damage):
        plain.note(f"the session is {written.trust.describe()}")
    html, markdown = (str(p) if p else None for p in (written.html, written.markdown))
    if options.json:
        plain.print_json(ReportAnswer(str(folder), html, markdown, written.damage, written.trust))
    else:
        plain.print_pairs({k: v for k, v in (("html", html), ("markdown", markdown)) if v})
    return ExitCode.OK
