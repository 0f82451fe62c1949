"""Reads what ncu writes with --csv --page raw: a row of names, a row of units, a row a launch."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from astra_tui.model.counters import Metric

_MESSAGE = re.compile(r"^==(ERROR|WARNING)== *(.*)$", re.MULTILINE)
_UNKNOWN = re.compile(r"Failed to find metric (?:regex:)?\^?([\w.\\]+)")
_FIRST_COLUMN = "ID"
_KERNEL_COLUMN = "Kernel Name"


class NoTable(ValueError):
    """The text holds no table; the message quotes ncu."""


@dataclass(frozen=True)
class Row:
    """One launch: the kernel's name as ncu gives it, the metrics and what is wrong with others."""

    kernel: str
    metrics: Mapping[str, Metric]
    missing: Mapping[str, str]


def read_table(text: str, wanted: Sequence[str]) -> tuple[Row, ...]:
    """Every metric of `wanted` is in each row's `metrics` or `missing`. Raises NoTable."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(lines))
    if not rows or _FIRST_COLUMN not in rows[0] or _KERNEL_COLUMN not in rows[0]:
        words = "; ".join(messages(text)[:3])
        raise NoTable("ncu wrote no table" + (f": {words}" if words else ""))
    names, body = rows[0], rows[1:]
    units: dict[str, str] = {}
    if body and not _cell(body[0], names, _FIRST_COLUMN):
        units = dict(zip(names, body[0], strict=False))
        body = body[1:]
    return tuple(_row(dict(zip(names, row, strict=False)), units, wanted) for row in body)


def messages(text: str) -> list[str]:
    """The errors in ncu's log, else its warnings."""
    found = [(match[1], match[2].strip()) for match in _MESSAGE.finditer(text)]
    errors = [words for level, words in found if level == "ERROR"]
    return errors or [words for _, words in found if not words.startswith("Note: ")]


def unknown_metrics(text: str) -> list[str]:
    r"""Metrics that this ncu, or this GPU, has no such name for.

    It shows the expression that it searched for, as in "regex:^a__b\.(sum|min|max)$".
    """
    return [found.replace("\\", "").rstrip(".") for found in _UNKNOWN.findall(text)]


def _row(cells: Mapping[str, str], units: Mapping[str, str], wanted: Sequence[str]) -> Row:
    metrics: dict[str, Metric] = {}
    missing: dict[str, str] = {}
    for name in wanted:
        value = _value(cells.get(name, ""))
        if value is not None:
            metrics[name] = Metric(value, units.get(name, ""))
        elif name not in cells:
            missing[name] = "not in ncu's table"
        else:
            missing[name] = f"ncu wrote {cells[name]!r}" if cells[name] else "ncu left it empty"
    return Row(cells.get(_KERNEL_COLUMN, ""), metrics, missing)


def _value(text: str) -> float | None:
    """A number, with commas between thousands as ncu writes them."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _cell(row: Sequence[str], names: Sequence[str], name: str) -> str:
    at = names.index(name)
    return row[at] if at < len(row) else ""
