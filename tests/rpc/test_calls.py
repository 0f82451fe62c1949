"""Requests, replies and errors between processes: what goes in comes out, typed and placed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.engine.lab import Lab
from astra_tui.lab.requests import Check, Compile, LabRequest, NamedSource
from astra_tui.model.check import CheckReport
from astra_tui.model.errors import DeviceMissing, OutOfResources, Place, UserError
from astra_tui.processes.frames import read_frame, write_frame
from astra_tui.rpc import Call, Failure, Request, ServerUnfit, serve

words = st.text(max_size=40)
numbers = st.integers(min_value=0, max_value=1 << 31)
errors = st.builds(
    lambda kind, message, file, line, column, hint: kind(
        message, file=file, place=Place(line, column), hint=hint
    ),
    st.sampled_from([UserError, DeviceMissing, OutOfResources]),
    words, words, numbers, numbers, words,
)  # fmt: skip


@given(errors)
def test_an_error_is_raised_as_it_was(error: UserError) -> None:
    sent = msgspec.msgpack.encode(Failure.of(error))
    again = msgspec.msgpack.decode(sent, type=Failure).error()
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


class Half(msgspec.Struct, frozen=True):
    value: float


class Rest(msgspec.Struct, frozen=True):
    value: int
    code: bytes


class Halve(Request[Half | Rest], frozen=True):
    number: int


class Pipe:
    """A channel to a server in this process, by real frames."""

    def __init__(self, replies: Any, fds: tuple[int, int], used: float = 0.0):
        self.replies = replies
        self.read, self.write = fds
        self.cpu_seconds = 0.0
        self.used = used

    def send(self, message: Any, seconds: float) -> None:
        request = msgspec.convert(message, Halve)
        serve(self.replies(request), lambda m: write_frame(self.write, m))
        self.cpu_seconds += self.used

    def receive(self, seconds: float, *, cpu: bool = False) -> Any:
        return read_frame(self.read, seconds)


@pytest.fixture
def fds() -> Iterator[tuple[int, int]]:
    pair = os.pipe()
    yield pair
    for fd in pair:
        os.close(fd)


def halves(request: Halve) -> Iterator[msgspec.Struct]:
    yield Half(request.number / 2)
    yield Rest(request.number % 2, b"\x00\xff")


def refusing(request: Halve) -> Iterator[msgspec.Struct]:
    yield Half(0)
    raise UserError("no half", file="a.cu", place=Place(3, 4), hint="ask again")


def unfit(_request: Halve) -> Iterator[msgspec.Struct]:
    yield from ()
    raise ServerUnfit("no compiler")


def test_replies_come_as_their_types_until_the_end_or_the_error(fds: tuple[int, int]) -> None:
    call = Call(Pipe(halves, fds), Halve(5))
    assert list(call.replies()) == [Half(2.5), Rest(1, b"\x00\xff")]
    replies = Call(Pipe(refusing, fds), Halve(5)).replies()
    assert next(replies) == Half(0)
    with pytest.raises(UserError) as caught:
        next(replies)
    assert caught.value.describe() == "a.cu:3:4: no half\n  ask again"
    with pytest.raises(ServerUnfit, match="no compiler"):
        list(Call(Pipe(unfit, fds), Halve(5)).replies())


def test_a_request_that_takes_too_much_ends(fds: tuple[int, int]) -> None:
    with pytest.raises(TimeoutError, match=r"the halve took more than 2 s of CPU time"):
        list(Call(Pipe(halves, fds, used=3.0), Halve(5), most=2.0).replies())


def test_every_verb_of_the_lab_is_known_by_its_name_and_says_its_replies() -> None:
    verbs = get_args(LabRequest)
    assert len({v.__struct_config__.tag for v in verbs}) == len(verbs)
    assert Check.reply_types()["CheckReport"] is CheckReport
    assert all(isinstance(v.reply_types(), dict) for v in verbs)
    again = msgspec.convert(msgspec.to_builtins(Compile(NamedSource("a", "b"))), LabRequest)
    assert again == Compile(NamedSource("a", "b"))


@pytest.mark.usefixtures("kept_labs")
def test_an_error_in_the_lab_keeps_its_line(quick_task: Any) -> None:
    text = quick_task.baseline_file.read_text(encoding="utf-8")
    line = text[: text.index("/* @launch")].count("\n") + 2
    broken = NamedSource(text.replace("/* @launch\n", "/* @launch\n  lunch\n"), "mine.cu")
    lab = Lab(quick_task)
    try:
        with pytest.raises(UserError) as caught:
            asyncio.run(lab.open(broken).compile())
    finally:
        lab.close()
    assert (caught.value.file, caught.value.place.line) == ("mine.cu", line)
