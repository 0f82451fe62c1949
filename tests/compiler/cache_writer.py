"""A process for test_cache.py that stores and reads the same few keys, again and again.

Arguments: the folder, how many rounds (0 is for ever), and the bound of the cache in bytes.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from astra_tui.lab.cache import ContentCache, content_key

KEYS = [content_key(f"key {n}") for n in range(8)]


def value_of(key: str) -> bytes:
    """The one right value of a key: long, so that a torn one would show."""
    return key.encode() * 2_000


def main() -> None:
    """Ends with exit code 1 at the first wrong value."""
    root, rounds, bound = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    cache = ContentCache("shared", root, max_bytes=bound)
    for number in range(rounds) if rounds else itertools.count():
        for key in KEYS:
            cache.put(key, value_of(key))
            if cache.get(key) not in (None, value_of(key)):
                sys.exit(1)
        cache.prune()
        if number == 0:
            print("first round done", flush=True)


if __name__ == "__main__":
    main()
