"""The profiling agent comments on numbers and never produces them; what it names exists."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.llm.asking.facts import profile_text
from astra_tui.llm.roles.profiling import REMOVED, strike_numbers
from astra_tui.model.plan import CodePlace
from astra_tui.model.task import KernelTask
from astra_tui.model.team_protocol import Reading
from tests.llm.conftest import Scripted
from tests.llm_team.conftest import Team, brief_of, profile_of, reply, selected, with_team

DATA = "6144 requests, 12288 sectors, efficiency 0.50, line 20: 37 % of the instructions"


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("6,144 requests at line 20", "6,144 requests at line 20"),
        ("efficiency 0.5, that is .5 or 5e-1", "efficiency 0.5, that is .5 or 5e-1"),
        ("line 20 takes 37%", "line 20 takes 37%"),
        ("1.8x faster", f"{REMOVED}x faster"),
        ("x1.8 faster", f"{REMOVED} faster"),
        ("1,234 of 6144", f"{REMOVED} of 6144"),
        ("-3 or 0x10", f"-{REMOVED} or {REMOVED}"),
        ("twice, by ½ or 2²", f"twice, by {REMOVED} or {REMOVED}{REMOVED}"),
        ("float16, L2 and __half2 stay", "float16, L2 and __half2 stay"),
        ("\u0662\u0660 is 20, \u0663 is not", f"\u0662\u0660 is 20, {REMOVED} is not"),
        ("6144.0001", REMOVED),
    ],
)
def test_numbers_that_nobody_measured_are_struck_out(said: str, left: str) -> None:
    assert strike_numbers(said, DATA) == left


@given(st.text(st.sampled_from("0123456789.,x% eE-_a'"), max_size=40), st.text(max_size=40))
def test_nothing_but_known_numbers_is_left(text: str, data: str) -> None:
    struck = strike_numbers(text, data)
    assert strike_numbers(struck, data) == struck
    assert strike_numbers(text, text) == text or re.search(r"x\d", text)
    bare = re.sub(r"[^\W\d]\w*", "", strike_numbers(text, ""))
    assert not re.search(r"\d", bare.replace(REMOVED, ""))


def reading_of(
    task: KernelTask, server: Scripted, log: Team | None = None, **changes: Any
) -> Reading | None:
    log = log or Team()
    brief = brief_of(task, changes.pop("profile", profile_of()), **changes)
    return with_team(server, lambda t: t.read_profile(brief, log.on_text), log)


def test_the_words_of_the_model_lose_their_own_numbers(task: KernelTask, server: Scripted) -> None:
    said = "Line 20 makes 6144 requests, so 40 % of 3.2 TB/s is reached."
    server.play(reply("Step: profiling", selected(said, evidence=["2718 GB/s at line 20"])))
    log = Team()
    # Numbers of the source are no measurements.
    boast = f"// this loop reaches 2718 GB/s\n{brief_of(task).source}"
    found = reading_of(task, server, log, source=boast)
    assert found is not None
    assert (
        found.text == f"Line 20 makes 6144 requests, so {REMOVED} % of {REMOVED} TB/s is reached."
    )
    (observed,) = found.selection.evidence
    assert observed.sentence == f"{REMOVED} GB/s at line 20"
    assert profile_text(profile_of()) in log.settled[0].request


def test_without_a_profile_nothing_is_asked(task: KernelTask, server: Scripted) -> None:
    log = Team()
    assert reading_of(task, server, log, profile=None) is None
    assert log.settled == []


CITED = {"metric": "requests", "value": 6144, "of": "16x4096", "line": 20}
MISTAKES = {
    "there is no workload '16x4097'": {"workload": "16x4097"},
    "the source has no line 9000": {"lines": [{"first": 9000, "last": 1}]},
    "there is no measurement 'm1': nothing was measured in this turn": {"measured": ["m1"]},
    "requests at line 20 of 16x4096: says 5; the profile has 6,144": {"value": 5},
    "speed at line 20 of 16x4096: says 6,144; not in the profile": {"metric": "speed"},
}


@pytest.mark.parametrize("problem", MISTAKES)
def test_a_selection_of_what_does_not_exist_is_sent_back(
    task: KernelTask, server: Scripted, problem: str
) -> None:
    wrong = MISTAKES[problem]
    fields = {"evidence": [{"sentence": "so", "numbers": [{**CITED, **wrong}]}]}
    if wrong.keys() & {"workload", "lines", "measured"}:
        fields = wrong
    good = {
        "workload": "16x4096",
        "lines": [{"first": 20, "last": 20}],
        "evidence": [{"sentence": "narrow", "numbers": [CITED]}],
    }
    server.play(
        reply("That answer is not valid", selected("loads", **good)),
        reply("Step: profiling", selected("loads", **fields)),
    )
    log = Team()
    found = reading_of(task, server, log)
    assert found is not None
    assert found.selection.workload == "16x4096"
    assert found.selection.places == (CodePlace(20, 20),)
    assert found.selection.evidence[0].cites[0].value == 6144
    assert len(log.settled) == 2
    assert problem.partition(": ")[0] in log.settled[1].request
    assert "not valid" in log.settled[1].request

    server.play(reply("", selected("loads", **fields)))
    assert reading_of(task, server) is None, "what is never mended is left out"
