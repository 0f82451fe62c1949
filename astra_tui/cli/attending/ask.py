"""Takes an engine's open questions to the engineer at the terminal, one at a time: shows the plan
or the diff, and reads one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from astra_tui.cli.attending.terminal import EndOfInput, HungUp, TerminalLine
from astra_tui.model import events
from astra_tui.model.approval import (
    Answer,
    AnswerRefused,
    ApprovalGate,
    ApprovalStatus,
    AutoMode,
    Question,
    reason_of,
)
from astra_tui.model.author import Author
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.plan import Plan, editable_text, read_edited_plan
from astra_tui.model.state import SessionState
from astra_tui.plain import note, print_blocks
from astra_tui.present.document import Block, Diff, fields
from astra_tui.present.plans import plan_entry, ruling_rows
from astra_tui.sessions.client import (
    Edit,
    EngineClient,
    RequestRefused,
    editor_command,
    user_at_terminal,
)
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.wire import MAX_QUESTIONS

PLAN_KEYS = "[a]ccept, [e]dit, [r]eject REASON, [u]ndo, auto MODE, [d]etach, [q]uit"
DIFF_KEYS = "[a]ccept, [h]unks 1,3, [e]dit, [r]eject REASON, [u]ndo, auto MODE, [d]etach, [q]uit"
AUTO_HELP = "say auto low, medium, all or off, or how many to accept, such as auto 4"


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
    before = editable_text(shown) if isinstance(shown, Plan) else shown
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


def _answer_of(question: Question, by: Author, shown: Plan | str, text: str) -> Answer:
    if not isinstance(shown, Plan):
        return _answer(question, by, ApprovalStatus.EDITED, source=text)
    plan = read_edited_plan(shown, text)
    return _answer(question, by, ApprovalStatus.EDITED, plan=plan)


def run_editor(file: Path) -> None:
    """Has the engineer edit a file ($VISUAL, $EDITOR, vi). Raises NotUnderstood.

    The editor writes to the terminal on stderr: stdout may be a pipe that waits for the result.
    """
    command = editor_command() or ["vi"]
    editor = " ".join(command)
    try:
        done = subprocess.run([*command, str(file)], stdout=sys.stderr.fileno(), check=False)
    except OSError as error:
        raise NotUnderstood(f"{editor}: {error.strerror}", hint="set $EDITOR") from None
    if done.returncode:
        raise NotUnderstood(f"{editor} ended with {done.returncode}; nothing was changed")


Read = Answer | Edited | Auto | TerminalCommand


class Asking:
    """Shows each question that waits and reads the answer. It is told of every event.

    `hold` is called before an editor takes the terminal, and `release` after it.
    """

    def __init__(self, client: EngineClient, hold: Callable[[], None], release: Callable[[], None]):
        self._client = client
        self._folder = Path(client.welcome.folder)
        self._hold, self._release = hold, release
        self._state = SessionState()
        self._waiting: dict[str, Question] = {}
        self._asked = ""
        self._news = asyncio.Event()
        self._line = TerminalLine(sys.stdin.fileno())
        self.is_reading = False
        """Whether a line is being read that may have started an editor."""

    def notice(self, event: events.Event, state: SessionState) -> None:
        """Takes note of a question that waits, and of one that someone else has decided."""
        self._state = state
        if isinstance(event, events.AnswerAwaited):
            self._waiting[event.question.id] = event.question
            self._news.set()
        elif isinstance(event, events.DecisionTaken):
            self._withdraw(event.decision.question)
        elif isinstance(event, events.RejectionTakenBack) or (
            isinstance(event, events.Paused) and event.interrupted
        ):
            for question in tuple(self._waiting):
                self._withdraw(question)

    async def run(self) -> None:
        """Asks until the engineer detaches, or the terminal hangs up."""
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            question = next(iter(self._waiting.values()))
            self._asked = question.id
            try:
                wish = await self._ask(question)
            except EndOfInput:
                wish = TerminalCommand.QUIT
            except HungUp:
                return
            if wish is TerminalCommand.DETACH:
                return
            if wish is TerminalCommand.QUIT:
                with contextlib.suppress(UserError):  # It has ended, of which all will be told.
                    await self._client.cancel()
            self._waiting.pop(question.id, None)

    def _withdraw(self, question: str) -> None:
        self._waiting.pop(question, None)
        if question == self._asked:
            self._line.give_up()

    async def _ask(self, question: Question) -> TerminalCommand | None:
        """Asks until the question is decided, by anyone (None), or the engineer wants to go."""
        self._line.drop_typed()  # It cannot be meant for a question that was not shown yet.
        shown = self._show(question)
        kept: Edit | None = None
        while question.id in self._waiting:
            note(PLAN_KEYS if question.gate is ApprovalGate.PLAN else DIFF_KEYS)
            line = await self._line.read()
            if line is None:
                return None
            try:
                read = await self._read(line, question, shown, kept)
                match read:
                    case TerminalCommand():
                        if read is not TerminalCommand.UNDO:
                            return read
                        await self._take_back()
                    case Auto():
                        await self._client.auto(read.mode or self._state.auto.mode, read.left)
                    case Answer():
                        await self._client.answer(read)
                        return None
                    case Edited(answer, edit):
                        kept = edit
                        await self._give(answer, edit)
                        return None
            except NotTaken as error:
                kept = error.edit
                note(str(error))
            except (NotUnderstood, AnswerRefused, RequestRefused) as error:
                note(str(error))
        return None

    async def _take_back(self) -> None:
        revocable = self._state.revocable
        if revocable is None:
            raise NotUnderstood("there is no rejection that can be taken back")
        await self._client.take_back(revocable.question)

    async def _give(self, answer: Answer, edit: Edit) -> None:
        """Gives what was edited to the engine; says where it is if it is not taken."""
        try:
            await self._client.answer(answer)
        except UserError:
            note(_where(edit))
            raise
        edit.drop()

    def _show(self, question: Question) -> Plan | str:
        """Puts the question before the engineer; returns the plan or the source it is about."""
        if question.gate is ApprovalGate.PLAN:
            round_ = self._state.round(question.round)
            proposal = round_.proposals[question.proposal]
            print_blocks([plan_entry(self._state, round_, proposal)], sys.stderr)
            return proposal.plan
        source = read_blob(self._folder, question.subject)
        old = read_blob(self._folder, question.base)
        blocks: list[Block] = [Diff(short(question.base), short(question.subject), old, source)]
        proposal = self._state.round(question.round).proposals[question.proposal]
        if rulings := proposal.rulings(question.subject):
            blocks.append(fields(ruling_rows(rulings)))
        print_blocks(blocks, sys.stderr)
        return source

    async def _read(
        self, line: str, question: Question, shown: Plan | str, kept: Edit | None
    ) -> Read:
        """What a line says. It may start an editor, and the engine continues telling meanwhile."""
        self._hold()
        self.is_reading = True
        by = user_at_terminal()
        reading = asyncio.ensure_future(
            asyncio.to_thread(read_answer, line, question, by, shown, kept)
        )
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            # An editor cannot be called back; until it ends the terminal is not ours.
            (read,) = await asyncio.gather(reading, return_exceptions=True)
            if isinstance(read, Edited | NotTaken):
                note(_where(read.edit))
            raise
        finally:
            self.is_reading = False
            self._release()


def _where(edit: Edit) -> str:
    return f"what you wrote is in {edit.file}"
