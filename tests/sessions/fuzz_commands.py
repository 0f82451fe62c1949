"""Runs the commands on damaged and hostile copies of sessions, and compares with the undamaged one.

    python -m tests.sessions.fuzz_commands [--copies N] [--seed N] [--results FILE]

Each copy of a session is harmed in one to three ways, then every command that reads one is run on
it, in this process. A command may give the answer of the undamaged session, or say that the session
is not whole, or end in an error; anything else fails the run: an exception, another answer without
a word, a command that takes longer than `MAX_SECONDS`, a file outside that is changed or whose
text comes back. Copies whose checksums were computed again are other sessions, which no reader can
tell: their answers are not compared.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import platform
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from astra_tui.cli import main as astra_tui
from astra_tui.model.errors import UserError
from astra_tui.model.events import SessionClosed, StopReason
from astra_tui.model.task import load_task
from astra_tui.sessions.integrity import TrustVerdict, read_session
from astra_tui.sessions.journal_reader import journal_path, pack
from astra_tui.sessions.journal_writer import Journal, Redactor
from tests.conftest import ROOT
from tests.export.sessions import tuned, write_session
from tests.sessions import fuzz_sessions as damage
from tests.sessions.fuzz_sessions import OUTSIDE, Harm

MAX_SECONDS = 30
MANY_EVENTS = 1_000_000


# -- harm that fuzz_sessions has not ---------------------------------------------------------------


def move_lines(folder: Path, draw: random.Random) -> None:
    """Takes lines out, doubles or moves them, and leaves their checksums."""
    lines = damage._lines(folder)
    for _ in range(draw.randint(1, 3)):
        line = lines.pop(draw.randrange(len(lines))) if len(lines) > 1 else b"{}"
        for _ in range(draw.choice((0, 1, 2))):
            lines.insert(draw.randrange(len(lines) + 1), line)
    _write(folder, lines)


def edit_figure(folder: Path, draw: random.Random) -> None:
    """Changes one digit of the journal."""
    content = bytearray(b"\n".join(damage._lines(folder)) + b"\n")
    digits = [n for n, byte in enumerate(content) if byte in b"0123456789"]
    if digits:
        content[draw.choice(digits)] = draw.choice(b"123456789")
        _write(folder, bytes(content).splitlines())


def cut_lines(folder: Path, draw: random.Random) -> None:
    """Cuts the journal off behind a line, as someone who hides what followed."""
    lines = damage._lines(folder)
    _write(folder, lines[: draw.randint(1, len(lines))])


def remove_file(folder: Path, draw: random.Random) -> None:
    """Removes a stored text, or the journal."""
    damage._file(folder, draw).unlink()


def hard_link(folder: Path, draw: random.Random) -> None:
    """Makes a file of the session a second name of one outside."""
    path = draw.choice((damage._file(folder, draw), folder / "engine.log", folder / "lock"))
    path.unlink(missing_ok=True)
    os.link(folder.parent / "outside" / "text", path)


def dangling_link(folder: Path, draw: random.Random) -> None:
    """Puts a link to a file that is not there where a command may write."""
    name = draw.choice(("journal.jsonl.gz", "engine.log", "lock", "journal.damaged-1", "blobs/00"))
    with contextlib.suppress(IsADirectoryError, PermissionError):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(folder.parent / "outside" / "new")


def pipe(folder: Path, draw: random.Random) -> None:
    """Puts a pipe where a command may write or read."""
    path = folder / draw.choice(("engine.log", "lock", "journal.jsonl.gz", "sources/x.cu", "x"))
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def many_events(folder: Path, draw: random.Random) -> None:
    """Makes a journal of a million lines."""
    if draw.random() < 0.2 and not journal_path(folder).is_symlink():
        with journal_path(folder).open("ab") as file:
            file.write(b'{"seq":7}\n' * MANY_EVENTS)


OPEN_HARMS: tuple[Harm, ...] = (
    damage.truncate, damage.flip_bits, damage.overwrite, damage.huge_line, damage.link_outside,
    damage.strange_file, move_lines, edit_figure, edit_figure, cut_lines, remove_file, hard_link,
    dangling_link, pipe, many_events,
)  # fmt: skip
RESEALED_HARMS: tuple[Harm, ...] = (damage.change_value, damage.shuffle_lines)


def _write(folder: Path, lines: list[bytes]) -> None:
    path = journal_path(folder)
    if path.suffix != ".gz" and path.is_file() and not path.is_symlink():
        path.write_bytes(b"".join(line + b"\n" for line in lines))


# -- commands --------------------------------------------------------------------------------------

READING = {
    "sessions": ("sessions", "--sessions", ".."),
    "replay": ("replay", "../session", "--headless"),
    "replay --json": ("replay", "../session", "--json"),
    "report": ("report", "../session", "--markdown-only", "--out", "made"),
    "compare": ("compare", "../session", "../session:r0", "--device", "emulator"),
    "export cu": ("export", "../session", "--to", "cu", "--no-check", "--out", "made/cu"),
    "export patch": ("export", "../session", "--to", "patch", "--no-check", "--out", "made/patch"),
    "fork": ("fork", "../session", "--at", "r1", "--no-run", "--session", "made/branch"),
}
"""Run on every copy."""

REFUSING = {
    "verify": ("verify", "../session"),
    "bisect": ("bisect", "../session", "--error", "0.5", "--device", "emulator"),
    "resume": ("resume", "../session", "--headless", "--team", "playbook", "--device", "emulator"),
}
"""Run on copies that they have to refuse: they would try the kernels of the others for minutes."""

WRITING = {"pack": ("pack", "../session")}
"""Run last: it changes the copy."""

MARKS = (
    "altered", "cut at", "cut off", "not closed", "cannot be read", "damaged", "unreadable",
    "interrupted", "missing", "no links", "not a plain file", "no session", "too large",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What a command said and wrote."""

    code: int
    text: str
    files: tuple[tuple[str, str], ...]

    @property
    def marked(self) -> bool:
        """Whether it says that the session is not whole, or that it could not do its work."""
        said = " ".join((self.text, *(content for _, content in self.files))).lower()
        return self.code != 0 or any(mark in said for mark in MARKS)


def run_command(arguments: tuple[str, ...], place: Path) -> Answer:
    """Runs one command in `place/out`, which is empty before and after."""
    out = place / "out"
    out.mkdir()
    said = io.StringIO()
    before = Path.cwd()
    os.chdir(out)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = _within_time(arguments)
        written = sorted(p for p in out.rglob("*") if p.is_file() and "branch" not in p.parts)
        files = tuple((str(p.relative_to(out)), p.read_text("utf-8", "replace")) for p in written)
    finally:
        os.chdir(before)
        shutil.rmtree(out)
    return Answer(code, said.getvalue(), files)


def _within_time(arguments: tuple[str, ...]) -> int:
    def late(_number: int, _frame: object) -> None:
        raise TimeoutError(f"longer than {MAX_SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(MAX_SECONDS)
    try:
        return astra_tui(arguments)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# -- copies ----------------------------------------------------------------------------------------


class Campaign:
    """Runs copies of an original; counts how the commands ended."""

    def __init__(self, original: Path, root: Path):
        self._original = original
        self._root = root
        self.ends: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []
        self.copies = 0
        self._outside: dict[str, bytes] = {}
        with self._copy() as place:
            self._whole = {n: run_command(a, place) for n, a in READING.items()}
        for name, answer in self._whole.items():
            assert not answer.marked, (name, answer)

    def run(self, seed: int) -> None:
        """One copy; what fails is kept with its seed."""
        draw = random.Random(seed)
        resealed = draw.random() < 0.25
        harms = [draw.choice(RESEALED_HARMS)] if resealed else []
        harms += [draw.choice(OPEN_HARMS) for _ in range(draw.randint(not resealed, 2))]
        with self._copy() as place:
            for harm in harms:
                with contextlib.suppress(OSError):
                    harm(place / "session", draw)
            self._outside = _read_all(place / "outside")  # A harm may have written by a hard link.
            names = f"seed {seed} ({', '.join(h.__name__ for h in harms)})"
            compared = not resealed
            refused = _is_refused(place / "session")
            for name, arguments in (READING | (REFUSING if refused else {}) | WRITING).items():
                self._one(f"{names}: {name}", name, arguments, place, compared)
        self.copies += 1

    def _one(
        self, where: str, name: str, arguments: tuple[str, ...], place: Path, compared: bool
    ) -> None:
        try:
            answer = run_command(arguments, place)
        except BaseException as error:
            self._fail(name, f"{where}: {type(error).__name__}: {error}")
            return
        if _read_all(place / "outside") != self._outside:
            self._fail(name, f"{where}: wrote outside")
        elif OUTSIDE in answer.text or any(OUTSIDE in text for _, text in answer.files):
            self._fail(name, f"{where}: read outside")
        elif "Traceback" in answer.text:
            self._fail(name, f"{where}: a traceback")
        elif answer.code:
            self.ends[name, "refused"] += 1
        elif answer == self._whole.get(name):
            self.ends[name, "same answer"] += 1
        elif answer.marked or name == "fork":  # Its answer is a new session, from what is intact.
            self.ends[name, "marked"] += 1
        elif compared and name not in WRITING:
            self._fail(name, f"{where}: another answer without a word")
        else:
            self.ends[name, "not compared"] += 1

    def _fail(self, name: str, text: str) -> None:
        self.ends[name, "FAILED"] += 1
        self.failures.append(text)

    @contextlib.contextmanager
    def _copy(self) -> Iterator[Path]:
        place = self._root / "case"
        shutil.copytree(self._original, place / "session")
        (place / "outside").mkdir()
        (place / "outside" / "text").write_text(OUTSIDE, encoding="utf-8")
        try:
            yield place
        finally:
            shutil.rmtree(place)


def _read_all(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def _is_refused(folder: Path) -> bool:
    """Whether nothing of it may be run."""
    try:
        return read_session(folder).trust.verdict is TrustVerdict.ALTERED
    except UserError:
        return True


def originals(root: Path) -> tuple[Path, Path]:
    """A session of one round on a task of this machine, and the same one packed."""
    task = load_task(ROOT / "kernels" / "silu_and_mul")
    plain = write_session(root / "plain" / "session", task, tuned(task))
    with Journal.reopen(plain, Redactor(environment={})) as journal:
        digest = journal.found.state().digest()
        journal.append(SessionClosed(StopReason.ROUNDS, "1 of 1 rounds are done", digest))
    packed = shutil.copytree(plain, root / "packed" / "session")
    pack(packed)
    return plain, packed


def fuzz(copies: int, first_seed: int) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Runs copies, a fifth of them packed; how commands ended, and what failed."""
    ends: Counter[tuple[str, str]] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        plain, packed = originals(root)
        for original, share in ((plain, copies - copies // 5), (packed, copies // 5)):
            campaign = Campaign(original, root)
            for seed in itertools.islice(itertools.count(first_seed), share):
                campaign.run(seed)
            ends += campaign.ends
            failures += [f"{original.parent.name}: {text}" for text in campaign.failures]
    return ends, failures


def main() -> int:
    """Runs copies, prints how the commands ended, and writes it where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--copies", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", metavar="FILE", help="also write the figures as JSON")
    options = parser.parse_args()
    # What is written to last is waited for; thousands of waits would say nothing more.
    os.fsync = lambda handle: None  # type: ignore[assignment]
    ends, failures = fuzz(options.copies, options.seed)
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "copies": options.copies,
        "first_seed": options.seed,
        "runs": sum(ends.values()),
        "ends": {
            name: {end: n for (of, end), n in sorted(ends.items()) if of == name}
            for name in (READING | REFUSING | WRITING)
        },
        "failures": failures,
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "largest_megabytes": used.ru_maxrss // 1024,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }
    text = json.dumps(figures, indent=2)
    sys.stdout.write(text + "\n")
    if options.results:
        Path(options.results).write_text(text + "\n", encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
