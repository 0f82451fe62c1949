"""The ids by which the settings file gives keys to actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode

from astra_tui.model.errors import UserError, nearest


def check_keys(keys: Mapping[str, str], app: type[App[Any]]) -> None:
    """Raises UserError for an id that no action of the app, or of anything in it, has."""
    known = binding_ids(app)
    for name in keys:
        if name not in known:
            raise UserError(f"keys: there is no action '{name}'", hint=nearest(name, known))


def binding_ids(app: type[App[Any]]) -> frozenset[str]:
    """Every id, of the app, of screens, panes and dialogs."""
    from astra_tui.tui.screens.compare import CompareScreen
    from astra_tui.tui.screens.home import HomeScreen
    from astra_tui.tui.screens.session import SessionScreen
    from astra_tui.tui.widgets.code.pane import AskField, CodePane
    from astra_tui.tui.widgets.code.view import CodeView
    from astra_tui.tui.widgets.diff.lines import DiffLines
    from astra_tui.tui.widgets.line_view import LinesView, RowsView
    from astra_tui.tui.widgets.plan import PlanPane
    from astra_tui.tui.widgets.source.lines import SourceLines
    from astra_tui.tui.widgets.source.pane import SourcePane

    owners: tuple[type[DOMNode], ...] = (
        app, CompareScreen, HomeScreen, SessionScreen, AskField, CodePane, CodeView,
        DiffLines, LinesView, PlanPane, RowsView, SourceLines, SourcePane,
    )  # fmt: skip
    return frozenset(b.id for owner in owners for b in _bindings(owner) if b.id)


def _bindings(owner: type[DOMNode]) -> Iterable[Binding]:
    return (b for b in owner.BINDINGS if isinstance(b, Binding))
