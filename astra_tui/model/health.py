"""What `doctor` reports: one probe each, tried a moment ago."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Health(StrEnum):
    """How a probe ended."""

    OK = "ok"
    MISSING = "missing"
    BROKEN = "broken"


class Probe(msgspec.Struct, frozen=True):
    """One thing that was tried. `gives` says what it is for; `remedy` how to get it."""

    name: str
    health: Health
    detail: str
    gives: str
    remedy: str = ""
    needed: bool = True
    """Whether the emulator and the checks need it."""
