"""Numbers of a report are those of the journal, read here as plain JSON."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from astra_tui.present import numbers
from astra_tui.present.document import as_json
from astra_tui.present.report import compose
from astra_tui.sessions.integrity import read_session
from tests.present.conftest import (
    DRIFT,
    TUNED,
    VOID,
    Written,
    html_of,
    markdown_of,
    page_of,
    timed_session,
)
from tests.present.page import Cell, Page, ReadTable, markdown_tables
from tests.sessions.samples import BASELINE, shipped, whole_session


def events_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line)["event"] for line in lines]
    return [e for e in events if e["event"] == kind]


def table(page: Page, caption: str) -> ReadTable:
    (found,) = [t for t in page.tables if t.caption == caption]
    return found


def result(page: Page) -> dict[str, str]:
    """What stands at the top, by name."""
    return {row[0]: row[1] for row in table(page, "Result").texts[1:]}


def values(cells: list[Cell]) -> list[float]:
    return [value for cell in cells for value in cell.values]


def shown(cell: Cell) -> list[tuple[float, float]]:
    """The numbers of a cell as a reader sees them, each with half a unit of its last digit."""
    numbers = re.findall(r"-?\d[\d,]*(?:\.\d+)?|infinite", cell.text)
    scale = 0.01 if cell.text.endswith("%") else 1.0
    return [
        (scale * float(n.replace(",", "").replace("infinite", "inf")), scale * _half_digit(n))
        for n in numbers
    ]


def _half_digit(number: str) -> float:
    return 0.5 * 10.0 ** -len(number.partition(".")[2])


@pytest.fixture
def timed(written: Written) -> Path:
    return written(timed_session())


@pytest.mark.parametrize(("base", "against"), [(BASELINE, "baseline.cu"), (TUNED, "tuned.cu")])
def test_final_times_by_both_protocols(timed: Path, base: str, against: str) -> None:
    (timing,) = [
        e["timing"]
        for e in events_of(timed, "timing_finished")
        if e.get("final") and e["timing"]["base"] == base
    ]
    rows = timing["workloads"]
    page = page_of(timed)
    found = table(page, f"Best against {against}: cold decides")
    cold, warm, paper = (found.only("protocol", name) for name in ("cold", "warm", "paper"))
    assert values(cold.column("base us")) == [w["cold"]["base_us"] for w in rows]
    assert values(cold.column("cand. us")) == [w["cold"]["candidate_us"] for w in rows]
    of_workloads = [w["cold"]["speedup"]["value"] for w in rows]
    assert values(cold.column("speedup")) == [*of_workloads, timing["speedup"]["value"]]
    ratios = [w["cold"]["speedup"] for w in rows] + [timing["speedup"]]
    assert values(cold.column("95 % interval")) == [r[k] for r in ratios for k in ("low", "high")]
    assert values(cold.column("threshold")) == [w["threshold"] for w in rows]
    assert values(cold.column("floor us")) == [w["floor"]["copy_us"] for w in rows]
    assert [c.text for c in cold.column("caveats")] == ["[1]", "[1] [2] decides nothing", ""]

    assert values(warm.column("base us")) == [w["warm"]["base_us"] for w in rows]
    assert values(warm.column("cand. us")) == [w["warm"]["candidate_us"] for w in rows]
    assert values(paper.column("base us")) == [w["paper"]["base_us"] for w in rows]
    assert values(paper.column("cand. us")) == [w["paper"]["candidate_us"] for w in rows]
    means = [w["paper"]["base_us"] / w["paper"]["candidate_us"] for w in rows]
    mean = (means[0] * means[1]) ** 0.5
    assert values(paper.column("speedup")) == pytest.approx([*means, mean])


def test_what_is_shown_is_what_is_behind_it(timed: Path, emulated: Path) -> None:
    for page in (page_of(timed), page_of(emulated)):
        cells = [c for t in page.tables for row in t.rows for c in row if c.values]
        assert len(cells) > 50
        for cell in cells:
            for (text, rounding), value in zip(shown(cell), cell.values, strict=True):
                assert text == pytest.approx(value, rel=0, abs=rounding * 1.000001)


def test_counters_are_the_sums_over_the_workloads(emulated: Path) -> None:
    totals = []
    for event in events_of(emulated, "profile_taken"):
        accesses = [a for w in event["profile"]["workloads"] for a in w["counters"]["accesses"]]
        totals.append(sum(a["sectors"] for a in accesses if a["space"] == "global"))
    found = table(page_of(emulated), "All counters, added up over 3 workloads")
    assert values(found.column("sectors")) == totals
    assert [c.text for c in found.column("version")] == ["baseline", "round 1", "round 3"]


def test_cases_and_errors_of_the_tests(emulated: Path) -> None:
    found = table(page_of(emulated), "Checks")
    started = events_of(emulated, "check_started")
    checked = events_of(emulated, "case_checked")
    for row, check in zip(found.rows[1:], started, strict=True):
        results = [e["result"] for e in checked if e["candidate"] == check["candidate"]]
        passed = sum(r["outcome"] in ("passed", "refused") for r in results)
        assert row[3].text == f"{passed} of {check['cases']}"
        outputs = [o for r in results for o in r["outputs"]]
        errors = [(float(o["error"]), o.get("allowed", 1.0)) for o in outputs]
        worst = max(errors, key=lambda e: e[0] / e[1])
        assert row[4].values + row[5].values == list(worst)


def test_cost_is_that_of_the_exchanges(timed: Path) -> None:
    page = page_of(timed)
    (by_model, sums) = table(page, "Calls of models").rows[1:]
    seconds = sum(e["timing"]["gpu_seconds"] for e in events_of(timed, "timing_finished"))
    seconds += sum(e["swept"]["gpu_seconds"] for e in events_of(timed, "sweep_finished"))
    assert [value for cell in sums for value in cell.values][:4] == [1, 0, 100, 20]
    assert sums[0].text == "all"
    assert sums[7].values == [0.25]
    assert [c.text for c in by_model[:2]] == ["plan", "qwen3"]
    (told,) = (p for p in page.all("p") if p.text.startswith("Measuring on the GPU took"))
    assert numbers.seconds(seconds) in told.text


def test_every_caveat_is_explained_below_the_table_that_has_its_mark(timed: Path) -> None:
    page = page_of(timed)
    explained = [item.text for item in page.all("li")]
    for beside in ("baseline.cu", "tuned.cu"):
        marks = table(page, f"Best against {beside}: cold decides").column("caveats")
        assert {mark for cell in marks for mark in re.findall(r"\[\d\]", cell.text)} == {
            "[1]",
            "[2]",
        }
        assert marks[1].text == "[1] [2] decides nothing"
    for text in (f"[1] {DRIFT.message}", f"[2] {VOID.message}"):
        assert explained.count(text) == 2


def test_the_summary_has_the_verdict_with_its_interval(timed: Path) -> None:
    page = page_of(timed)
    facts = result(page)
    best, tuned = (1.1 * 2.4137, 0.9 * 2.4137)
    assert facts["against baseline.cu"] == f"{best:.3f}x [2.640, 2.750] ▲ faster"
    assert facts["against tuned.cu"] == f"{tuned:.3f}x [2.160, 2.250] ▲ faster"
    assert facts["caveats"] == "about 4 of 4 measurements, and 2 of them decide nothing"


def test_a_winner_is_compared_with_the_fastest_shipped_kernel(written: Written) -> None:
    *events, closed = timed_session()
    page = page_of(written([*events, shipped(), closed]))
    assert (
        "against the fastest shipped kernels: 1.060x [1.050, 1.070], faster"
        in page.all("header")[0].text
    )
    found = next(t for t in page.tables if "shipped" in t.caption)
    assert [row[2].text for row in found.rows[1:]] == ["sglang_aot + pdl", ""]
    assert values(found.column("its time / best")) == [1.06, 1.06]


def test_where_not_all_shipped_kernels_were_timed_there_is_no_ratio(written: Written) -> None:
    *events, closed = timed_session()
    page = page_of(written([*events, shipped(""), closed]))
    assert "not all that serve could be timed" in page.all("header")[0].text
    texts = [paragraph.text for paragraph in page.all("p")]
    assert "flashinfer is not timed: triton 3.9.0 is not in the cache." in texts


def test_a_winner_that_was_not_measured_anew_is_said_to_be_so(written: Written) -> None:
    told = result(page_of(written(whole_session())))["against its base"]
    assert told.endswith("was not measured again at the end")
    assert told.startswith("1.333x [1.3")


def test_the_emulator_gives_neither_times_nor_ratios_of_them(emulated: Path) -> None:
    for text in (html_of(emulated), markdown_of(emulated)):
        assert "speedup" not in text.lower()
        assert not re.search(r"\bus\b", text)
        assert "faster" not in text.lower()


def tables_of(part: Any) -> list[Any]:
    """The tables of a report as data."""
    if isinstance(part, list):
        return [table for one in part for table in tables_of(one)]
    if not isinstance(part, dict):
        return []
    return [part] if part["kind"] == "table" else tables_of(list(part.values()))


def exact_of(cell: list[Any]) -> list[float]:
    """The numbers of a cell; JSON has null for one without an end."""
    numbers = [p for p in cell if isinstance(p, dict) and p["kind"] == "number"]
    return [n["value"] for n in numbers if n["value"] is not None]


@pytest.mark.parametrize("which", ["timed", "emulated"])
def test_all_files_have_the_same_tables(which: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(which)
    in_page, in_text = page_of(folder).tables, markdown_tables(markdown_of(folder))
    in_data = tables_of(json.loads(as_json(compose(read_session(folder)))))
    assert [t["caption"] for t in in_data] == [t.caption for t in in_text]
    for as_data, as_page in zip(in_data, in_page, strict=True):
        exact = [[exact_of(cell) for cell in row] for row in as_data["rows"]]
        finite = [[[v for v in c.values if v < math.inf] for c in r] for r in as_page.rows[1:]]
        assert exact == finite
    assert [t.caption for t in in_page] == [t.caption for t in in_text]
    for one, other in zip(in_page, in_text, strict=True):
        assert [[c.strip() for c in row] for row in one.texts] == other.texts


def test_numbers_that_a_plan_cites_stand_beside_those_of_the_profile(written: Written) -> None:
    text = " ".join(markdown_of(written(whole_session())).split())
    assert "▲ requests at line 3: 64, as in the profile" in text
    told = "sectors of decode: says 80; the profile has 64"
    assert f"in 80 sectors - **cites:** ◆ {told} " in text
    assert "which are narrow - **decided:**" in text
