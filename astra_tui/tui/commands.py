"""The command palette: every action that applies now, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from textual.app import App, SystemCommand
from textual.dom import DOMNode
from textual.screen import Screen


def commands_of(app: App[Any], screen: Screen[object]) -> Iterable[SystemCommand]:
    """A command for each binding that applies on a screen, then theme and screenshot."""
    seen: set[str] = set()
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.id or binding.action in seen:
            continue
        seen.add(binding.action)
        about = _about(active.node, binding.action)
        title = binding.description or binding.id.replace("_", " ").replace(".", " ")
        keys = f"{app.get_key_display(binding)}: {about}" if about else ""
        yield SystemCommand(title.capitalize(), keys, _run(app, binding.action, active.node))
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
