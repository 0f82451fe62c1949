"""Strict reading of TOML tables: known keys, typed values, errors with lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from astra_tui.model.errors import Place, UserError, nearest

Item = TypeVar("Item")

_TYPE_WORDS = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list [...]",
    dict: "a table",
}


class TaskError(UserError):
    """A kernel task that cannot be used as it is written."""


class Table:
    """One TOML table, read key by key. `close` complains about the keys that nobody read."""

    def __init__(self, data: Mapping[str, Any], path: tuple[str, ...], file: str, text: str):
        self.data = data
        self.path = path
        self.file = file
        self.text = text
        self.known: set[str] = set()

    def fail(self, message: str, key: str = "", hint: str = "") -> NoReturn:
        """Raises a TaskError that names the file, the line and the key."""
        path = (*self.path, key) if key else self.path
        shown = ".".join(path)
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
        value = self.data[key]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fail(f"{value!r} should be {_TYPE_WORDS[kind]}", key)
        return value

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
        return [self._nested(key, item) for item in items]

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
        items = []
        for value in values:
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            if not isinstance(value, kind) or isinstance(value, bool):
                self.fail(f"{value!r} in the list should be {_TYPE_WORDS[kind]}", key)
            items.append(value)
        return tuple(items)


def line_of(text: str, path: tuple[str, ...]) -> int:
    """The line where a key is written in TOML text, or that of its nearest table; 0 if unknown."""
    best, depth = 0, -1
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line)
        if header:
            section = tuple(part.strip(" \"'") for part in header[1].split("."))
            found = section
        else:
            key = re.match(r"\s*([A-Za-z0-9_.\-\"']+)\s*=", line)
            if not key:
                continue
            found = (*section, *(part.strip("\"'") for part in key[1].split(".")))
        shared = len(found)
        if found == path[:shared] and shared > depth:
            best, depth = number, shared
    return best


def _example(kind: type) -> str:
    return {str: '"..."', int: "1", float: "1.0", bool: "true", list: "[...]", dict: "{...}"}[kind]
