"""Locks and task groups of asyncio that the standard library lacks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ReadWriteLock:
    """Many readers at once, or one writer. A waiting writer goes before later readers."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._readers = 0
        self._is_written = False
        self._waiting = 0

    @asynccontextmanager
    async def read(self) -> AsyncIterator[None]:
        """Holds the lock together with other readers."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_written and not self._waiting)
            self._readers += 1
        try:
            yield
        finally:
            async with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[None]:
        """Holds the lock alone."""
        async with self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: not self._is_written and not self._readers)
                self._is_written = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            async with self._changed:
                self._is_written = False
                self._changed.notify_all()


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
