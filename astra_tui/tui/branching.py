"""Branches of a session: a new one that begins with the past of this one, up to a candidate."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from astra_tui.model.author import Author
from astra_tui.model.errors import UserError
from astra_tui.session.forking import find_place, fork_session
from astra_tui.session.integrity import check_integrity
from astra_tui.session.redaction import Redactor
from astra_tui.session.store import new_session_folder
from astra_tui.session.timeline import open_timeline
from astra_tui.tui.view import View


def place_name(view: View) -> str:
    """The chosen candidate as `astra-tui fork --at` names it.

    That is its hash; the round, for the baseline; the decision, where a plan has no code.
    """
    if view.choice.round == 0:
        return "0"
    proposal = view.proposal
    code = proposal.code if proposal else None
    if code is not None:
        return code.candidate
    return f"{view.choice.round}.{view.choice.proposal}.plan"


def branch_off(parent: Path, at: str, note: str, by: Author) -> Path:
    """Writes the branch beside its parent, which is only read; returns its folder.

    Raises UserError where nothing can branch off there, or something in the parent was altered.
    """
    integrity, state = check_integrity(parent)
    if integrity.altered:
        raise UserError(
            integrity.altered[0].describe(),
            hint="what was altered does not go on: astra-tui verify",
        )
    timeline = open_timeline(parent)
    place = find_place(timeline, at)
    task = state.opened.settings.task if state.opened else "session"
    folder = new_session_folder(parent.parent, task, datetime.now())
    try:
        fork_session(parent, timeline, place, folder, Redactor(), by, note=note)
    except BaseException:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    return folder
