"""What a disk holds after the power went: what was synced, and some of what was not.

Changes come from the trace of `crash_at.c`. A file's bytes are durable once the file was synced, a
name once its folder was. Of the other writes any may have arrived, in any order and in part; the
other names of a folder arrived up to some point.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Change:
    """One change of the files: what, of which path, and its bytes or other path, and number."""

    what: str
    path: PurePosixPath
    data: bytes
    number: int


def read_trace(file: Path) -> list[Change]:
    """The changes in order."""
    changes = []
    for line in file.read_text().splitlines():
        what, path, data, number = line.split(" ")
        content = b"" if data == "-" else bytes.fromhex(data)
        place = PurePosixPath(bytes.fromhex(path).decode())
        changes.append(Change(what, place, content, int(number)))
    return changes


@dataclass
class _File:
    durable: bytearray = field(default_factory=bytearray)
    waiting: list[Change] = field(default_factory=list)

    def after(self, chance: random.Random) -> bytes:
        """The durable bytes, with some of the others over them."""
        content = bytearray(self.durable)
        arrived = [c for c in self.waiting if chance.random() < 0.5]
        chance.shuffle(arrived)
        for change in arrived:
            _apply(content, change, chance.choice([1.0, 1.0, chance.random()]))
        return bytes(content)


@dataclass
class _Folder:
    durable: dict[str, _File | _Folder] = field(default_factory=dict)
    now: dict[str, _File | _Folder] = field(default_factory=dict)
    steps: list[dict[str, _File | _Folder]] = field(default_factory=list)
    """Its names after each change since it was synced."""

    def changed(self) -> None:
        self.steps.append(dict(self.now))


class Disk:
    """The files below a folder while changes are made, and what is left of them."""

    def __init__(self, root: Path):
        self._root = PurePosixPath(root)
        self._top = _Folder()

    def apply(self, change: Change) -> None:
        """Makes a change."""
        if change.what == "sync":
            self._sync(change.path)
            return
        folder = self._folder(change.path.parent)
        name = change.path.name
        if change.what in ("write", "truncate"):
            file = folder.now[name]
            assert isinstance(file, _File)
            file.waiting.append(change)
            return
        if change.what == "rename":
            target = PurePosixPath(change.data.decode())
            assert target.parent == change.path.parent
            folder.now[target.name] = folder.now.pop(name)
        elif change.what == "unlink":
            del folder.now[name]
        else:
            folder.now[name] = _Folder() if change.what == "mkdir" else _File()
        folder.changed()

    def leave(self, to: Path, chance: random.Random) -> None:
        """Writes what is left after the power went at this moment."""
        _leave(self._top, to, chance)

    def _sync(self, path: PurePosixPath) -> None:
        found = self._at(path)
        if isinstance(found, _Folder):
            found.durable, found.steps = dict(found.now), []
            return
        for change in found.waiting:
            _apply(found.durable, change, 1.0)
        found.waiting.clear()

    def _folder(self, path: PurePosixPath) -> _Folder:
        found = self._at(path)
        assert isinstance(found, _Folder)
        return found

    def _at(self, path: PurePosixPath) -> _File | _Folder:
        found: _File | _Folder = self._top
        for name in path.relative_to(self._root).parts:
            assert isinstance(found, _Folder)
            found = found.now[name]
        return found


def _apply(content: bytearray, change: Change, share: float) -> None:
    if change.what == "truncate":
        del content[change.number :]
        return
    data = change.data[: int(len(change.data) * share)]
    content.extend(bytes(max(0, change.number - len(content))))
    content[change.number : change.number + len(data)] = data


def _leave(folder: _Folder, to: Path, chance: random.Random) -> None:
    to.mkdir(exist_ok=True)
    for name, found in chance.choice([folder.durable, *folder.steps]).items():
        if isinstance(found, _Folder):
            _leave(found, to / name, chance)
        else:
            (to / name).write_bytes(found.after(chance))
