"""What can go wrong with a language model: one class for each thing a user can do about it.

No text of these errors holds the key: all words of a server pass `safe_text` first.
"""

from __future__ import annotations

import re
from typing import ClassVar

from astra_tui.llm.messages import Reply, Usage
from astra_tui.model.errors import UserError

MAX_SERVER_TEXT = 400
"""Characters of a server's words that a message repeats."""

KEY_PATTERNS = re.compile(r"(?i)bearer\s+[^\s\"']+|\b(?:sk|hf|gsk|nvapi)[-_][A-Za-z0-9_*-]{6,}")


class LLMError(UserError):
    """A call that gave no usable answer.

    `passing`: the same call may work if it is made again. `usage` counts tokens that were spent
    on it all the same.
    """

    passing: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", usage: Usage | None = None):
        super().__init__(message, hint=hint)
        self.usage = usage or Usage()


class AuthenticationFailed(LLMError):
    """The server does not accept the key."""


class NoSuchModel(LLMError):
    """The server does not have the model, or not for this key."""


class RequestRefused(LLMError):
    """The server will not do what was asked: too long, or with parameters it does not know."""


class RateLimited(LLMError):
    """Too many requests, or no credit left. `retry_after`: seconds the server asks to wait."""

    passing = True

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None):
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class OutOfCredit(RateLimited):
    """The account cannot pay for the call; waiting does not help."""

    passing = False


class ServerFailed(LLMError):
    """The server reports a failure of its own."""

    passing = True

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None):
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class Unreachable(LLMError):
    """No connection, or one that broke or fell silent."""

    passing = True


class DeadlineExceeded(LLMError):
    """The call took longer than it may, attempts and waits included."""


class Truncated(LLMError):
    """The answer stops before its end. `partial` is what arrived, where it is known."""

    def __init__(self, message: str, *, hint: str = "", partial: Reply | None = None):
        super().__init__(message, hint=hint, usage=partial.usage if partial else None)
        self.partial = partial


class BrokenOff(Truncated):
    """The stream ended without saying why, as a proxy that gives up does."""

    passing = True


class BadAnswer(LLMError):
    """A complete answer that does not say what was asked for."""


class NoAnswer(BadAnswer):
    """What came is no model's answer: a page, a compressed stream, bytes without an end."""


class UnknownRequest(LLMError):
    """A recording has no answer to this request."""


ERROR_KINDS: dict[str, type[LLMError]] = {
    kind.__name__: kind
    for kind in (
        AuthenticationFailed,
        NoSuchModel,
        RequestRefused,
        RateLimited,
        OutOfCredit,
        ServerFailed,
        Unreachable,
        DeadlineExceeded,
        Truncated,
        BrokenOff,
        BadAnswer,
        NoAnswer,
        UnknownRequest,
    )
}
"""The errors by the name that a recording gives them."""


def is_answer(error: LLMError) -> bool:
    """Whether the model did answer, if with nothing that can be used."""
    said = isinstance(error, BadAnswer | Truncated)
    return said and not isinstance(error, NoAnswer | BrokenOff)


def safe_text(text: str, key: str, most: int = MAX_SERVER_TEXT) -> str:
    """Words of a server, fit for a screen: no key, no control characters, one line, bounded."""
    if key:
        text = text.replace(key, "***")
    text = KEY_PATTERNS.sub("***", text)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[: most - 1] + "…"
