"""Wheels made here, fetched by the real pip from a folder, and read."""

from __future__ import annotations

import gzip
import os
import stat
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.errors import UserError
from astra_tui.model.pin import is_safe
from astra_tui.packages import Archive, Packages
from astra_tui.packages import archive as archive_module
from astra_tui.packages import pip as pip_module
from tests.packages.wheels import RAN, make_sdist, make_wheel, only_index, pin_of

pytestmark = pytest.mark.usefixtures("warm_processes")

FILES = {"tiny/include/one.cuh": "__global__ int;", "tiny/include/two.cuh": ""}


def tiny(folder: Path, version: str = "1.2.0", tags: str = "py3-none-any") -> Path:
    return make_wheel(folder, FILES, version=version, tags=tags)


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    return only_index(monkeypatch, tmp_path / "index")


@pytest.fixture
def packages(tmp_path) -> Packages:
    return Packages(tmp_path / "cache" / "packages")


@pytest.mark.parametrize("tags", ["py3-none-any", "cp312-cp312-manylinux_2_34_x86_64"])
def test_a_wheel_is_fetched_once_and_then_needs_no_index(index, packages, tags):
    made = tiny(index, tags=tags)
    pin = pin_of(made)
    assert packages.cached(pin) is None
    wheel = packages.fetch(pin)
    assert wheel.read("tiny/include/one.cuh") == b"__global__ int;"
    made.unlink()
    assert packages.fetch(pin).file == wheel.file
    assert [p.name for p in packages.folder.iterdir()] == [pin.sha256]


def test_licence_and_origin_lie_beside_the_wheel(index, packages):
    wheel = packages.fetch(pin_of(tiny(index)))
    beside = wheel.file.parent / "licences"
    assert (beside / "licenses" / "LICENSE").read_text() == "the licence"
    assert "Name: tiny-kernels" in (beside / "METADATA").read_text()
    origin = wheel.origin()
    assert (origin.licence, origin.home) == ("Apache-2.0", "https://example.org/tiny")


def test_another_file_than_the_pinned_is_refused_and_both_hashes_are_said(index, packages):
    made = tiny(index)
    real = pin_of(made).sha256
    with pytest.raises(UserError) as raised:
        packages.fetch(pin_of(made, sha256="ab" * 32))
    assert "ab" * 32 in raised.value.message
    assert real in raised.value.message
    assert list(packages.folder.iterdir()) == []


def test_what_changed_in_the_cache_is_fetched_again(index, packages):
    pin = pin_of(tiny(index))
    place = packages.fetch(pin).file
    place.write_bytes(b"not a wheel")
    assert packages.has(pin)
    assert packages.cached(pin) is None
    assert packages.fetch(pin).read("tiny/include/two.cuh") == b""


def test_what_a_killed_download_left_is_removed_a_day_later(index, packages):
    for name, age in (("old", 100_000), ("young", 100)):
        folder = packages.folder / f".new-{name}"
        folder.mkdir(parents=True)
        (folder / "part.whl").write_bytes(b"part")
        then = time.time() - age
        os.utime(folder, (then, then))
    packages.fetch(pin_of(tiny(index)))
    assert [p.name for p in packages.folder.glob(".new-*")] == [".new-young"]


def test_a_wheel_of_another_package_is_refused(index, packages):
    made = tiny(index)
    renamed = made.rename(index / "other-1.2.0-py3-none-any.whl")
    with pytest.raises(UserError, match="other"):
        packages.fetch(pin_of(renamed, name="other"))


def test_a_version_that_the_index_does_not_have_is_named(index, packages):
    made = tiny(index)
    pin = pin_of(made, version="9.9", file="tiny_kernels-9.9-py3-none-any.whl")
    with pytest.raises(UserError, match=r"tiny-kernels 9\.9 cannot be fetched: No matching"):
        packages.fetch(pin)


def test_an_index_that_does_not_answer_is_said(index, packages, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    pin = pin_of(tiny(index), version="9.9", file="tiny_kernels-9.9-py3-none-any.whl")
    with pytest.raises(UserError, match="the package index does not answer"):
        packages.fetch(pin)


def test_a_full_disk_is_said(index, packages, monkeypatch):
    said = pip_module._Ended(1, "ERROR: Could not install: [Errno 28] No space left on device")
    monkeypatch.setattr(pip_module, "_run", lambda *_: said)
    with pytest.raises(UserError, match="no space is left on the disk"):
        packages.fetch(pin_of(tiny(index)))


def test_pip_that_is_not_done_is_ended(index, tmp_path):
    with pytest.raises(UserError, match="not done after"):
        pip_module.download(pin_of(tiny(index)), tmp_path, lambda _bytes: None, seconds=0)


def test_pip_gets_no_keys(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.org/simple")
    environment = pip_module._environment()
    assert "secret" not in environment.values()
    assert environment["PIP_INDEX_URL"] == "https://example.org/simple"


def test_an_sdist_is_fetched_without_running_it(index, packages):
    made = make_sdist(index, FILES)
    pin = pin_of(made)
    seen = []
    archive = packages.fetch(pin, seen.append)
    top = "tiny_kernels-1.2.0"
    assert archive.read(f"{top}/tiny/include/one.cuh") == b"__global__ int;"
    assert archive.read_all([f"{top}/LICENSE", f"{top}/tiny/include/two.cuh"]) == {
        f"{top}/LICENSE": b"the licence",
        f"{top}/tiny/include/two.cuh": b"",
    }
    origin = archive.origin()
    assert (origin.licence, origin.home) == ("Apache-2.0", "https://example.org/tiny")
    beside = archive.file.parent / "licences"
    assert {p.name for p in beside.iterdir()} == {"PKG-INFO", "LICENSE"}
    assert not (index / RAN).exists()
    assert packages.newer(pin) == ()
    made.unlink()
    assert packages.fetch(pin).names() == archive.names()
    with pytest.raises(UserError, match=r"cannot be fetched: .*the index has no tiny_k"):
        packages.fetch(pin_of(archive.file, sha256="cd" * 32))
    make_sdist(index, {"other": ""})
    with pytest.raises(UserError, match="should be cdcd"):
        packages.fetch(pin_of(archive.file, sha256="cd" * 32))


def test_links_and_names_outside_are_refused_in_an_sdist(tmp_path):
    made = make_sdist(tmp_path, {"/etc/outside": "", "../up": ""}, link="/etc/passwd")
    archive = Archive(pin_of(made), made)
    top = "tiny_kernels-1.2.0"
    for name, words in (
        (f"{top}/link", "is no plain file"),
        ("/etc/outside", "no path inside of a package"),
        (f"{top}/../up", "no path inside of a package"),
        (f"{top}/two.cuh", "the sdist has no file"),
    ):
        with pytest.raises(UserError, match=words):
            archive.read(name)
    with pytest.raises(UserError, match="11 bytes, more than 3"):
        archive.read(f"{top}/LICENSE", most=3)


def test_what_is_no_tar_file_is_said_and_what_unpacks_without_end(tmp_path, monkeypatch):
    made = make_sdist(tmp_path, {"zeros": "0" * 100_000})
    whole = made.read_bytes()
    for content in (b"no gzip", whole[: len(whole) // 2], gzip.compress(b"no tar")):
        made.write_bytes(content)
        with pytest.raises(UserError, match="the sdist cannot be read"):
            Archive(pin_of(made), made).names()
    made.write_bytes(whole)
    monkeypatch.setattr(archive_module, "MAX_UNPACKED_BYTES", 1000)
    with pytest.raises(UserError, match="more than 1,000 bytes are in it"):
        Archive(pin_of(made), made).names()


def test_newer_versions_are_listed_for_the_platform_of_the_pin(index, packages):
    tags = "cp312-cp312-manylinux_2_34_x86_64"
    pinned = pin_of(tiny(index, "1.2.0", tags))
    tiny(index, "1.10.0", tags)
    tiny(index, "1.3.0", tags)
    tiny(index, "1.4.0", "cp312-cp312-win_amd64")
    tiny(index, "1.1.0", tags)
    assert packages.newer(pinned) == ("1.10.0", "1.3.0")


def test_a_file_that_is_missing_names_the_nearest(tmp_path):
    made = tiny(tmp_path)
    wheel = Archive(pin_of(made), made)
    with pytest.raises(UserError) as raised:
        wheel.read("tiny/one.cuh")
    assert raised.value.hint == "there is tiny/include/one.cuh"
    with pytest.raises(UserError) as raised:
        wheel.read("tiny/include/ome.cu")
    assert "tiny/include/one.cuh" in raised.value.hint


def test_large_files_links_and_names_outside_are_refused(tmp_path):
    path = tmp_path / "tiny_kernels-1.2.0-py3-none-any.whl"
    link = zipfile.ZipInfo("tiny/link.cuh")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("../outside.cuh", "")
        archive.writestr("tiny/large.cuh", "x" * 100)
    wheel = Archive(pin_of(path), path)
    with pytest.raises(UserError, match="no plain file"):
        wheel.read("tiny/link.cuh")
    with pytest.raises(UserError, match="no path inside"):
        wheel.read("../outside.cuh")
    with pytest.raises(UserError, match="100 bytes, more than 99"):
        wheel.copy("tiny/large.cuh", tmp_path / "copy", most=99)
    assert not (tmp_path / "copy").exists()


def test_what_is_no_zip_file_is_said(tmp_path):
    path = tmp_path / "tiny_kernels-1.2.0-py3-none-any.whl"
    path.write_bytes(b"PK")
    with pytest.raises(UserError, match="cannot be read"):
        Archive(pin_of(path), path).names()


@given(st.text(max_size=20))
def test_a_safe_name_never_leaves_its_folder(name):
    if is_safe(name):
        folder = Path("/folder")
        assert os.path.normpath(folder / name).startswith("/folder/")


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("name", "tiny kernels", "not a valid package name"),
        ("name", "other", "no file of other"),
        ("version", "1 --pre", "no version"),
        ("sha256", "AB" * 32, "hexadecimal"),
        ("file", "tiny_kernels-1.2.0.zip", "not a valid name"),
        ("file", "../tiny_kernels-1.2.0-py3-none-any.whl", "not a valid name"),
    ],
)
def test_a_pin_that_cannot_be_meant_says_why(tmp_path, field, value, problem):
    made = tiny(tmp_path)
    assert pin_of(made).problem == ""
    assert problem in pin_of(made, **{field: value}).problem
