"""A task's upstream sources: files of others, unmodified, that its kernel sources may include.

`upstream.toml` lists every file with its SHA-256. The files lie in `upstream/` next to it, which
holds nothing else, so that it can be compared with where they come from; or there is no such
folder, and the lab fetches them from the package that is pinned. Which of the two holds
changes nothing, because the hashes are the same.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path, PurePosixPath

from astra_tui.model.digest import content_hash
from astra_tui.model.errors import Place
from astra_tui.model.pin import Pin, is_safe
from astra_tui.model.task.table import Table, TaskError
from astra_tui.model.task_folders import UPSTREAM_LIST

FOLDER_NAME = "upstream"
MAX_FILES = 2_000
MAX_BYTES = 32 << 20
"""Files of one task's upstream, and the bytes in all of them."""

_MAX_MANIFEST_BYTES = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DEFINE = re.compile(r"[A-Za-z_]\w*(?:=[\w.]+)?", re.ASCII)
_EVERYTHING = "."


@dataclass(frozen=True)
class Upstream:
    """What upstream.toml says; paths are relative to `upstream/`, or to the package.

    `include` are the folders in which names of `#include` are looked up, `defines` macros for
    every compilation of the task (`NAME` or `NAME=VALUE`), `files` SHA-256 by path. `contents`
    are those of the files where the task keeps them, None where they are fetched from `package`.
    """

    origin: str
    licence: str
    package: Pin | None
    include: tuple[str, ...]
    defines: tuple[str, ...]
    files: Mapping[str, str]
    file: Path
    text: str
    """The text of upstream.toml, on which the task's hash depends."""
    contents: Mapping[str, bytes] | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags by which nvcc finds the files in a folder `upstream/`, and the macros."""
        folders = (f"{FOLDER_NAME}/{root}".rstrip("/") for root in self.include)
        return (*(f"-I{folder}" for folder in folders), *(f"-D{d}" for d in self.defines))

    def check(self, path: str, content: bytes, place: str) -> None:
        """Raises TaskError for another content than the listed one, with both hashes.

        `place` is where it was read.
        """
        found = content_hash(content)
        if found != self.files[path]:
            raise TaskError(
                f"this is not the file that {UPSTREAM_LIST} lists: its SHA-256 is {found}, "
                f"it should be {self.files[path]}",
                file=place,
                hint=f"upstream sources stay unmodified: restore it from {self.origin}",
            )


def load_upstream(task_folder: Path) -> Upstream | None:
    """What a task's folder says of its upstream; None where it has none.

    Raises TaskError: for a file that is missing, changed, not listed, or no plain file.
    """
    file, folder = task_folder / UPSTREAM_LIST, task_folder / FOLDER_NAME
    there = folder.is_symlink() or folder.exists()
    if not file.is_file():
        if there:
            raise TaskError(
                f"this folder needs an {UPSTREAM_LIST} next to it, with origin, licence and hashes",
                file=str(folder),
                hint="see docs/kernel-task.md",
            )
        return None
    if file.stat().st_size > _MAX_MANIFEST_BYTES:
        raise TaskError(f"larger than {_MAX_MANIFEST_BYTES} bytes", file=str(file))
    found = parse_upstream(file.read_text(encoding="utf-8", errors="replace"), file)
    if there:
        return _with_texts(found, folder)
    if found.package is None:
        raise TaskError(
            f"{FOLDER_NAME}/ is missing, and no [package] says where to fetch its files",
            file=str(file),
            hint=f"restore it from {found.origin}",
        )
    return found


def parse_upstream(text: str, file: Path) -> Upstream:
    """Parses the text of an upstream.toml. Raises TaskError."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        line = re.search(r"line (\d+)", str(error))
        place = Place(int(line[1])) if line else Place()
        raise TaskError(f"not valid TOML: {error}", file=str(file), place=place) from None
    top = Table(data, (), str(file), text)
    table = top.table("package", required=False)
    package = take_pin(table, table.take("name", str)) if table.data else None
    found = Upstream(
        origin=_said(top, "origin", str(package) if package else None),
        licence=_said(top, "licence", package.licence if package else None),
        package=package,
        include=tuple(_root(top, path) for path in top.strings("include")),
        defines=tuple(_define(top, text) for text in top.strings("defines", [])),
        files=_files(top),
        file=file,
        text=text,
    )
    top.close()
    if not found.include:
        top.fail("names no folder", "include", f'write: include = ["{_EVERYTHING}"]')
    for root in found.include:
        if root and not any(path.startswith(f"{root}/") for path in found.files):
            top.fail(f"no file of [files] lies in '{root}'", "include")
    return found


def upstream_files(
    files: Mapping[str, str | bytes],
    *,
    include: tuple[str, ...],
    origin: str = "",
    licence: str = "",
    package: Pin | None = None,
    defines: tuple[str, ...] = (),
    fetched: bool = False,
) -> dict[str, bytes]:
    """What a task's folder holds for these upstream files: contents by path in that folder.

    `files` are unmodified contents by path. Give `package`, or `origin` and `licence`. `fetched`
    leaves the files themselves out: they come from the package when the task is first compiled.
    Raises TaskError for what `load_upstream` would refuse.
    """
    contents = {p: c.encode() if isinstance(c, str) else c for p, c in files.items()}
    lines = []
    if origin or package is None:
        lines.append(f"origin = {_quoted(origin)}")
    if licence or package is None:
        lines.append(f"licence = {_quoted(licence)}")
    lines.append(f"include = [{', '.join(map(_quoted, include))}]")
    if defines:
        lines.append(f"defines = [{', '.join(map(_quoted, defines))}]")
    if package is not None:
        lines += ["", "[package]"]
        lines += [
            f"{key} = {_quoted(str(getattr(package, key)))}"
            for key in ("name", "version", "file", "sha256", "licence", "released")
        ]
    lines += ["", "[files]"]
    lines += [
        f"{_quoted(path)} = {_quoted(content_hash(content))}"
        for path, content in sorted(contents.items())
    ]
    text = "\n".join(lines) + "\n"
    found = parse_upstream(text, Path(UPSTREAM_LIST))
    _require_small(found, sum(map(len, contents.values())))
    if fetched and package is None:
        raise TaskError("files that are not kept need a package", file=UPSTREAM_LIST)
    kept = {} if fetched else {f"{FOLDER_NAME}/{path}": c for path, c in contents.items()}
    return {UPSTREAM_LIST: text.encode(), **kept}


def take_pin(entry: Table, name: str) -> Pin:
    """The pin that a table describes, of the package of that name."""
    pin = Pin(
        name,
        entry.take("version", str),
        entry.take("file", str),
        entry.take("sha256", str),
        entry.take("licence", str),
        _day(entry),
    )
    entry.close()
    if pin.problem:
        entry.fail(pin.problem)
    return pin


def _day(entry: Table) -> date:
    text = entry.take("released", str)
    try:
        return date.fromisoformat(text)
    except ValueError:
        entry.fail(f"{text[:80]!r} is no day", "released", 'write: released = "2026-10-15"')


def _said(top: Table, key: str, default: str | None) -> str:
    text = top.take(key, str, default)
    if not text.strip() or not text.isprintable():
        top.fail("should be one line of text", key)
    return text


def _root(top: Table, path: str) -> str:
    if path == _EVERYTHING:
        return ""
    if not is_safe(path):
        top.fail(f"{path[:80]!r} is no path inside of {FOLDER_NAME}/", "include")
    return path


def _define(top: Table, text: str) -> str:
    if not _DEFINE.fullmatch(text):
        top.fail(f"{text[:80]!r} is refused", "defines", 'write: defines = ["NAME", "NAME=1"]')
    return text


def _files(top: Table) -> dict[str, str]:
    table = top.table("files")
    found = {path: table.take(path, str) for path in table.data}
    folders = {str(above) for path in found for above in PurePosixPath(path).parents}
    for path, sha256 in found.items():
        if not is_safe(path):
            table.fail(f"{path[:80]!r} is no path inside of {FOLDER_NAME}/", path)
        if path in folders:
            table.fail("this is a file, and the folder of another file", path)
        if not _SHA256.fullmatch(sha256):
            table.fail("should be a SHA-256: 64 hexadecimal digits, in small letters", path)
    if not found:
        table.fail("lists no file", hint='write: "folder/name.cuh" = "SHA-256 of the file"')
    if len(found) > MAX_FILES:
        table.fail(f"lists {len(found):,} files; at most {MAX_FILES:,} are taken")
    return found


def _with_texts(upstream: Upstream, folder: Path) -> Upstream:
    """The same with the contents of its folder."""
    found = dict(_plain_files(folder))
    for path in found:
        if path not in upstream.files:
            raise TaskError(
                f"{UPSTREAM_LIST} does not list this file", file=str(folder / path),
                hint="list it with its SHA-256, or remove it",
            )  # fmt: skip
    for path in upstream.files:
        if path not in found:
            raise TaskError(
                f"{FOLDER_NAME}/{path} is missing", file=str(upstream.file),
                hint=f"restore it from {upstream.origin}",
            )  # fmt: skip
    _require_small(upstream, sum(found.values()))
    contents = {path: (folder / path).read_bytes() for path in sorted(found)}
    for path, content in contents.items():
        upstream.check(path, content, str(folder / path))
    return replace(upstream, contents=contents)


def _plain_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Every file below a folder with its size. Raises TaskError for links and devices."""
    if folder.is_symlink() or not folder.is_dir():
        raise TaskError("should be a folder, and no link to one", file=str(folder))
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(place, name)
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise TaskError("links and special files are refused here", file=str(path))
            if name in names:
                yield path.relative_to(folder).as_posix(), path.stat().st_size


def _require_small(upstream: Upstream, size: int) -> None:
    if size > MAX_BYTES:
        raise TaskError(
            f"the files have {size:,} bytes; at most {MAX_BYTES:,} are taken",
            file=str(upstream.file),
            hint="list only what the kernels include",
        )


def _quoted(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'
