"""Reads reports back: HTML by the standard library's parser, Markdown by markdown-it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import compress

from markdown_it import MarkdownIt
from markdown_it.token import Token

VOID = {"meta"}


@dataclass
class Cell:
    text: str = ""
    values: list[float] = field(default_factory=list)
    """The exact numbers behind it."""


@dataclass
class ReadTable:
    caption: str = ""
    rows: list[list[Cell]] = field(default_factory=list)
    """The first one holds the columns' names."""

    @property
    def texts(self) -> list[list[str]]:
        return [[cell.text for cell in row] for row in self.rows]

    def column(self, name: str) -> list[Cell]:
        index = self.texts[0].index(name)
        return [row[index] for row in self.rows[1:]]

    def only(self, name: str, text: str) -> ReadTable:
        """The same with those rows alone that have this text in that column."""
        kept = [cell.text == text for cell in self.column(name)]
        return ReadTable(self.caption, [self.rows[0], *compress(self.rows[1:], kept)])


@dataclass
class Opened:
    """An element with its attributes."""

    tag: str
    attributes: dict[str, str]
    text: str = ""


class Page(HTMLParser):
    """Everything in an HTML file. Raises AssertionError where elements do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Opened] = []
        self.tables: list[ReadTable] = []
        self.declarations: list[str] = []
        self._stack: list[Opened] = []
        self.feed(text)
        self.close()
        assert self._stack == []

    def all(self, tag: str) -> list[Opened]:
        return [e for e in self.elements if e.tag == tag]

    @property
    def text(self) -> str:
        return "\n".join(e.text for e in self.elements)

    def handle_decl(self, decl: str) -> None:
        self.declarations.append(decl)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs)
        element = Opened(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in VOID:
            self._stack.append(element)
        if tag == "table":
            self.tables.append(ReadTable())
        elif tag == "tr":
            self.tables[-1].rows.append([])
        elif tag in ("th", "td"):
            self.tables[-1].rows[-1].append(Cell())
        elif tag == "data":
            self.tables_value(element)

    def tables_value(self, element: Opened) -> None:
        if any(e.tag in ("td", "th") for e in self._stack):
            self.tables[-1].rows[-1][-1].values.append(float(element.attributes["value"]))

    def handle_endtag(self, tag: str) -> None:
        assert self._stack, f"</{tag}> closes nothing"
        assert self._stack[-1].tag == tag, f"</{tag}> closes <{self._stack[-1].tag}>"
        self._stack.pop()

    def handle_data(self, data: str) -> None:
        for element in self._stack:
            element.text += data
        tags = [e.tag for e in self._stack]
        if "caption" in tags:
            self.tables[-1].caption += data
        elif "td" in tags or "th" in tags:
            self.tables[-1].rows[-1][-1].text += data


def markdown_tokens(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(text)


def markdown_tables(text: str) -> list[ReadTable]:
    """The tables of a Markdown file; the bold line before each is its caption."""
    tables: list[ReadTable] = []
    last = ""
    in_cell = False
    for token in markdown_tokens(text):
        if token.type == "table_open":
            tables.append(ReadTable(last))
        elif token.type == "tr_open":
            tables[-1].rows.append([])
        elif token.type in ("th_open", "td_open"):
            tables[-1].rows[-1].append(Cell())
            in_cell = True
        elif token.type in ("th_close", "td_close"):
            in_cell = False
        elif token.type == "inline":
            last = plain_text(token)
            if in_cell:
                tables[-1].rows[-1][-1].text = last
    return tables


def plain_text(token: Token) -> str:
    """What an inline token says, without its marks."""
    return "".join(t.content for t in token.children or () if t.type in ("text", "code_inline"))
