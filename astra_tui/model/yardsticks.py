"""What is said of a yardstick: what it is, what it serves, and whether it can be run here."""

from __future__ import annotations

import msgspec

from astra_tui.model.dtypes import DType


class YardstickEntry(msgspec.Struct, frozen=True):
    """One kernel that others ship, in `yardstick list` and `yardstick update`."""

    task: str
    name: str
    about: str
    kind: str
    package: str
    version: str
    released: str
    age_days: int
    licence: str
    home: str
    arch: str
    pdl: bool
    dtypes: tuple[DType, ...]
    requires: str
    serves: tuple[str, ...]
    refuses: tuple[str, ...]
    cached: bool
    built: bool | None = None
    problem: str = ""
    hint: str = ""
    newer: tuple[str, ...] | None = None
