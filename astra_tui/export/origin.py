"""Whether an exported file is what its session makes: its header, its source, its figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import astra_tui
from astra_tui.export.formats import format_of
from astra_tui.export.header import CHECKSUM, comment, header_lines
from astra_tui.export.source_files import patch_text, with_header
from astra_tui.export.winner import Winner, find_winner
from astra_tui.model.errors import UserError
from astra_tui.model.export import ExportStep, Format, StepOutcome
from astra_tui.sessions.integrity import Session

_FIRST = re.compile(r"(?://|#) (?P<what>\S.*?)\. Written by astra-tui (?P<version>\S+)\.")
_FIELD = re.compile(r"(?P<name>[a-z]+) +(?P<text>\S.*)")
_SESSION = re.compile(r"(?P<session>\S+) \(task (?P<task>\S+), [0-9a-f]+\)")
_SEAL = re.compile(rf"{CHECKSUM} ([0-9a-f]+)$")
_CONTINUED = " " * 11


@dataclass(frozen=True)
class Header:
    """The comment at the top of an exported file.

    `what` is what the file says that it is, and `lines` are the comment's, without marks, from the
    third on: the fields. `seal` is the checksum of the session's last line, as it was exported.
    """

    what: str
    format: Format
    version: str
    session: str
    candidate: str
    seal: str
    lines: tuple[str, ...]
    fields: tuple[tuple[str, str], ...]


def read_header(text: str, file: str) -> Header:
    """The header of an exported file.

    Raises UserError where it has none, an old one, or one of no form of export.
    """
    first = _FIRST.match(text)
    if first is None:
        raise UserError("this is no file that astra-tui exported: it has no header", file=file)
    form = format_of(first["what"])
    if form is None:
        what = f"'{first['what']}' is what no file of an export says that it is"
        raise UserError(what, file=file, hint="an adapter's own files are checked by deliver")
    mark = text.partition(" ")[0]
    lines = []
    for line in text.split("\n")[2:]:
        if not line.startswith(mark):
            break
        lines.append(line[len(mark) + 1 :])
    fields: list[tuple[str, str]] = []
    for line in lines:
        found = _FIELD.fullmatch(line)
        if line.startswith(_CONTINUED) and fields:
            fields[-1] = (fields[-1][0], f"{fields[-1][1]} {line.strip()}")
        elif found is not None:
            fields.append((found["name"], found["text"]))
    named = dict(fields)
    session = _SESSION.fullmatch(named.get("session", ""))
    seal = _SEAL.search(named.get("journal", ""))
    if session is None or seal is None or "candidate" not in named:
        hint = "older versions wrote no checksum of the session: export it again"
        raise UserError("this header does not say what it is of", file=file, hint=hint)
    return Header(
        first["what"], form, first["version"], session["session"],
        named["candidate"].partition(" ")[0], seal[1], tuple(lines), tuple(fields),
    )  # fmt: skip


def check_origin(text: str, header: Header, session: Session) -> Iterator[ExportStep]:
    """Checks a file against its session, as far as that needs no compiler; a step each.

    What follows a step that failed is not looked at.
    """
    if session.trust.altered:
        yield _failed("session", f"it is {session.trust.describe()}")
        return
    yield _passed("session", session.trust.describe())
    then = session.ending_at(header.seal)
    if then is None:
        yield _failed("checksum", f"no line of the session has the checksum {header.seal}")
        return
    more = session.trust.lines - then.trust.lines
    later = f"; {more} lines were added since" if more else ""
    yield _passed("checksum", f"{header.seal} is that of line {then.trust.lines}{later}")
    try:
        winner = find_winner(then, header.candidate, allow_altered=True)
    except UserError as error:
        yield _failed("candidate", error.message)
        return
    problem = _wrong_field(header, winner)
    if problem:
        yield _failed("header", problem)
        return
    yield _passed("header", "session, team, authors, verdict and figures are the session's")
    yield _source(text, header, winner)


def compare_text(found: str, expected: str) -> ExportStep:
    """Whether a generated file is what the session makes now, line by line."""
    lines = zip_longest(found.split("\n")[1:], expected.split("\n")[1:])
    number = next((n for n, (a, b) in enumerate(lines, start=2) if a != b), 0)
    if number:
        return _failed("text", f"line {number} is not what the session makes")
    return _passed("text", "every line is what the session makes")


def _wrong_field(header: Header, winner: Winner) -> str:
    """What the header says that the session does not, or the other way round; "" where nothing."""
    expected = header_lines(winner, f"{header.what}.")[2:]
    if list(header.lines) == expected:
        return ""
    mark = f"// {header.what}. Written by astra-tui 0.\n//\n// "
    ours = read_header(mark + "\n// ".join(expected), "").fields
    for mine, theirs in zip_longest(ours, header.fields):
        if mine == theirs:
            continue
        name = (theirs or mine)[0]
        if name == "journal" and theirs is not None and _word(theirs[1]) == _word(mine[1]):
            continue  # Half a line that was put aside since is no other verdict.
        said = f"'{theirs[1]}'" if theirs else "nothing"
        return f"{name}: the file says {said}, the session '{mine[1] if mine else ''}'"
    return ""


def _word(journal: str) -> str:
    return re.split(r"[ ,:]", journal)[0]


def _source(text: str, header: Header, winner: Winner) -> ExportStep:
    task = header.what.partition(":")[0]
    if header.format is Format.CU:
        return compare_text(text, with_header(winner, task))
    if header.format is Format.PATCH:
        return compare_text(text, patch_text(winner, task))
    if header.what.endswith(": the kernels"):
        mark = comment(header_lines(winner, f"{header.what}."), "//")
        return compare_text(text, mark + winner.text)
    return ExportStep("text", StepOutcome.NOT_CHECKED, GENERATED)


GENERATED = "this file is generated from the launch plan and the compiled kernels"


def made_by_another_version(header: Header) -> str:
    """Why generated text need not be the same; "" where this version wrote it."""
    if header.version == astra_tui.__version__:
        return ""
    return f"version {header.version} wrote it, and this is {astra_tui.__version__}"


def _passed(name: str, detail: str) -> ExportStep:
    return ExportStep(name, StepOutcome.PASSED, detail)


def _failed(name: str, detail: str) -> ExportStep:
    return ExportStep(name, StepOutcome.FAILED, detail)
