"""The component classes and colours that all panes of lines share, those of syntax among them.

Colours are theme variables; those of tones are from `tui/colours.py`. Where a terminal has 16
colours Textual's ANSI themes apply; there backgrounds do not blend, so what matters is set in
reverse or bold instead. Nothing is told by colour alone.
"""

from __future__ import annotations

from astra_tui.present.tones import Tone
from astra_tui.tui.colours import tone_rule
from astra_tui.tui.text.cuda import TokenKind

CLASSES = {
    "pane--gutter",
    "pane--cursor",
    "pane--mark",
    "pane--match",
    "pane--match-current",
    "pane--error",
    "pane--warning",
    "pane--finding",
    "pane--column",
    "pane--divider",
    *(f"code--{role}" for role in TokenKind),
}

CSS = """
CodeView {
    overflow-y: scroll;
    overflow-x: auto;
    scrollbar-size-vertical: 1;
    scrollbar-size-horizontal: 1;
    height: 1fr;
}
CodeView > .pane--gutter { color: $foreground 55%; }
CodeView > .pane--cursor { color: $foreground; background: $primary 35%; text-style: bold; }
CodeView > .pane--match { background: $accent 40%; text-style: underline; }
CodeView > .pane--match-current { background: $accent; color: $background; text-style: bold; }
CodeView > .pane--column { color: $text-secondary; }
CodeView > .pane--divider { color: $foreground 35%; }
CodeView > .code--keyword { color: $text-primary; text-style: bold; }
CodeView > .code--type { color: $text-primary; }
CodeView > .code--builtin { color: $text-secondary; }
CodeView > .code--name { text-style: bold; }
CodeView > .code--number { color: $text-accent; }
CodeView > .code--string { color: $text-success; }
CodeView > .code--comment { color: $foreground 60%; text-style: italic; }
CodeView > .code--directive { color: $text-secondary; }
CodeView > .code--launch { color: $text-accent; text-style: bold; }
CodeView:ansi > .pane--gutter { color: ansi_default; text-style: dim; }
CodeView:ansi > .pane--cursor { background: ansi_default; text-style: reverse; }
CodeView:ansi > .pane--mark { color: ansi_yellow; text-style: bold; }
CodeView:ansi > .pane--match { background: ansi_default; text-style: underline; }
CodeView:ansi > .pane--match-current { color: ansi_default; background: ansi_default;
    text-style: reverse bold; }
CodeView:ansi > .pane--divider { color: ansi_default; text-style: dim; }
CodeView:ansi > .code--comment { color: ansi_default; text-style: italic; }
"""
CSS += tone_rule("CodeView", "> .pane--mark", Tone.CAUTION, bold=True)
CSS += tone_rule("CodeView", "> .pane--error", Tone.BAD)
CSS += tone_rule("CodeView", "> .pane--warning", Tone.CAUTION)
CSS += tone_rule("CodeView", "> .pane--finding", Tone.CAUTION, bold=True)
