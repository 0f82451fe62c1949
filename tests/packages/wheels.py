"""Wheels and sdists made on the spot, and pip settings by which a folder is the only index."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import tarfile
import zipfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest

from astra_tui.model.pin import Pin
from astra_tui.packages import Packages

METADATA = """\
Metadata-Version: 2.4
Name: {}
Version: {}
License-Expression: Apache-2.0
Project-URL: Repository, https://example.org/source
Project-URL: Homepage, https://example.org/tiny
License-File: LICENSE
"""


def make_wheel(
    folder: Path,
    files: Mapping[str, str | bytes],
    name: str = "tiny-kernels",
    version: str = "1.2.0",
    tags: str = "py3-none-any",
) -> Path:
    """A wheel in a folder, with METADATA, licence and RECORD."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    contents = {n: c.encode() if isinstance(c, str) else c for n, c in files.items()}
    contents[f"{info}/METADATA"] = METADATA.format(name, version).encode()
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nTag: {tags}\n".encode()
    contents[f"{info}/licenses/LICENSE"] = b"the licence"
    rows = [f"{n},sha256={_digest(c)},{len(c)}" for n, c in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]).encode()
    path = folder / f"{stem}-{tags}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in contents.items():
            archive.writestr(each, content)
    return path


def keep_wheel(packages: Packages, wheel: Path) -> Pin:
    """Puts a wheel where it would be once pip had fetched it: for tests that are not about that."""
    pin = pin_of(wheel)
    place = packages.place_of(pin)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(wheel, place)
    return pin


def make_sdist(folder: Path, files: Mapping[str, str], **links: str) -> Path:
    """A source distribution whose build code must not run; `links` are symbolic links in it."""
    stem = "tiny_kernels-1.2.0"
    contents = {
        "PKG-INFO": METADATA.format("tiny-kernels", "1.2.0"),
        "LICENSE": "the licence",
        "setup.py": f"open({str(folder / RAN)!r}, 'w')\n",
        **files,
    }
    path = folder / f"{stem}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            info = tarfile.TarInfo(name if name.startswith("/") else f"{stem}/{name}")
            info.size = len(content.encode())
            archive.addfile(info, io.BytesIO(content.encode()))
        for name, target in links.items():
            link = tarfile.TarInfo(f"{stem}/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
    return path


RAN = "ran"
"""The file that the build code of `make_sdist` would write next to it."""


def pin_of(made: Path, **changes: str) -> Pin:
    """The pin of a wheel or sdist, or one that differs from it."""
    name, version, *_ = made.name.removesuffix(".tar.gz").split("-")
    facts = {
        "name": name.replace("_", "-"),
        "version": version,
        "file": made.name,
        "sha256": hashlib.sha256(made.read_bytes()).hexdigest(),
        "licence": "Apache-2.0",
    }
    return Pin(**{**facts, **changes}, released=date(2026, 10, 1))


def only_index(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Makes a folder that pip looks in, and nowhere else."""
    folder.mkdir()
    for name in [n for n in os.environ if n.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
