"""Where a model is served, and how patient to be with it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import urlsplit

from astra_tui.model.errors import UserError
from astra_tui.model.settings import WireChoice


class Wire(StrEnum):
    """The two protocols of OpenAI-compatible servers."""

    RESPONSES = "responses"
    CHAT = "chat"


class Secret:
    """A text that no `repr`, traceback or crash report shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str):
        self._text = text

    def reveal(self) -> str:
        """The text itself; pass it on, never keep it in a local variable."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to connect, between two bytes of an answer, and for a whole call."""

    connect: float = 15.0
    silence: float = 180.0
    total: float = 900.0


@dataclass(frozen=True, slots=True)
class Retries:
    """Attempts for a call that fails in passing, and the seconds between them.

    The wait doubles from `first_wait` to `longest_wait`; a server's Retry-After replaces it.
    """

    attempts: int = 4
    first_wait: float = 1.0
    longest_wait: float = 30.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server: `base_url` includes the version (`http://127.0.0.1:8000/v1`).

    A server that wants no key gets `Secret("")`.
    """

    base_url: str
    api_key: Secret
    wire: WireChoice = WireChoice.AUTO
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: Retries = field(default_factory=Retries)

    def __post_init__(self) -> None:
        if urlsplit(self.base_url).scheme not in ("http", "https") or not self.host:
            raise UserError(
                "the base URL of the model's server has to begin with http:// or https://",
                hint="for example http://127.0.0.1:8000/v1",
            )

    def asked_as(self, wire: WireChoice, silence: float | None, total: float | None) -> Endpoint:
        """The same, as one request wants to be asked there; AUTO and None leave it as it is."""
        times = self.timeouts
        total = total or times.total
        chosen = self.wire if wire is WireChoice.AUTO else wire
        limits = Timeouts(times.connect, silence or min(times.silence, total), total)
        return replace(self, wire=chosen, timeouts=limits)

    @property
    def host(self) -> str:
        """The host's name, without port."""
        return urlsplit(self.base_url).hostname or ""

    @property
    def address(self) -> str:
        """The base URL as messages show it: without a user name or password."""
        parts = urlsplit(self.base_url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI's own service, whose dialect differs from its imitations'."""
        return self.host == "api.openai.com" or self.host.endswith(".api.openai.com")
