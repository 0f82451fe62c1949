"""pip as a process: downloads one file by its hash, and lists what an index has.

The user's own settings of pip hold (index, proxy, certificates), because it is they who decide
where packages come from. No code of a package runs: `pip download` is asked for wheels only, since
it runs the build code of a source distribution, which `index.py` fetches instead.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from astra_tui.model.errors import OutOfResources, UserError
from astra_tui.model.pin import Pin
from astra_tui.processes.child import child_environment

DOWNLOAD_SECONDS = 3600.0
LIST_SECONDS = 120.0
POLL_SECONDS = 0.2
WRONG_HASH_HINT = "do not use it; ask the package's authors, or correct the pin"
_KEPT = ("HOME", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_KEPT_BEGINNINGS = ("PIP_", "XDG_CONFIG")
_QUIET = ("--no-input", "--disable-pip-version-check", "--no-color")
_GOT = re.compile(r"\bGot\s+([0-9a-f]{64})\b")
_OFFLINE = re.compile(
    r"Retrying \(Retry|NewConnectionError|Name or service not known|ConnectionError"
    r"|Temporary failure in name resolution|ProxyError|Read timed out|ConnectTimeout"
)
_FULL = re.compile(r"\[Errno (?:28|122)\]|No space left on device|Disk quota exceeded")
_INDEX = "astra_tui.packages.index"
_NO_PIP = "No module named pip"
_VERSIONS = re.compile(r"^Available versions: (.*)$", re.MULTILINE)
_MAX_OUTPUT = 1 << 20

Progress = Callable[[int], None]
"""Told how many bytes have come so far."""


class IndexFile(msgspec.Struct, frozen=True):
    """A wheel or sdist of an index; `sha256` and `released` are "" where the index gives none."""

    file: str
    version: str
    sha256: str
    released: str


class _Ended(NamedTuple):
    code: int
    output: str


def download(pin: Pin, folder: Path, progress: Progress, seconds: float = DOWNLOAD_SECONDS) -> Path:
    """Downloads the pinned file into an empty folder; the file. Raises UserError.

    pip compares a wheel's hash, the caller has to for an sdist and where the pin has none;
    `folder` also holds what pip writes meanwhile.
    """
    wanted, into = folder / "requirements.txt", folder / "package"
    wanted.write_text(f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256}\n")
    into.mkdir()
    of_wheel = [
        "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes",
        "--no-cache-dir", "--progress-bar=off", *_target(pin), f"--dest={into}", "-r", str(wanted),
        *_QUIET,
    ]  # fmt: skip
    unchecked = [_INDEX, "download", pin.name, pin.file, str(into)]
    ended = _run(
        of_wheel if pin.sha256 and not pin.is_sdist else unchecked,
        folder,
        lambda: progress(_bytes_in(folder)),
        seconds,
    )
    found = into / pin.file
    if ended.code == 0 and found.is_file():
        return found
    came = [path.name for path in into.iterdir()]
    if ended.code == 0 and came:
        raise UserError(f"{pin}: pip brought {came[0]}, the pin names {pin.file}")
    raise _failure(pin, ended, f"{pin} cannot be fetched")


def files_of(name: str) -> tuple[IndexFile, ...]:
    """The wheels and sdists that the index has of a package, for any machine, by version.

    Raises UserError: no such package, or no answer.
    """
    with tempfile.TemporaryDirectory(prefix="astra-tui-") as folder:
        answer = Path(folder, "files.json")
        command = [_INDEX, "list", name, str(answer)]
        ended = _run(command, Path(folder), lambda: None, LIST_SECONDS)
        what = f"the files of {name} cannot be listed"
        if ended.code:
            raise _failure(name, ended, what)
        found = msgspec.json.decode(answer.read_bytes(), type=tuple[IndexFile, ...])
    if not found and _OFFLINE.search(ended.output):
        raise _failure(name, ended, what)
    if not found:
        raise UserError(
            f"the package index has no package '{name}'",
            hint=f"is it spelt so there? the index: {sys.executable} -m pip config list",
        )
    return found


def newer_versions(pin: Pin) -> tuple[str, ...]:
    """Versions of the pin's package above its own, the newest first, that its platform can use.

    Releases only, and only what the index has a wheel of, or an sdist where the pin is of one.
    Raises UserError.
    """
    with tempfile.TemporaryDirectory(prefix="astra-tui-") as folder:
        kind = "--no-binary=:all:" if pin.is_sdist else "--only-binary=:all:"
        command = ["pip", "index", "versions", *_target(pin), kind, pin.name, *_QUIET]
        ended = _run(command, Path(folder), lambda: None, LIST_SECONDS)
    found = _VERSIONS.search(ended.output)
    if ended.code or found is None:
        raise _failure(pin, ended, f"the versions of {pin.name} cannot be listed")
    versions = [each.strip() for each in found[1].split(",")]
    return tuple(versions[: versions.index(pin.version)] if pin.version in versions else versions)


def _target(pin: Pin) -> list[str]:
    """The flags by which pip takes a wheel for the pin's platform, wherever it runs."""
    if pin.is_sdist:
        return []
    interpreters, abis, platforms = pin.tags
    flags = [f"--platform={p}" for p in platforms.split(".") if p != "any"]
    interpreter = interpreters.split(".")[0]
    if interpreter.startswith("cp") and interpreter[2:].isdigit() and len(interpreter) > 3:
        flags += ["--implementation=cp", f"--python-version={interpreter[2]}.{interpreter[3:]}"]
        flags += [f"--abi={abi}" for abi in abis.split(".")]
    return flags


def _run(
    arguments: list[str], folder: Path, still_running: Callable[[], None], seconds: float
) -> _Ended:
    """Runs a module with its temporary files in `folder`; it ends with us, or after `seconds`."""
    command = [sys.executable, "-P", "-m", *arguments]
    ends = time.monotonic() + seconds
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**_environment(), "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                if time.monotonic() > ends:
                    raise UserError(f"pip was not done after {seconds:g} s and was ended")
                still_running()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return _Ended(process.returncode, output.read(_MAX_OUTPUT).decode(errors="replace"))


def _environment() -> dict[str, str]:
    """What our children get, and what pip's own settings are in; no keys of other services."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.startswith(_KEPT_BEGINNINGS) or name.lower().endswith("_proxy")
    }
    return {**child_environment(), **kept}


def _bytes_in(folder: Path) -> int:
    """The size of the largest package file below a folder in which pip makes and removes others."""
    largest = 0
    for place, _, names in os.walk(folder):  # unlike rglob it passes over what is gone
        for name in names:
            with suppress(OSError):
                if name.endswith((".whl", ".tar.gz")):
                    largest = max(largest, Path(place, name).stat().st_size)
    return largest


def _failure(pin: Pin | str, ended: _Ended, what: str) -> UserError:
    """Why pip failed, in words; `what` says what could not be done."""
    text = ended.output
    if _NO_PIP in text:
        return UserError(f"{what}: this Python has no pip", hint=f"{sys.executable} -m ensurepip")
    got = _GOT.search(text)
    if got is not None and isinstance(pin, Pin):
        return UserError(
            f"{pin.file} is not what was pinned: its SHA-256 should be {pin.sha256}, the index "
            f"gives {got[1]}",
            hint=WRONG_HASH_HINT,
        )
    if _FULL.search(text):
        return OutOfResources(
            f"{what}: no space is left on the disk",
            hint="make room and try again, or set ASTRA_TUI_CACHE to a folder on a larger disk",
        )
    if _OFFLINE.search(text):
        return UserError(
            f"{what}: the package index does not answer",
            hint=f"is this machine offline? the index: {sys.executable} -m pip config list",
        )
    errors = [line for line in text.splitlines() if line.startswith("ERROR:")]
    last = (errors or text.strip().splitlines() or [f"exit code {ended.code}"])[-1]
    return UserError(f"{what}: {last.removeprefix('ERROR: ')}")
