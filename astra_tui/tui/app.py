"""The application: it holds screens together, and what all of them need. No logic of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input

from astra_tui.model.environment import Difference
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.visible import visible_inline
from astra_tui.sessions.engines import difference_words
from astra_tui.tui.app_base import AppBase
from astra_tui.tui.app_io import (
    TICK,
    ComparisonContext,
    DraftContext,
    ExitState,
    HomeContext,
    Preferences,
)
from astra_tui.tui.source import OpenSource


class AstraApp(AppBase, inherit_bindings=False):
    """astra-tui in a terminal. It begins with a session, a comparison or a draft, or at home."""

    CSS_PATH = "app.tcss"
    TITLE = "astra-tui"
    PAUSE_GC_ON_SCROLL = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "help", "Help", key_display="?", id="help"),
        Binding("q", "leave", "Leave", id="leave"),
        Binding("ctrl+q", "leave", show=False, priority=True, id="quit"),
        Binding("ctrl+c", "copy_selected", show=False, id="copy_selected"),
        Binding("ctrl+o", "details", show=False, id="details"),
    ]

    def __init__(
        self,
        begin: OpenSource | HomeContext | ComparisonContext | DraftContext,
        *,
        preferences: Preferences | None = None,
        found: Sequence[Difference] = (),
        clock: Callable[[], float] = time.monotonic,
        tick: float = TICK,
    ):
        preferences = preferences or Preferences()
        sessions = (begin if isinstance(begin, HomeContext) else preferences).sessions
        super().__init__(sessions, clock, tick)
        from_home = begin.request_for if isinstance(begin, HomeContext) else None
        self.request_for = from_home or preferences.request_for
        self.time_pair = preferences.time_pair
        self.export_best = preferences.export_best
        self.notification = preferences.notification
        self._begin = begin
        self._preferences = preferences
        self._found = found
        self.failed: UserError | None = None
        """Why there is no session, where one was to be opened at once."""
        self._key: events.Key | None = None
        """The last key that was pressed."""

    def on_mount(self) -> None:
        """Shows the first screen."""
        if self._preferences.keys:
            self._set_keys(self._preferences.keys)
        theme = self._preferences.theme
        if theme in self.available_themes:
            self.theme = theme
        elif theme:
            message = f"there is no theme '{theme}'"
            self.report(UserError(message, hint=nearest(theme, self.available_themes)))
        if isinstance(self._begin, HomeContext):
            from astra_tui.tui.screens.home import HomeScreen

            self.push_screen(HomeScreen(self._begin))
        elif isinstance(self._begin, ComparisonContext):
            from astra_tui.tui.screens.compare import CompareScreen

            self.push_screen(CompareScreen(self._begin.sides))
        elif isinstance(self._begin, DraftContext):
            from astra_tui.tui.screens.draft import DraftScreen

            self.push_screen(DraftScreen(self._begin.drafting))
        else:
            self.open_session(self._begin, self._found)

    def _set_keys(self, keys: Mapping[str, str]) -> None:
        from astra_tui.tui.command_palette import check_keys

        try:
            check_keys(keys, type(self))
        except UserError as error:
            self.report(error)
        self.set_keymap(dict(keys))

    def open_session(
        self,
        open_source: OpenSource,
        found: Sequence[Difference] = (),
        instead_of: Screen[None] | None = None,
    ) -> None:
        """Shows a session over what is there or instead of a screen, and at first how this machine
        differs from where it ran.
        """
        from astra_tui.tui.screens.session import SessionScreen

        if instead_of is not None and instead_of is self.screen:
            self.switch_screen(SessionScreen(open_source))
        else:
            self.push_screen(SessionScreen(open_source))
        if found:
            from astra_tui.tui.screens.dialogs import TextDialog

            text = "\n".join(map(difference_words, found))
            self.push_screen(TextDialog("Not as it was when the session ran", text))

    async def on_event(self, event: events.Event) -> None:
        """Takes note of when keys are pressed, and whether into a field.

        Letters that follow what was typed into a field, after it was closed, do nothing. Nor do
        keys that were on their way when another program got the terminal.
        """
        if self.is_away and isinstance(event, events.InputEvent | events.Paste):
            return
        if isinstance(event, events.Resize | events.AppFocus):
            self.guard.moved()
            self.call_after_refresh(self.guard.moved)
        if isinstance(event, events.Key) and event is not self._key:
            self._key = event  # It comes again where no widget took it.
            focused = self.focused
            is_typing = isinstance(focused, Input) or getattr(focused, "takes_text", False)
            is_letter = event.character is not None and event.character.isalpha()
            # Textual stamps a key where it reads it, by this clock.
            at = event.time if self.clock is time.monotonic else None
            if is_letter and not is_typing and self.guard.is_stray(at):
                return
            self.guard.key_pressed(into_text=is_typing, at=at)
            if event.is_printable and not is_typing and self._is_no_key(event):
                self.guard.unknown_letter()
        await super().on_event(event)

    def _is_no_key(self, event: events.Key) -> bool:
        """Whether a letter does nothing while a question is on the screen, as `/` where nothing can
        be searched: the engineer takes the screen for something else.
        """
        from astra_tui.tui.screens.session import SessionScreen

        screen = self.screen
        if not isinstance(screen, SessionScreen) or not screen.asks:
            return False
        if event.key in screen.active_bindings:
            return False
        screen.say_not_taken(f"{visible_inline(event.key)} is no key here")
        return True

    # -- leaving ---------------------------------------------------------------------------------

    def action_leave(self) -> None:
        """Leaves the screen or the program; asks first when an engine works."""
        from astra_tui.tui.screens.compare import CompareScreen
        from astra_tui.tui.screens.draft import DraftScreen
        from astra_tui.tui.screens.form import CodeEditor, FormScreen
        from astra_tui.tui.screens.session import SessionScreen

        screen = self.screen
        begins_with_it = isinstance(self._begin, ComparisonContext | DraftContext)
        if isinstance(screen, FormScreen | CodeEditor):
            screen.action_cancel()  # What was typed is not dropped unsaid.
        elif screen.is_modal or (
            isinstance(screen, CompareScreen | DraftScreen) and not begins_with_it
        ):
            screen.dismiss()
        elif not isinstance(screen, SessionScreen):
            self.exit(ExitState())
        elif screen.works:
            screen.ask_how_to_leave()
        else:
            self.leave_session(screen, screen.left(detached=False))

    def leave_session(
        self, screen: Screen[None], left: ExitState, error: UserError | None = None
    ) -> None:
        """Closes a session's screen, `left` like this; what began with it ends with it."""
        self.set_title("")
        if not isinstance(self._begin, HomeContext):
            self.failed = error
            self.exit(left)
            return
        screen.dismiss()
        if error is not None:
            self.report(error)
        elif left.detached:
            self.say("detached; the engine keeps running")

    # -- actions ---------------------------------------------------------------------------------

    def action_details(self) -> None:
        """The last error in full."""
        from astra_tui.tui.screens.dialogs import TextDialog

        if self.reported is not None:
            self.push_screen(TextDialog("The last error", self.reported.describe()))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only actions that would do something have a key."""
        if action == "details":
            return self.reported is not None
        return super().check_action(action, parameters)

    def action_help(self) -> None:
        """What the focused pane shows, and every key that applies; also of a form."""
        from astra_tui.tui.screens.dialogs import HelpScreen
        from astra_tui.tui.screens.form import FormScreen

        if not self.screen.is_modal or isinstance(self.screen, FormScreen):
            self.push_screen(HelpScreen.about(self.screen))

    def action_copy_selected(self) -> None:
        """Copies what is selected with the mouse."""
        chosen = self.screen.get_selected_text()
        if chosen:
            self.copy_to_clipboard(chosen)
            self.say("copied the selected text")
        else:
            self.say("nothing is selected; q leaves")

    def action_screenshot(self, filename: str | None = None, path: str | None = None) -> None:
        """Saves what is on the screen as SVG in the current folder."""
        saved = self.save_screenshot(filename, path or ".")
        self.say(f"saved {saved}")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action that applies now, then what concerns the whole program."""
        from astra_tui.tui.command_palette import commands_of

        yield from commands_of(self, screen)
