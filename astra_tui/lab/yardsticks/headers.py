"""The headers of a package that one source needs, for a compiler that opens no file of it.

They reach NVRTC in memory, under the names by which they are included, so that nothing has to be
unpacked and the compiler's process stays locked down. Only a header that the wheel has is taken;
what else is included has to be CUDA's own, a stand-in of ours, or one that the yardstick gives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

import msgspec

from astra_tui.lab.cache import ContentCache, content_key
from astra_tui.model.errors import UserError
from astra_tui.model.pin import Pin
from astra_tui.packages import Packages, Wheel
from astra_tui.packages.pip import Progress

_CACHE_VERSION = "1"
MAX_HEADERS = 500
MAX_TOTAL_BYTES = 16 << 20
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]+)>|"([^"\n]+)")', re.MULTILINE)


def headers_of(
    packages: Packages,
    package: Pin,
    text: str,
    folders: tuple[str, ...],
    given: Mapping[str, str],
    progress: Progress | None = None,
) -> dict[str, str]:
    """What `included_headers` finds in a package.

    Once it is in the cache the package is not needed. Raises UserError.
    """
    cache = ContentCache("yardsticks")
    named = [part for pair in sorted(given.items()) for part in pair]
    key = content_key("headers", _CACHE_VERSION, package.sha256, text, *folders, "--", *named)
    stored = cache.get(key)
    if stored is not None:
        return msgspec.msgpack.decode(stored, type=dict[str, str])
    found = included_headers(packages.fetch(package, progress), text, folders, given)
    cache.put(key, msgspec.msgpack.encode(found))
    return found


def included_headers(
    wheel: Wheel, text: str, folders: tuple[str, ...], given: Mapping[str, str]
) -> dict[str, str]:
    """Text by name of every header that `text` needs from a wheel, directly or not.

    `folders` of the wheel are searched for a name, after the folder of the file that includes it
    in quotes. `given` are stand-ins, which come first and are in the answer. Raises UserError.
    """
    return _Search(wheel, folders, given).headers(text)


class _Search:
    def __init__(self, wheel: Wheel, folders: tuple[str, ...], given: Mapping[str, str]):
        self.wheel = wheel
        self.folders = folders
        self.given = given
        self.names = frozenset(wheel.names())
        self.files: dict[str, str] = {}
        """The file of the wheel behind each name that is included."""
        self.texts: dict[str, str] = {}

    def headers(self, text: str) -> dict[str, str]:
        waiting = [("", each) for each in (text, *self.given.values())]
        while waiting:
            file, content = waiting.pop()
            for name, quoted in _includes(content):
                found = self._file_of(name, file if quoted else "")
                if found is None or not self._is_new(name, found):
                    continue
                if found not in self.texts:
                    self._read(found)
                    waiting.append((found, self.texts[found]))
        taken = {name: self.texts[file] for name, file in self.files.items()}
        return {**taken, **self.given}

    def _file_of(self, name: str, includer: str) -> str | None:
        """The wheel's file that a name means in a file, or None for one that is not the wheel's."""
        if name in self.given:
            return None
        beside = [str(PurePosixPath(includer).parent)] if includer else []
        for folder in (*beside, *self.folders):
            path = _joined(folder, name)
            if path in self.names:
                return path
        return None

    def _is_new(self, name: str, file: str) -> bool:
        known = self.files.setdefault(name, file)
        if known != file:
            raise UserError(
                f'{self.wheel.pin}: "{name}" means {known} in one header and {file} in another',
                hint="give one of them as a stand-in",
            )
        return True

    def _read(self, file: str) -> None:
        self.texts[file] = self.wheel.read(file).decode(errors="replace")
        total = sum(map(len, self.texts.values()))
        if len(self.texts) > MAX_HEADERS or total > MAX_TOTAL_BYTES:
            raise UserError(f"{self.wheel.pin}: the source includes too much of this package")


def _includes(text: str) -> list[tuple[str, bool]]:
    """Every name that a text includes, and whether it stands in quotes."""
    return [(m[1] or m[2], m[1] is None) for m in _INCLUDE.finditer(text)]


def _joined(folder: str, name: str) -> str:
    """A path in the wheel without `.` and `..`; "" where it would leave the wheel."""
    parts: list[str] = []
    for part in PurePosixPath(folder, name).parts:
        if part == "..":
            if not parts:
                return ""
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)
