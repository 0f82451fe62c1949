"""The one door to the files of a session's folder, for reading and for writing.

A folder is opened as if a stranger had made it. Every file is reached from a handle of the folder,
name by name, so that nothing outside of it is read or written, even where it holds links. Only
plain files are opened, none is waited for, and none is read that is too large. What is written is
created exclusively, put in place by a rename, or added to a file that has no other name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO

from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.sessions.journal_lines import MAX_FILES

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Opening a pipe that no process writes would wait; with O_NONBLOCK it does not."""

_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_LINK = "a session's folder holds no links"
_NOT_PLAIN = "this is not a plain file"
_REMOVE = "nothing that astra-tui writes is like that; ask the person who gave you the session"


# -- reading ---------------------------------------------------------------------------------------


def read_inside(folder: Path, name: str, most: int) -> bytes:
    """A file below a folder, by its relative name; links below the folder are not followed.

    Raises FileNotFoundError, and UserError where it is not a plain file of at most `most` bytes.
    """
    with reading(folder, name) as file:
        size = os.fstat(file.fileno()).st_size  # A buffer of `most` bytes is made only if needed.
        content = file.read(min(size, most + 1))
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
        with reading(folder, name) as file:
            while (line := file.readline(longest + 1)).endswith(b"\n"):
                yield line[:-1]
    except FileNotFoundError:
        raise UserError("this file is missing", file=str(folder / name)) from None


@contextmanager
def reading(folder: Path, name: str) -> Iterator[BinaryIO]:
    """A plain file below a folder, open for reading.

    Raises FileNotFoundError, and UserError for anything else in the way.
    """
    handle = _plain_handle(folder, name, os.O_RDONLY)
    try:
        with os.fdopen(handle, "rb", closefd=False) as file:
            yield file
    except OSError as error:
        raise _unusable(folder / name, error) from None
    finally:
        os.close(handle)


def files_inside(folder: Path) -> list[str]:
    """The relative names of all files below a folder, in order.

    Raises UserError for a link, which could lead out of it, for all else that is no plain file,
    and where there are too many.
    """
    names: list[str] = []
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in (*folders, *sorted(files)):
            path = Path(place) / name
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise UserError(_LINK, file=str(path), hint=_REMOVE)
            if stat.S_ISREG(mode):
                names.append(str(path.relative_to(folder)))
            elif not stat.S_ISDIR(mode):
                raise UserError(_NOT_PLAIN, file=str(path), hint=_REMOVE)
        if len(names) > MAX_FILES:
            raise UserError(f"there are more than {MAX_FILES:,} files", file=str(folder))
    return names


# -- writing ---------------------------------------------------------------------------------------


def make_folder(folder: Path, *, exist_ok: bool = True) -> None:
    """Makes a folder, and those above it, where they are missing; only their owner may enter them.

    Each that is made lasts. Raises OSError.
    """
    missing = list(takewhile(lambda place: not place.is_dir(), (folder, *folder.parents)))
    if not missing and not exist_ok:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    for place in reversed(missing):
        try:
            place.mkdir(mode=_PRIVATE_FOLDER)
        except FileExistsError:
            if place == folder and not exist_ok:
                raise
            if not place.is_dir():  # And not another process that was faster.
                raise NotADirectoryError(errno.ENOTDIR, "a file is in its way", place) from None
        with contextlib.suppress(PermissionError):  # A folder may be written and not read.
            sync_folder(place.parent)


def open_to_write(folder: Path, name: str, flags: int = 0) -> int:
    """A handle to read and write a plain file of a folder in place; it is made where it is missing.

    Raises UserError where the file has a second name, through which
    a file outside of the folder would be written.
    """
    path = folder / name
    flags |= os.O_RDWR | os.O_CREAT
    try:
        handle = _plain_handle(folder, name, flags)
    except FileNotFoundError as error:
        raise _unusable(path, error, "cannot be opened") from None
    if os.fstat(handle).st_nlink > 1:
        os.close(handle)
        message = "this file has a second name (a hard link): another file would be written too"
        raise UserError(message, file=str(path), hint="copy the session's folder: cp -r")
    return handle


def write_inside(folder: Path, name: str, content: bytes) -> Path:
    """Writes a file below a folder at once or not at all, and makes the folders in its name.

    What has the name is replaced, a link rather than followed. It is on the disk afterwards.
    Raises UserError.
    """
    path = folder / name
    try:
        with _parent(folder, name, make=True) as (parent, last):
            _write_and_rename(parent, last, content)
            os.fsync(parent)
    except OSError as error:
        raise _unusable(path, error, "cannot be written") from None
    return path


def remove_inside(folder: Path, name: str) -> None:
    """Removes a file below a folder; a link is removed, not what it leads to. Raises UserError."""
    try:
        with _parent(folder, name) as (parent, last):
            os.unlink(last, dir_fd=parent)
            os.fsync(parent)
    except OSError as error:
        raise _unusable(folder / name, error, "cannot be removed") from None


def place_of(path: Path, marks: tuple[str, ...]) -> tuple[Path, str]:
    """Where a file that a user names lies: a folder, and its name below it.

    The folder is the one above it that holds a file of a name in `marks`, a session's, below which
    no link is followed; else the one that the file is in.
    """
    whole = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the links.
    for folder in whole.parents:
        if any(os.path.lexists(folder / mark) for mark in marks):
            return folder, str(whole.relative_to(folder))
    return whole.parent, whole.name


def refuse_links(folder: Path, name: str) -> None:
    """Raises UserError where a part of a name below a folder is a link."""
    path = folder
    for part in Path(name).parts:
        path /= part
        if path.is_symlink():
            raise UserError(_LINK, file=str(path), hint=_REMOVE)


def _write_and_rename(parent: int, name: str, content: bytes) -> None:
    temporary = f".{name[:12]}-{secrets.token_hex(6)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
    handle = os.open(temporary, flags, _PRIVATE_FILE, dir_fd=parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder last."""
    handle = os.open(folder, _FOLDER)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- both ------------------------------------------------------------------------------------------


def _plain_handle(folder: Path, name: str, flags: int) -> int:
    """Raises FileNotFoundError, FileExistsError, and UserError for anything else in the way."""
    path = folder / name
    try:
        with _parent(folder, name) as (parent, last):
            handle = os.open(last, flags | _FILE, _PRIVATE_FILE, dir_fd=parent)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        raise _unusable(path, error, "cannot be opened" if flags & os.O_RDWR else "") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UserError(_NOT_PLAIN, file=str(path), hint=_REMOVE)
    return handle


@contextmanager
def _parent(folder: Path, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """A handle of the folder that a file is in, and the file's last name. Raises OSError."""
    *parents, last = Path(name).parts
    if last == ".." or ".." in parents or Path(name).is_absolute():
        raise OSError(errno.EINVAL, "it lies outside of the folder", name)
    if make:
        make_folder(folder)
    here = os.open(folder, _FOLDER)
    try:
        for part in parents:
            inner = _enter(here, part, make)
            os.close(here)
            here = inner
        yield here, last
    finally:
        os.close(here)


def _enter(here: int, name: str, make: bool) -> int:
    flags = _FOLDER | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=here)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):  # Another process was faster.
        os.mkdir(name, _PRIVATE_FOLDER, dir_fd=here)
        os.fsync(here)
    return os.open(name, flags, dir_fd=here)


def _unusable(path: Path, error: OSError, what: str = "") -> UserError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR) and _has_link(path):
        return UserError(_LINK, file=str(path), hint=_REMOVE)
    if error.errno == errno.ENXIO:  # A pipe or a socket, opened to be written.
        return UserError(_NOT_PLAIN, file=str(path), hint=_REMOVE)
    return OutOfResources.or_bad_input(error, what or "cannot be read", path)


def _has_link(path: Path) -> bool:
    return any(p.is_symlink() for p in (path, *path.parents))
