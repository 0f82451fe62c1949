"""Diff and source of what is chosen, with the counters and complaints of every line next to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from astra_tui.model.approval import ApprovalGate
from astra_tui.model.compilation import Diagnostic, Severity
from astra_tui.model.counters import Counters, add_counters
from astra_tui.model.digest import short
from astra_tui.model.errors import UserError
from astra_tui.model.sass import MalformedMachineCode, unpacked
from astra_tui.model.state import CandidateState
from astra_tui.present.numbers import count
from astra_tui.sessions.folder import source_path
from astra_tui.tui.view import View, start_of
from astra_tui.tui.widgets.code.annotations import LineColumn, LineMark, MarkKind
from astra_tui.tui.widgets.diff.diff_pane import DiffPane
from astra_tui.tui.widgets.diff.rows import DiffView
from astra_tui.tui.widgets.pane import same_part
from astra_tui.tui.widgets.source.sass import Sass, SourceView, sass_of
from astra_tui.tui.widgets.source.source_pane import SourcePane

ReadText = Callable[[str], str]
"""A text of the session by its hash; raises UserError when it is missing."""


class RefusedCode(NamedTuple):
    """Code of the engineer's that does not compile, in answer to the diff to `subject`.

    `source` is what was written; None where hunks of the diff were chosen, which `marks` are about
    then.
    """

    subject: str
    source: str | None
    marks: tuple[LineMark, ...]


class SessionDiff(DiffPane):
    """The diff from the base of the round to the candidate, or the one that is asked about.

    In its place stands what the engineer wrote and does not compile, until it is dropped.
    """

    def __init__(self, read: ReadText, *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._read = read
        self._drawn: tuple[object, ...] = ()
        self.problem: UserError | None = None
        """Why the diff cannot be shown, if it cannot."""
        self._refused: RefusedCode | None = None

    @property
    def shows_edit(self) -> bool:
        """Whether it shows what the engineer wrote, and not what is asked about."""
        return self._refused is not None and self._refused.source is not None

    @property
    def errors_of_edit(self) -> tuple[LineMark, ...]:
        """What is wrong with the engineer's text, at its lines; nothing where it is not shown."""
        return self._refused.marks if self._refused is not None and self.shows_edit else ()

    def show_refused(self, refused: RefusedCode | None) -> None:
        """Shows code that was not taken with its errors; with None what is asked about again."""
        self._refused = refused

    def show_view(self, view: View) -> None:
        """Draws what has changed."""
        old, new = sources_of(view)
        is_asked = _is_asked(view, new)
        if self._refused is not None and self._refused.subject != new:
            self._refused = None
        refused = self._refused
        known = view.state.candidates
        part = (known.get(old), known.get(new), is_asked, old, new, refused)
        if same_part(part, self._drawn):
            return
        self._drawn = part
        try:
            before, now = view.state.candidate(old), view.state.candidate(new)
            diff = self._diff(before, now, is_asked) if new else None
            self.show(_with_errors(diff, refused) if diff and refused else diff)
            self.problem = None
        except UserError as error:
            self.problem = error
            self.show(None)

    def _diff(self, before: CandidateState, now: CandidateState, is_asked: bool) -> DiffView:
        return DiffView(
            old=self._read(before.hash) if before.hash else "",
            new=self._read(now.hash),
            old_name=short(before.hash) or "nothing",
            new_name=short(now.hash),
            marks=marks_of(now),
            old_columns=columns_of(before),
            new_columns=columns_of(now),
            choosable=is_asked,
        )

    def title(self) -> str:
        """What is compared, or why nothing is."""
        if self.problem:
            return self.problem.describe()
        return super().title() if self.view else "No diff: the plan has no code"


def _with_errors(diff: DiffView, refused: RefusedCode) -> DiffView:
    """What was asked about with errors at its lines, or what was written in its place."""
    if refused.source is None:
        return replace(diff, marks=(*diff.marks, *refused.marks))
    return DiffView(diff.old, refused.source, diff.old_name, "your edit, not taken", refused.marks)


class SessionSource(SourcePane):
    """The whole source of the chosen candidate; at first the lines that an asked plan is about."""

    def __init__(self, read: ReadText, *, id: str | None = None):  # noqa: A002
        super().__init__(id=id)
        self._read = read
        self._drawn: tuple[object, ...] = ()
        self._known: tuple[str, Sass] = ("", Sass())
        self._asked = ""
        """The question about a plan whose lines were gone to."""

    def show_view(self, view: View) -> None:
        """Draws what has changed; goes to the first line of a plan that has come to be asked."""
        self._draw_changes(view)
        asked, proposal = view.awaiting, view.proposal
        if asked is None or proposal is None or asked.gate is not ApprovalGate.PLAN:
            return
        if self._asked != asked.id and view.choice == (asked.round, asked.proposal):
            self._asked = asked.id
            own = [place.first for place in proposal.plan.places if not place.file]
            if own:
                self.call_after_refresh(self.go_to_line, own[0])

    def _draw_changes(self, view: View) -> None:
        start = start_of(view)
        _, hash_ = sources_of(start or view)
        part = (view.state.candidates.get(hash_), hash_, start is None)
        if same_part(part, self._drawn):
            return
        self._drawn = part
        candidate = view.state.candidate(hash_)
        try:
            text = self._read(hash_) if hash_ else ""
        except UserError as error:
            self.show(SourceView("", error.describe()))
            return
        name = f"{short(hash_)}, which the plan starts from" if start else short(hash_)
        marks, columns = marks_of(candidate), columns_of(candidate)
        task = view.state.opened.settings.task if view.state.opened else "TASK"
        sass = partial(self._sass, candidate, task) if candidate.profile else None
        self.show(SourceView(text, name, marks, columns, sass) if hash_ else None)

    def _sass(self, candidate: CandidateState, task: str) -> Sass:
        """The machine code of a profiled candidate, read once."""
        hash_, profile = candidate.machine_code, candidate.profile
        if not hash_:
            command = f"astra-tui sass {task} {source_path(Path(), candidate.hash)}"
            missing = profile.missing if profile else {}
            return Sass(problem=missing.get("code", f"this session holds none; see {command}"))
        if hash_ != self._known[0]:
            self._known = hash_, self._read_sass(hash_)
        return self._known[1]

    def _read_sass(self, hash_: str) -> Sass:
        try:
            return sass_of(unpacked(self._read(hash_)))
        except UserError as error:
            return Sass(problem=error.message)
        except MalformedMachineCode as error:
            return Sass(problem=f"{short(hash_)}: {error}")


def sources_of(view: View) -> tuple[str, str]:
    """The hashes of the old and the new source; a question is about exactly these."""
    asked = view.awaiting
    is_diff = asked is not None and asked.gate is ApprovalGate.DIFF
    if asked is not None and is_diff and view.choice == (asked.round, asked.proposal):
        return asked.base, asked.subject
    base, candidate = view.base, view.candidate
    return (base.hash if base else "", candidate.hash if candidate else "")


def _is_asked(view: View, new: str) -> bool:
    asked = view.awaiting
    return asked is not None and asked.gate is ApprovalGate.DIFF and asked.subject == new


def error_marks(errors: Iterable[Diagnostic]) -> tuple[LineMark, ...]:
    """Errors of a compiler at their lines."""
    return tuple(LineMark(e.line, MarkKind.ERROR, e.message) for e in errors if e.line)


def marks_of(candidate: CandidateState) -> tuple[LineMark, ...]:
    """What compiler, device and compute-sanitizer say about lines, each thing once."""
    marks: dict[LineMark, None] = {}
    for said in candidate.compilation.diagnostics if candidate.compilation else ():
        kind = MarkKind.ERROR if said.severity is Severity.ERROR else MarkKind.WARNING
        if said.line:
            marks[LineMark(said.line, kind, said.message)] = None
    for result in candidate.failures:
        for finding in result.findings:
            if finding.line:
                text = f"{finding.kind.value}: {finding.message}"
                marks[LineMark(finding.line, MarkKind.FINDING, text)] = None
    for report in candidate.sanitizer:
        for finding in report.findings:
            if finding.line:
                text = f"{report.tool.value}: {finding.kind.value}: {finding.message}"
                marks[LineMark(finding.line, MarkKind.FINDING, text)] = None
    return tuple(marks)


def columns_of(candidate: CandidateState) -> tuple[LineColumn, ...]:
    """Counters of every line, added up over the workloads; none where there is no profile."""
    if candidate.profile is None:
        return ()
    counters = add_counters(w.counters for w in candidate.profile.workloads)
    columns = (
        LineColumn("sectors", _by_line(counters, "sectors")),
        LineColumn("requests", _by_line(counters, "requests")),
        LineColumn("conflicts", _by_line(counters, "conflicts")),
        LineColumn("instr.", {c.line: count(c.warp_instructions) for c in counters.lines}),
    )
    return tuple(column for column in columns if column.values)


def _by_line(counters: Counters, field: str) -> dict[int, str]:
    sums: dict[int, int] = {}
    for access in counters.accesses:
        sums[access.line] = sums.get(access.line, 0) + int(getattr(access, field))
    return {line: count(n) for line, n in sums.items() if n}
