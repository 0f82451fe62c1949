"""Who remembers what: four agents that begin again with each prompt, or one that continues talking.

The single agent is the ablation of the paper's table 3: the same steps and tools, one system prompt
and one conversation for all roles.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from astra_tui.llm.asking.prompts import prompt_text
from astra_tui.llm.messages import Message, Speaker
from astra_tui.model.roles import Role

MAX_REMEMBERED = 200_000
"""Characters of the single agent's memory; its oldest steps are forgotten first."""


class Conversation(Protocol):
    """The turns that go before a prompt."""

    def opening(self, role: Role) -> tuple[Message, ...]:
        """The system prompt of a role, and the earlier turns."""
        ...

    def remember(self, prompt: str, answer: str) -> None:
        """A step that ended."""
        ...

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Holds while a step continues."""
        ...


class SeparateAgents:
    """Four agents; each prompt holds all that its agent has to know."""

    def opening(self, role: Role) -> tuple[Message, ...]:
        """The system prompt of one role."""
        return (_system(role_rules(role)),)

    def remember(self, prompt: str, answer: str) -> None:
        """Nothing is remembered."""

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Steps need not wait for each other."""
        yield


@dataclass(frozen=True)
class Memory:
    """What outlives a conversation: the prompts and answers of earlier runs, and a place for more.

    `keep` is told of every step that is remembered.
    """

    earlier: Sequence[tuple[str, str]] = ()
    keep: Callable[[str, str], None] = lambda _prompt, _answer: None


class OneAgent:
    """One agent in all roles, with a memory."""

    def __init__(self, memory: Memory | None = None) -> None:
        memory = memory or Memory()
        self._steps: list[tuple[Message, Message]] = []
        self._lock = asyncio.Lock()
        self._keep = memory.keep
        for prompt, answer in memory.earlier:
            self._add(prompt, answer)

    def opening(self, role: Role) -> tuple[Message, ...]:  # noqa: ARG002
        """The same system prompt for every role, and the steps so far."""
        rules = "\n".join(role_rules(r) for r in Role)
        said = [message for step in self._steps for message in step]
        return (_system(f"{prompt_text('single_system')}\n{rules}"), *said)

    def remember(self, prompt: str, answer: str) -> None:
        """Adds a step; forgets the oldest ones where there are too many words."""
        self._keep(prompt, answer)
        self._add(prompt, answer)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One step at a time, also where a round has several candidates."""
        async with self._lock:
            yield

    def _add(self, prompt: str, answer: str) -> None:
        self._steps.append((Message(Speaker.USER, prompt), Message(Speaker.ASSISTANT, answer)))
        while len(self._steps) > 1 and self._length() > MAX_REMEMBERED:
            del self._steps[0]

    def _length(self) -> int:
        return sum(len(message.content) for step in self._steps for message in step)


def role_rules(role: Role) -> str:
    """What a role's agent is told once and for all."""
    return prompt_text(f"{role.value}_system")


def _system(text: str) -> Message:
    return Message(Speaker.SYSTEM, f"{text}\n{prompt_text('data_rules')}")
