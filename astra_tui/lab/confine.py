"""Limits that a child process puts on itself: memory, files, and what it may open (Landlock).

Landlock is Linux's unprivileged file sandbox; its numbers are from the kernel's UAPI headers
(linux/landlock.h). It is applied after everything that the child needs has been imported.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3

# All file rights that an ABI version knows; the ones that are handled and not granted are denied.
_FILE_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
_NET_RIGHTS_FROM_ABI_4 = 0b11
_SCOPES_FROM_ABI_6 = 0b11


def limit_resources(memory_bytes: int, file_bytes: int = 1 << 20) -> None:
    """Bounds the address space and what the process may write to files; no core dumps."""
    for what, limit in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (value, value))


def landlock_abi() -> int:
    """The version of Landlock that this kernel offers, or 0."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION)
    except (OSError, AttributeError):
        return 0
    return max(int(version), 0)


def confine_to_reading(roots: Iterable[Path]) -> bool:
    """Lets this process open nothing but files under `roots`, for reading, from now on.

    Also denies TCP, and signals to processes outside, where the kernel can. Returns False where
    the kernel has no Landlock; the caller has to say so.
    """
    abi = landlock_abi()
    if abi < 1:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    rights = _FILE_RIGHTS[min(abi, max(_FILE_RIGHTS))]
    attributes = struct.pack(
        "<QQQ",
        rights,
        _NET_RIGHTS_FROM_ABI_4 if abi >= 4 else 0,
        _SCOPES_FROM_ABI_6 if abi >= 6 else 0,
    )
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    try:
        for root in roots:
            _allow_reading(libc, ruleset, root)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            return False
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow_reading(libc: ctypes.CDLL, ruleset: int, root: Path) -> None:
    if not root.exists():
        return
    fd = os.open(root, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = _READ_FILE | _READ_DIR if root.is_dir() else _READ_FILE
        rule = struct.pack("<Qi", rights, fd)
        libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(fd)
