"""Makes text harmless and visible: what is shown identifies what is there, and acts on nothing.

Model replies, kernel sources, file names and messages may hold control characters, escape
sequences, bidirectional controls, characters of no width, or bytes that are no text. Each of them
is written as its name between quotation marks, `«ESC»` or `«U+202E»`, and so are the quotation
marks themselves; hence two different lines never look the same as text. A tab is written as `»` and
spaces up to the next tab stop, a space at the end of a line as `·`.

Apply it once: the quotation marks of what is visible already would be named in their turn. The
result is plain text for `Segment`, `Content` and `Static(markup=False)`: it is not markup.

`harmless` is for prose of our own with foreign words in it, in lines and in reports: it writes out
the same characters by the same names, and leaves line feeds, tabs and quotation marks alone, so
that it may be applied more than once.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

TAB_WIDTH = 4

Range = tuple[int, int]
"""Begin and end of a piece of text, the end not included."""

_OPEN, _CLOSE, _SPACE = "«", "»", "·"
_RESERVED = frozenset(_OPEN + _CLOSE + _SPACE)

_C0_NAMES = (
    "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI "
    "DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
)
_NAMES = {
    **dict(enumerate(_C0_NAMES.split())),
    0x7F: "DEL",
    0xA0: "NBSP",
    0xAD: "SHY",
    0x200B: "ZWSP",
    0x200C: "ZWNJ",
    0x200D: "ZWJ",
    0x200E: "LRM",
    0x200F: "RLM",
    0x202A: "LRE",
    0x202B: "RLE",
    0x202C: "PDF",
    0x202D: "LRO",
    0x202E: "RLO",
    0x2060: "WJ",
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
    0xFEFF: "BOM",
}

_NOT_PLAIN = re.compile(r"[^ -~]")
_NOT_PROSE = re.compile(r"[^\n\t -~]")

_JOINING = ((0x1F1E6, 0x1F1FF), (0x1F3FB, 0x1F3FF))
"""Regional indicators and skin tones: terminals merge them with their neighbours."""


@dataclass(frozen=True, slots=True)
class VisibleLine:
    """One line as it is drawn.

    `marks` are the ranges of `text` that stand for something else. `starts` gives, for each
    character of the source and for its end, where it begins in `text`; None means that both are
    the same.
    """

    text: str
    marks: tuple[Range, ...] = ()
    starts: tuple[int, ...] | None = None

    def column(self, index: int) -> int:
        """Where a character of the source begins in `text`; beyond the end, the end."""
        if self.starts is None:
            return min(index, len(self.text))
        return self.starts[min(index, len(self.starts) - 1)]


def visible_line(text: str, prose: Sequence[Range] | None = None) -> VisibleLine:
    """One line without its line feed, made visible.

    Characters beyond ASCII are kept if they are letters, digits, symbols or punctuation. With
    `prose`, ranges of comments and strings, they are kept only inside of these: elsewhere a
    Cyrillic `а` is written as its code, so that it cannot pass for a Latin one.
    """
    if text.isascii() and text.isprintable() and not text.endswith(" "):
        return VisibleLine(text)
    drawing = _Drawing()
    end = len(text.rstrip(" "))
    done = 0
    for match in _NOT_PLAIN.finditer(text, 0, end):
        index = match.start()
        drawing.keep(text[done:index])
        character = match.group()
        if character == "\t":
            drawing.replace(_CLOSE + " " * (TAB_WIDTH - 1 - drawing.cells % TAB_WIDTH))
        elif _is_kept(character) and (prose is None or _inside(index, prose)):
            drawing.keep(character)
        else:
            drawing.replace(_name(character))
        done = index + 1
    drawing.keep(text[done:end])
    for _ in range(end, len(text)):
        drawing.replace(_SPACE)
    return drawing.line()


def visible(text: str, limit: int = 2000) -> str:
    """A text of one or several lines, made visible, for widgets that draw whole texts.

    Lines longer than `limit` characters are cut, with a mark that names how much is missing and
    a hash of it, so that different lines still differ. Line feeds stay.
    """
    return "\n".join(_bounded(visible_line(line).text, limit) for line in text.split("\n"))


def visible_inline(text: str, limit: int = 200) -> str:
    """A text for one line of a title, list or status: like `visible`, with line feeds as marks."""
    return _bounded(visible_line(text).text, limit)


def harmless(text: str) -> str:
    """A text in which nothing can act on a page or a terminal; line feeds and tabs stay."""
    return _NOT_PROSE.sub(lambda match: _name(match[0]) if can_act(match[0]) else match[0], text)


def can_act(character: str) -> bool:
    """Whether a character could change how others are read. Space, tab and line feed cannot.

    By Unicode's categories: C, controls, formats (bidirectional ones too) and what is unassigned;
    Z, separators; M, marks that are drawn over their neighbours.
    """
    return character not in "\n\t " and unicodedata.category(character)[0] in "CZM"


def is_harmless(character: str) -> bool:
    """Whether a terminal draws a character by itself in one or two cells, and no more."""
    if character.isascii():
        return character.isprintable()
    category = unicodedata.category(character)
    if category[0] in "CZM" or cell_len(character) == 0:
        return False
    return not any(first <= ord(character) <= last for first, last in _JOINING)


class _Drawing:
    """Puts a line together from left to right."""

    def __init__(self) -> None:
        self.cells = 0
        self._length = 0
        self._pieces: list[str] = []
        self._marks: list[Range] = []
        self._starts: list[int] = []

    def keep(self, text: str) -> None:
        """Characters that are drawn as they are."""
        self._starts.extend(range(self._length, self._length + len(text)))
        self._add(text)

    def replace(self, text: str) -> None:
        """What is drawn for the next character."""
        self._starts.append(self._length)
        self._marks.append((self._length, self._length + len(text)))
        self._add(text)

    def line(self) -> VisibleLine:
        """The line so far."""
        starts = (*self._starts, self._length)
        return VisibleLine("".join(self._pieces), tuple(self._marks), starts)

    def _add(self, text: str) -> None:
        self._pieces.append(text)
        self._length += len(text)
        self.cells += len(text) if text.isascii() else cell_len(text)


def _is_kept(character: str) -> bool:
    return character not in _RESERVED and is_harmless(character)


def _name(character: str) -> str:
    code = ord(character)
    return f"{_OPEN}{_NAMES.get(code) or f'U+{code:04X}'}{_CLOSE}"


def _inside(index: int, ranges: Sequence[Range]) -> bool:
    return any(begin <= index < end for begin, end in ranges)


def _bounded(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    rest = text[limit:]
    digest = hashlib.sha256(rest.encode()).hexdigest()[:16]
    return f"{text[:limit]}{_OPEN}{len(rest)} more characters, SHA-256 {digest}{_CLOSE}"
