"""Limits that a process of ours puts on itself: memory, files, system calls, capabilities.

Files by Landlock, Linux's unprivileged sandbox (numbers from linux/landlock.h). Sockets, other
processes and new processes by a seccomp filter: Landlock knows nothing of UDP. Both are applied
after everything that the process needs has been imported, and both may be missing (an old kernel,
gVisor); what then stays open is in the `Confinement` that `confine` gives, and `doctor` tries it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import queue
import resource
import struct
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import astra_tui

T = TypeVar("T")

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _READ_FILE, _READ_DIR = 1, 1 << 2, 1 << 3
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")

# All file rights that an ABI version knows; the ones that are handled and not granted are denied.
_FILE_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
_NET_RIGHTS_FROM_ABI_4 = 0b11
_SCOPES_FROM_ABI_6 = 0b11

# struct sock_filter of linux/filter.h: code, where to go if it holds and if not, operand.
_INSTRUCTION = struct.Struct("<HBBI")
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16  # In struct seccomp_data.
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x10000
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_X32 = 0x40000000
"""Numbers of the x32 ABI, by which the same calls could be made on x86-64."""

_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_READ_SEARCH = 1 << 2

_DRIVER_FILES = (
    *("/usr", "/opt", "/sys", "/proc/self", "/proc/driver", "/proc/devices", "/proc/modules"),
    *("/proc/version", "/proc/filesystems", "/proc/sys/vm", "/dev/null", "/dev/zero"),
)
"""What NVIDIA's driver may still want to read once it runs. Not /proc itself: other processes."""


@dataclass(frozen=True)
class _Architecture:
    """The numbers of one machine's system calls.

    `refused` gives EPERM whatever the arguments, and so does `programs`, which starts them.
    """

    audit: int
    seccomp: int
    clone: int
    capset: int
    tgkill: int
    prlimit: int
    programs: tuple[int, ...]
    refused: tuple[int, ...]


_CLONE3 = 435
_SAME_EVERYWHERE = (
    *(424, 434, 438, 440),  # pidfd_send_signal, pidfd_open, pidfd_getfd, process_madvise
    *(425, 426, 427),  # io_uring
    *(428, 429, 430, 431, 432, 433, 442),  # the mount calls that open_tree began
)
_ARCHITECTURES = {
    "x86_64": _Architecture(
        0xC000003E, 317, 56, 126, 234, 302,
        (57, 58, 59, 322),  # fork, vfork, execve, execveat
        (
            41,  # socket
            *(62, 200, 129, 297),  # kill, tkill, rt_sigqueueinfo, rt_tgsigqueueinfo
            *(101, 310, 311, 312),  # ptrace, process_vm_readv and _writev, kcmp
            *(250, 248, 249, 321, 323, 298),  # the keyrings, bpf, userfaultfd, perf_event_open
            *(165, 166, 155, 161, 272, 308),  # mount, umount2, pivot_root, chroot, unshare, setns
            *(303, 304, 175, 313, 176),  # file handles, kernel modules
            *(246, 169, 167, 163, 179),  # kexec_load, reboot, swapon, acct, quotactl
            *_SAME_EVERYWHERE,
        ),
    ),
    "aarch64": _Architecture(
        0xC00000B7, 277, 220, 91, 131, 261,
        (221, 281),
        (
            198,
            *(129, 130, 138, 240),
            *(117, 270, 271, 272),
            *(219, 217, 218, 280, 282, 241),
            *(40, 39, 41, 51, 97, 268),
            *(264, 265, 105, 273, 106),
            *(104, 142, 224, 89, 60),
            *_SAME_EVERYWHERE,
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Confinement:
    """What a process has closed to itself; False where this kernel cannot."""

    files: bool
    system_calls: bool

    def __bool__(self) -> bool:
        return self.files and self.system_calls


def confine(
    roots: Iterable[Path],
    *,
    all_threads: bool = True,
    workshop: Path | None = None,
    scratch: Path | None = None,
) -> Confinement:
    """From now on: only files under `roots`, for reading; no sockets, no processes, no others.

    In the folder `workshop` files may also be written, and its programs run, closed in as well. In
    the folder `scratch` files may be written alone.
    Landlock and capabilities hold for the calling thread and those that it starts, so it is for
    the caller to have no others. The filter of system calls holds for all threads, or, without
    `all_threads`, for the calling one and those that it starts.
    """
    files = confine_files(roots, workshop, scratch)
    drop_capabilities()
    programs = workshop is not None
    return Confinement(files, refuse_system_calls(all_threads=all_threads, programs=programs))


def program_roots() -> tuple[Path, ...]:
    """What a process of ours may have to read to import a module or load a library late."""
    paths = sysconfig.get_paths()
    places = [*(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))]
    places += ["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/etc/ld.so.cache"]
    places += ["/sys/devices/system", "/proc/cpuinfo", "/proc/meminfo", "/dev/urandom"]
    # Of `pip install --user`, for one, sysconfig does not tell.
    places += [place for place in sys.path if place.endswith(("/site-packages", "/dist-packages"))]
    package = Path(astra_tui.__file__).parent
    return (package, *dict.fromkeys(map(Path, places)))


def driver_roots() -> tuple[Path, ...]:
    """The same, and what NVIDIA's driver may still want to read once it runs."""
    devices = sorted(Path("/dev").glob("nvidia*"))
    return (*map(Path, _DRIVER_FILES), *devices, *program_roots())


def limit_memory(most: int) -> int:
    """Bounds what this process may allocate, which fails beyond it; the limit, or 0 for none.

    At most three quarters of the machine's memory. RLIMIT_DATA counts what can be written and is
    private, and so neither libraries nor address space that is only reserved. The hard limit stays,
    so that a child of this process can have a limit of its own.
    """
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = min(most, total * 3 // 4)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    return limit


def unlimit_memory() -> None:
    """Lifts the limit that the starting process has put on itself."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def limit_resources(memory_bytes: int, file_bytes: int = 1 << 20) -> None:
    """Bounds the address space and what the process may write to files; no core dumps."""
    _limit((resource.RLIMIT_AS, memory_bytes))
    limit_files(file_bytes)


def limit_files(file_bytes: int) -> None:
    """Bounds what the process may write to files; no core dumps."""
    _limit((resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_CORE, 0))


def _limit(*limits: tuple[int, int]) -> None:
    for what, limit in limits:
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


def confine_files(
    roots: Iterable[Path], workshop: Path | None = None, scratch: Path | None = None
) -> bool:
    """Lets this process open nothing but files under `roots`, for reading, from now on.

    Under `workshop` it may also write files, and run them; under `scratch` write them. Also denies
    TCP, and signals to processes outside, where the kernel can. Returns False where the kernel has
    no Landlock; the caller has to say so.
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
            _allow(libc, ruleset, root, _READ_FILE | _READ_DIR)
        if scratch is not None:
            _allow(libc, ruleset, scratch, rights & ~_EXECUTE)
        if workshop is not None:
            _allow(libc, ruleset, workshop, rights)
            for loader in map(Path, _LOADERS):
                _allow(libc, ruleset, loader, _READ_FILE | _EXECUTE)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            return False
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, root: Path, rights: int) -> None:
    """Grants rights below a folder, or on a file those of them that a file can have."""
    try:
        fd = os.open(root, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # It is not there, or closed to us anyway.
        return
    try:
        rule = struct.pack("<Qi", rights if root.is_dir() else rights & ~_READ_DIR, fd)
        libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(fd)


def drop_capabilities() -> bool:
    """Gives up what root may do beyond others, but for reading files that other users own.

    A process of root then is kept out of processes that have more capabilities than it has.
    """
    machine = _ARCHITECTURES.get(platform.machine())
    if machine is None:
        return False
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        effective, permitted, _ = _capabilities(libc)
        kept = permitted & _CAP_DAC_READ_SEARCH
        header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
        data = struct.pack("<6I", effective & kept, kept, 0, 0, 0, 0)
        return bool(libc.syscall(machine.capset, header, data) == 0)
    return False


def _capabilities(libc: ctypes.CDLL) -> tuple[int, int, int]:
    """The lower halves of the effective, permitted and inheritable sets."""
    data = ctypes.create_string_buffer(24)
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    if libc.capget(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    first: tuple[int, int, int] = struct.unpack_from("<3I", data)
    return first


def refuse_system_calls(*, all_threads: bool = True, programs: bool = False) -> bool:
    """Refuses sockets of all kinds, new processes and programs, and what reaches into others.

    With `programs` it can start processes and programs, which are refused the rest too. Threads can
    still be started, and pipes and files that are open used. Returns False where the kernel has no
    seccomp, or its numbers are not known here.
    """
    machine = _ARCHITECTURES.get(platform.machine())
    if machine is None:
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            return False
        code = _filter(machine, os.getpid(), programs=programs)
        instructions = ctypes.create_string_buffer(code, len(code))
        count = len(code) // _INSTRUCTION.size
        program = struct.pack("@HP", count, ctypes.addressof(instructions))
        flags = _ALL_THREADS if all_threads else 0
        return bool(libc.syscall(machine.seccomp, _SET_MODE_FILTER, flags, program) == 0)
    except (OSError, AttributeError):
        return False


def _filter(machine: _Architecture, pid: int, *, programs: bool) -> bytes:
    """The filter as classic BPF. Each test either answers or falls through to the next."""
    refused = machine.refused if programs else (*machine.programs, *machine.refused)
    clone = () if programs else ((machine.clone, _ANY_BIT, _CLONE_THREAD),)
    of_first = (
        *clone,
        (machine.tgkill, _EQUAL, pid),
        (machine.prlimit, _EQUAL, 0, pid),
    )
    refuse = _INSTRUCTION.pack(_RETURN, 0, 0, _ERRNO | _EPERM)

    def where(test: int, operand: int, then: bytes) -> bytes:
        """`then`, which ends with a return, where the test holds of what is loaded."""
        return _INSTRUCTION.pack(test, 0, len(then) // _INSTRUCTION.size, operand) + then

    def only_of(call: int, test: int, *operands: int) -> bytes:
        """The call is allowed where its first argument passes one of the tests."""
        allowed = _INSTRUCTION.pack(_RETURN, 0, 0, _ALLOW)
        load = _INSTRUCTION.pack(_LOAD, 0, 0, _FIRST_ARGUMENT_AT)
        passes = (where(test, operand, allowed) for operand in operands)
        return where(_EQUAL, call, load + b"".join(passes) + refuse)

    load_number = _INSTRUCTION.pack(_LOAD, 0, 0, _NUMBER_AT)
    return b"".join(
        [
            _INSTRUCTION.pack(_LOAD, 0, 0, _ARCHITECTURE_AT),
            _INSTRUCTION.pack(_EQUAL, 1, 0, machine.audit),
            refuse,
            load_number,
            where(_AT_LEAST, _X32, refuse),
            *(where(_EQUAL, number, refuse) for number in refused),
            # The C library falls back to clone, whose flags a filter can see.
            where(_EQUAL, _CLONE3, _INSTRUCTION.pack(_RETURN, 0, 0, _ERRNO | _ENOSYS)),
            *(only_of(*test) for test in of_first),
            _INSTRUCTION.pack(_RETURN, 0, 0, _ALLOW),
        ]
    )


class ConfinedThread:
    """A thread that has closed files, sockets and processes to itself, and runs calls for others.

    For work on hostile data in a process that has to keep its rights: the kernel keeps rights by
    thread. Memory stays shared.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._pid = 0
        self._lock = threading.Lock()

    def run(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """The result of a call, or what it raises."""
        call = _Call(lambda: function(*arguments, **named))
        with self._lock:
            if self._pid != os.getpid():  # Threads do not survive a fork.
                self._calls = queue.SimpleQueue()
                threading.Thread(target=self._serve, args=(self._calls,), daemon=True).start()
                self._pid = os.getpid()
            self._calls.put(call)
        call.done.wait()
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result

    def _serve(self, calls: queue.SimpleQueue[_Call]) -> None:
        refused: BaseException | None = None
        try:
            confine(program_roots(), all_threads=False)
        except BaseException as error:  # Told to the caller, who waits.
            refused = error
        while True:
            call = calls.get()
            call.make(refused)
            del call  # Its result may be large, and the next call long in coming.


class _Call:
    """A call on its way to another thread, and what it gave."""

    def __init__(self, function: Callable[[], Any]):
        self.function = function
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def make(self, refused: BaseException | None) -> None:
        """Makes the call in the thread that it is meant for, unless that is not fit for it."""
        try:
            if refused is not None:
                raise refused
            self.result = self.function()
        except BaseException as error:
            self.error = error
        self.done.set()
