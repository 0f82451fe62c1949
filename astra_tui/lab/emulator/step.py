"""One decoded instruction, as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from astra_tui.lab.emulator.ptx.module import Location


class Flow(IntEnum):
    """Where control goes after an instruction."""

    NEXT = 0
    BRANCH = 1
    TABLE = 2
    EXIT = 3
    BARRIER = 4
    WARP = 5


class Step:
    """What to run, and how control flows. Attributes are set once, while decoding."""

    __slots__ = (
        "barrier",
        "flow",
        "is_shuffle",
        "location",
        "mask",
        "negated",
        "predicate",
        "run",
        "selector",
        "target",
        "targets",
        "text",
    )

    def __init__(self, flow: Flow, run: Callable[[Any, Any], None] | None = None):
        self.flow = flow
        self.run = run
        self.predicate = -1
        self.negated = False
        self.target = -1
        self.targets: tuple[int, ...] = ()
        self.selector: Callable[[Any], Any] | None = None
        self.mask: Callable[[Any], Any] | None = None
        self.barrier: Callable[[Any], Any] | None = None
        self.is_shuffle = False
        self.location = Location()
        self.text = ""
