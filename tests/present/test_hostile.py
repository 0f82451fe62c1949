"""Text of others stays text: in HTML, in Markdown, and whatever it tries."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it.token import Token

from astra_tui.model.digest import content_hash
from astra_tui.model.visible import harmless
from astra_tui.present.document import (
    LONGEST_TEXT,
    Code,
    Diff,
    Document,
    Items,
    Paragraph,
    Quote,
    Source,
    Table,
    bounded,
    inline,
)
from astra_tui.present.files import as_html, as_markdown, coloured_lines
from astra_tui.present.report.plots import log_ticks
from astra_tui.sessions.folder import blob_path
from tests.present.conftest import Written, html_of, markdown_of, timed_session
from tests.present.page import Page, markdown_tables, markdown_tokens, plain_text

ATTACKS = (
    "</style></title></pre><script>alert(1)</script>",
    '"><img src=https://example.org/x onerror=alert(1)>',
    "\x1b]8;;https://example.org\x07click\x1b]8;;\x07\x1b[2J",
    "user\u202egnp.exe\u2066 \u200b\ufeff\x00",
    "| a | b |\n| --- | --- |\n# title\n- [x](javascript:alert(1)) ![i](https://example.org)",
    "<!-- `` ``` & &lt; *b* _i_ ~~s~~ $x$ \\ <https://example.org> www.example.org",
)
HOSTILE = " ".join(ATTACKS)

texts = st.text(st.characters(), max_size=60) | st.sampled_from(ATTACKS)
active = st.text("`*_[]<>&|~$\\#+-=.()!:/1 \nab\t\u202e", max_size=40)


def is_hidden(character: str) -> bool:
    return unicodedata.category(character)[0] in "CZM" and character not in " \n\t"


def document(*blocks: Any) -> Document:
    return Document("title", "subtitle", tuple(blocks), ())


def hostile(value: Any) -> Any:
    """A decoded line of a journal with every free text and name in it replaced."""
    if isinstance(value, dict):
        kept = ("event", "time", "hash", "question", "id", "subject", "result", "status", "gate")
        return {k: v if k in kept else hostile(v) for k, v in value.items()}
    if isinstance(value, list):
        return [hostile(v) for v in value]
    if isinstance(value, str) and (" " in value or value in NAMES):
        return f"{value} {HOSTILE}"
    return value


NAMES = {"silu_and_mul", "16x4096", "4096x14336", "decode", "qwen3", "ada", "wider_loads", "lab"}
NAMES |= {"NVIDIA H100", "NVRTC", "restarted", "wider", "one_row", "k", "cuda:0", "profiling", "s"}


@pytest.fixture
def attacked(written: Written) -> Path:
    """The timed session with hostile texts wherever a text is free, and hostile sources."""
    folder = written(timed_session())
    journal = folder / "journal.jsonl"
    old = [content_hash(s) for s in ("__global__ void k() {}\r\n",)]
    lines = [json.dumps(hostile(json.loads(line))) for line in journal.read_text().splitlines()]
    source = f"// {HOSTILE}\n\x1b[31m__global__ void k() {{ /* ```\n</code></pre> */ }}\n"
    new = content_hash(source)
    blob_path(folder, new).parent.mkdir(parents=True, exist_ok=True)
    blob_path(folder, new).write_bytes(source.encode())
    text = "\n".join(lines).replace(old[0], new) + "\n"
    journal.write_text(text, encoding="utf-8")
    return folder


def test_a_hostile_session_makes_a_page_that_does_nothing(attacked: Path) -> None:
    text = html_of(attacked)
    page = Page(text)
    tags = {e.tag for e in page.elements}
    assert not tags & {"script", "img", "iframe", "object", "form", "input", "base", "link"}
    assert "alert(1)" in page.text
    assert len(page.all("style")) == 1
    for element in page.elements:
        assert not any(n.startswith("on") or n in ("src", "style") for n in element.attributes)
        assert element.attributes.get("href", "#").startswith("#")
    assert not any(is_hidden(c) for c in text)
    assert "«RLO»" in page.text
    assert "«ESC»" in page.text


def test_a_hostile_session_makes_markdown_without_links_tags_or_pictures(attacked: Path) -> None:
    text = markdown_of(attacked)
    assert not any(is_hidden(c) for c in text)
    kinds = {t.type for t in _all_tokens(markdown_tokens(text))}
    assert kinds <= {
        "heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "text",
        "code_inline", "strong_open", "strong_close", "fence", "softbreak", "hardbreak",
        "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close",
        "blockquote_open", "blockquote_close", "table_open", "table_close", "thead_open",
        "thead_close", "tbody_open", "tbody_close", "tr_open", "tr_close", "th_open", "th_close",
        "td_open", "td_close",
    }  # fmt: skip
    assert [t.caption for t in markdown_tables(text)] == [
        t.caption for t in Page(html_of(attacked)).tables
    ]


def _all_tokens(tokens: list[Token]) -> list[Token]:
    return [t for token in tokens for t in (token, *(token.children or ()))]


@given(texts)
def test_visible_text_hides_nothing(text: str) -> None:
    assert not any(is_hidden(c) for c in harmless(text))
    assert "\n" not in inline(text)


def test_long_texts_are_cut_with_a_note() -> None:
    assert bounded("x" * (LONGEST_TEXT + 7)).endswith("x ... (7 more characters)")


@given(texts | active)
def test_html_says_what_the_text_says(text: str) -> None:
    parts = Paragraph((text,)), Items(((Code(text),),)), Quote(text)
    page = Page(as_html(document(*parts)))
    subtitle, paragraph, _ = page.all("p")
    assert subtitle.text == "subtitle"
    assert paragraph.text.strip() == inline(text)
    assert page.all("code")[0].text == inline(text)
    assert page.all("blockquote")[0].text == bounded(text)


@given(texts | active)
def test_markdown_says_what_the_text_says(text: str) -> None:
    blocks = Paragraph(("x", text)), Paragraph((text,)), Items(((text, "."),))
    tokens = markdown_tokens(as_markdown(document(*blocks)))
    found = [plain_text(t) for t in tokens if t.type == "inline"][2:]
    one_line = re.sub("[ \n\t]+", " ", harmless(text))
    expected = [f"x{one_line}".strip(" "), one_line.strip(" "), f"{one_line}.".strip(" ")]
    expected = [line for line in expected if line]
    assert found == expected


@given(texts | active, texts | active)
def test_markdown_tables_hold_their_cells(one: str, other: str) -> None:
    rows = (((one,), (Code(other),)), ((), (one,)))
    text = as_markdown(document(Table("caption", ("a", "b"), rows)))
    (table,) = markdown_tables(text)
    body = [[inline(one), inline(other)], ["", inline(one)]]
    assert table.texts == [["a", "b"], *body]


@given(texts | active)
def test_fences_hold_their_source(text: str) -> None:
    tokens = markdown_tokens(as_markdown(document(Source(text), Paragraph(("after",)))))
    (fence,) = [t for t in tokens if t.type == "fence"]
    assert fence.content == harmless(text).rstrip("\n") + "\n"
    assert plain_text(tokens[-2]) == "after"


@given(texts | active)
def test_coloured_sources_are_the_source(text: str) -> None:
    page = Page(as_html(document(Source(text))))
    assert page.all("code")[0].text == harmless(text)
    assert len(coloured_lines(text)) == text.count("\n") + 1


@given(texts | active, texts | active)
def test_diffs_hold_every_changed_line(old: str, new: str) -> None:
    page = Page(as_html(document(Diff("a.cu", "b.cu", old, new))))
    removed = [e.text[1:] for e in page.all("del")]
    added = [e.text[1:] for e in page.all("ins")]
    assert set(removed) <= set(harmless(old).split("\n"))
    assert set(added) <= set(harmless(new).split("\n"))
    assert bool(removed or added) == (old != new)


positive = st.floats(1e-9, 1e9)


@given(st.lists(positive, min_size=1, max_size=8))
def test_ticks_lie_among_the_values(values: list[float]) -> None:
    ticks = log_ticks(values)
    low, high = min(values), max(values)
    assert ticks == sorted(set(ticks))
    assert 1 <= len(ticks) <= 25
    assert all(0.99 * low <= t <= 1.01 * high for t in ticks)
    assert all(math.isfinite(t) for t in ticks)
