"""The HTTP client of an endpoint: `openai`, loaded in a thread when it is first needed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from astra_tui.llm.endpoint import Endpoint
from astra_tui.llm.messages import Json

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream


class Connection:
    """Opens the client once; belongs to one event loop."""

    def __init__(self, endpoint: Endpoint):
        self._endpoint = endpoint
        self._client: AsyncOpenAI | None = None
        self._opening = asyncio.Lock()

    async def client(self) -> AsyncOpenAI:
        """The client; the first call takes about half a second, in a thread."""
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(_open, self._endpoint)
        return self._client

    async def stream(self, path: str, body: Json, silence: float) -> AsyncStream[object]:
        """Send a request; the events of the answer as plain JSON values, with at most `silence`
        seconds between two bytes.

        Plain values because servers leave out what the package's own types promise.
        """
        import httpx2
        from openai import AsyncStream

        client = await self.client()
        return await client.post(
            path,
            cast_to=object,
            body=body,
            options={"timeout": httpx2.Timeout(silence, connect=self._endpoint.timeouts.connect)},
            stream=True,
            stream_cls=AsyncStream[object],
        )

    async def get(self, path: str) -> object:
        """The JSON value that the server answers to a GET."""
        client = await self.client()
        return await client.get(path, cast_to=object)

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.close()


def _open(endpoint: Endpoint) -> AsyncOpenAI:
    import httpx2
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    from astra_tui.llm.transport import bound_response

    times = endpoint.timeouts
    return AsyncOpenAI(
        base_url=endpoint.base_url,
        api_key=endpoint.api_key.reveal() or "none",
        max_retries=0,  # `OpenAILLM` counts the attempts
        timeout=httpx2.Timeout(times.silence, connect=times.connect),
        # What is not compressed cannot grow after it was counted.
        default_headers={"Accept-Encoding": "identity"},
        http_client=DefaultAsyncHttpxClient(event_hooks={"response": [bound_response]}),
    )
