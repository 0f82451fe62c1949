"""The profiling agent comments on numbers and never produces them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.llm.roles.facts import profile_text
from astra_tui.llm.roles.profiling import REMOVED, strike_numbers
from astra_tui.model.task import KernelTask
from tests.llm.conftest import Scripted
from tests.llm_team.conftest import Team, brief_of, profile_of, reply, with_team

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


def test_the_words_of_the_model_lose_their_own_numbers(task: KernelTask, server: Scripted) -> None:
    server.play(
        reply("Step: profiling", "Line 20 makes 6144 requests, so 40 % of 3.2 TB/s is reached.")
    )
    log = Team()
    brief = brief_of(task, profile_of())
    words = with_team(server, lambda t: t.read_profile(brief, log.on_text), log)
    assert words == (f"Line 20 makes 6144 requests, so {REMOVED} % of {REMOVED} TB/s is reached.")
    assert profile_text(profile_of()) in log.settled[0].request


def test_numbers_of_the_source_are_no_measurements(task: KernelTask, server: Scripted) -> None:
    boast = "// this loop reaches 2718 GB/s\n"
    brief = brief_of(task, profile_of())
    boasting = brief_of(task, profile_of(), source=boast + brief.source)
    server.play(reply("Step: profiling", "It reaches 2718 GB/s."))
    words = with_team(server, lambda t: t.read_profile(boasting, Team().on_text))
    assert words == f"It reaches {REMOVED} GB/s."


def test_words_that_are_cut_count_as_far_as_they_came(task: KernelTask, server: Scripted) -> None:
    said = "Loads are narrow, and then"
    server.play(reply("Step: profiling", said, finish="length"))
    log = Team()
    words = with_team(
        server, lambda t: t.read_profile(brief_of(task, profile_of()), log.on_text), log
    )
    assert words == said
    (cut,) = log.settled
    assert cut.reply == said, "the journal keeps what came"
    assert "limit of output tokens" in cut.error


def test_without_a_profile_nothing_is_asked(task: KernelTask, server: Scripted) -> None:
    log = Team()
    brief = brief_of(task)
    assert with_team(server, lambda t: t.read_profile(brief, log.on_text), log) == ""
    assert log.settled == []
