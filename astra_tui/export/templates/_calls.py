"""Counts what became of each call, and says whether the kernels are switched off."""

from __future__ import annotations

import os
import threading
from collections import Counter

_MOST = 4096
_MORE = "(others)"
_OFF = ("0", "off", "no", "false")


class Calls:
    """Counters of one operator, and its off switch.

    The environment variable `switch` is read when the package is imported: with 0, off, no or
    false every call goes to the fallback. `off` can be set later as well.
    """

    def __init__(self, switch: str):
        self.switch = switch
        self.switched_off = os.environ.get(switch, "").lower() in _OFF
        """What the environment says."""
        self.off = self.switched_off
        self._lock = threading.Lock()
        self._hits: Counter[str] = Counter()
        self._fallbacks: Counter[str] = Counter()

    def hit(self, shapes: str) -> None:
        """Counts a call whose kernels were launched, by types and shapes of its inputs."""
        with self._lock:
            self._hits[shapes if shapes in self._hits or len(self._hits) < _MOST else _MORE] += 1

    def fell_back(self, reason: str) -> None:
        """Counts a call that went to the fallback, by the reason."""
        with self._lock:
            known = reason in self._fallbacks or len(self._fallbacks) < _MOST
            self._fallbacks[reason if known else _MORE] += 1

    def counts(self) -> dict[str, dict[str, int]]:
        """Hits by types and shapes, fallbacks by reason.

        A call that a CUDA graph captures counts once, its replays do not.
        """
        with self._lock:
            return {"hits": dict(self._hits), "fallbacks": dict(self._fallbacks)}

    def reset(self) -> None:
        """Sets both counters to zero."""
        with self._lock:
            self._hits.clear()
            self._fallbacks.clear()
