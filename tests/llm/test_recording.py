"""Recordings: every exchange is written, and answered from again."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from astra_tui.llm import (
    Delta,
    Exchange,
    LLMError,
    Message,
    OpenAILLM,
    Recorder,
    Replayer,
    Reply,
    Request,
    ServerFailed,
    Speaker,
    Truncated,
    UnknownRequest,
    ask,
)
from tests.llm.conftest import KEY, Scripted, user_request
from tests.llm.test_structured import GOOD, IDEA, Idea


def record(server: Scripted, wire: str, *requests: Request) -> list[Exchange]:
    """The exchanges of some calls, taken through their encoding."""
    lines: list[bytes] = []

    async def scenario() -> None:
        async with OpenAILLM(server.endpoint(wire, attempts=1)) as llm:
            recorder = Recorder(llm, lambda exchange: lines.append(msgspec.json.encode(exchange)))
            for request in requests:
                try:
                    await recorder.complete(request)
                except LLMError:
                    continue

    asyncio.run(scenario())
    assert KEY.encode() not in b"".join(lines)
    return [msgspec.json.decode(line, type=Exchange) for line in lines]


def replay(replayer: Replayer, request: Request, deltas: list[Delta] | None = None) -> Reply:
    return asyncio.run(replayer.complete(request, None if deltas is None else deltas.append))


def test_replies_come_again_in_their_order(server: Scripted, wire: str) -> None:
    server.play({"text": "first"}, {"text": "second" * 20}, {"text": "other"})
    same, other = user_request("same"), user_request("other")
    exchanges = record(server, wire, same, same, other)
    replayer = Replayer(exchanges)
    deltas: list[Delta] = []
    assert replay(replayer, other).text == "other"
    assert replay(replayer, same) == exchanges[0].reply
    assert replay(replayer, same, deltas).text == "second" * 20
    assert "".join(delta.text for delta in deltas) == "second" * 20
    assert all(exchange.seconds > 0 for exchange in exchanges)


def test_errors_come_again(server: Scripted, wire: str) -> None:
    server.play(
        {"fault": "status", "status": 500, "error": {"message": "key {key}"}},
        {"text": "x", "finish": "length"},
    )
    request = user_request()
    replayer = Replayer(record(server, wire, request, request))
    with pytest.raises(ServerFailed, match=r"key \*\*\*"):
        replay(replayer, request)
    with pytest.raises(Truncated) as caught:
        replay(replayer, request)
    assert caught.value.usage.output_tokens == 30


def test_a_recording_used_up_says_so(server: Scripted) -> None:
    server.play({"text": "once"})
    replayer = Replayer(record(server, "chat", user_request()))
    replay(replayer, user_request())
    with pytest.raises(UnknownRequest, match="recorded 1 times, and all"):
        replay(replayer, user_request())


@pytest.mark.parametrize(
    ("request_now", "difference"),
    [
        (user_request("new", purpose="plan"), "differs in message 2"),
        (user_request(purpose="plan", temperature=1.0), "differs in temperature"),
        (user_request(purpose="code"), "nothing of its purpose"),
        (
            Request((Message(Speaker.USER, "x"),), "test-model", 100, purpose="plan"),
            "differs in message 1, the number of messages",
        ),
    ],
)
def test_an_unknown_request_is_told_apart(request_now: Request, difference: str) -> None:
    known = user_request(purpose="plan")
    replayer = Replayer([Exchange(known.hash, known, 0.1, Reply("x"))])
    with pytest.raises(UnknownRequest, match=difference):
        replay(replayer, request_now)


def test_a_typed_answer_with_its_repair_is_replayed(server: Scripted, wire: str) -> None:
    exchanges: list[Exchange] = []

    async def live() -> None:
        async with OpenAILLM(server.endpoint(wire)) as llm:
            await ask(Recorder(llm, exchanges.append), user_request(), Idea)

    server.play({"text": "no"}, {"text": GOOD})
    asyncio.run(live())
    answer = asyncio.run(ask(Replayer(exchanges), user_request(), Idea))
    assert (answer.value, answer.repairs) == (IDEA, 1)


def test_equal_requests_have_equal_hashes() -> None:
    assert user_request().hash == user_request().hash
    assert user_request().hash != user_request("other").hash
