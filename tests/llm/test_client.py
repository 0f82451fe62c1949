"""Calls over both wires, and every way in which a server can fail them."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from astra_tui.llm import (
    AuthenticationFailed,
    BadAnswer,
    DeadlineExceeded,
    Delta,
    DeltaKind,
    Endpoint,
    LLMError,
    NoSuchModel,
    OpenAILLM,
    RateLimited,
    Request,
    RequestRefused,
    Secret,
    ServerFailed,
    Truncated,
    Unreachable,
    Usage,
)
from astra_tui.model.errors import UserError
from astra_tui.model.settings import WireChoice
from tests.llm.conftest import KEY, SERVER, Scripted, complete, user_request

LONG = "The reduction is bound by memory. " * 4


def fail(error: type[LLMError], endpoint: Endpoint, **fields: Any) -> LLMError:
    """The error of a call that has to fail, which never shows the key."""
    with pytest.raises(error) as caught:
        asyncio.run(complete(endpoint, user_request(**fields)))
    assert caught.value.hint
    shown = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
    assert KEY not in shown
    return caught.value


def text_shown(deltas: list[Delta]) -> str:
    """What a pane shows in the end."""
    shown = ""
    for delta in deltas:
        if delta.kind is DeltaKind.RESTART:
            shown = ""
        elif delta.kind is DeltaKind.TEXT:
            shown += delta.text
    return shown


def test_text_reasoning_and_usage_arrive(server: Scripted, wire: str) -> None:
    server.play({"text": LONG, "reasoning": "it reads twice"})
    deltas: list[Delta] = []
    reply = asyncio.run(complete(server.endpoint(wire), deltas=deltas))
    assert (reply.text, reply.finish, reply.attempts) == (LONG, "stop", 1)
    assert reply.model == "test-model"
    assert reply.usage == Usage(120, 20, 30, 10)
    assert text_shown(deltas) == LONG
    thought = "".join(d.text for d in deltas if d.kind is DeltaKind.REASONING)
    assert thought == "it reads twice"
    assert len(deltas) > 5


def test_characters_cut_in_two_arrive_whole(server: Scripted, wire: str) -> None:
    rockets = "\U0001f680 \U0001f680\U0001f680"
    calls = [{"name": "look", "arguments": json.dumps({"at": rockets}, ensure_ascii=False)}]
    cut = {"text": rockets, "reasoning": rockets, "tool_calls": calls, "piece": 1, "halves": True}
    server.play(cut)
    deltas: list[Delta] = []
    reply = asyncio.run(complete(server.endpoint(wire), deltas=deltas))
    assert reply.text == text_shown(deltas) == rockets
    assert "".join(d.text for d in deltas if d.kind is DeltaKind.REASONING) == rockets
    assert [json.loads(call.arguments) for call in reply.tool_calls] == [{"at": rockets}]
    msgspec.json.encode([reply, deltas])


def test_half_a_character_is_replaced(server: Scripted, wire: str) -> None:
    server.play({"text": "\ude80 fine \ud83d", "tool_calls": [{"name": "\ud83d", "arguments": ""}]})
    deltas: list[Delta] = []
    reply = asyncio.run(complete(server.endpoint(wire), deltas=deltas))
    assert reply.text == text_shown(deltas) == "\ufffd fine \ufffd"
    request = user_request()
    assert msgspec.structs.replace(request, messages=(reply.as_message(),)).hash


def test_lines_may_end_with_crlf(server: Scripted, wire: str) -> None:
    server.play({"text": "a\r\nb\nc" + LONG}, newline="\r\n")
    assert asyncio.run(complete(server.endpoint(wire))).text == "a\r\nb\nc" + LONG


def test_nothing_is_stored_at_the_provider(server: Scripted, wire: str) -> None:
    server.play({"text": "x"})
    asyncio.run(complete(server.endpoint(wire), user_request(purpose="plan")))
    (body,) = server.requests()
    assert body["store"] is False
    assert "purpose" not in body


def test_usage_may_be_missing(server: Scripted, wire: str) -> None:
    server.play({"text": "x"}, usage=False)
    assert asyncio.run(complete(server.endpoint(wire))).usage == Usage(reported=False)


def test_two_megabytes_arrive_whole(server: Scripted, wire: str) -> None:
    huge = "0123456789abcde\n" * 125_000
    server.play({"text": huge, "piece": 4096})
    request = msgspec.structs.replace(user_request(), max_output_tokens=500_000)
    assert asyncio.run(complete(server.endpoint(wire), request)).text == huge


def test_a_runaway_answer_is_stopped(server: Scripted, wire: str) -> None:
    server.play({"text": "x" * 5000})
    assert "longer than the 100 tokens" in fail(BadAnswer, server.endpoint(wire)).message


def test_a_flood_is_read_up_to_its_bound(server: Scripted) -> None:
    server.play({"fault": "flood", "bytes": 1 << 30})
    assert "a line of more than 8 MB" in fail(BadAnswer, server.endpoint("chat")).message
    server.play({"fault": "flood", "bytes": 1 << 30, "status": 400})
    assert "answered 400: " in fail(RequestRefused, server.endpoint("chat")).message


def test_a_prompt_is_not_sent_on_to_another_server(server: Scripted, wire: str) -> None:
    with subprocess.Popen(
        [sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        other = Scripted(process.stdout.readline().split()[1])
        moved = {"Location": f"{other.url}/chat/completions"}
        server.play({"fault": "status", "status": 307, "headers": moved, "times": None})
        error = fail(RequestRefused, server.endpoint(wire))
        assert f"sends calls on to {other.url.removesuffix('/v1')}" in error.message
        assert "--base-url" in error.hint
        assert other.paths() == []
        process.terminate()


def test_an_answer_that_is_compressed_or_too_deep_ends_in_a_line(server: Scripted) -> None:
    server.play({"fault": "gzip", "text": "x"})
    assert "compressed answer (gzip)" in fail(BadAnswer, server.endpoint("chat")).message
    server.play({"fault": "deep", "text": "x", "times": None})
    assert "not of the protocol" in fail(ServerFailed, server.endpoint("chat")).message


class Counted:
    """What each sending of a call has cost."""

    def __init__(self) -> None:
        self.spent: list[Usage] = []

    def begin(self, request: Request) -> Request:
        return request

    def end(self, usage: Usage) -> None:
        self.spent.append(usage)


@pytest.mark.parametrize(
    ("entry", "reported", "some"),
    [
        ({"text": LONG}, True, True),
        ({"text": LONG, "finish": "length"}, True, True),
        ({"text": LONG, "fault": "break", "after": 4}, False, True),
        ({"text": "x" * 5000}, False, True),
        ({"fault": "html"}, False, True),
        ({"fault": "drop"}, False, True),
        ({"fault": "status", "status": 503}, True, False),
    ],
)
def test_every_sending_is_counted_or_estimated(
    server: Scripted, wire: str, entry: dict[str, Any], reported: bool, some: bool
) -> None:
    server.play({**entry, "times": None})
    counted = Counted()

    async def call() -> None:
        async with OpenAILLM(server.endpoint(wire)) as llm:
            with suppress(LLMError):
                await llm.complete(user_request(), None, counted)

    asyncio.run(call())
    assert len(counted.spent) == len(server.paths())
    assert {usage.reported for usage in counted.spent} == {reported}
    assert all(bool(usage.input_tokens) == some for usage in counted.spent)
    if "text" in entry and not reported:
        assert all(usage.output_tokens for usage in counted.spent)


PASSING: dict[str, dict[str, Any]] = {
    "429": {"fault": "status", "status": 429, "headers": {"Retry-After": "0"}},
    "500": {"fault": "status", "status": 500},
    "503": {"fault": "status", "status": 503},
    "drop before the answer": {"fault": "drop"},
    "break in the answer": {"fault": "break", "text": LONG, "after": 4},
    "error event": {"fault": "error", "text": LONG, "after": 4},
    "rate limit as an event": {
        "fault": "error",
        "error": {"code": "rate_limit_exceeded", "message": "slow down"},
    },
    "garbage event": {"fault": "garbage", "text": LONG, "after": 4},
    "no end mark": {"text": LONG, "finish": None},
}


@pytest.mark.parametrize("fault", PASSING)
def test_a_passing_failure_costs_one_more_request(server: Scripted, wire: str, fault: str) -> None:
    server.play(PASSING[fault], {"text": "whole"})
    deltas: list[Delta] = []
    reply = asyncio.run(complete(server.endpoint(wire), deltas=deltas))
    assert (reply.text, reply.attempts) == ("whole", 2)
    assert text_shown(deltas) == "whole"
    assert len(server.requests()) == 2


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("429", RateLimited),
        ("500", ServerFailed),
        ("drop before the answer", Unreachable),
        ("break in the answer", Unreachable),
        ("error event", ServerFailed),
        ("rate limit as an event", RateLimited),
        ("garbage event", ServerFailed),
        ("no end mark", Truncated),
    ],
)
def test_a_failure_that_stays_is_told_after_all_attempts(
    server: Scripted, wire: str, fault: str, error: type[LLMError]
) -> None:
    server.play({**PASSING[fault], "times": None})
    fail(error, server.endpoint(wire, attempts=3))
    assert len(server.requests()) == 3


def test_the_pane_keeps_what_the_last_attempt_showed(server: Scripted, wire: str) -> None:
    server.play({**PASSING["break in the answer"], "times": None})
    deltas: list[Delta] = []
    with pytest.raises(Unreachable):
        asyncio.run(complete(server.endpoint(wire, attempts=2), deltas=deltas))
    assert [d.kind for d in deltas].count(DeltaKind.RESTART) == 1
    assert text_shown(deltas)


def test_a_wait_beyond_the_deadline_is_not_waited_for(server: Scripted, wire: str) -> None:
    server.play({"fault": "status", "status": 429, "headers": {"Retry-After": "3600"}})
    error = fail(RateLimited, server.endpoint(wire))
    assert isinstance(error, RateLimited)
    assert error.retry_after == 3600
    assert len(server.requests()) == 1


def test_a_servers_wish_to_wait_is_granted(server: Scripted, wire: str) -> None:
    late = {"fault": "status", "status": 429, "headers": {"Retry-After": "0.2"}}
    server.play(late, {"text": "whole"})
    start = time.monotonic()
    assert asyncio.run(complete(server.endpoint(wire))).text == "whole"
    assert time.monotonic() - start >= 0.2


def test_no_credit_is_not_retried(server: Scripted, wire: str) -> None:
    quota = {"code": "insufficient_quota", "message": "You exceeded your current quota"}
    server.play({"fault": "status", "status": 429, "error": quota})
    assert "credit" in fail(RateLimited, server.endpoint(wire)).hint
    assert len(server.requests()) == 1


def test_silence_is_not_waited_for_endlessly(server: Scripted, wire: str) -> None:
    server.play({"fault": "stall", "text": LONG, "after": 3}, {"text": "whole"})
    reply = asyncio.run(complete(server.endpoint(wire, silence=0.2)))
    assert (reply.text, reply.attempts) == ("whole", 2)


def test_silence_that_stays_is_told(server: Scripted, wire: str) -> None:
    server.play({"fault": "stall", "after": 0})
    assert "fell silent" in fail(Unreachable, server.endpoint(wire, 1, silence=0.2)).message


def test_the_deadline_bounds_the_whole_call(server: Scripted, wire: str) -> None:
    server.play({"fault": "stall", "text": LONG, "after": 3})

    async def scenario() -> None:
        async with OpenAILLM(server.endpoint(wire, total=0.3)) as llm:
            await llm._connection.client()  # loading the package is no part of this bound
            await llm.complete(user_request())

    with pytest.raises(DeadlineExceeded, match=r"0\.3 s"):
        asyncio.run(scenario())
    server.wait_for_abort()


def test_a_request_may_have_a_wire_and_limits_of_its_own(server: Scripted) -> None:
    server.play({"text": "one"}, {"text": "two"}, {"fault": "stall", "text": LONG, "after": 3})
    own = user_request(wire=WireChoice.RESPONSES)
    hasty = user_request(wire=WireChoice.RESPONSES, silence_seconds=60.0, call_seconds=0.3)

    async def scenario() -> None:
        async with OpenAILLM(server.endpoint("chat", 1)) as llm:
            for asked in (own, user_request()):
                await llm.complete(asked)
            await llm.complete(hasty)

    with pytest.raises(DeadlineExceeded, match=r"0\.3 s"):
        asyncio.run(scenario())
    assert (len(server.requests("responses")), len(server.requests("chat"))) == (2, 1)


def test_cancelling_closes_the_connection(server: Scripted, wire: str) -> None:
    server.play({"fault": "stall", "text": LONG, "after": 3})

    async def scenario() -> None:
        shown = asyncio.Event()
        async with OpenAILLM(server.endpoint(wire)) as llm:
            call = asyncio.create_task(llm.complete(user_request(), lambda _: shown.set()))
            await shown.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.to_thread(server.wait_for_abort)

    asyncio.run(scenario())


def test_length_is_an_error_with_the_part_and_its_usage(server: Scripted, wire: str) -> None:
    server.play({"text": LONG, "finish": "length"})
    error = fail(Truncated, server.endpoint(wire))
    assert isinstance(error, Truncated)
    assert error.partial is not None
    assert error.partial.text == LONG
    assert error.usage == Usage(120, 20, 30, 10)
    assert len(server.requests()) == 1


@pytest.mark.parametrize("entry", [{"text": "x", "finish": "content_filter"}, {"refusal": "No."}])
def test_declining_is_a_bad_answer(server: Scripted, wire: str, entry: dict[str, Any]) -> None:
    server.play(entry)
    assert "declined" in fail(BadAnswer, server.endpoint(wire)).message


def test_a_web_page_is_no_answer(server: Scripted, wire: str) -> None:
    server.play({"fault": "html"})
    assert "/v1" in fail(BadAnswer, server.endpoint(wire)).hint


def test_a_refused_key_is_told_without_the_key(server: Scripted, wire: str) -> None:
    server.play(key="another")
    assert (
        "Incorrect API key provided: ***"
        in fail(AuthenticationFailed, server.endpoint(wire)).message
    )


@pytest.mark.parametrize(
    "fault", [{"fault": "status", "status": 400}, {"fault": "error", "after": 2}]
)
def test_a_key_in_a_servers_words_is_masked(
    server: Scripted, wire: str, fault: dict[str, Any]
) -> None:
    server.play({**fault, "error": {"message": "rejected Bearer {key}\x1b[2J\nbye"}})
    message = fail(LLMError, server.endpoint(wire, attempts=1)).message
    assert "rejected ***" in message
    assert "\x1b" not in message


def test_an_unknown_model_is_named(server: Scripted, wire: str) -> None:
    error = fail(NoSuchModel, server.endpoint(wire), model="gpt-0")
    assert "gpt-0" in error.message
    assert len(server.requests()) == 1


def test_a_prompt_that_is_too_long_is_said_to_be(server: Scripted, wire: str) -> None:
    long = {"code": "context_length_exceeded", "message": "maximum context length is 8192 tokens"}
    server.play({"fault": "status", "status": 400, "error": long})
    assert "longer context" in fail(RequestRefused, server.endpoint(wire)).hint


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        endpoint = Scripted(url).endpoint(attempts=1)
        assert url in fail(Unreachable, endpoint).message


def test_secrets_and_addresses_are_masked() -> None:
    endpoint = Endpoint("http://me:pass@host:1/v1?token=1", Secret(KEY))
    assert endpoint.address == "http://host:1/v1"
    assert KEY not in repr(endpoint)


@pytest.mark.parametrize("url", ["", "localhost:8000/v1", "ftp://host/v1", "http:///v1"])
def test_a_base_url_has_to_be_one(url: str) -> None:
    with pytest.raises(UserError, match="http://"):
        Endpoint(url, Secret(""))


def test_one_client_serves_calls_at_once(server: Scripted, wire: str) -> None:
    server.play(*({"when": {"user": f"<{n}>"}, "text": f"answer {n}"} for n in range(8)))

    async def scenario() -> list[str]:
        async with OpenAILLM(server.endpoint(wire)) as llm:
            calls = (llm.complete(user_request(f"<{n}>")) for n in range(8))
            return [reply.text for reply in await asyncio.gather(*calls)]

    assert asyncio.run(scenario()) == [f"answer {n}" for n in range(8)]
