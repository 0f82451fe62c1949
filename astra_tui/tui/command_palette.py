"""Every action by name: the command palette, and the ids by which settings give keys to actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from astra_tui.model.errors import UserError, nearest

MOVES = frozenset(
    ("move", "move_page", "move_to", "page", "go_to", "sideways", "scroll_up", "scroll_down")
)
"""Actions that only move a cursor: no one looks for them by name."""


def commands_of(app: App[Any], screen: Screen[object]) -> Iterable[SystemCommand]:
    """A command for each binding that applies on a screen and does more than move a cursor, then
    theme and screenshot.
    """
    seen: set[str] = set()
    for active in screen.active_bindings.values():
        binding = active.binding
        is_move = binding.action.partition("(")[0] in MOVES
        if not binding.id or is_move or binding.action in seen:
            continue
        seen.add(binding.action)
        about = _about(active.node, binding.action)
        title = binding.description or binding.id.replace("_", " ").replace(".", " ")
        keys = f"{app.get_key_display(binding)}: {about}" if about else ""
        yield SystemCommand(
            title[:1].upper() + title[1:], keys, _run(app, binding.action, active.node)
        )
    yield SystemCommand("Theme", "Other colours.", app.action_change_theme)
    yield SystemCommand("Screenshot", "Save the screen as SVG.", partial(app.action_screenshot))


def _run(app: App[Any], action: str, node: DOMNode) -> Callable[[], None]:
    def run() -> None:
        app.call_later(app.run_action, action, node)

    return run


def _about(node: DOMNode, action: str) -> str:
    """The first line of the action's docstring."""
    name = action.partition("(")[0].rpartition(".")[2]
    method = getattr(node, f"action_{name}", None)
    return (getattr(method, "__doc__", "") or "").strip().partition("\n")[0]


def check_keys(keys: Mapping[str, str], app: type[App[Any]]) -> None:
    """Raises UserError for an id that no action of the app, or of anything in it, has."""
    known = binding_ids(app)
    for name in keys:
        if name not in known:
            raise UserError(f"keys: there is no action '{name}'", hint=nearest(name, known))


def binding_ids(app: type[App[Any]]) -> frozenset[str]:
    """Every id, of the app, of screens, panes and dialogs."""
    from astra_tui.tui.screens.compare import CompareScreen
    from astra_tui.tui.screens.draft import DraftScreen
    from astra_tui.tui.screens.home import HomeScreen
    from astra_tui.tui.screens.session import SessionScreen
    from astra_tui.tui.widgets.code.code_pane import AskField, CodePane
    from astra_tui.tui.widgets.code.view import CodeView
    from astra_tui.tui.widgets.diff.lines import DiffLines
    from astra_tui.tui.widgets.line_view import LinesView, RowsView
    from astra_tui.tui.widgets.plan import PlanPane
    from astra_tui.tui.widgets.source.lines import SourceLines
    from astra_tui.tui.widgets.source.source_pane import SourcePane

    owners: tuple[type[DOMNode], ...] = (
        app, CompareScreen, DraftScreen, HomeScreen, SessionScreen, AskField, CodePane, CodeView,
        DiffLines, LinesView, PlanPane, RowsView, SourceLines, SourcePane,
    )  # fmt: skip
    bindings = (b for owner in owners for b in owner.BINDINGS if isinstance(b, Binding))
    return frozenset(b.id for b in bindings if b.id)
