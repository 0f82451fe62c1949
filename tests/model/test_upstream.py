"""upstream.toml and the files next to it: written, read again, and refused where they differ."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.model.pin import Pin
from astra_tui.model.task import TaskError, load_task, upstream_files
from astra_tui.model.task.upstream import load_upstream

ROOT = Path(__file__).parents[2]
FILES = {"include/lib/norm.cuh": "#pragma once\n", "include/lib/latin.cuh": b"// caf\xe9\r\n"}
PIN = Pin("tiny", "1.0", "tiny-1.0-py3-none-any.whl", "ab" * 32, "MIT", date(2026, 10, 1))


def write(folder: Path, contents: dict[str, bytes]) -> Path:
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def kept(tmp_path) -> Path:
    made = upstream_files(
        FILES, include=("include",), origin="example.org/lib, src", licence="MIT", defines=("N=4",)
    )
    return write(tmp_path / "task", made)


def test_what_is_written_is_read_again(kept):
    found = load_upstream(kept)
    assert (found.origin, found.licence, found.package) == ("example.org/lib, src", "MIT", None)
    assert (found.include, found.defines) == (("include",), ("N=4",))
    assert found.flags == ("-Iupstream/include", "-DN=4")
    assert found.contents == {
        "include/lib/latin.cuh": b"// caf\xe9\r\n",
        "include/lib/norm.cuh": b"#pragma once\n",
    }


def test_files_of_a_package_need_not_be_kept(tmp_path):
    folder = write(tmp_path, upstream_files(FILES, include=(".",), package=PIN, fetched=True))
    found = load_upstream(folder)
    assert (found.package, found.contents, found.licence) == (PIN, None, "MIT")
    assert found.origin == "tiny 1.0"
    assert set(found.files) == set(FILES)


def test_the_hash_of_a_task_covers_its_upstream_and_is_as_before_without(tmp_path):
    folder = shutil.copytree(ROOT / "kernels" / "silu_and_mul", tmp_path / "silu_and_mul")
    before = load_task(folder).hash
    assert before == load_task(ROOT / "kernels" / "silu_and_mul").hash
    hashes = {before}
    for content in ("int a;", "int b;"):
        shutil.rmtree(folder / "upstream", ignore_errors=True)
        files = upstream_files({"a.cuh": content}, include=(".",), origin="here", licence="MIT")
        hashes.add(load_task(write(folder, files)).hash)
    assert len(hashes) == 3


def change(kept: Path) -> None:
    (kept / "upstream/include/lib/norm.cuh").write_text("#pragma once\nint sneaked_in;\n")


def add(kept: Path) -> None:
    (kept / "upstream/include/extra.cuh").write_text("")


def remove(kept: Path) -> None:
    (kept / "upstream/include/lib/norm.cuh").unlink()


def link(kept: Path) -> None:
    remove(kept)
    (kept / "outside.cuh").write_text("#pragma once\n")
    (kept / "upstream/include/lib/norm.cuh").symlink_to(kept / "outside.cuh")


def link_folder(kept: Path) -> None:
    (kept / "upstream").rename(kept / "elsewhere")
    (kept / "upstream").symlink_to(kept / "elsewhere")


def without_list(kept: Path) -> None:
    (kept / "upstream.toml").unlink()


def without_folder(kept: Path) -> None:
    shutil.rmtree(kept / "upstream")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (change, "upstream/include/lib/norm.cuh: this is not the file that upstream.toml lists"),
        (add, "upstream/include/extra.cuh: upstream.toml does not list this file"),
        (remove, "upstream/include/lib/norm.cuh is missing"),
        (link, "norm.cuh: links and special files are refused"),
        (link_folder, "no link to one"),
        (without_list, "this folder needs an upstream.toml"),
        (without_folder, "upstream/ is missing, and no .package."),
    ],
)
def test_what_was_altered_is_named(kept, spoil, words):
    spoil(kept)
    with pytest.raises(TaskError, match=words):
        load_upstream(kept)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"include/lib/norm.cuh"', '"include/lib"', "and the folder of another file"),
        ('"include/lib/norm.cuh"', '"../norm.cuh"', ":8: files.* no path inside of upstream/"),
        ('["include"]', '["/etc"]', ":3: include: '/etc' is no path inside of upstream/"),
        ('["include"]', '["src"]', "no file of .files. lies in 'src'"),
        ('["include"]', "[]", "names no folder"),
        ("N=4", "N=(x)", ":4: defines: 'N=.x.' is refused"),
        ('licence = "MIT"', "", "'licence' is missing"),
        ("defines", "define", "unknown key\n  did you mean 'defines'"),
    ],
)
def test_what_is_written_wrong_is_named_with_its_line(kept, old, new, words):
    file = kept / "upstream.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(TaskError, match=words):
        load_upstream(kept)


@given(st.dictionaries(st.text(max_size=12), st.binary(max_size=8), max_size=4), st.text())
def test_any_files_are_written_so_that_they_are_read_again_or_refused(files, origin):
    try:
        made = upstream_files(files, include=(".",), origin=origin, licence="MIT")
    except TaskError:
        return
    assert {name.removeprefix("upstream/") for name in made} == {"upstream.toml", *files}
