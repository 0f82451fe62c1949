"""Asks a package index for the files of a package, or for one of them, and runs nothing.

`pip download` prepares the metadata of what it downloads, which for a source distribution means to
run its build code, and lists only what this machine could install, where to read a package any file
of it will do. This asks pip for its links and for its session, so that the user's index, proxy,
certificates and credentials hold as in any run of pip. Both are inner parts of pip, with no promise
to stay; what fails here is an error line.

Started by `pip.py` as `python -m astra_tui.packages.index list NAME FILE`, which writes JSON, or
as `... download NAME FILE FOLDER`.
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MAX_BYTES = 4 << 30
_CHUNK = 1 << 20


def main(what: str, name: str, file: str, folder: str = "") -> None:
    """Does what `what` says; what goes wrong ends the process with words."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    with _index(name) as index:
        if what == "list":
            Path(file).write_text(json.dumps(index.files()), encoding="utf-8")
        else:
            index.download(file, Path(folder))


@contextmanager
def _index(name: str) -> Iterator[_Index]:
    try:
        from pip._internal.commands import create_command
    except ImportError:
        sys.exit("ERROR: No module named pip")
    command: Any = create_command("download")
    options, _ = command.parse_args(["--no-deps", "--no-cache-dir", "--no-input", name])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session, ignore_requires_python=True)
        yield _Index(name, session, finder._link_collector)


class _Index:
    """The user's indexes and folders of files, asked for one package."""

    def __init__(self, name: str, session: Any, collector: Any):
        self._name = name
        self._session = session
        self._collector = collector
        self._released: dict[str, str] = {}

    def files(self) -> list[dict[str, str]]:
        """Name, version, SHA-256 ("" where the index gives none) and day of release ("" likewise)
        of the package's wheels and sdists, in the order of their versions.
        """
        from pip._vendor.packaging.version import InvalidVersion, Version

        found: dict[str, tuple[Any, str]] = {}
        for link in self._links():
            try:
                version = Version(_version_of(link.filename, self._name))
            except InvalidVersion:
                continue
            hashes = getattr(link, "_hashes", None) or {}
            sha256 = hashes.get("sha256") or (link.hash if link.hash_name == "sha256" else "")
            found.setdefault(link.filename, (version, sha256 or ""))
        return [
            {
                "file": file,
                "version": _version_of(file, self._name),
                "sha256": sha256,
                "released": self._released.get(file, ""),
            }
            for file, (_, sha256) in sorted(found.items(), key=lambda item: item[1][0])
        ]

    def download(self, file: str, folder: Path) -> None:
        """Writes the file of that name into the folder."""
        links = [link for link in self._links() if link.filename == file]
        if not links:
            sys.exit(f"ERROR: No matching distribution found: the index has no {file}")
        with self._session.get(links[0].url_without_fragment, stream=True) as response:
            response.raise_for_status()
            _write(response.iter_content(_CHUNK), folder / file)

    def _links(self) -> Iterator[Any]:
        sources = self._collector.collect_sources(self._name, self._links_of_page)
        for source in itertools.chain(*sources):
            if source is not None:
                yield from source.page_candidates()
                yield from source.file_links()

    def _links_of_page(self, page: Any) -> list[Any]:
        """The links of a page of an index; one in JSON also has the days of release."""
        from pip._internal.index.collector import parse_links

        content = self._collector.fetch_response(page)
        if content is None:
            return []
        if "json" in content.content_type.lower():
            for file in json.loads(content.content).get("files", ()):
                self._released[file["filename"]] = str(file.get("upload-time") or "")[:10]
        return list(parse_links(content))


def _version_of(file: str, name: str) -> str:
    """The version in a file's name; "" for what is no wheel or sdist of the package."""
    if file.endswith(".whl"):
        stem, _, rest = file.partition("-")
        version = rest.partition("-")[0]
    elif file.endswith(".tar.gz"):
        stem, _, version = file.removesuffix(".tar.gz").rpartition("-")
    else:
        return ""
    same = [each.replace("_", "-").replace(".", "-").lower() for each in (stem, name)]
    return version if same[0] == same[1] else ""


def _write(chunks: Any, to: Path) -> None:
    size = 0
    with to.open("xb") as written:
        for chunk in chunks:
            size += len(chunk)
            if size > MAX_BYTES:
                sys.exit(f"ERROR: the file has more than {MAX_BYTES:,} bytes")
            written.write(chunk)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(f"ERROR: {type(error).__name__}: {error}")
