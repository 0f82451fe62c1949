"""How a candidate came about, told back from the journal's state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.events import CodeWritten, Event, PlanProposed, RoundOpened
from astra_tui.model.plan import Counter, Plan, Prediction, Risk
from astra_tui.sessions.comparison import read_side
from astra_tui.sessions.journal_writer import Journal, Redactor
from tests.sessions.samples import BASELINE, BASELINE_SOURCE, opened

AGENT = Author(AuthorKind.MODEL, "agent")
SOURCES = tuple(f"{BASELINE_SOURCE}// {number}\n" for number in range(3))


def rounds(*written: tuple[str, str]) -> Iterator[Event]:
    """A session whose rounds begin at a candidate and write another; a plan more goes nowhere."""
    yield opened()
    yield RoundOpened(0, 0, BASELINE)
    for number, (base, candidate) in enumerate(written, start=1):
        yield RoundOpened(number, number - 1, base)
        for index in range(2):
            plan = Plan(
                f"plan {number}.{index}",
                "",
                (),
                "",
                Prediction(1, 2, Counter.REQUESTS, 1),
                Risk.LOW,
            )
            yield PlanProposed(number, index, plan, AGENT)
        yield CodeWritten(number, 1, 0, candidate, base, AGENT)


def steps_of(folder: Path, *written: tuple[int | None, int | None]) -> list[str]:
    """The titles of the plans that led to the last candidate; None is the baseline."""
    with Journal.create(folder, Redactor(environment={})) as journal:
        assert journal.put(BASELINE_SOURCE) == BASELINE
        hashes: dict[int | None, str] = {
            None: BASELINE,
            **{n: journal.put(text) for n, text in enumerate(SOURCES)},
        }
        for event in rounds(*((hashes[base], hashes[new]) for base, new in written)):
            journal.append(event)
    side = read_side(folder, hashes[written[-1][1]])
    assert side.other_plans == 2 * len(written) - len(side.steps)
    return [step.plan.title for step in side.steps]


def test_only_the_plans_on_the_way_from_the_baseline_are_told(tmp_path: Path) -> None:
    assert steps_of(tmp_path / "s", (None, 0), (None, 1), (0, 2)) == ["plan 1.1", "plan 3.1"]


def test_a_baseline_that_was_written_again_is_where_the_way_begins(tmp_path: Path) -> None:
    assert steps_of(tmp_path / "s", (None, None), (None, 0)) == ["plan 2.1"]
    assert steps_of(tmp_path / "t", (None, 0), (0, None)) == []


def test_a_way_that_leads_round_in_a_circle_ends(tmp_path: Path) -> None:
    assert steps_of(tmp_path / "s", (1, 0), (0, 1)) == ["plan 1.1", "plan 2.1"]
