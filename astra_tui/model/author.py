"""Who wrote a plan, a source, a decision or a note."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class AuthorKind(StrEnum):
    """The kinds of authors; everything that is shown says which one wrote it."""

    TASK = "task"
    """The kernel task's own files."""
    PLAYBOOK = "playbook"
    MODEL = "model"
    ENGINEER = "engineer"
    POLICY = "policy"
    """Rules that were set before the session, such as `--approve auto`."""


class Author(msgspec.Struct, frozen=True, omit_defaults=True):
    """An author; `name` is the model's name, the engineer's user name, the move or the file."""

    kind: AuthorKind
    name: str = ""

    def describe(self) -> str:
        """As in "model qwen3" or "playbook"."""
        return f"{self.kind.value} {self.name}".strip()
