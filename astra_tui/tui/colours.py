"""The colours of tones on the screen: one table. What has which tone: `present/tones.py`.

Colours are theme variables. Where a terminal has 16 of them Textual's ANSI themes apply, in which
nothing is translucent, so what is dim there is said by the terminal's own attribute. Colours that
are no tone stand with what has them: of syntax in `widgets/code/`, of sides in `widgets/diff/`.
"""

from __future__ import annotations

from collections.abc import Container

from astra_tui.present.tones import Tone

_COLOURS = {
    Tone.TITLE: "text-style: bold;",
    Tone.DIM: "color: $foreground 60%;",
    Tone.GOOD: "color: $text-success;",
    Tone.BAD: "color: $text-error; text-style: bold;",
    Tone.CAUTION: "color: $text-warning;",
    Tone.ACCENT: "color: $text-accent;",
}
_ANSI = {Tone.DIM: "color: ansi_default; text-style: dim;"}


def tone_rule(widget: str, part: str, tone: Tone, *, bold: bool = False) -> str:
    """CSS that shows a part of a widget in a tone's colour.

    `widget` is a type of widget, and `part` the rest of the selector, as in "> .diff--header".
    """
    weight = " text-style: bold;" if bold and "bold" not in _COLOURS[tone] else ""
    rule = f"{widget} {part} {{ {_COLOURS[tone]}{weight} }}\n"
    if tone in _ANSI:
        rule += f"{widget}:ansi {part} {{ {_ANSI[tone]}{weight} }}\n"
    return rule


def tone_rules(widget: str, prefix: str, *, bold: Container[Tone] = ()) -> str:
    """CSS for the component classes PREFIX--TONE of a widget; `bold` are shown in bold as well."""
    return "".join(
        tone_rule(widget, f"> .{prefix}--{tone.value}", tone, bold=tone in bold)
        for tone in _COLOURS
    )
