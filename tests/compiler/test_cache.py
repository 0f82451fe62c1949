"""The cache on disk: round trips, damage, crashes, several processes, and a bound on its size."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tui.lab.cache import PRUNE_EVERY, ContentCache, Kept, cache_root, content_key
from tests.compiler.cache_writer import KEYS, value_of
from tests.compiler.helpers import HERE, PATIENT

KEY = content_key("a key")


@pytest.fixture
def cache(tmp_path: Path) -> ContentCache:
    return ContentCache("some", tmp_path)


def files(cache: ContentCache) -> list[Path]:
    return [path for path in cache.folder.rglob("*") if path.is_file()]


def only_file(cache: ContentCache) -> Path:
    (path,) = files(cache)
    return path


def age(cache: ContentCache, key: str, seconds: int) -> None:
    """Makes an entry look as if it was last used at this time."""
    os.utime(cache._path(key), (seconds, seconds))


# Keys and values


@PATIENT
@given(parts=st.lists(st.text() | st.binary(), max_size=4), value=st.binary(max_size=300))
def test_a_stored_value_comes_back(tmp_path: Path, parts: list[str | bytes], value: bytes) -> None:
    cache, key = ContentCache("some", tmp_path), content_key(*parts)
    cache.put(key, value)
    assert cache.get(key) == value
    assert ContentCache("some", tmp_path).get(key) == value, "for another process too"
    assert ContentCache("other", tmp_path).get(key) is None


@given(st.lists(st.binary(max_size=5), max_size=4), st.lists(st.binary(max_size=5), max_size=4))
def test_different_parts_make_different_keys(one: list[bytes], other: list[bytes]) -> None:
    assert (content_key(*one) == content_key(*other)) == (one == other)


def test_a_newer_value_replaces_an_older_one(cache: ContentCache) -> None:
    cache.put(KEY, b"old")
    cache.put(KEY, b"new")
    assert cache.get(KEY) == b"new"
    assert len(files(cache)) == 1


def test_the_environment_chooses_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASTRA_TUI_CACHE", str(tmp_path / "chosen"))
    assert cache_root() == tmp_path / "chosen"
    ContentCache("some").put(KEY, b"value")
    assert (tmp_path / "chosen" / "some").is_dir()
    monkeypatch.setenv("ASTRA_TUI_CACHE", "")
    assert cache_root().name == "astra-tui"


# Damage


def test_a_flipped_bit_anywhere_makes_an_entry_absent(cache: ContentCache) -> None:
    cache.put(KEY, b"a small value")
    path = only_file(cache)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert cache.get(KEY) is None, place
        assert not path.exists(), "a damaged entry is not met twice"


def test_an_entry_cut_or_grown_anywhere_is_absent(cache: ContentCache) -> None:
    cache.put(KEY, b"a small value")
    path = only_file(cache)
    whole = path.read_bytes()
    for damaged in (*(whole[:length] for length in range(len(whole))), whole + b"\0"):
        path.write_bytes(damaged)
        assert cache.get(KEY) is None, len(damaged)


def test_an_empty_value_is_not_an_empty_file(cache: ContentCache) -> None:
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""
    only_file(cache).write_bytes(b"")
    assert cache.get(KEY) is None


def test_a_damaged_entry_can_be_stored_again(cache: ContentCache) -> None:
    cache.put(KEY, b"value")
    only_file(cache).write_bytes(b"rubbish")
    assert cache.get(KEY) is None
    cache.put(KEY, b"value")
    assert cache.get(KEY) == b"value"


def test_a_folder_in_place_of_an_entry_is_a_miss(cache: ContentCache) -> None:
    cache._path(KEY).mkdir(parents=True)
    cache.put(KEY, b"value")
    assert cache.get(KEY) is None
    assert files(cache) == [], "the file that could not be renamed is gone"


# Folders that cannot be used


@pytest.mark.parametrize("root", ["a file", "/proc/nowhere", "/dev/null/below"])
def test_a_root_that_cannot_be_written_is_never_an_error(tmp_path: Path, root: str) -> None:
    (tmp_path / "a file").write_text("not a folder")
    cache = ContentCache("some", tmp_path / root)
    cache.put(KEY, b"value")
    cache.prune()
    assert cache.get(KEY) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_cache_still_answers(cache: ContentCache) -> None:
    cache.put(KEY, b"value")
    folder = only_file(cache).parent
    folder.chmod(0o500)
    try:
        cache.put(content_key("another"), b"value")
        assert cache.get(KEY) == b"value"
    finally:
        folder.chmod(0o700)


def test_a_value_that_does_not_fit_on_the_disk_leaves_nothing_behind(cache: ContentCache) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
    try:
        cache.put(KEY, b"x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert cache.get(KEY) is None
    assert files(cache) == []


# Several processes, and crashes


def writer(root: Path, rounds: int, bound: int = 1 << 30) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "cache_writer.py"), str(root), str(rounds), str(bound)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("bound", [1 << 30, 400_000], ids=["roomy", "always pruned"])
def test_processes_share_a_cache_without_a_torn_value(tmp_path: Path, bound: int) -> None:
    processes = [writer(tmp_path, 20, bound) for _ in range(4)]
    for process in processes:
        process.communicate(timeout=600)
    assert [process.returncode for process in processes] == [0] * 4
    cache = ContentCache("shared", tmp_path)
    for key in KEYS:
        assert cache.get(key) in (None, value_of(key))
    if bound > len(KEYS) * 130_000:
        assert all(cache.get(key) for key in KEYS)
        assert len(files(cache)) == len(KEYS), "no temporary file is left"


def test_a_process_killed_while_it_writes_leaves_a_usable_cache(tmp_path: Path) -> None:
    process = writer(tmp_path, 0)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    cache = ContentCache("shared", tmp_path)
    for key in KEYS:
        assert cache.get(key) in (None, value_of(key))
        cache.put(key, b"again")
        assert cache.get(key) == b"again"


# The bound


def test_pruning_keeps_what_was_used_last(tmp_path: Path) -> None:
    cache = ContentCache("some", tmp_path, max_bytes=3 * (100 + 32))
    keys = [content_key(str(n)) for n in range(6)]
    for number, key in enumerate(keys):
        cache.put(key, b"x" * 100)
        age(cache, key, 1_000 + number)
    assert cache.get(keys[0]) is not None, "read now, so used last"
    cache.prune()
    assert [n for n, key in enumerate(keys) if cache.get(key)] == [0, 4, 5]


def test_pruning_takes_files_left_by_a_crash_first(tmp_path: Path) -> None:
    cache = ContentCache("some", tmp_path, max_bytes=200)
    cache.put(KEY, b"x" * 100)
    left = only_file(cache).with_name(".new-left")
    left.write_bytes(b"x" * 100)
    os.utime(left, (1_000, 1_000))
    cache.prune()
    assert not left.exists()
    assert cache.get(KEY) is not None


def test_a_cache_within_its_bound_loses_nothing(cache: ContentCache) -> None:
    cache.put(KEY, b"value")
    age(cache, KEY, 0)
    cache.prune()
    assert cache.get(KEY) == b"value"


def test_one_process_cannot_fill_the_disk(tmp_path: Path) -> None:
    cache = ContentCache("some", tmp_path, max_bytes=10 * 132)
    for number in range(3 * PRUNE_EVERY):
        cache.put(content_key(str(number)), b"x" * 100)
    assert len(files(cache)) <= 10 + PRUNE_EVERY


def test_many_short_processes_cannot_fill_the_disk(tmp_path: Path) -> None:
    # Each of them stores far fewer values than one process may between two prunings.
    for number in range(50):
        ContentCache("some", tmp_path, max_bytes=10 * 132).put(content_key(str(number)), b"x" * 100)
    assert len(files(ContentCache("some", tmp_path))) <= 11


def test_pruning_an_absent_cache_is_fine(tmp_path: Path) -> None:
    ContentCache("some", tmp_path / "absent").prune()


@given(st.lists(st.integers(0, 9), max_size=60))
def test_what_is_kept_in_memory_fits_and_is_what_was_used_last(keys: list[int]) -> None:
    kept: Kept[str] = Kept(100)
    expected: dict[int, int] = {}
    for key in keys:
        known = kept.get(key)
        assert known == (str(key) if key in expected else None)
        if known is None:
            kept.put(key, str(key), 7 * key)
        expected[key] = expected.pop(key, 7 * key)
        while sum(expected.values()) > 100:
            expected.pop(next(iter(expected)))
        assert {k for k in range(10) if k in kept} == expected.keys()
        assert kept.bytes == sum(expected.values())
    kept.put("too large", "", 101)
    assert "too large" not in kept
