"""Sources of others for the compiler: a task's upstream files, and headers that a package ships."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from astra_tui.lab.cache import ContentCache, cache_root, content_key
from astra_tui.lab.compiler.headers import HeaderTree, included_headers
from astra_tui.model.errors import UserError
from astra_tui.model.pin import Pin
from astra_tui.model.task import KernelTask, Upstream
from astra_tui.model.task.upstream import FOLDER_NAME
from astra_tui.packages import Archive, Packages
from astra_tui.packages.pip import Progress

_CACHE_VERSION = "2"


def user_packages(*, offline: bool = False) -> Packages:
    """The packages in the user's cache; with `offline`, no others can be had."""
    return Packages(cache_root() / "packages", offline=offline)


def task_headers(
    task: KernelTask, packages: Packages | None = None, progress: Progress | None = None
) -> HeaderTree | None:
    """What kernel sources of a task may include besides CUDA's headers; None where that is all.

    Files that the task does not keep are read from their package, which is fetched on first use;
    from then on they are in the cache, and the package is not needed. Every file has the hash that
    upstream.toml lists. Raises UserError.
    """
    upstream = task.upstream
    if upstream is None:
        return None
    return header_tree(upstream, contents_of(upstream, packages, progress))


def header_tree(upstream: Upstream, contents: Mapping[str, bytes]) -> HeaderTree:
    """Upstream files as the compiler takes them."""
    texts = {path: content.decode(errors="replace") for path, content in contents.items()}
    return HeaderTree(
        upstream.origin, frozenset(texts), texts.__getitem__, upstream.include, upstream.defines
    )


def contents_of(
    upstream: Upstream, packages: Packages | None = None, progress: Progress | None = None
) -> Mapping[str, bytes]:
    """The contents of all files, by path; see `task_headers`. Raises UserError."""
    if upstream.contents is not None:
        return upstream.contents
    return _fetched(upstream, packages or user_packages(), progress)


def must_fetch(task: KernelTask, packages: Packages | None = None) -> Pin | None:
    """The package that `task_headers` would have to download first; None where there is none."""
    upstream = task.upstream
    if upstream is None or upstream.package is None or upstream.contents is not None:
        return None
    if _cached(upstream) is not None:
        return None
    has = (packages or user_packages()).has(upstream.package)
    return None if has else upstream.package


def included_texts(task: KernelTask) -> Mapping[str, str]:
    """The task's upstream files, by the name that counters have for them; none where their package
    is not on this machine.
    """
    headers = None if must_fetch(task) else task_headers(task)
    if headers is None:
        return {}
    return {f"{FOLDER_NAME}/{name}": headers.read(name) for name in headers.names}


def _fetched(
    upstream: Upstream, packages: Packages, progress: Progress | None
) -> Mapping[str, bytes]:
    stored = _cached(upstream)
    if stored is not None:
        return stored
    assert upstream.package is not None, "files are kept, or they are of a package"
    try:
        archive = packages.fetch(upstream.package, progress)
    except UserError as error:
        raise UserError(
            f"the files of {upstream.file.name} are not here yet: {error.message}",
            file=str(upstream.file),
            hint=error.hint or "they are fetched once; then no network is needed",
        ) from None
    contents = archive.read_all(upstream.files)
    for path, content in contents.items():
        upstream.check(path, content, f"{archive.pin.file}: {path}")
    _cache().put(_key(upstream), msgspec.msgpack.encode(contents))
    return contents


def _cached(upstream: Upstream) -> Mapping[str, bytes] | None:
    """The contents from the cache, which only ever gives what was put under the same hashes."""
    stored = _cache().get(_key(upstream))
    return None if stored is None else msgspec.msgpack.decode(stored, type=dict[str, bytes])


def _cache() -> ContentCache:
    return ContentCache("upstream")


def _key(upstream: Upstream) -> str:
    listed = (part for pair in sorted(upstream.files.items()) for part in pair)
    return content_key(_CACHE_VERSION, *listed)


def package_headers(
    packages: Packages,
    package: Pin,
    text: str,
    folders: tuple[str, ...],
    given: Mapping[str, str],
    progress: Progress | None = None,
) -> Mapping[str, str]:
    """The headers by name that `text` needs of a package, directly or not, and those given.

    Once they are in the cache the package is not needed. Raises UserError.
    """
    named = [part for pair in sorted(given.items()) for part in pair]
    key = content_key("headers", _CACHE_VERSION, package.sha256, text, *folders, "--", *named)
    cache = ContentCache("yardsticks")
    stored = cache.get(key)
    if stored is not None:
        return msgspec.msgpack.decode(stored, type=dict[str, str])
    tree = archive_tree(packages.fetch(package, progress), folders)
    found = included_headers(tree, text, given).headers
    cache.put(key, msgspec.msgpack.encode(found))
    return found


def archive_tree(archive: Archive, folders: tuple[str, ...]) -> HeaderTree:
    """The files of a package, searched for headers in some of its folders."""

    def read(path: str) -> str:
        return archive.read(path).decode(errors="replace")

    return HeaderTree(str(archive.pin), frozenset(archive.names()), read, folders)
