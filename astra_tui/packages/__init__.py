"""Wheels of a package index: fetched by pip against a hash, kept in a cache, read and never run."""

from astra_tui.packages.store import Packages
from astra_tui.packages.wheel import Origin, Wheel

__all__ = ["Origin", "Packages", "Wheel"]
