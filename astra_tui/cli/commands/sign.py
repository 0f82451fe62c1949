"""`astra-tui sign`: vouches for a session with a key of one's own."""

from __future__ import annotations

from pathlib import Path

from astra_tui import plain
from astra_tui.cli.click_command import Options, argument, command, flag
from astra_tui.cli.exit_codes import ExitCode
from astra_tui.cli.read_file import read_user_file


@command(
    "sign a session with your key",
    "Ed25519 over all of the journal, which names every text by its hash; the signature goes "
    "into the session's folder, and verify shows whose it is. It needs the package "
    "cryptography; make a key with: ssh-keygen -t ed25519 -N '' -f FILE",
    argument("session", "SESSION", "a session's name or folder"),
    flag("--key", metavar="FILE", required=True, help="your private key"),
    flag("--sessions", metavar="DIR", help="where sessions are (./sessions)"),
    example="astra-tui sign my-session --key my_key",
)
def run(options: Options) -> int:
    """Signs a whole session; the signature lies in its folder."""
    from astra_tui.cli.session_lookup import saved_session
    from astra_tui.present.numbers import count
    from astra_tui.sessions.integrity import read_session
    from astra_tui.sessions.signing import sign, signature_of

    session = read_session(saved_session(options.session, options.sessions))
    key = Path(options.key)
    path = sign(session, key, read_user_file(key, "private key"))
    signed = signature_of(session)
    assert signed is not None
    plain.note(f"{path}: {count(signed.lines)} lines signed by {signed.fingerprint}")
    return ExitCode.OK
