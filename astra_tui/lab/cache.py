"""Caches: on disk, by content, safe against crashes, damage and concurrent use; and in memory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path
from typing import Generic, TypeVar

import platformdirs

CACHE_VARIABLE = "ASTRA_TUI_CACHE"
"""Environment variable: the folder for everything that is cached."""

MAX_BYTES = 1 << 30
PRUNE_EVERY = 64

_DIGEST = hashlib.sha256().digest_size

T = TypeVar("T")


def cache_root() -> Path:
    """Where this program caches: $ASTRA_TUI_CACHE, else the user's cache folder."""
    configured = os.environ.get(CACHE_VARIABLE)
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("astra-tui"))


def content_key(*parts: str | bytes) -> str:
    """A key made of everything that an answer depends on (SHA-256 over length-prefixed parts)."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


class ContentCache:
    """Values by key in one folder. A damaged or half-written value counts as absent.

    Never the reason for a failure: a folder that cannot be written makes every `get` a miss.
    """

    def __init__(self, name: str, root: Path | None = None, max_bytes: int = MAX_BYTES):
        self.folder = (root or cache_root()) / name
        self.max_bytes = max_bytes
        self._puts = 0

    def get(self, key: str) -> bytes | None:
        """The value of a key, or None."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        digest, value = data[:_DIGEST], data[_DIGEST:]
        if hashlib.sha256(value).digest() != digest:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return value

    def put(self, key: str, value: bytes) -> None:
        """Stores a value; readers see all of it or nothing."""
        try:
            _replace(self._path(key), hashlib.sha256(value).digest() + value)
        except OSError:
            return
        if self._puts % PRUNE_EVERY == 0:  # The first time too: many processes store just a few.
            self.prune()
        self._puts += 1

    def prune(self) -> None:
        """Removes the values that were not used for longest, until the rest fits."""
        entries = []
        for path in self.folder.rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file():
                    status = path.stat()
                    entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.max_bytes:
                break
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
                total -= size

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key[2:]


def _replace(path: Path, data: bytes) -> None:
    """Writes a whole file next to `path`, then gives it that name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


class Kept(Generic[T]):
    """Values of this process by key: as many as fit, those that were used last."""

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self.bytes = 0
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        """The value of a key, or None."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, value: T, size: int) -> None:
        """Keeps a value of so many bytes, in place of those that were not used for longest."""
        if size > self.max_bytes:
            return
        _, before = self._values.pop(key, (None, 0))
        self.bytes -= before
        self._values[key] = value, size
        self.bytes += size
        while self.bytes > self.max_bytes:
            _, (_, dropped) = self._values.popitem(last=False)
            self.bytes -= dropped

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values
