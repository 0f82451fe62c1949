"""`astra-tui report`: a session as one HTML file and one Markdown file."""

from __future__ import annotations

from pathlib import Path

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.flags import JSON
from astra_tui.model.errors import UserError


@command(
    "write an HTML and Markdown report of a session",
    "One HTML file that needs nothing else, and one Markdown file, both named after the "
    "session. They are made from its journal and sources alone, without GPU, key or task; the "
    "session is only read (docs/reports.md).",
    argument("session", "SESSION", "a session's name or folder"),
    flag("--out", metavar="DIR", default=".", help="where the files go (default: here)"),
    flag("--html-only", help="write the HTML file alone"),
    flag("--markdown-only", help="write the Markdown file alone"),
    flag("--data", help="also write NAME.json: the same document as data"),
    flag("--sessions", metavar="DIR", help="where names are looked up (default: ./sessions)"),
    JSON,
    example="astra-tui report h100-playbook-silu --out reports",
)
def run(options: Options) -> int:
    """Writes the files and names them; damage of the journal is reported on stderr and in them."""
    from astra_tui.cli.json_answers import ReportAnswer
    from astra_tui.cli.session_lookup import saved_session
    from astra_tui.present.document import fields
    from astra_tui.present.report import write_report
    from astra_tui.sessions.integrity import read_session

    if options.html_only and options.markdown_only:
        raise UserError("--html-only and --markdown-only exclude each other", hint="leave one out")
    folder = saved_session(options.session, options.sessions)
    session = read_session(folder)
    asked = {"html": not options.markdown_only, "md": not options.html_only, "json": options.data}
    written = write_report(session, Path(options.out), [form for form in asked if asked[form]])
    damage, trust = session.damage_words(), session.trust
    for text in damage:
        plain.note(text)
    if not (trust.whole or damage):
        plain.note(f"the session is {trust.describe()}")
    files = {form: str(path) for form, path in written.items()}
    html, markdown, data = map(files.get, ("html", "md", "json"))
    answer = ReportAnswer(str(folder), html, markdown, damage, trust, data)
    named = {"html": html or "", "markdown": markdown or "", "data": data or ""}
    plain.print_answer(answer, options.json, lambda: [fields(named)])
    return ExitCode.OK
