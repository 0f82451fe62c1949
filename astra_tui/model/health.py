"""What `doctor` reports: one probe each, tried a moment ago."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Health(StrEnum):
    """How a probe ended."""

    OK = "ok"
    MISSING = "missing"
    BROKEN = "broken"


class Layer(msgspec.Struct, frozen=True):
    """One thing that a child process has closed to itself, as tries from inside of it show.

    `closed` is only true when every try was made and refused; `detail` says how each ended.
    """

    name: str
    closed: bool
    detail: str


class Probe(msgspec.Struct, frozen=True):
    """One thing that was tried. `gives` says what it is for; `remedy` how to get it."""

    name: str
    health: Health
    detail: str
    gives: str
    remedy: str = ""
    needed: bool = True
    """Whether the emulator and the checks need it."""
    layers: tuple[Layer, ...] = ()
    """What a child process has closed to itself, for probes of containment."""
