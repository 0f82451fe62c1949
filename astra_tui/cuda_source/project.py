"""A project on disk: the kernels that its files define, and the folders of its headers.

Both are found by names and text alone, so that thousands of files take a second or two: which of
them is compiled, and how, nothing here knows. What a macro makes a kernel is not seen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

import msgspec

SUFFIXES = frozenset(
    f".{ending}"
    for ending in "cu cuh h hpp hh hxx inl inc ipp tcc impl def c cc cpp cxx".split()  # noqa: SIM905
)
"""Of the files that CUDA sources are made of."""

PYTHON = ".py"
"""Of the files that may write launchers."""

MAX_FILES = 200_000
"""More files of a project are not looked at."""

_MARKS = (".git", "PKG-INFO", "pyproject.toml", "setup.py")
_MAX_ABOVE = 12
_GLOBAL = re.compile(rb"\b__global__\b")
_COMMENT = re.compile(
    r'//(?:[^\n\\]|\\.)*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|R"(\w*)\(.*?\)\1"', re.DOTALL
)
_LINE = re.compile(r"[^\n]")
_NAME_BEFORE = re.compile(r"([A-Za-z_]\w*)\s*\Z")
_ATTRIBUTE = re.compile(r"__\w+__|noexcept|requires")
_MAX_SIGNATURE = 8_000


class KernelPlace(msgspec.Struct, frozen=True):
    """A `__global__` function with a body: its file, the line of `__global__`, and its name."""

    file: str
    line: int
    name: str


class Project:
    """The files below some folders; hidden folders, links and build trees of CMake are left out."""

    def __init__(self, folders: Sequence[Path]):
        self.folders = tuple(folders)

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The paths of sources and headers, in order; `MAX_FILES` at most."""
        return tuple(f for f in self._files if _suffix(f) in SUFFIXES)

    @cached_property
    def python_files(self) -> tuple[str, ...]:
        """The paths of Python files, in order."""
        return tuple(f for f in self._files if _suffix(f) == PYTHON)

    @cached_property
    def _files(self) -> tuple[str, ...]:
        found: list[str] = []
        for folder in self.folders:
            for place, below, names in os.walk(folder):
                below[:] = sorted(b for b in below if not b.startswith("."))
                if "CMakeCache.txt" in names:
                    below.clear()
                    continue
                found += (
                    f"{place}/{n}" for n in sorted(names) if _suffix(n) in {*SUFFIXES, PYTHON}
                )
                if len(found) >= MAX_FILES:
                    return tuple(found[:MAX_FILES])
        return tuple(found)

    def kernels(self, below: Path | None = None) -> tuple[KernelPlace, ...]:
        """All kernels, or those of a file or folder, in the order of files and lines."""
        return tuple(
            place
            for file in self.files
            if below is None or Path(file).is_relative_to(below)
            for place in kernels_of(Path(file))
        )

    @property
    def has_kernels(self) -> bool:
        """Whether any of its files defines a kernel."""
        return any(True for file in self.files for _ in kernels_of(Path(file)))

    def include_folder(self, name: str, includer: str) -> str | None:
        """The folder below which `#include` finds a name; of several that nearest to the includer.

        Near is what shares most of the way with it, then what lies least deep below that.
        """
        last = name.rpartition("/")[2]
        if not last or ".." in PurePosixPath(name).parts:
            return None
        found = [f for f in self._by_last_part.get(last, ()) if f.endswith(f"/{name}")]
        if not found:
            return None
        nearest = min(found, key=lambda f: (*_distance(f, includer), f))
        return nearest[: -len(name) - 1]

    @cached_property
    def _by_last_part(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for file in self.files:
            found.setdefault(file.rpartition("/")[2], []).append(file)
        return found


def project_folder(file: Path) -> Path:
    """The folder of the project that a file belongs to: its repository, else the folder above it
    that looks like the top of a source tree, else the file's own.
    """
    above = file.resolve().parents[:_MAX_ABOVE]
    for marks in (_MARKS[:1], _MARKS[1:]):
        for folder in above:
            if any((folder / mark).exists() for mark in marks):
                return folder
    return above[0]


def kernels_of(file: Path) -> Iterator[KernelPlace]:
    """The kernels that a file defines by the word `__global__`; none for what cannot be read."""
    try:
        data = file.read_bytes() if file.is_file() else b""  # A pipe would be waited for.
    except OSError:
        return
    if not _GLOBAL.search(data):
        return
    text = _COMMENT.sub(lambda m: _LINE.sub(" ", m[0]), data.decode(errors="replace"))
    for match in re.finditer(r"\b__global__\b", text):
        name = _defined_name(text[match.end() : match.end() + _MAX_SIGNATURE])
        if name is not None:
            yield KernelPlace(str(file), text.count("\n", 0, match.start()) + 1, name)


def _defined_name(text: str) -> str | None:
    """The function that a text defines which follows `__global__`; None for a declaration.

    It is the name before the parentheses that a body comes after: others are of attributes, macros
    and the type that is returned.
    """
    at, name = 0, None
    while True:
        opened = re.compile(r"[({;]").search(text, at)
        if opened is None or opened[0] == ";":
            return None
        if opened[0] == "{":
            return name
        before = _NAME_BEFORE.search(text, at, opened.start())
        if before is not None and not _ATTRIBUTE.fullmatch(before[1]):
            is_pasted = text[: before.start()].endswith("#")  # A macro makes the name.
            name = None if is_pasted else before[1]
        at = _closing(text, opened.start())
        if at < 0:
            return None


def _closing(text: str, opened: int) -> int:
    """The place behind the parenthesis that closes one; -1 for none."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, opened):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return -1


def _distance(file: str, other: str) -> tuple[int, int]:
    shared = os.path.commonpath([file, other])
    return -shared.count("/"), file.count("/")


def _suffix(name: str) -> str:
    dot = name.rfind(".")
    return name[dot:] if dot > 0 else ""
