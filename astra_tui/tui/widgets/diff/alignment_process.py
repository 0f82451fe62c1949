"""Aligns a diff in a child process, so that a long comparison holds up no key."""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

from astra_tui.tui.widgets.diff.alignment import Alignment

_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
"""No keys: the texts may be hostile."""


async def align_in_process(old: str, new: str) -> Alignment:
    """The alignment of two texts. The child ends when the caller is cancelled."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "astra_tui.tui.widgets.diff.alignment"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
    )
    try:
        answer, _ = await process.communicate(_encode_texts(old, new))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"the comparison ended with status {process.returncode}")
    return msgspec.json.decode(answer, type=Alignment)


def _encode_texts(old: str, new: str) -> bytes:
    # Lone surrogates are no UTF-8; they pass here as their own bytes.
    return msgspec.msgpack.encode([t.encode("utf-8", "surrogatepass") for t in (old, new)])
