from __future__ import annotations

import errno
import os

import pytest

from astra_tui.model.errors import UserError
from astra_tui.sessions.folder import LOCK_NAME, WriterLock, writer_of


def test_a_full_disk_is_told_and_locks_nothing(tmp_path, monkeypatch):
    def no_room(handle, content, offset):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", no_room)
        with pytest.raises(UserError, match="cannot be written: No space left") as full:
            WriterLock(tmp_path)
    assert full.value.file == str(tmp_path / LOCK_NAME)
    lock = WriterLock(tmp_path)
    assert writer_of(tmp_path).pid == os.getpid()
    lock.release()
    assert writer_of(tmp_path) is None
