"""The scripted server as a process, and clients of it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from astra_tui.llm import (
    Delta,
    Endpoint,
    Message,
    OpenAILLM,
    Reply,
    Request,
    Retries,
    Secret,
    Speaker,
    Timeouts,
)
from astra_tui.model.settings import WireChoice

SERVER = Path(__file__).with_name("server.py")
KEY = "sk-test-0123456789abcdef"
MODEL = "test-model"


class Scripted:
    """A running server whose script can be changed, and what it was asked since."""

    def __init__(self, url: str):
        self.url = url

    def play(self, *replies: dict[str, Any], **script: Any) -> None:
        """Begin a script with these replies."""
        self._ask("PUT", "/script", {"replies": replies, **script})

    def requests(self, part: str = "") -> list[dict[str, Any]]:
        """The bodies of the requests whose path contains `part`."""
        log = self._ask("GET", "/log")["requests"]
        return [entry["body"] for entry in log if part in entry["path"]]

    def paths(self) -> list[str]:
        """The last part of the path of each request."""
        return [e["path"].rpartition("/")[2] for e in self._ask("GET", "/log")["requests"]]

    def wait_for_abort(self) -> None:
        """Return when a client went away from a stalled answer."""
        self._ask("GET", "/aborted")

    def endpoint(self, wire: str = "chat", attempts: int = 3, **times: float) -> Endpoint:
        """The server as an endpoint, with no waits between attempts."""
        timeouts = replace(Timeouts(connect=5, silence=10, total=20), **times)
        retries = Retries(attempts=attempts, first_wait=0.0)
        return Endpoint(self.url, Secret(KEY), WireChoice(wire), timeouts, retries)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        url = self.url.removesuffix("/v1") + path
        asked = urllib.request.Request(url, data, {"Connection": "close"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(asked, timeout=600) as answer:
            return json.load(answer)


@pytest.fixture(scope="session")
def running() -> Iterator[Scripted]:
    """One server process for all tests of the session."""
    with subprocess.Popen(
        [sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        word, _, url = process.stdout.readline().strip().partition(" ")
        assert word == "ready"
        yield Scripted(url)
        process.terminate()


@pytest.fixture
def server(running: Scripted) -> Scripted:
    """The server with an empty script."""
    running.play()
    return running


@pytest.fixture(params=["chat", "responses"])
def wire(request: pytest.FixtureRequest) -> str:
    """Both wires."""
    name: str = request.param
    return name


def user_request(text: str = "hello", **fields: Any) -> Request:
    """A request with a system prompt and one question."""
    messages = (Message(Speaker.SYSTEM, "Be brief."), Message(Speaker.USER, text))
    return Request(messages, fields.pop("model", MODEL), 100, **fields)


async def complete(
    endpoint: Endpoint, request: Request | None = None, deltas: list[Delta] | None = None
) -> Reply:
    """One call with a client of its own."""
    watch = None if deltas is None else deltas.append
    async with OpenAILLM(endpoint) as llm:
        return await llm.complete(request or user_request(), watch)
