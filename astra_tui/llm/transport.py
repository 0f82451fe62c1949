"""Bounds on what a model's server may send, and on where it may send a prompt on to.

Loaded together with the HTTP client, which takes half a second.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from httpx2 import AsyncByteStream, Response

from astra_tui.llm.errors import NoAnswer, RequestRefused, safe_text

MAX_BYTES = 64_000_000
"""Of one answer on the wire, the frames of its events included."""
MAX_LINE_BYTES = 8_000_000
"""Of one line of an answer: an event is read as a whole before it is looked at."""
MAX_ERROR_BYTES = 65_536
"""Of a refusal. What follows is not read: its first words say what is wrong."""


async def bound_response(response: Response) -> None:
    """Refuses an answer from elsewhere and one that is compressed; bounds the bytes of others."""
    if response.has_redirect_location:
        _require_same_host(response)
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise NoAnswer(
            f"{response.url.host} sent a compressed answer ({safe_text(encoding, '', 40)}), "
            "which was not asked for",
            hint="turn compression off in the server or its proxy",
        )
    assert isinstance(response.stream, AsyncByteStream)
    response.stream = _BoundedStream(response.stream, response.is_error)


def _require_same_host(response: Response) -> None:
    """A prompt holds the kernel: it goes to the server that the engineer named, to no other."""
    old, new = response.url, response.url.join(response.headers["location"])
    if (old.scheme, old.host, old.port) == (new.scheme, new.host, new.port):
        return
    place = safe_text(f"{new.scheme}://{new.netloc.decode('ascii', 'replace')}", "", 120)
    raise RequestRefused(
        f"{old.host} sends calls on to {place}, which nothing here has named",
        hint=f"if that is the server you mean, say --base-url {place}{safe_text(new.path, '', 80)}",
    )


class _BoundedStream(AsyncByteStream):
    """The bytes of an answer, up to the bounds of this module.

    A refusal is cut at its bound; an answer beyond its own raises NoAnswer.
    """

    def __init__(self, stream: AsyncByteStream, is_error: bool):
        self._stream = stream
        self._is_error = is_error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = line = 0
        async for part in self._stream:
            total += len(part)
            if self._is_error:
                yield part[: MAX_ERROR_BYTES - (total - len(part))]
                if total >= MAX_ERROR_BYTES:
                    return
                continue
            end = max(part.rfind(b"\n"), part.rfind(b"\r"))
            line = line + len(part) if end < 0 else len(part) - end - 1
            if total > MAX_BYTES or line > MAX_LINE_BYTES:
                raise NoAnswer(
                    f"the answer is longer than {MAX_BYTES // 10**6} MB, "
                    f"or has a line of more than {MAX_LINE_BYTES // 10**6} MB",
                    hint="the server does not end its answers; look at its log",
                )
            yield part

    async def aclose(self) -> None:
        """Closes the stream that this one reads."""
        await self._stream.aclose()
