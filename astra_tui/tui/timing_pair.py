"""One interleaved timing of two candidates, by `astra-tui compare` in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence

import msgspec

from astra_tui.model.errors import UserError
from astra_tui.model.timing import Timing
from astra_tui.sessions.comparison import Side


class _Error(msgspec.Struct):
    message: str
    hint: str = ""


class _Answer(msgspec.Struct):
    """What of `compare --json` is about times, or why the command failed."""

    timing: Timing | None = None
    not_timed: str = ""
    error: _Error | None = None


async def time_pair(
    first: Side, second: Side, flags: Sequence[str] = ()
) -> tuple[Timing | None, str]:
    """The timing of the second against the first, or why there is none.

    `flags` are more of the command. Raises UserError where it fails. Cancelling ends the process.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "astra_tui", "compare"),
        *(_named(first), _named(second), "--json", *flags),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        answer, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    return timing_of(answer, stderr.decode(errors="replace"))


def timing_of(answer: bytes, stderr: str = "") -> tuple[Timing | None, str]:
    """What of the command's JSON is about times; `stderr` is what else it wrote.

    Raises UserError where the command failed.
    """
    try:
        found = msgspec.json.decode(answer, type=_Answer)
    except msgspec.MsgspecError:
        words = "; ".join(stderr.strip().splitlines()[-2:])
        raise UserError("the comparison broke down", hint=words) from None
    if found.error is not None:
        raise UserError(found.error.message, hint=found.error.hint)
    return found.timing, found.not_timed


def _named(side: Side) -> str:
    return f"{side.folder.resolve()}:{side.compared.candidate}"
