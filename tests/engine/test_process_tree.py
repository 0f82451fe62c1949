"""Who descends from a process, by real processes and by made-up ones."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from astra_tui.engine.gpu_watch import process_tree

_PARENT = """
import subprocess, sys
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_children_and_theirs_are_found() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        found = process_tree(os.getpid())
        assert {parent.pid, grandchild} <= found
        assert process_tree(grandchild) == frozenset()
        assert os.getpid() not in found
    assert parent.pid not in process_tree(os.getpid())


def write(proc: Path, pid: int, parent: int, name: str = "a (b) c") -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 0 0\n")


def test_a_name_may_hold_anything_and_what_ends_meanwhile_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, 2, 1, "x) S 9 (\n")
    write(tmp_path, 3, 2)
    (tmp_path / "4").mkdir()
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "stat").write_text("5 (cut")
    assert process_tree(1, tmp_path) == {2, 3}
    assert process_tree(9, tmp_path) == frozenset()


@given(st.dictionaries(st.integers(2, 12), st.integers(1, 12), max_size=11))
def test_even_a_ring_of_parents_ends(parents: dict[int, int]) -> None:
    """The files are read one after the other, so that ids may be given again in between."""
    with tempfile.TemporaryDirectory() as folder:
        for pid, parent in parents.items():
            write(Path(folder), pid, parent)
        found = process_tree(1, Path(folder))
    assert {p for p, parent in parents.items() if parent == 1} <= found <= set(parents)
