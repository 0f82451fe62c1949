"""Asks an engineer at a terminal to decide: shows the plan or the diff, and reads one line."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import msgspec

from astra_tui.model.approval import (
    Answer,
    AnswerRefused,
    ApprovalGate,
    ApprovalStatus,
    Question,
    reason_of,
)
from astra_tui.model.author import Author
from astra_tui.model.auto_approval import AutoMode
from astra_tui.model.citations import check_citations
from astra_tui.model.constraints import Ruling, in_order
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.hunks import HEADER, NO_LINE_FEED, diff_lines
from astra_tui.model.plan import Observation, Plan, read_edited_plan
from astra_tui.model.state import CandidateState
from astra_tui.model.visible import visible_line
from astra_tui.plain.output import note
from astra_tui.present.words import (
    plan_words,
    prediction_words,
    ruling_words,
    speedup_prediction,
)
from astra_tui.sessions.client import Edit
from astra_tui.sessions.wire import MAX_QUESTIONS

PLAN_KEYS = "[a]ccept, [e]dit, [r]eject REASON, [u]ndo, auto MODE, [d]etach, [q]uit"
DIFF_KEYS = "[a]ccept, [h]unks 1,3, [e]dit, [r]eject REASON, [u]ndo, auto MODE, [d]etach, [q]uit"
AUTO_HELP = "say auto low, medium, all or off, or how many to accept, such as auto 4"


def describe_plan(plan: Plan, author: Author, base: CandidateState) -> str:
    """A plan in full, as it is decided on, for the source `base`."""
    predicted = plan.prediction
    lines = [
        f"PLAN {_set_off(plan.title)} ({plan_words(plan, author.describe())})",
        f"  bottleneck: {_set_off(plan.bottleneck)}",
        *(line for o in plan.observations for line in _evidence(o, base)),
        f"  change:     {_set_off(plan.change)}",
        *(f"  can set:    {p.describe()}" for p in plan.parameters),
        f"  expects:    {prediction_words(predicted)}"
        + (f", speedup {speedup_prediction(predicted)}" if base.is_timed else ""),
    ]
    return "\n".join(lines)


def _set_off(text: str) -> str:
    """A field of a plan, none of whose lines can look like another field's."""
    return text.replace("\n", "\n" + " " * 14)


def _evidence(observation: Observation, base: CandidateState) -> list[str]:
    cited = (
        f"              {reading.describe()}" for reading in check_citations(observation, base)
    )
    return [f"  evidence:   {_set_off(observation.sentence)}", *cited]


def describe_diff(old: str, new: str, question: Question, columns: int = 0) -> str:
    """A diff with its hunks numbered from 1, every line made visible as the screen does.

    Nothing in the texts can look like a line of the diff's own: only a line feed ends a line, all
    of a line stands right of its mark, and so does the rest of one that is wider than `columns`,
    which a terminal would begin at the left edge. Outside of ASCII all characters are written out.
    """
    number = 0
    lines = [f"--- {short(question.base)}", f"+++ {short(question.subject)}"]
    for mark, text in diff_lines(old, new):
        if mark == HEADER:
            number += 1
            lines.append(f"@@{text.rstrip()}  (hunk {number})")
            continue
        shown = visible_line(text.removesuffix("\n"), ()).text
        lines += (sign + part for sign, part in _parts(mark, shown, columns))
        if not text.endswith("\n"):
            lines.append(NO_LINE_FEED)
    return "\n".join(lines) if number else ""


def describe_rulings(rulings: Sequence[Ruling]) -> str:
    """A diff against what the engineer said, what is broken first; one line each."""
    return "\n".join(["What was said:", *(f"  {ruling_words(r).words}" for r in in_order(rulings))])


def _parts(mark: str, text: str, columns: int) -> Iterator[tuple[str, str]]:
    """A line in pieces that fit, each after the line's mark, the further ones after `>` as well."""
    most = max(columns - 4, 20)
    if not text.isascii():
        most //= 2  # Some terminals give quotation marks two cells.
    if not columns:
        most = max(len(text), 1)
    yield mark, text[:most]
    for begin in range(most, len(text), most):
        yield mark + "> ", text[begin : begin + most]


def terminal_columns() -> int:
    """Columns of the terminal on stderr, or 0 where that is none."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return 0


class NotUnderstood(UserError):
    """A line that is no answer."""


class NotTaken(NotUnderstood):
    """An edit that is no answer; `edit` continues with what was written."""

    def __init__(self, error: UserError, edit: Edit):
        super().__init__(
            error.message, hint=f"what you wrote is in {edit.file}; e continues with it"
        )
        self.edit = edit


@dataclass(frozen=True)
class Edited:
    """An answer that was written in an editor; its text is on the disk until it is taken."""

    answer: Answer
    edit: Edit


class TerminalCommand(Enum):
    """What an engineer may say instead of an answer."""

    DETACH = "detach"
    """Go, and leave the engine running."""
    QUIT = "quit"
    """End the run."""
    UNDO = "undo"
    """Take the last rejection back."""


@dataclass(frozen=True)
class Auto:
    """How questions after this one are to be decided: by a mode, or so many of them accepted."""

    mode: AutoMode | None = None
    """None leaves the mode as it is."""
    left: int = 0


def read_answer(
    line: str, question: Question, by: Author, shown: Plan | str, kept: Edit | None = None
) -> Answer | Edited | Auto | TerminalCommand:
    """The answer in a line. `shown` is the plan, or the source as written.

    `kept` is an edit that was not taken, with which editing continues. Raises NotUnderstood for
    anything else.
    """
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    match word.lower():
        case "a" | "accept" | "y" | "yes":
            return _answer(question, by, ApprovalStatus.ACCEPTED)
        case "r" | "reject" | "n" | "no":
            return _answer(question, by, ApprovalStatus.REJECTED, reason=_reason(rest))
        case "h" | "hunks" if question.gate is ApprovalGate.DIFF:
            return _answer(question, by, ApprovalStatus.ACCEPTED, hunks=_hunks(rest, question))
        case "e" | "edit":
            return _edited(question, by, shown, kept)
        case "auto":
            return _auto(rest.lower())
        case "u" | "undo":
            return TerminalCommand.UNDO
        case "d" | "detach":
            return TerminalCommand.DETACH
        case "q" | "quit":
            return TerminalCommand.QUIT
    raise NotUnderstood(f"'{line.strip()}' is no answer")


def _reason(text: str) -> str:
    try:
        return reason_of(text)
    except AnswerRefused as error:
        raise NotUnderstood(error.message, hint=f"for example: r {error.hint}") from None


def _auto(text: str) -> Auto:
    if text.isdecimal() and 0 < int(text) <= MAX_QUESTIONS:
        return Auto(left=int(text))
    try:
        return Auto(AutoMode.ASK if text == "off" else AutoMode(text))
    except ValueError:
        raise NotUnderstood(f"there is no mode '{text}'", hint=AUTO_HELP) from None


def _answer(
    question: Question,
    by: Author,
    status: ApprovalStatus,
    *,
    reason: str = "",
    plan: Plan | None = None,
    source: str | None = None,
    hunks: tuple[int, ...] | None = None,
) -> Answer:
    return Answer(question.id, question.subject, status, by, reason, plan, source, hunks)


def _hunks(text: str, question: Question) -> tuple[int, ...]:
    try:
        numbers = tuple(int(word) for word in text.replace(",", " ").split())
    except ValueError:
        raise NotUnderstood(f"'{text}' are no hunks", hint="for example: h 1,3") from None
    for number in numbers:
        if not 1 <= number <= question.hunks:
            raise NotUnderstood(f"the diff has {question.hunks} hunks; there is no hunk {number}")
    return tuple(number - 1 for number in numbers)


def _edited(
    question: Question, by: Author, shown: Plan | str, kept: Edit | None
) -> Answer | Edited:
    is_plan = isinstance(shown, Plan)
    before = _encoded(shown) if isinstance(shown, Plan) else shown
    edit = kept if kept and kept.file.exists() else _begin(question, before, is_plan)
    try:
        run_editor(edit.file)
        text = edit.read()
        answer = _answer_of(question, by, shown, text)
    except UserError as error:
        if not edit.is_still(before):
            raise NotTaken(error, edit) from None
        edit.drop()
        raise NotUnderstood(error.message, hint=error.hint) from None
    if text == before:
        edit.drop()
        return answer
    return Edited(answer, edit)


def _begin(question: Question, text: str, is_plan: bool) -> Edit:
    try:
        return Edit.begin(text, question.id, ".json" if is_plan else ".cu")
    except UserError as error:
        raise NotUnderstood(error.message) from None


def _encoded(plan: Plan) -> str:
    return msgspec.json.format(msgspec.json.encode(plan), indent=2).decode()


def _answer_of(question: Question, by: Author, shown: Plan | str, text: str) -> Answer:
    if not isinstance(shown, Plan):
        return _answer(question, by, ApprovalStatus.EDITED, source=text)
    plan = read_edited_plan(shown, text)
    return _answer(question, by, ApprovalStatus.EDITED, plan=plan)


def run_editor(file: Path) -> None:
    """Has the engineer edit a file ($VISUAL, $EDITOR, vi). Raises NotUnderstood.

    The editor writes to the terminal on stderr: stdout may be a pipe that waits for the result.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run(
            [*shlex.split(editor), str(file)], stdout=sys.stderr.fileno(), check=False
        )
    except OSError as error:
        raise NotUnderstood(f"{editor}: {error.strerror}", hint="set $EDITOR") from None
    if done.returncode:
        raise NotUnderstood(f"{editor} ended with {done.returncode}; nothing was changed")


def show(text: str) -> None:
    """Puts text before the engineer, with nothing in it that acts on the terminal."""
    note(text)
