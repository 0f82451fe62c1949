"""The testing agent: cases inside the contract, and explanations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.lab.check.inputs import draw_inputs
from astra_tui.lab.check.suite import build_suite
from astra_tui.llm.asking.proposed_cases import (
    InvalidCase,
    ProposedCase,
    SizeOf,
    ValuesOf,
    case_of,
)
from astra_tui.llm.roles.testing import cases_prompt, suite_text
from astra_tui.model.added_cases import MAX_ELEMENTS
from astra_tui.model.check import Case, ConditionResult
from astra_tui.model.task import KernelTask, ValueKind, Values, load_task
from astra_tui.model.team_protocol import Failure
from tests.conftest import ROOT
from tests.llm.conftest import Scripted
from tests.llm_team.conftest import Team, bench_at, brief_of, plan_of, reply, source, with_team

MERGE = load_task(ROOT / "kernels" / "merge_attn_states_lse")


def case(**changes: Any) -> dict[str, Any]:
    return {
        "name": "odd width",
        "why": "pairs need an even width",
        "dtype": "float16",
        "dims": [{"name": "tokens", "size": 3}, {"name": "d", "size": 5}],
        "values": [],
        **changes,
    }


def values(**changes: Any) -> dict[str, Any]:
    return {
        "argument": "input", "kind": "uniform", "low": -1.0, "high": 1.0, "planted": [], **changes
    }  # fmt: skip


def sizes(tokens: int, d: int) -> list[dict[str, Any]]:
    return [{"name": "tokens", "size": tokens}, {"name": "d", "size": d}]


REFUSED = [
    (case(dtype="int8"), "no element type"),
    (case(dims=sizes(3, 0)), "breaks the contract: d >= 1"),
    (case(dims=sizes(3, 5)[:1]), "a size for each of tokens, d"),
    (case(dims=[*sizes(3, 5), {"name": "heads", "size": 1}]), "a size for each of tokens, d"),
    (case(dims=[*sizes(3, 5), {"name": "d", "size": 7}]), "has two sizes"),
    (case(dims=sizes(4096, 14336)), "elements"),
    (case(values=[values(argument="out")]), "'out' is no input tensor"),
    (case(values=[values(argument="weight")]), "'weight' is no input tensor"),
    (case(values=[values(), values()]), "drawn twice"),
    (case(values=[values(high=70000.0)]), "limit of 60000"),
    (case(values=[values(low=2.0)]), "low is above high"),
    (case(values=[values(kind="normal", high=-1.0)]), "high is negative"),
    (case(values=[values(kind="integers", low=0.5)]), "whole numbers"),
    (case(values=[values(planted=["zero"])]), "'zero' cannot be planted"),
    (case(name="  "), "no name"),
]


def added(server: Scripted, task: KernelTask, log: Team, *answers: Any) -> list[tuple[Case, ...]]:
    server.play(*(reply("Step: testing", {"cases": a}, times=1) for a in answers))

    async def ask(team: Any) -> list[tuple[Case, ...]]:
        brief = brief_of(task)
        return [await team.cases(brief, plan_of(), source("better")) for _ in answers]

    return with_team(server, ask, log)


def test_cases_of_the_contract_are_added_and_the_others_reported(
    task: KernelTask, server: Scripted
) -> None:
    log = Team()
    good = case(values=[values(low=-120.0, high=120.0, planted=["nan", "-0"])])
    first, second = added(server, task, log, [good, case(dims=sizes(3, 0), name="empty")], [])
    assert first == (
        Case(
            "round 1: odd width",
            "pairs need an even width",
            task.dtypes[0],
            {"tokens": 3, "d": 5},
            {"input": Values(ValueKind.UNIFORM, -120.0, 120.0, ("nan", "-0"))},
        ),
    )
    assert second == ()
    assert "empty: it breaks the contract: d >= 1" in log.settled[1].request
    assert "empty" not in log.settled[0].request


@pytest.mark.parametrize(("proposed", "reason"), REFUSED, ids=[r for _, r in REFUSED])
def test_what_is_no_case_of_the_contract_is_dropped(
    task: KernelTask, server: Scripted, proposed: dict[str, Any], reason: str
) -> None:
    log = Team()
    assert added(server, task, log, [proposed], []) == [(), ()]
    assert reason in log.settled[1].request


def test_five_cases_are_no_answer(task: KernelTask, server: Scripted) -> None:
    log = Team()
    many = reply("", {"cases": [case(name=f"case {n}") for n in range(5)]})
    server.play(many)
    brief = brief_of(task)
    assert with_team(server, lambda t: t.cases(brief, plan_of(), "x"), log) == ()
    assert len(log.settled) == 3  # The answer and two repairs.


def test_added_cases_are_no_cases_of_the_suite(task: KernelTask, server: Scripted) -> None:
    known = {c.id for c in build_suite(task)}
    stolen = [case(name=c.name) for c in build_suite(task)[:4]]
    (found,) = added(server, task, Team(), stolen)
    assert len(found) == 4
    assert not known & {c.id for c in found}


def test_an_explanation_has_at_most_120_words(task: KernelTask, server: Scripted) -> None:
    server.play(reply("Step: testing", "wrong " * 500))
    failure = Failure(source("wrong"), "check", "case float16/typical: out[0, 1] is off")
    brief = brief_of(task)
    log = Team()
    words = with_team(server, lambda t: t.explain(brief, failure.source, failure), log)
    assert words == "wrong " * 120 + "..."
    assert failure.message in log.settled[0].request

    server.play(reply("Step: testing", "cut", finish="length"))
    cut = with_team(server, lambda t: t.explain(brief, failure.source, failure))
    assert cut == "cut", "what came of it"


@given(
    st.builds(
        ProposedCase,
        name=st.text(max_size=8),
        why=st.text(max_size=8),
        dtype=st.sampled_from(["float16", "bfloat16", "float32", "float64", ""]),
        dims=st.tuples(
            *(
                st.builds(SizeOf, st.just(name), st.integers(0, 1 << 31) | st.integers(0, 64))
                for name in MERGE.dims
            )
        ),
        values=st.lists(
            st.builds(
                ValuesOf,
                st.sampled_from(list(MERGE.args)),
                st.sampled_from(ValueKind),
                st.floats() | st.integers(-50, 50).map(float),
                st.floats() | st.integers(-50, 50).map(float),
                st.lists(
                    st.sampled_from(["nan", "inf", "-inf", "-0", "limit", "x"]), max_size=3
                ).map(tuple),
            ),
            max_size=2,
        ).map(tuple),
    )
)
def test_every_case_that_is_taken_can_be_drawn(proposed: ProposedCase) -> None:
    try:
        made = case_of(proposed, MERGE, 3)
    except InvalidCase:
        return
    assert MERGE.violated(made.dims, made.dtype) == ""
    assert MERGE.elements(made.dims, made.dtype) <= MAX_ELEMENTS
    drawn = draw_inputs(MERGE, made)
    assert set(drawn.tensors) == {a.name for a in MERGE.tensors if a.is_read}


def test_the_suite_and_what_it_leaves_open_are_shown_and_drawn_cases_are_not(
    tmp_path: Path, tasks: dict[str, KernelTask]
) -> None:
    task = tasks["silu_and_mul"]
    suite = bench_at(tmp_path / "run", task).known_cases
    left = ConditionResult("k<float>", 7, 3, "rows > 9", True, "k", why="no sizes found")
    brief = brief_of(task, suite=suite, open_conditions=(left,))
    prompt = cases_prompt(brief, plan_of(), brief.source, [])
    shown = {line for line in suite_text(brief).splitlines() if line in prompt}
    assert "typical (tokens=16, d=512)" in shown
    assert len(shown) == len({(c.name, *c.dims.values()) for c in suite})
    assert "line 7: 'rows > 9' was never true in k<float>: no sizes found" in prompt
    drawn = {c.id for c in build_suite(task, 4)} - {c.id for c in suite}
    assert len(drawn) > 10
    assert {c.id for c in build_suite(task, 4)} - drawn == {c.id for c in suite}
