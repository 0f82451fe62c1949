"""The comment at the top of everything exported: what it is, and where it comes from."""

from __future__ import annotations

import textwrap

import astra_tui
from astra_tui.export.winner import Winner
from astra_tui.sessions.integrity import Trust

_WIDTH = 92


def header_lines(winner: Winner, what: str) -> list[str]:
    """Lines without comment marks; nothing in them can end a comment or join two lines."""
    lines = [f"{what} Written by astra-tui {astra_tui.__version__}.", ""]
    lines += _field("session", f"{winner.session} (task {winner.task}, {winner.task_hash})")
    lines += _field("team", f"{winner.team}, on {winner.device}")
    lines += _field("candidate", f"{winner.candidate} (SHA-256 of the kernel source)")
    for step in winner.steps:
        text = f"round {step.round}: {step.author.describe()}"
        lines += _field("author", f"{text}: {step.summary}" if step.summary else text)
    lines += _field("verdict", winner.verdict)
    lines += _field("journal", journal_words(winner.trust))
    return lines


def journal_words(trust: Trust | None) -> str:
    """How far the session may be believed, and the checksum of its last line, as headers say it.

    `verify` of an exported file finds the place in the session by the checksum.
    """
    if trust is None:
        return "none: this source is of no session"
    end = f"{trust.lines} lines, {CHECKSUM} {trust.seal or 'none'}"
    if trust.whole:
        return f"whole, {end}"
    where = f" at line {trust.line}" if trust.line else ""
    return f"{trust.verdict.value.upper()}{where}: {trust.message}; {end}"


CHECKSUM = "checksum of the last one"


def comment(lines: list[str], mark: str) -> str:
    """Lines as comments of one line each, ending in an empty line."""
    return "".join(f"{mark} {line}".rstrip() + "\n" for line in lines) + "\n"


def plain(text: str) -> str:
    """One line of harmless ASCII: text of a journal must not act on a compiler or a terminal."""
    words = " ".join(text.split())
    kept = (c if 32 <= ord(c) < 127 else "?" for c in words)
    return (
        "".join(kept)
        .replace("\\", "/")
        .replace("*/", "* /")
        .replace("/*", "/ *")
        .replace("@launch", "@ launch")
    )


def _field(name: str, text: str) -> list[str]:
    return textwrap.wrap(
        plain(text),
        _WIDTH,
        initial_indent=f"{name:<10} ",
        subsequent_indent=" " * 11,
        break_long_words=False,
        break_on_hyphens=False,
    )
