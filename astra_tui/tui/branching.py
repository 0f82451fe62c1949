"""Branches of a session: a new one that begins with the past of this one, up to a candidate."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from astra_tui.model.author import Author
from astra_tui.sessions.branches import find_intact_place, fork_session
from astra_tui.sessions.journal import Redactor
from astra_tui.sessions.store import new_session_folder
from astra_tui.tui.view import View


def place_name(view: View) -> str:
    """The chosen candidate as `astra-tui fork --at` names it.

    That is its hash; the round, for the baseline; the decision, where it is open or a plan has no
    code.
    """
    asked = view.asked
    if asked is not None and view.choice == (asked.round, asked.proposal):
        return asked.id
    if view.choice.round == 0:
        return "0"
    proposal = view.proposal
    code = proposal.code if proposal else None
    if code is not None:
        return code.candidate
    return f"{view.choice.round}.{view.choice.proposal}.plan"


def branch_off(parent: Path, root: Path, at: str, note: str, by: Author) -> Path:
    """Writes a branch into the folder `root` of sessions; returns its own. The parent is only read.

    Raises UserError where nothing can branch off there, or something before it was altered.
    """
    timeline, place = find_intact_place(parent, at)
    opened = timeline.final_state().opened
    task = opened.settings.task if opened else "session"
    folder = new_session_folder(root, task, datetime.now())
    try:
        fork_session(parent, timeline, place, folder, Redactor(), by, note=note)
    except BaseException:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    return folder
