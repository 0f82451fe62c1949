"""Stops at import where a framework is not the one that this adapter was written against."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fnmatch import fnmatch
from importlib import metadata
from typing import Any


class FrameworkChanged(ImportError):
    """The framework is missing, of another version, or has another function in its place."""


def require_version(distribution: str, *patterns: str) -> None:
    """Raises FrameworkChanged unless the installed version matches one of the patterns."""
    try:
        found = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        raise FrameworkChanged(f"{distribution} is not installed") from None
    if not any(fnmatch(found.partition("+")[0], pattern) for pattern in patterns):
        raise FrameworkChanged(
            f"{distribution} is {found}; this adapter was written and tried against "
            f"{', '.join(patterns)}, and does nothing with another"
        )


def require_parameters(function: Callable[..., Any], wanted: str) -> None:
    """Raises FrameworkChanged unless a function's parameters and defaults are as expected."""
    parameters = inspect.signature(function).parameters.values()
    found = ", ".join(str(p.replace(annotation=p.empty)) for p in parameters)
    if found != wanted:
        name = getattr(function, "__qualname__", function)
        raise FrameworkChanged(f"{name} takes ({found}); this adapter is for ({wanted})")
