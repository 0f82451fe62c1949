"""Who descends from a process."""

from __future__ import annotations

import os
import subprocess
import sys

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
    assert process_tree(parent.pid) == frozenset()
