"""Requests and their streams of replies, as plain data in the messages of some channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, Never, Protocol, TypeVar, get_args

import msgspec

from astra_tui.model.errors import UserError
from astra_tui.rpc.failure import Failure, ServerUnfit

R = TypeVar("R")


class Request(msgspec.Struct, Generic[R], frozen=True, tag_field="do", tag=str.lower):
    """Something that another process is asked to do; the base says which replies it has.

    As in `class Check(Request[CaseResult | CheckReport])`: structs, by whose names they are known.
    """

    silence: ClassVar[float] = 60.0
    """How long the other side may say nothing, in seconds."""
    most: ClassVar[float] = float("inf")
    """Seconds of the other side's CPU time for all of it."""

    @classmethod
    def reply_types(cls) -> dict[str, type]:
        """The types of the replies by their names."""
        (replies,) = get_args(cls.__orig_bases__[0])  # type: ignore[attr-defined]
        return {t.__name__: t for t in get_args(replies) or (replies,) if t is not Never}


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reply by its type's name; or with no name the end, and why it is no good one."""

    name: str = ""
    reply: Any = None
    failure: Failure | None = None


class Channel(Protocol):
    """What carries messages to one other process, such as a child."""

    @property
    def cpu_seconds(self) -> float:
        """What the other process has used so far."""
        ...

    def send(self, message: Any, seconds: float) -> None:
        """Sends plain data."""
        ...

    def receive(self, seconds: float, *, cpu: bool = False) -> Any:
        """The next plain data, within seconds of the clock or of the other side's CPU time."""
        ...


class Call(Generic[R]):
    """One request on a channel, and its replies.

    `cpu` says that `silence` is counted in CPU time; it and `most` are the request's own unless
    they are given. In the middle of the replies the channel is of no use for another call, nor
    after an error, but for UserError and ServerUnfit.
    """

    def __init__(
        self,
        channel: Channel,
        request: Request[R],
        *,
        cpu: bool = False,
        silence: float | None = None,
        most: float | None = None,
    ):
        self._channel = channel
        self._request = request
        self._types = request.reply_types()
        self._cpu = cpu
        self._silence = request.silence if silence is None else silence
        self._most = request.most if most is None else most
        self._used = 0.0

    def begin(self) -> None:
        """Sends the request."""
        self._used = self._channel.cpu_seconds
        data = msgspec.to_builtins(self._request, builtin_types=(bytes,))
        self._channel.send(data, self._silence)

    def receive(self) -> R | None:
        """The next reply, None after the last.

        Raises UserError and ServerUnfit as the other side says, TimeoutError where it has used
        more time than the request may take, and whatever the channel does.
        """
        if self._channel.cpu_seconds - self._used > self._most:
            what = type(self._request).__name__.lower()
            most = f"{self._most:g} s of CPU time"
            raise TimeoutError(f"the {what} took more than {most}")
        data = self._channel.receive(self._silence, cpu=self._cpu)
        message = msgspec.convert(data, Message)
        if message.failure is not None:
            raise message.failure.error()
        if not message.name:
            return None
        reply: R = msgspec.convert(message.reply, self._types[message.name])
        return reply

    def replies(self) -> Iterator[R]:
        """Sends the request, and waits for all its replies."""
        self.begin()
        while (reply := self.receive()) is not None:
            yield reply


def serve(replies: Iterator[msgspec.Struct], write: Callable[[Any], None]) -> None:
    """Sends all replies to a request, then their end, with the error that ended them.

    Errors other than UserError and ServerUnfit are faults of this process, and raised.
    """

    def send(message: Message) -> None:
        write(msgspec.to_builtins(message, builtin_types=(bytes,)))

    failure = None
    try:
        for reply in replies:
            send(Message(type(reply).__name__, reply))
    except UserError as error:
        failure = Failure.of(error)
    except ServerUnfit as error:
        failure = Failure.unfit(str(error))
    send(Message(failure=failure))
