"""Where the CUDA source of a draft lies: a file, a folder, an installed or a pinned package.

Packages are fetched, unpacked and read; nothing of them is imported or run here.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import msgspec

from astra_tui.cuda_source.project import PYTHON, SUFFIXES, KernelPlace, Project, project_folder
from astra_tui.lab.cache import ContentCache, content_key
from astra_tui.model.errors import UserError, nearest
from astra_tui.model.pin import Pin, normalised
from astra_tui.model.task import upstream_files
from astra_tui.packages import NO_LICENCE, Packages, licence_in
from astra_tui.packages.pip import Progress

Watch = Callable[[str], Progress]
"""Told what is being done; what it returns is told how many bytes have come."""

_PINNED = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.!+]+)(?::(.+))?")
_INSTALLED = re.compile(r"([A-Za-z0-9][\w.-]*)(?::(.+))?")
_SPDX = re.compile(r"SPDX-License-Identifier:\s*([\w.+() -]+?)\s*(?:\*/|$)", re.MULTILINE)
_LICENCE_FILE = re.compile(r"(?i)(?:licen[cs]e|copying)(?:\.(?:md|txt|rst))?")
_REMOTE = re.compile(r'^\[remote "origin"\][^\[]*?^\s*url\s*=\s*(\S+)', re.MULTILINE)
_USER_INFO = re.compile(r"(?<=//)[^/@]*@|^[^/@:]*@")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_MAX_LICENCE_BYTES = 1 << 20
_MAX_SHOWN = 12
_OF_OTHERS = re.compile(r"(?:^|/)(?:3rd|third)[-_]?party/|(?:^|/)(?:extern(?:al)?|vendor|deps)/")
"""In paths of what a project carries of other projects."""

_OF_AMD = re.compile(r"(?:^|[/_])(?:hip|rocm|amd)(?:[/_.]|$)")
"""In paths of what is for other GPUs."""


class KernelNotNamed(UserError):
    """A source has several kernels, or several of the one that was named: `kernels` says which."""

    def __init__(self, message: str, *, file: str, hint: str, kernels: Sequence[KernelPlace]):
        super().__init__(message, file=file, hint=hint)
        self.kernels = tuple(kernels)
        """With paths as they are shown."""


@dataclass(frozen=True)
class SourceTree:
    """A kernel's source and what it may include."""

    name: str
    """As its user names it."""
    place: Path
    """The file or folder in which the kernel is looked for."""
    project: tuple[Path, ...]
    """Folders in which headers are looked for."""
    origin: str
    licence: str
    folder: Path | None = None
    """The folder that paths in the task's `upstream/` start from; None for that of the headers."""
    package: Pin | None = None
    notices: Mapping[str, bytes] = field(default_factory=dict)
    """Licence files, by path."""

    def kernel(self, name: str | None) -> tuple[Path, str | None]:
        """The file of a kernel (`NAME`, `NAME:LINE`, or None for the only one), and its name there.

        Of a file all is left to its reader. Raises UserError; KernelNotNamed for several.
        """
        if not self.place.is_dir():
            return self.place, name
        found = Project(self.project).kernels(self.place)
        if not found:
            raise UserError(
                "no __global__ function with a body was found in the sources here",
                file=self.name,
                hint="name the file with --from if a macro of the project makes its kernels",
            )
        chosen = found if name is None else _of_cuda(_named(found, name, self.name))
        if len({k.file for k in chosen}) == 1 and (name is not None or len(chosen) == 1):
            only = chosen[0]
            return Path(only.file), f"{only.name}:{only.line}" if len(chosen) == 1 else name
        shown = [msgspec.structs.replace(k, file=self.shown(k.file)) for k in chosen]
        if name is None:
            own = [k for k in shown if not _OF_OTHERS.search(k.file)] or shown
            files = len({k.file for k in own})
            in_files = f" in {files} files" if files > 1 else ""
            carried = len(shown) - len(own)
            more = f" ({carried} more are of other projects that this one carries)"
            raise KernelNotNamed(
                f"there are {len(own)} kernels{in_files}, and a draft takes one",
                file=self.name,
                hint=f"say which with --kernel NAME{more if carried else ''}",
                kernels=own,
            )
        of_package = self.package is not None or not Path(self.name).exists()
        one = f"{self.name}:{shown[0].file}" if of_package else chosen[0].file
        raise KernelNotNamed(
            f"{len({k.file for k in shown})} files define the kernel '{name}'",
            file=self.name,
            hint=f"name its file, such as --from {one}",
            kernels=shown,
        )

    def shown(self, file: str) -> str:
        """A path below the folder as it is shown: from there, else in full."""
        folder = self.folder
        if folder is not None and Path(file).is_relative_to(folder):
            return Path(file).relative_to(folder).as_posix()
        return file

    def upstream(
        self, main: Path, headers: Mapping[str, str], roots: Sequence[str], defines: Sequence[str]
    ) -> dict[str, bytes]:
        """What the task's folder holds of this: upstream.toml, and the files that it lists.

        `headers` are paths by the name under which the draft includes them, `roots` the folders
        of includes. Of a package and of a folder the kernel's own file is listed as well. Nothing
        where neither is needed. Raises UserError.
        """
        paths = list(headers.values()) + ([str(main)] if self.folder is not None else [])
        if not paths:
            return {}
        below = [path.removesuffix(f"/{name}") for name, path in headers.items()]
        below += [r for r in roots if any(path.startswith(f"{r}/") for path in headers.values())]
        folder = str(self.folder or os.path.commonpath(below))
        origin, licence, package = self.origin, self.licence, self.package
        if not all(path.startswith(f"{folder}/") for path in paths):
            # Headers that the user has elsewhere, which no package is asked for.
            folder, package = os.path.commonpath([folder, *below]), None
            origin += ", with headers of other folders"
        contents = {os.path.relpath(path, folder): Path(path).read_bytes() for path in paths}
        include = dict.fromkeys(os.path.relpath(each, folder) for each in below)
        return upstream_files(
            {**self.notices, **contents},
            include=tuple(include) or (".",),
            origin="" if package else origin,
            licence="" if package else licence,
            package=package,
            defines=tuple(defines),
        )


def open_source(where: str, packages: Packages, watch: Watch) -> SourceTree:
    """The tree that `where` names.

    It is a file or folder; `NAME==VERSION` of a package of the index, which is fetched; or an
    installed package by its name or that of its module. After a package and a colon may follow a
    file or folder in it, by the end of its path. Raises UserError.
    """
    path = Path(where)
    if path.is_dir():
        return _of_folder(path)
    if path.exists():
        return _of_file(path)
    pinned = _PINNED.fullmatch(where)
    if pinned:
        return _narrowed(_of_index(pinned[1], pinned[2], packages, watch), pinned[3])
    named = _INSTALLED.fullmatch(where)
    if named is None or PurePosixPath(where.partition(":")[0]).suffix in SUFFIXES:
        raise UserError("there is no such file", file=where)
    return _narrowed(_of_installed(named[1]), named[2])


# -- files and folders -----------------------------------------------------------------------------


def _of_file(file: Path) -> SourceTree:
    folder = project_folder(file)
    return SourceTree(
        str(file),
        file,
        (folder,),
        _commit(folder) or f"headers of {file}",
        _licence_of(file, folder) or "see the headers",
    )


def _of_folder(folder: Path) -> SourceTree:
    place = folder.resolve()
    top = project_folder(place / "any")
    return SourceTree(
        str(folder),
        place,
        (top,),
        _commit(top) or f"the folder {place.name}",
        _licence_of(None, top) or "see the sources",
        top,
        notices=_notices(top),
    )


def _commit(folder: Path) -> str:
    """Where a checkout comes from, such as "github.com/owner/name at 1f2e3d4..."; "" if unknown."""
    git = folder / ".git"
    try:
        remote = _REMOTE.search((git / "config").read_text(encoding="utf-8", errors="replace"))
        head = (git / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
        ref = head.removeprefix("ref: ")
        commit = head if ref == head else _ref(git, ref)
    except OSError:
        return ""
    if remote is None or not _COMMIT.fullmatch(commit):
        return ""
    url = _USER_INFO.sub("", remote[1]).partition("://")
    return f"{(url[2] or url[0]).removesuffix('.git')} at {commit}"


def _ref(git: Path, ref: str) -> str:
    loose = git / ref
    if loose.is_file():
        return loose.read_text(encoding="utf-8", errors="replace").strip()
    packed = (git / "packed-refs").read_text(encoding="utf-8", errors="replace")
    found = re.search(rf"^(\w+) {re.escape(ref)}$", packed, re.MULTILINE)
    return found[1] if found else ""


def _licence_of(file: Path | None, folder: Path) -> str:
    """The licence that a file names for itself, else the folder's file of that name; "" for none"""
    if file is not None and file.is_file():
        found = _SPDX.search(file.read_text(encoding="utf-8", errors="replace"))
        if found:
            return found[1]
    return ", ".join(f"see {name}" for name in _notices(folder))


def _notices(folder: Path) -> dict[str, bytes]:
    """The licence files at the top of a folder."""
    return {
        file.name: file.read_bytes()
        for file in sorted(folder.iterdir())
        if _LICENCE_FILE.fullmatch(file.name)
        and file.is_file()
        and file.stat().st_size <= _MAX_LICENCE_BYTES
    }


# -- packages --------------------------------------------------------------------------------------


def _of_index(name: str, version: str, packages: Packages, watch: Watch) -> SourceTree:
    """The first file of a version, of those likely to hold sources, that does hold kernels."""
    tried, home = [], ""
    for pin in _pins(name, version, packages, watch):
        archive = packages.fetch_listed(pin, watch(f"fetching {pin.file}"))
        watch(f"unpacking {pin.file}")
        folder = packages.unpacked(archive, {*SUFFIXES, PYTHON})
        if Project([folder]).has_kernels:
            pin = archive.pin
            _cache().put(_key(pin.name, pin.version), msgspec.msgpack.encode(pin))
            return SourceTree(
                f"{name}=={version}",
                folder,
                (folder,),
                str(archive.pin),
                archive.pin.licence,
                folder,
                archive.pin,
                archive.read_all(archive.origin().licence_files),
            )
        tried.append(pin.file)
        home = archive.origin().home or home
    raise UserError(
        f"no __global__ function was found in {' or '.join(tried)}",
        hint=f"clone the project's repository {home and f'({home}) '}and name it with --from",
    )


def _pins(name: str, version: str, packages: Packages, watch: Watch) -> Iterator[Pin]:
    """The files to try: the one that was used before, if it is here, else those of the index."""
    stored = _cache().get(_key(name, version))
    if stored is not None:
        pin = msgspec.msgpack.decode(stored, type=Pin)
        if packages.has(pin):
            yield pin
            return
    watch(f"asking the package index for {name}")
    yield from packages.listed(name, version)


def _cache() -> ContentCache:
    return ContentCache("pins")


def _key(name: str, version: str) -> str:
    return content_key(normalised(name), version)


def _of_installed(name: str) -> SourceTree:
    found = _distribution(name)
    if found is None:
        raise UserError(
            f"there is no file or folder '{name}', and no such package is installed here",
            hint=f"name its version to fetch it: --from {name}==VERSION",
        )
    known, version = found.metadata["Name"], found.version
    origin = f"{known} {version}, as installed"
    licence = licence_in(found.read_text("METADATA") or "") or NO_LICENCE
    editable = _editable_folder(found)
    if editable is not None:
        return replace(_of_folder(editable), licence=licence)
    base = Path(str(found.locate_file(""))).resolve()
    sources = [
        base / file
        for file in found.files or ()
        if file.suffix in SUFFIXES and ".." not in file.parts and len(file.parts) > 1
    ]
    tops = {source.relative_to(base).parts[0] for source in sources}
    folders = [
        Path(os.path.commonpath([s.parent for s in sources if s.is_relative_to(base / top)]))
        for top in sorted(tops)
    ]
    if not Project(folders).has_kernels:
        raise UserError(
            f"no __global__ function was found in {known} {version}, as it is installed",
            hint=f"its sources may be on the package index: --from {known}=={version}",
        )
    place = folders[0] if len(folders) == 1 else base
    return SourceTree(name, place, tuple(folders), origin, licence, base)


def _distribution(name: str) -> importlib.metadata.Distribution | None:
    """An installed distribution by its name or that of a module; the modules are not imported."""
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        owners = importlib.metadata.packages_distributions().get(name)
        return importlib.metadata.distribution(owners[0]) if owners else None


def _editable_folder(found: importlib.metadata.Distribution) -> Path | None:
    """The folder of a package that was installed from there and is used there."""
    text = found.read_text("direct_url.json")
    if not text:
        return None
    said = msgspec.json.decode(text)
    if not said.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(said["url"]).path))


def _narrowed(tree: SourceTree, path: str | None) -> SourceTree:
    """The tree with the file or folder of it whose path ends so as the kernel's place."""
    if path is None:
        return tree
    files = Project(tree.project).files
    ends = f"/{path.strip('/')}"
    folders = {f"{f.partition(f'{ends}/')[0]}{ends}" for f in files if f"{ends}/" in f}
    found = sorted({f for f in files if f.endswith(ends)} | folders)
    # An sdist may carry its sources twice; all below its own folder is a path from the top.
    from_top = [f for f in found if tree.shown(f).partition("/")[2] == path.strip("/")]
    if len(found) == 1 or len(from_top) == 1:
        return replace(tree, place=Path((from_top or found)[0]))
    shown = [tree.shown(each) for each in found or files]
    if found:
        hint = "say which, with more of its path: " + ", ".join(shown[:_MAX_SHOWN])
        raise UserError(f"{len(found)} paths of {tree.origin} end in {path}", hint=hint)
    last = path.rpartition("/")[2]
    same = [each for each in shown if each.rpartition("/")[2] == last]
    hint = f"there is {', '.join(same[:_MAX_SHOWN])}" if same else _nearest_path(path, shown)
    raise UserError(f"{tree.origin} has no source {path}", hint=hint)


def _nearest_path(path: str, paths: Sequence[str]) -> str:
    hint = nearest(path, paths)
    return hint if hint.startswith("did you") else "without a path the kernels are listed"


# -- kernels ---------------------------------------------------------------------------------------


def _named(found: Sequence[KernelPlace], name: str, place: str) -> list[KernelPlace]:
    """The kernels of that name; those nearest to a line that it may have after a colon."""
    plain, _, line = name.partition(":")
    same = [k for k in found if k.name == plain]
    if not same:
        raise UserError(
            f"there is no kernel '{plain}' here",
            file=place,
            hint=_nearest_kernel(plain, found),
        )
    if not line.isdecimal():
        return same
    distance = min(abs(k.line - int(line)) for k in same)
    return [k for k in same if abs(k.line - int(line)) == distance]


def _of_cuda(same: list[KernelPlace]) -> list[KernelPlace]:
    """Kernels of one name without their copies for AMD's GPUs, where there are others."""
    return [k for k in same if not _OF_AMD.search(k.file)] or same


def _nearest_kernel(name: str, found: Sequence[KernelPlace]) -> str:
    hint = nearest(name, {k.name for k in found})
    return hint if hint.startswith("did you") else "without --kernel they are listed"
