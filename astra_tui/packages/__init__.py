"""Files of a package index: fetched by pip against a hash, kept in a cache, read and never run."""

from astra_tui.packages.archive import Archive, Origin, licence_in
from astra_tui.packages.store import NO_LICENCE, Packages

__all__ = ["NO_LICENCE", "Archive", "Origin", "Packages", "licence_in"]
