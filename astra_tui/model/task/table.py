"""Strict reading of TOML tables: known keys, typed values, errors with lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

from astra_tui.model.errors import Place, UserError, nearest
from astra_tui.model.launch.scope import MAX_INTEGER

Item = TypeVar("Item")
Path = tuple[str | int, ...]
"""Keys from the top of the file; a whole number chooses one table of an array `[[key]]`."""

_TYPE_WORDS = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list [...]",
    dict: "a table",
}


_WORD = r"""[\w-]+|"[^"]*"|'[^']*'"""
_DOTTED = rf"(?:{_WORD})(?:\s*\.\s*(?:{_WORD}))*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")


class TaskError(UserError):
    """A kernel task that cannot be used as it is written."""


class Table:
    """One TOML table, read key by key. `close` complains about the keys that no one read."""

    def __init__(self, data: Mapping[str, Any], path: Path, file: str, text: str):
        self.data = data
        self.path = path
        self.file = file
        self.text = text
        self.known: set[str] = set()

    def fail(self, message: str, key: str = "", hint: str = "") -> NoReturn:
        """Raises a TaskError that names the file, the line and the key."""
        path = (*self.path, key) if key else self.path
        shown = shown_path(path)
        raise TaskError(
            f"{shown}: {message}" if shown else message,
            file=self.file,
            place=Place(line_of(self.text, path)),
            hint=hint,
        )

    def take(self, key: str, kind: type[Item], default: Item | None = None) -> Item:
        """The value of a key, which has to be of the given type. No default: it is required."""
        self.known.add(key)
        if key not in self.data:
            if default is None:
                self.fail(f"'{key}' is missing", hint=f"write: {key} = {_example(kind)}")
            return default
        return self._typed(key, self.data[key], kind, "")

    def strings(self, key: str, default: Iterable[str] | None = None) -> tuple[str, ...]:
        """A list of texts."""
        return self._items(key, str, default)

    def integers(self, key: str, default: Iterable[int] | None = None) -> tuple[int, ...]:
        """A list of whole numbers."""
        return self._items(key, int, default)

    def numbers(self, key: str, default: Iterable[float] | None = None) -> tuple[float, ...]:
        """A list of numbers."""
        return self._items(key, float, default)

    def choice(self, key: str, names: Mapping[str, Item], default: str | None = None) -> Item:
        """One of several names."""
        name = self.take(key, str, default)
        if name not in names:
            self.fail(f"unknown {key} '{name}'", key, nearest(name, names))
        return names[name]

    def table(self, key: str, required: bool = True) -> Table:
        """A nested table."""
        self.known.add(key)
        if key not in self.data and not required:
            return self._nested(key, {})
        return self._nested(key, self.take(key, dict))

    def tables(self, key: str) -> list[Table]:
        """The tables of an array `[[key]]`; none when it is absent."""
        items = self.take(key, list, [])
        for item in items:
            if not isinstance(item, dict):
                self.fail("should be tables, written [[" + key + "]]", key)
        return [
            Table(item, (*self.path, key, index), self.file, self.text)
            for index, item in enumerate(items)
        ]

    def entries(self, what: str) -> list[tuple[str, Table]]:
        """Every key of this table with its own table: `[dims.tokens]`, `[dims.d]`, ..."""
        found = []
        for key, value in self.data.items():
            self.known.add(key)
            if not isinstance(value, dict):
                self.fail(f"{what} '{key}' should be a table", key)
            found.append((key, self._nested(key, value)))
        return found

    def close(self) -> None:
        """Raises a TaskError for the first key that has no meaning."""
        for key in self.data:
            if key not in self.known:
                self.fail("unknown key", key, nearest(key, self.known))

    def _nested(self, key: str, data: Mapping[str, Any]) -> Table:
        return Table(data, (*self.path, key), self.file, self.text)

    def _items(
        self, key: str, kind: type[Item], default: Iterable[Item] | None
    ) -> tuple[Item, ...]:
        values = self.take(key, list, None if default is None else list(default))
        return tuple(self._typed(key, value, kind, " in the list") for value in values)

    def _typed(self, key: str, value: Any, kind: type[Item], where: str) -> Item:
        """The value itself, or a whole number as a float where a float is wanted."""
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and not -MAX_INTEGER <= value <= MAX_INTEGER:
            self.fail("this number does not fit in 64 bits", key)
        if kind is float and is_whole:
            value = float(value)
        if not isinstance(value, kind) or (kind is int and not is_whole):
            self.fail(f"{_shown(value)}{where} should be {_TYPE_WORDS[kind]}", key)
        return value


def shown_path(path: Path) -> str:
    """The path as it is written in TOML, as in `dims.tokens.sizes`."""
    return ".".join(part for part in path if isinstance(part, str))


def line_of(text: str, path: Path) -> int:
    """The line where a key is written in TOML text, or that of its nearest table; 0 if unknown."""
    best, depth = 0, 0
    for number, found in _keys(text):
        if found == path[: len(found)] and len(found) > depth:
            best, depth = number, len(found)
    for length in range(0 if best else len(path), 0, -1):
        for number, found in _keys(text):
            if found[:length] == path[:length]:
                return number
    return best


@lru_cache(maxsize=4)
def _keys(text: str) -> tuple[tuple[int, Path], ...]:
    """Every header and every key at the beginning of a line, with its line."""
    keys: list[tuple[int, Path]] = []
    section: Path = ()
    arrays: dict[Path, int] = {}
    quoted = False
    for number, line in enumerate(text.split("\n"), 1):
        begins_quoted = quoted
        if not line.lstrip().startswith("#"):
            quoted ^= (line.count('"""') + line.count("'''")) % 2 == 1
        if begins_quoted:
            continue
        if header := _HEADER.match(line):
            section = _indexed(_parts(header[2]), arrays, opens=header[1] == "[[")
            keys.append((number, section))
        elif key := _KEY.match(line):
            keys.append((number, (*section, *_parts(key[1]))))
    return tuple(keys)


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_WORD, dotted)]


def _indexed(parts: list[str], arrays: dict[Path, int], opens: bool) -> Path:
    """A header's path; `opens` says that it begins the next table of an array."""
    path: Path = ()
    for number, part in enumerate(parts, 1):
        path = (*path, part)
        if opens and number == len(parts):
            arrays[path] = arrays.get(path, -1) + 1
        if path in arrays:
            path = (*path, arrays[path])
    return path


def _shown(value: object) -> str:
    """A value in a message, shortened."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or a very deep table
        return "this value"
    return text if len(text) <= 60 else text[:57] + "..."


def _example(kind: type) -> str:
    return {str: '"..."', int: "1", float: "1.0", bool: "true", list: "[...]", dict: "{...}"}[kind]
