"""`serve`: a real server, asked by a client of ours and by a real browser."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from astra_tui.model.approval import ApprovalGate, ApprovalStatus, Decision
from astra_tui.model.author import AuthorKind
from astra_tui.model.events import ApprovalAsked, DecisionTaken, Event
from astra_tui.sessions.journal_reader import read_journal
from tests.cli.command import COMMAND, SECONDS, Shell
from tests.cli.conftest import shell  # noqa: F401 - a fixture
from tests.conftest import ROOT
from tests.quick import SMALL_WORKLOAD, write_quick_task

SESSION = "one"
RUN = f"run silu_and_mul --team playbook --device emulator --rounds 1 --session {SESSION}"
REPLAY = "replay h100-pair-silu"
PATIENCE = 2.5
"""Seconds after which someone presses the key again: a question is deaf at first."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def address(shell: Shell, request: pytest.FixtureRequest) -> Iterator[str]:  # noqa: F811
    """Where a server shows the screen of a command."""
    write_quick_task(shell.folder / "kernels", SMALL_WORKLOAD)
    with subprocess.Popen(
        [*COMMAND, "serve", request.param, "--port", "0"],
        cwd=shell.folder,
        env=shell.environment(PYTHONPATH=str(ROOT)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().removeprefix("open ").strip()
        server.terminate()


def origin_of(address: str) -> str:
    found = urlsplit(address)
    return f"{found.scheme}://{found.netloc}"


@pytest.mark.parametrize("address", [REPLAY], indirect=True)
def test_a_page_needs_the_token_and_a_socket_our_own_page(address: str) -> None:
    asyncio.run(_knocks(address))


async def _knocks(address: str) -> None:
    own = origin_of(address)
    async with aiohttp.ClientSession() as stranger:
        for place in ("/", "/?token=wrong", "/ws", "/static/js/textual.js", "/download/x"):
            async with stranger.get(own + place) as answer:
                assert answer.status == 403, place
    jar = aiohttp.CookieJar(unsafe=True)  # Of an address that is a number.
    async with aiohttp.ClientSession(cookie_jar=jar) as guest:
        async with guest.get(address) as page:
            text = await page.text()
            assert (page.status, str(page.url)) == (200, own + "/")
        assert urlsplit(address).query.partition("=")[2] not in text
        assert set(re.findall(r"\w+://[^/\"]+", text)) == {own.replace("http", "ws")}
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        (cookie,) = jar
        assert (cookie["httponly"], cookie["samesite"]) == (True, "Strict")
        for headers in ({"Origin": "http://evil.example"}, {"Origin": own[:-1]}, {}):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await guest.ws_connect(own + "/ws", headers=headers)
            assert refused.value.status == 403
        async with guest.get(own, headers={"Origin": "http://evil.example"}) as answer:
            assert answer.status == 403
        async with guest.ws_connect(own + "/ws?width=100&height=30", origin=own) as socket:
            shown = b""
            while b"silu_and_mul" not in shown:
                message = await socket.receive(SECONDS)
                assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT)
                shown += message.data if message.type is aiohttp.WSMsgType.BINARY else b""


@pytest.mark.parametrize("address", [RUN], indirect=True)
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_a_decision_is_taken_in_a_browser(
    address: str,
    shell: Shell,  # noqa: F811
) -> None:
    asyncio.run(_decide(address, shell.folder / SESSION, shell.folder))


async def _decide(address: str, session: Path, folder: Path) -> None:
    async with browser(folder / "profile") as page:
        await page.ask("Page.navigate", url=address)
        while not (taken := decisions(session)):
            await asyncio.sleep(PATIENCE)
            if asked(session):
                await page.press("a")
    assert (taken[0].gate, taken[0].status) == (ApprovalGate.PLAN, ApprovalStatus.ACCEPTED)
    assert taken[0].by.kind is AuthorKind.ENGINEER


def events_of(session: Path) -> tuple[Event, ...]:
    """What has happened in a session so far."""
    return read_journal(session).events if (session / "journal.jsonl").exists() else ()


def asked(session: Path) -> bool:
    return any(isinstance(event, ApprovalAsked) for event in events_of(session))


def decisions(session: Path) -> list[Decision]:
    return [e.decision for e in events_of(session) if isinstance(e, DecisionTaken)]


@dataclass
class Page:
    """The one page of a browser, over its debugging protocol."""

    socket: aiohttp.ClientWebSocketResponse
    asked: int = 0

    async def ask(self, method: str, **parameters: Any) -> Any:
        """The answer to one request."""
        self.asked += 1
        await self.socket.send_json({"id": self.asked, "method": method, "params": parameters})
        while (answer := await self.socket.receive_json()).get("id") != self.asked:
            pass
        return answer

    async def press(self, key: str) -> None:
        """Presses and releases a key."""
        await self.ask("Input.dispatchKeyEvent", type="keyDown", text=key, key=key)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)


def port_of(profile: Path) -> str:
    """Where a browser listens for its debugger; nothing while it starts."""
    file = profile / "DevToolsActivePort"
    return file.read_text().partition("\n")[0] if file.exists() else ""


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Page]:
    """Chromium without a window, with a profile of its own."""
    assert CHROMIUM is not None
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0")
    command = (CHROMIUM, *flags, f"--user-data-dir={profile}", "about:blank")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while not (port := port_of(profile)):
            assert process.poll() is None, f"Chromium ended with {process.returncode}"
            await asyncio.sleep(0.1)
        async with aiohttp.ClientSession() as client:
            async with client.get(f"http://127.0.0.1:{port}/json") as answer:
                (page,) = (p for p in await answer.json() if p["type"] == "page")
            async with client.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Page(socket)
        process.terminate()
