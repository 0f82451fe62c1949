"""Tasks that belong together."""

from __future__ import annotations

import asyncio


class FirstErrorGroup:
    """A task group that raises the first error itself, not a group of errors."""

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> asyncio.TaskGroup:
        return await self._group.__aenter__()

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        try:
            await self._group.__aexit__(kind, error, trace)  # type: ignore[arg-type]
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
