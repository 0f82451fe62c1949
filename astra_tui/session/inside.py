"""Reads the files of a session's folder as if a stranger had made it.

Nothing outside of the folder is opened, whatever links it holds, nothing that is not a plain file
is waited for, and nothing is read that is too large.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from astra_tui.model.errors import UserError

LARGEST_JOURNAL = 512 * 1024 * 1024
LONGEST_LINE = 16 * 1024 * 1024
"""Bytes; the longest line of a real session holds the samples of one workload, under 100 kB."""

MOST_EVENTS = 200_000
"""A round has about 100, so that these are 2,000 rounds."""

LARGEST_TEXT = 16 * 1024 * 1024
"""Bytes of one source, prompt or reply."""

MOST_FILES = 100_000

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Opening a pipe that nobody writes would wait; with O_NONBLOCK it does not."""


def read_inside(folder: Path, name: str, most: int) -> bytes:
    """A file below a folder, by its relative name; links below the folder are not followed.

    Raises FileNotFoundError, and UserError where it is not a plain file of at most `most` bytes.
    """
    with _opened(folder, name) as file:
        content = file.read(most + 1)
    if len(content) > most:
        message = f"this file is too large: {most:,} bytes at most"
        raise UserError(message, file=str(folder / name))
    return content


def lines_inside(folder: Path, name: str, longest: int) -> Iterator[bytes]:
    """The whole lines of a file below a folder, one at a time, without their line feeds.

    Ends before a line of more than `longest` bytes, and before one that has no end yet. Raises
    UserError as `read_inside` does, and where there is no such file.
    """
    try:
        with _opened(folder, name) as file:
            while (line := file.readline(longest + 1)).endswith(b"\n"):
                yield line[:-1]
    except FileNotFoundError:
        raise UserError("this file is missing", file=str(folder / name)) from None


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Raises FileNotFoundError, and UserError for whatever else stands in the way."""
    path = folder / name
    try:
        handle = _open(folder, name)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UserError("this is not a plain file", file=str(path))
        with os.fdopen(handle, "rb", closefd=False) as file:
            yield file
    except OSError as error:
        raise _unusable(path, error) from None
    finally:
        os.close(handle)


def files_inside(folder: Path) -> list[str]:
    """The relative names of all files below a folder, in order.

    Raises UserError for a link, which could lead out of it, and where there are too many.
    """
    names: list[str] = []
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in (*folders, *files):
            path = Path(place) / name
            if path.is_symlink():
                raise UserError("a session's folder holds no links", file=str(path), hint=_REMOVE)
        names += [str((Path(place) / name).relative_to(folder)) for name in sorted(files)]
        if len(names) > MOST_FILES:
            raise UserError(f"there are more than {MOST_FILES:,} files", file=str(folder))
    return names


_REMOVE = "nothing that astra-tui writes is a link; ask whoever gave you the session"


def _open(folder: Path, name: str) -> int:
    *parents, last = Path(name).parts
    here = os.open(folder, _FOLDER)
    try:
        for part in parents:
            inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        return os.open(last, _FILE, dir_fd=here)
    finally:
        os.close(here)


def _unusable(path: Path, error: OSError) -> UserError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR) and _has_link(path):
        return UserError("a session's folder holds no links", file=str(path), hint=_REMOVE)
    return UserError(f"cannot be read: {error.strerror}", file=str(path))


def _has_link(path: Path) -> bool:
    return any(p.is_symlink() for p in (path, *path.parents))
