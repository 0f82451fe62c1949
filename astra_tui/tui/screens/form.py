"""A form over a screen: texts, and choices of a few words. What is wrong with it, it says.

Also an editor for code, for where $EDITOR cannot run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from astra_tui.model.errors import UserError
from astra_tui.model.visible import visible_inline
from astra_tui.present.layout import Line, Span
from astra_tui.present.tones import Tone
from astra_tui.tui.colours import tone_rule
from astra_tui.tui.text_layout import span
from astra_tui.tui.widgets.bars import BarLine, KeyLine
from astra_tui.tui.widgets.code.annotations import LineMark
from astra_tui.tui.widgets.prompt_line import SingleLineInput

NOT_TAKEN = "changed: esc again drops it, ctrl+s takes it"

_LABEL = 19
_LONGEST_TEXT = 8
_HEIGHT = 0.96
_ROOM_FOR_NOTE = 16


class Field(msgspec.Struct, frozen=True):
    """One field. With `options` it is a choice; with more than one line it is a text area."""

    name: str
    label: str
    value: str
    options: tuple[str, ...] = ()
    long: bool = False


class LongText(TextArea):
    """A text of several lines; tab leaves it."""

    takes_text = True

    def __init__(self, text: str, id: str):  # noqa: A002
        super().__init__(text, id=id, tab_behavior="focus", soft_wrap=True)


class ChoiceField(BarLine, can_focus=True):
    """One of a few words: left, right or space change it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "change(-1)", show=False),
        Binding("right,space", "change(1)", "Change"),
    ]
    DEFAULT_CSS = """
    ChoiceField { background: $surface; }
    ChoiceField:focus { background: $primary-muted; }
    """

    def __init__(self, options: tuple[str, ...], value: str, id: str):  # noqa: A002
        super().__init__(id=id)
        self.options = options
        self.value = value if value in options else options[0]
        self._show()

    def on_resize(self, _event: events.Resize) -> None:
        """More or fewer words fit."""
        self._show()

    def _show(self) -> None:
        if sum(map(len, self.options)) + 3 * len(self.options) > self.size.width:
            place = f"  {self.options.index(self.value) + 1} of {len(self.options)}"
            self.set_line((Span(f"[{self.value}]", Tone.ACCENT), Span(place, Tone.DIM)))
            return
        spans: list[Span] = []
        for option in self.options:
            chosen = option == self.value
            text = f"[{option}] " if chosen else f" {option}  "
            spans.append(Span(text, Tone.ACCENT if chosen else Tone.DIM))
        self.set_line(tuple(spans))

    def action_change(self, steps: int) -> None:
        """The next or the last word."""
        self.value = self.options[(self.options.index(self.value) + steps) % len(self.options)]
        self._show()

    def on_click(self) -> None:
        """The next word."""
        self.action_change(1)


class Remark(Static):
    """A plain text below the fields, wrapped; nothing where it is empty."""

    def __init__(self, text: str, id: str):  # noqa: A002
        super().__init__(text, id=id, markup=False)
        self.text = text
        self.display = bool(text)

    def say(self, text: str) -> None:
        """Shows another text."""
        self.text = text
        self.update(Content(text))
        self.display = bool(text)


class FormScreen(ModalScreen[Mapping[str, str]]):
    """Asks for several values. `check` raises UserError where they do not fit, and so does `send`,
    which gives them to someone before the form closes. Esc drops them, a second one where
    something was changed. `note` says how fields are written.
    """

    HELP = (
        "Tab and the arrow keys go from field to field. In a choice, left, right and space change "
        "it. In a text every letter is text, ? too: F1 shows this. ctrl+s or F2 takes the form, "
        "esc drops it, a second one where something was changed."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "submit", "Done", priority=True),
        Binding("enter", "submit", show=False),
        Binding("escape", "cancel", "Back"),
        Binding("tab,down", "app.focus_next", "Next field"),
        Binding("shift+tab,up", "app.focus_previous", show=False),
        Binding("f1", "app.help", "Help"),
    ]
    DEFAULT_CSS = """
    FormScreen { align: center middle; }
    FormScreen > Vertical {
        width: 96; max-width: 98%; height: auto; max-height: 96%;
        border: round $primary; background: $surface; padding: 0 1;
    }
    FormScreen VerticalScroll { height: auto; max-height: 100%; }
    FormScreen Horizontal { height: auto; }
    FormScreen Horizontal > .label { width: 19; background: $surface; }
    FormScreen Input { height: 1; border: none; padding: 0; width: 1fr; background: $panel; }
    FormScreen Input:focus { border: none; background: $primary-muted; }
    FormScreen LongText { border: none; padding: 0; background: $panel; height: 2; width: 1fr; }
    FormScreen LongText:focus { border: none; background: $primary-muted; }
    FormScreen Remark { height: auto; max-height: 3; background: $surface; }
    """
    DEFAULT_CSS += tone_rule("FormScreen", "#note", Tone.DIM)
    DEFAULT_CSS += tone_rule("FormScreen", "#problem", Tone.BAD)

    def __init__(
        self,
        title: str,
        fields: tuple[Field, ...],
        check: Callable[[Mapping[str, str]], None],
        *,
        send: Callable[[Mapping[str, str]], Awaitable[None]] | None = None,
        note: str = "",
    ):
        super().__init__()
        self.title = visible_inline(title, 60)
        self._fields, self._check = fields, check
        self._send, self._note = send, note
        self._is_sending = False
        self._begun: Mapping[str, str] = {}
        self._warned_of: Mapping[str, str] | None = None
        """The values for which the note says that another Esc drops them."""

    def compose(self) -> ComposeResult:
        """A label and a field each."""
        with Vertical() as frame:
            frame.border_title = Content(self.title or "")
            with VerticalScroll(can_focus=False):
                for field in self._fields:
                    with Horizontal():
                        label = BarLine()
                        label.add_class("label")
                        label.set_line((Span(field.label, Tone.DIM),))
                        yield label
                        yield _widget(field)
            yield Remark(visible_inline(self._note), "note")
            yield Remark("", "problem")
            yield KeyLine()

    def on_mount(self) -> None:
        """Begins at the first field; long texts get the lines that they need."""
        self._begun = self.values
        self.query_one(f"#{self._fields[0].name}").focus()
        width = min(96, self.app.size.width) - _LABEL - 6
        for area in self.query(LongText):
            needed = sum(1 + len(line) // max(width, 20) for line in area.text.split("\n"))
            area.styles.height = max(2, min(needed + 1, _LONGEST_TEXT))

    def on_resize(self) -> None:
        """The fields scroll where there is no room for all of them."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        note = self.query_one("#note", Remark)
        note.display = bool(note.text) and self.app.size.height >= _ROOM_FOR_NOTE
        below = [*self.query(Remark), self.query_one(KeyLine)]
        taken = sum(widget.size.height for widget in below if widget.display)
        room = int(self.app.size.height * _HEIGHT) - 2 - taken
        self.query_one(VerticalScroll).styles.max_height = max(1, room)

    @property
    def values(self) -> dict[str, str]:
        """What stands in the fields."""
        return {field.name: _value(self.query_one(f"#{field.name}")) for field in self._fields}

    @on(Input.Submitted)
    def _entered(self) -> None:
        if any(field.long for field in self._fields):
            self.focus_next()
        else:
            self.action_submit()

    def action_submit(self) -> None:
        """Closes the form if it is right, with the keys before this one, which are still on their
        way to a field.
        """
        (self.focused or self).call_later(self._submit)

    def _submit(self) -> None:
        if not self.is_current or self._is_sending:
            return
        values = self.values
        try:
            self._check(values)
        except UserError as error:
            self._tell_error(error)
            return
        if self._send is None:
            self.dismiss(values)
        else:
            self._is_sending = True
            self.run_worker(self._give(self._send(values), values), name="send")

    async def _give(self, sending: Awaitable[None], values: Mapping[str, str]) -> None:
        try:
            await sending
        except UserError as error:
            self._tell_error(error)
        else:
            self.dismiss(values)
        finally:
            self._is_sending = False

    def _tell_error(self, error: UserError) -> None:
        hint = f" ({visible_inline(error.hint)})" if error.hint else ""
        self._tell(visible_inline(error.message) + hint)

    def _tell(self, text: str) -> None:
        self.query_one("#problem", Remark).say(text)
        self.call_after_refresh(self._fit)

    def action_cancel(self) -> None:
        """Closes the form, without a result; where it was changed, another Esc does."""
        if self.values in (self._begun, self._warned_of):
            self.dismiss(None)
            return
        self._warned_of = self.values
        self._tell(NOT_TAKEN)


def _widget(field: Field) -> Input | LongText | ChoiceField:
    if field.options:
        return ChoiceField(field.options, field.value, field.name)
    if field.long:
        return LongText(field.value, field.name)
    return SingleLineInput(field.value, id=field.name, compact=True)


def _value(widget: object) -> str:
    if isinstance(widget, LongText):
        return widget.text
    assert isinstance(widget, Input | ChoiceField)
    return widget.value


class RunForm(FormScreen):
    """A form that begins a run; how its models are asked is in a form of its own."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "submit", "Start", priority=True),
        Binding("f3", "models", "Models"),
    ]

    def __init__(
        self,
        title: str,
        fields: tuple[Field, ...],
        check: Callable[[Mapping[str, str]], None],
        models: tuple[Field, ...],
        note: str,
    ):
        super().__init__(title, fields, check)
        self._models, self._note_of_models = models, note

    @property
    def values(self) -> dict[str, str]:
        """What stands in the fields of both forms."""
        return {**super().values, **{field.name: field.value for field in self._models}}

    def action_models(self) -> None:
        """Asks how models are asked, in general and by each agent."""

        def check(values: Mapping[str, str]) -> None:
            self._check({**self.values, **values})

        def take(values: Mapping[str, str] | None) -> None:
            if values is not None:
                self._models = tuple(
                    msgspec.structs.replace(field, value=values[field.name])
                    for field in self._models
                )

        note = self._note_of_models
        form = FormScreen("How models are asked", self._models, check, note=note)
        self.app.push_screen(form, take)


class CodeArea(TextArea):
    """A text area; what is typed into it is no answer to a question."""

    takes_text = True


class CodeEditor(ModalScreen[str]):
    """Edits a source; `ctrl+s` or F2 takes it. Esc drops it, a second one where it was changed.

    It opens at the first of the `errors` that a compiler found in the text, and says it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "submit", "Take it", priority=True),
        Binding("escape", "cancel", "Back, drop it", priority=True),
    ]
    DEFAULT_CSS = """
    CodeEditor CodeArea { border: none; height: 1fr; }
    """

    def __init__(self, title: str, text: str, errors: Sequence[LineMark] = ()):
        super().__init__()
        self._error = errors[0] if errors else None
        said = f": line {self._error.line}: {self._error.text}" if self._error else ""
        self._heading, self._text = f"{title}{said}", text
        self._warned_of: str | None = None
        """The text for which the note says that another Esc drops it."""

    def compose(self) -> ComposeResult:
        """A title, the text, the keys."""
        head = BarLine(id="head")
        head.set_line(self._head())
        yield head
        yield CodeArea(self._text, show_line_numbers=True, tab_behavior="indent", soft_wrap=False)
        yield KeyLine()

    def on_mount(self) -> None:
        """Goes to the error."""
        if self._error is not None:
            self.query_one(CodeArea).move_cursor((self._error.line - 1, 0), center=True)

    def _head(self) -> Line:
        warning = Span(f"{NOT_TAKEN} ", Tone.BAD) if self._warned_of is not None else Span("")
        return Span(" edit ", Tone.ACCENT), warning, span(self._heading)

    @on(TextArea.Changed)
    def _changed(self) -> None:
        """The note about another text holds no longer."""
        if self.query_one(CodeArea).text != self._warned_of:
            self._warn_of(None)

    def _warn_of(self, text: str | None) -> None:
        self._warned_of = text
        self.query_one("#head", BarLine).set_line(self._head())

    def action_submit(self) -> None:
        """Takes the text, with the keys before this one, which are still on their way to it."""
        self.query_one(CodeArea).call_later(self._take)

    def _take(self) -> None:
        if self.is_current:
            self.dismiss(self.query_one(CodeArea).text)

    def action_cancel(self) -> None:
        """Drops it; where it was changed, another Esc does."""
        self.query_one(CodeArea).call_later(self._drop)

    def _drop(self) -> None:
        if not self.is_current:
            return
        text = self.query_one(CodeArea).text
        if text in (self._text, self._warned_of):
            self.dismiss(None)
        else:
            self._warn_of(text)
