"""Files of a package index: fetched by pip against a hash, kept in a cache, read and never run."""

from astra_tui.packages.archive import Archive, Origin
from astra_tui.packages.store import Packages

__all__ = ["Archive", "Origin", "Packages"]
