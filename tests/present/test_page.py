"""The HTML file: whole, alone, and readable by machines and by ear."""

from __future__ import annotations

import base64
import hashlib
import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.present.conftest import Written, html_of, page_of, timed_session
from tests.present.page import Page
from tests.sessions.samples import whole_session


@pytest.fixture(params=["sample", "timed", "emulated"])
def page(request: pytest.FixtureRequest, written: Written) -> Page:
    if request.param == "emulated":
        return page_of(request.getfixturevalue("emulated"))
    events = whole_session() if request.param == "sample" else timed_session()
    return page_of(written(events))


def test_nothing_comes_from_elsewhere(page: Page) -> None:
    for element in page.elements:
        assert element.tag not in ("script", "link", "img", "iframe", "object", "base", "use")
        assert "src" not in element.attributes
        assert not any(name.startswith("on") or name == "style" for name in element.attributes)
        assert element.attributes.get("href", "#").startswith("#")
        assert not any("http:" in v or "https:" in v for v in element.attributes.values())
    (style,) = page.all("style")
    assert "url(" not in style.text
    assert "@import" not in style.text


def test_the_policy_lets_this_style_sheet_act_and_nothing_else(page: Page) -> None:
    (policy,) = [
        e.attributes["content"]
        for e in page.all("meta")
        if e.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    (style,) = page.all("style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in policy


def test_links_lead_to_places_in_the_page(page: Page) -> None:
    ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    links = [e.attributes["href"].removeprefix("#") for e in page.all("a")]
    assert links
    assert set(links) <= set(ids)


def test_headings_go_down_one_level_at_a_time(page: Page) -> None:
    levels = [int(e.tag[1]) for e in page.elements if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


def test_tables_have_captions_and_headers(page: Page) -> None:
    assert len(page.all("caption")) == len(page.tables) > 5
    assert all(e.attributes["scope"] in ("col", "row") for e in page.all("th"))
    for table in page.tables:
        assert table.caption
        assert {len(row) for row in table.rows} == {len(table.rows[0])}


def test_drawings_say_what_they_show(page: Page) -> None:
    ids = {e.attributes.get("id", ""): e.text for e in page.elements}
    drawings = page.all("svg")
    assert drawings
    for drawing in drawings:
        assert drawing.attributes["role"] == "img"
        assert all(ids[name] for name in drawing.attributes["aria-labelledby"].split())


def test_folded_parts_have_a_summary(page: Page) -> None:
    assert len(page.all("details")) == len(page.all("summary"))
    assert all(e.text for e in page.all("summary"))


def test_what_scrolls_can_be_reached_by_keyboard(page: Page) -> None:
    boxes = [e for e in page.elements if e.attributes.get("class") == "wide" or e.tag == "pre"]
    assert boxes
    for box in boxes:
        assert box.attributes["tabindex"] == "0"
        assert box.attributes["aria-label"]


def test_the_file_is_the_same_each_time(emulated: Path) -> None:
    assert html_of(emulated) == html_of(emulated)
