"""Choosing a model, trying what it can do, and what it costs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.llm import (
    AuthenticationFailed,
    Endpoint,
    OpenAILLM,
    Prices,
    RequestRefused,
    Usage,
    cost,
)
from astra_tui.llm.models import (
    OfferedModel,
    Probe,
    model_required,
    offered_models,
    probe,
)
from tests.llm.conftest import MODEL, SERVER, Scripted
from tests.test_imports import modules_after

ALL = Prices(2.0, 10.0, 0.5)


def offered(endpoint: Endpoint) -> tuple[OfferedModel, ...]:
    async def scenario() -> tuple[OfferedModel, ...]:
        async with OpenAILLM(endpoint) as llm:
            return await offered_models(llm)

    return asyncio.run(scenario())


def probed(endpoint: Endpoint, model: str = MODEL) -> Probe:
    async def scenario() -> Probe:
        async with OpenAILLM(endpoint) as llm:
            return await probe(llm, model)

    return asyncio.run(scenario())


def test_models_are_listed(server: Scripted) -> None:
    server.play(models=["small", "large"])
    models = offered(server.endpoint())
    assert [model.id for model in models] == ["large", "small"]
    assert model_required(models) == "--model is required; this server offers: large, small"


def test_long_and_empty_lists_are_said_briefly() -> None:
    many = tuple(OfferedModel(f"m{n:03}") for n in range(50))
    assert model_required(many).endswith("m019 and 30 more")
    assert "lists no models" in model_required(())


def test_a_list_that_fails_says_why(server: Scripted) -> None:
    server.play(key="another")
    with pytest.raises(AuthenticationFailed):
        offered(server.endpoint())
    server.play()
    wrong = Endpoint(server.url.removesuffix("/v1"), server.endpoint().api_key)
    with pytest.raises(RequestRefused, match="/v1"):
        offered(wrong)


CAPABLE: list[dict[str, Any]] = [
    {"text": "red, green and blue"},
    {"text": {"colour": "red"}},
    {"tool_calls": [{"name": "report_colour", "arguments": {"colour": "red"}}]},
]


def test_a_capable_model_is_found_capable(server: Scripted, wire: str) -> None:
    server.play(*CAPABLE)
    found = probed(server.endpoint(wire))
    assert found.seconds > 0
    assert found == Probe(MODEL, wire, True, True, "json_schema", True, found.seconds)


def test_a_simple_server_is_found_simple(server: Scripted) -> None:
    server.play(
        {"text": "red", "piece": 100},
        {"text": '{"colour": "red"}'},
        {"text": "I have no tools", "times": None},
        refuse=[{"param": "response_format", "message": "response_format: unknown"}],
        wires=["chat"],
        usage=False,
    )
    found = probed(server.endpoint("auto"))
    assert found == Probe(MODEL, "chat", False, False, "prompt", False, found.seconds)


def test_a_model_that_is_not_there_is_no_exception(server: Scripted) -> None:
    found = probed(server.endpoint(), "gone")
    assert "no model 'gone'" in found.error
    assert found.schema == "none"


def test_a_model_that_ignores_schemas_is_told(server: Scripted, wire: str) -> None:
    server.play({"text": "red as ever", "times": None})
    found = probed(server.endpoint(wire))
    assert (found.error, found.schema, found.tools) == ("", "none", False)


@pytest.mark.parametrize(
    ("usage", "prices", "dollars"),
    [
        (Usage(1_000_000, 0, 0), ALL, 2.0),
        (Usage(1_000_000, 400_000, 100_000, 50_000), ALL, 0.6 * 2 + 0.4 * 0.5 + 1.0),
        (Usage(1000, 0, 1000), Prices(), None),
        (Usage(1000, 0, 0), Prices(input_per_million=1.0), 0.001),
        (Usage(1000, 500, 0), Prices(1.0, 1.0), 0.001),
        (Usage(1000, 0, 0, reported=False), ALL, 0.002),
        (Usage(), Prices(), 0.0),
    ],
)
def test_costs_are_known_or_none(usage: Usage, prices: Prices, dollars: float | None) -> None:
    assert cost(usage, prices) == (None if dollars is None else pytest.approx(dollars))


USAGES = st.builds(
    lambda fresh, cached, out: Usage(fresh + cached, cached, out),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
)


@given(USAGES, USAGES)
def test_the_cost_of_a_sum_is_the_sum_of_the_costs(one: Usage, other: Usage) -> None:
    parts = [cost(one, ALL), cost(other, ALL)]
    assert cost(one + other, ALL) == pytest.approx(sum(part for part in parts if part is not None))


def test_the_package_is_imported_without_openai() -> None:
    modules = modules_after(
        "import astra_tui.llm, astra_tui.llm.models, "
        "astra_tui.llm.fences, astra_tui.llm.search_replace"
    )
    roots = {name.partition(".")[0] for name in modules}
    assert not roots & {"openai", "httpx2", "pydantic", "anyio"}


def test_replaying_needs_no_openai() -> None:
    modules = modules_after(
        "import asyncio; from astra_tui.llm import *; "
        "q = Request((Message(Speaker.USER, 'x'),), 'm', 1); "
        "r = asyncio.run(Replayer([Exchange(q.hash, q, 0.0, Reply('y'))]).complete(q)); "
        "assert r.text == 'y'"
    )
    assert "openai" not in modules


def test_the_server_takes_its_script_from_a_file(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    replies = [{"when": {"system": "plan"}, "text": "a plan"}, {"text": "code", "times": None}]
    script.write_text(json.dumps({"replies": replies, "models": ["m"]}), encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(SERVER), str(script)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}/models", timeout=600) as answer:
            listed = json.load(answer)["data"]
        process.terminate()
    assert [model["id"] for model in listed] == ["m"]
