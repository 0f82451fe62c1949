"""Plans and runs as fields, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from astra_tui.model.check import Case
from astra_tui.model.citations import METRICS
from astra_tui.model.dtypes import DType
from astra_tui.model.errors import UserError
from astra_tui.model.plan import Citation, Counter, Observation, Parameter, Plan, Prediction, Risk
from astra_tui.model.roles import Role
from astra_tui.model.settings import GatePolicy, ModelSettings, RunSettings, TeamKind, WireChoice
from astra_tui.model.values import ValueKind, Values
from astra_tui.sessions.engines import RunRequest
from astra_tui.tui.forms import (
    case_of,
    model_fields,
    plan_fields,
    plan_of,
    resuming,
    run_fields,
    run_of,
)

WORDS = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=30)
RATIOS = st.integers(0, 40).map(lambda n: n / 8)
CITATIONS = st.builds(Citation, st.sampled_from(METRICS), st.floats(0, 1e9))
OBSERVATIONS = st.builds(Observation, WORDS, st.tuples(CITATIONS))
PARAMETERS = (
    Parameter("pack_bytes", "bytes", 16, (16, 8)),
    Parameter("lines", "lines", (3, 7), (3, 7, 9)),
    Parameter("workloads", "workloads", ("16x4096",), ("16x4096", "32x5120")),
)
PLANS = st.builds(
    Plan,
    title=WORDS,
    bottleneck=WORDS,
    evidence=st.lists(st.one_of(WORDS, OBSERVATIONS), max_size=3).map(tuple),
    change=WORDS,
    prediction=st.tuples(RATIOS, RATIOS, st.sampled_from(Counter), RATIOS).map(
        lambda t: Prediction(min(t[:2]), max(t[:2]), t[2], t[3])
    ),
    risk=st.sampled_from(Risk),
    move=st.just("move"),
    parameters=st.sampled_from([(), PARAMETERS]),
)
REQUEST = RunRequest("silu_and_mul", RunSettings("silu_and_mul", TeamKind.PLAYBOOK))


@given(PLANS)
def test_a_plan_that_is_not_edited_stays_the_same(plan: Plan) -> None:
    for team in TeamKind:
        values = {
            field.name: field.value for field in plan_fields(plan, team, timed=team is TeamKind.LLM)
        }
        assert plan_of(values, plan) == plan


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("title", " ", "title is empty"),
        ("counter_ratio", "half", "'half' is no number"),
        ("counter_ratio", "-1", "has to be a positive number"),
        ("speedup_low", "nan", "has to be a positive number"),
        ("speedup_low", "9", "speedup, low is above speedup, high"),
    ],
)
def test_a_wrong_field_is_named(name: str, value: str, told: str) -> None:
    plan = Plan("t", "b", (), "c", Prediction(1, 2, Counter.SECTORS, 0.5), Risk.LOW)
    values = {field.name: field.value for field in plan_fields(plan, TeamKind.LLM, timed=True)}
    with pytest.raises(UserError, match=told):
        plan_of({**values, name: value}, plan)


def test_a_run_is_chosen_by_fields() -> None:
    values = {field.name: field.value for field in run_fields(REQUEST)}
    assert run_of(values, REQUEST) == REQUEST
    chosen = run_of({**values, "team": "llm", "rounds": "3", "plan": "auto"}, REQUEST)
    assert chosen.settings.team is TeamKind.LLM
    assert chosen.settings.rounds == 3
    assert chosen.settings.approval.plan is GatePolicy.AUTO
    with pytest.raises(UserError, match="rounds: a whole number"):
        run_of({**values, "rounds": "0"}, REQUEST)


def test_each_agent_can_ask_its_model_in_its_own_way() -> None:
    own = {Role.CODING: ModelSettings("other", "low", 2000, 0.5, WireChoice.RESPONSES, 30, 60)}
    settings = replace(
        REQUEST.settings, effort="high", temperature=0.2, roles=own, call_seconds=90.0,
        wire=WireChoice.CHAT,
    )  # fmt: skip
    request = replace(REQUEST, settings=settings)
    fields = (*run_fields(request), *model_fields(settings))
    values = {field.name: field.value for field in fields}
    assert run_of(values, request) == request
    emptied = {**values, **{n: "" for n in values if n.startswith(("all_", "coding_"))}}
    emptied |= {"call_seconds": " ", "wire": "auto"}
    assert run_of(emptied, request) == REQUEST
    for name, text, told in (
        ("all_temperature", "3", "all: temperature: '3' is not a number from 0 to 2"),
        ("coding_wire", "fast", "coding: wire: 'fast' is not auto, responses or chat"),
        ("coding_call_seconds", "0", "coding: a call, s: '0' is not a number of seconds above 0"),
        ("coding_output_tokens", "0", "coding: tokens: '0' is not a whole number from 1 on"),
        ("silence_seconds", "0", "silence, seconds has to be more than 0"),
    ):
        with pytest.raises(UserError, match=told):
            run_of({**values, name: text}, request)


def test_a_resumed_session_has_a_round_to_do(saved: Path) -> None:
    request = resuming(REQUEST, saved)
    assert request.folder == str(saved)
    assert request.settings.rounds == 4
    assert request.settings.team is TeamKind.LLM
    assert replace(request, settings=REQUEST.settings, folder="") == REQUEST


def test_a_damaged_session_does_not_go_on(saved: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    lines = (saved / journal.name).read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:6], b"\0" + lines[6][1:], *lines[7:]]))
    with pytest.raises(UserError, match=f"{journal}:7: this line cannot be read"):
        resuming(REQUEST, tmp_path)


CASE = {"case_name": "mine", "why": "", "dtype": "float16", "dims": "d = 3", "values": ""}


def test_a_case_is_read_from_its_fields() -> None:
    made = case_of({**CASE, "values": "input: uniform -1 1 nan\n weight: normal\n"})
    assert made == Case(
        "mine",
        "added by hand",
        DType.FLOAT16,
        {"d": 3},
        {"input": Values(ValueKind.UNIFORM, -1, 1, ("nan",)), "weight": Values()},
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"case_name": " "}, "needs a name"),
        ({"dims": "d: 3"}, "sizes: 'd: 3'"),
        ({"dims": "d = -3"}, "sizes: 'd = -3'"),
        ({"values": "input"}, "inputs: 'input'"),
        ({"values": "input: unifrom 0 1"}, "'unifrom' is no distribution"),
        ({"values": "input: uniform a b"}, "inputs: 'input: uniform a b'"),
    ],
)
def test_a_case_that_cannot_be_read_is_told(changes: dict[str, str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        case_of({**CASE, **changes})
