"""`astra-tui pack`: compresses the journal of a session that is over."""

from __future__ import annotations

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.model.errors import UserError


@command(
    "compress the journal of a session that is over",
    "The journal becomes journal.jsonl.gz, a fifth of the size. A packed session is shown, "
    "verified, compared and branched off as before; gunzip makes it one that can be resumed.",
    argument("session", "SESSION", "a session's name or folder"),
    flag("--sessions", metavar="DIR", help="where sessions are (./sessions)"),
    example="astra-tui pack my-session",
)
def run(options: Options) -> int:
    """Packs one session; one that an engine still writes is refused."""
    from astra_tui.present.numbers import count
    from astra_tui.sessions.folder import WriterLock
    from astra_tui.sessions.journal_reader import is_packed, pack
    from astra_tui.sessions.store import find_session, sessions_folder

    folder = find_session(options.session, sessions_folder(options.sessions))
    if is_packed(folder):
        raise UserError("this session is packed already", file=str(folder))
    lock = WriterLock(folder)
    try:
        packed = pack(folder)
    finally:
        lock.release()
    plain.note(f"{packed}: {count(packed.stat().st_size)} bytes")
    return ExitCode.OK
