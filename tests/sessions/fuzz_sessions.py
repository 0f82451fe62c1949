"""Opens sessions that were damaged or made to do harm, in every way that a command opens one.

    python -m tests.sessions.fuzz_sessions [--cases N] [--seed N]

Each case copies a whole session, does one to three harmful things to it, and then checks it, folds
it, seeks in it, lists it, prints it, branches off and reopens it. An error that names what is wrong
is fine, and so is a part of the session with the place where it ends. Anything else fails the run:
another exception, a case that takes longer than `MAX_SECONDS`, a file outside of the folder that
is changed, or one that is read. The last is seen by text that lies outside and must not come back.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.errors import UserError
from astra_tui.plain.console import text_lines
from astra_tui.plain.run import replay_lines
from astra_tui.present.sessions import result_blocks, session_entry
from astra_tui.sessions.branches import find_place, fork_session
from astra_tui.sessions.comparison import find_candidate
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.integrity import Integrity, check_integrity, read_session
from astra_tui.sessions.journal_lines import sealed
from astra_tui.sessions.journal_reader import journal_path
from astra_tui.sessions.journal_writer import Journal, Redactor
from astra_tui.sessions.store import settings_of
from astra_tui.sessions.summary import run_report
from astra_tui.sessions.timeline import Timeline
from tests.sessions.samples import write_whole

MAX_SECONDS = 10
OUTSIDE = "this text lies outside of the session"
BY = Author(AuthorKind.ENGINEER, "fuzz")
REDACTOR = Redactor(environment={})

Harm = Callable[[Path, random.Random], None]

HOSTILE_STRINGS = (
    "../../../outside", "../outside", "/etc/passwd", "blobs/../../../outside", "", ".", "..",
    "\x00", "\x1b]0;x\x07", "\u202e", "a" * 5000, "0" * 64, "../" * 40 + "etc/passwd", "-rf",
    "\ud800",
)  # fmt: skip
HOSTILE_NUMBERS = (
    -1, 0, 2**31, 2**63, 2**64, 10**30, -(10**30), 1e308, -1e308, 1e-320, 0.0, "inf", "-inf", "nan",
    None, True,
)  # fmt: skip


# -- harm ------------------------------------------------------------------------------------------


def truncate(folder: Path, draw: random.Random) -> None:
    """Cuts a file off."""
    path = _file(folder, draw)
    path.write_bytes(path.read_bytes()[: draw.randrange(path.stat().st_size + 1)])


def flip_bits(folder: Path, draw: random.Random) -> None:
    """Flips some bits of a file."""
    path = _file(folder, draw)
    content = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 8)):
        if content:
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def overwrite(folder: Path, draw: random.Random) -> None:
    """Puts noise over a part of a file."""
    path = _file(folder, draw)
    content = bytearray(path.read_bytes())
    start = draw.randrange(len(content) + 1)
    content[start : start + draw.randint(0, 200)] = draw.randbytes(draw.randint(0, 400))
    path.write_bytes(content)


def change_value(folder: Path, draw: random.Random) -> None:
    """Puts something hostile in the place of one value of an event, and seals the line again."""
    lines = _lines(folder)
    number = draw.randrange(len(lines))
    with contextlib.suppress(ValueError, RecursionError, IndexError):
        record = json.loads(lines[number])
        holder, key = draw.choice(list(_places(record)))
        holder[key] = _hostile(holder[key], draw)
        lines[number] = json.dumps(record, allow_nan=True).encode("utf-8", "surrogatepass")
    _write_sealed(folder, lines)


def shuffle_lines(folder: Path, draw: random.Random) -> None:
    """Takes lines out, doubles or moves them, numbers and seals them again."""
    lines = _lines(folder)
    for _ in range(draw.randint(1, 4)):
        line = lines.pop(draw.randrange(len(lines))) if lines else b"{}"
        for _ in range(draw.choice((0, 1, 2, 30))):
            lines.insert(draw.randrange(len(lines) + 1), line)
    _write_sealed(folder, lines, renumber=draw.random() < 0.8)


def huge_line(folder: Path, draw: random.Random) -> None:
    """Adds a line that is very long, or nested very deep."""
    size = draw.choices((10_000, 300_000, 17_000_000), weights=(8, 4, 1))[0]
    line = draw.choice(
        (
            b'{"seq":0,"x":"' + b"a" * size + b'"}',
            b'{"seq":0,"event":' + b"[" * size,
            b'{"seq":' + b"9" * min(size, 300_000) + b"}",
            b"\x00" * size,
        )
    )
    path = journal_path(folder)
    if path.is_file() and not path.is_symlink():
        path.write_bytes(path.read_bytes() + line + b"\n")


def link_outside(folder: Path, draw: random.Random) -> None:
    """Puts a link to the outside in the place of a file or folder."""
    path = draw.choice([_file(folder, draw), *_folders(folder)])
    target = folder.parent / "outside"
    if not path.is_symlink():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    else:
        path.unlink()
    path.symlink_to(draw.choice((target, target / "text", Path("/dev/zero"), path)))


def strange_file(folder: Path, draw: random.Random) -> None:
    """Puts a pipe or a folder in the place of a file, or adds files with strange names."""
    path = _file(folder, draw)
    match draw.randrange(3):
        case 0:
            path.unlink()
            os.mkfifo(path)
        case 1:
            path.unlink()
            path.mkdir()
        case 2:
            name = draw.choice(
                ("blobs/.x", "blobs/zz", "sources/évil\n.cu", "sources/-rf", "x\x1b")
            )
            extra = folder / name
            extra.parent.mkdir(parents=True, exist_ok=True)
            if folder.resolve() in extra.resolve().parents:  # Not through a link of another harm.
                extra.write_bytes(draw.randbytes(20))


HARMS: tuple[Harm, ...] = (
    truncate, flip_bits, overwrite, change_value, change_value, change_value, shuffle_lines,
    huge_line, link_outside, strange_file,
)  # fmt: skip


def _file(folder: Path, draw: random.Random) -> Path:
    """A file of the session: the journal more often than not."""
    journal = journal_path(folder)
    others = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink()]
    if journal.is_file() and not journal.is_symlink() and (draw.random() < 0.6 or not others):
        return journal
    return draw.choice(others) if others else _new(folder / "left.cu")


def _new(path: Path) -> Path:
    path.write_bytes(b"x")
    return path


def _folders(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.rglob("*")) if p.is_dir() and not p.is_symlink()]


def _lines(folder: Path) -> list[bytes]:
    path = journal_path(folder)
    if not path.is_file() or path.is_symlink():
        return [b"{}"]
    return path.read_bytes().splitlines() or [b"{}"]


def _write_sealed(folder: Path, lines: list[bytes], renumber: bool = False) -> None:
    """As a forger would who knows how journals are sealed."""
    path = journal_path(folder)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return
    before, out = "", []
    for number, line in enumerate(lines):
        with contextlib.suppress(ValueError, AttributeError, RecursionError):
            record = json.loads(line)
            record.pop("seal", None)
            if renumber:
                record["seq"] = number
            text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
            line = sealed(text.encode("utf-8", "surrogatepass") + b"\n", before).rstrip(b"\n")
            before = json.loads(line)["seal"]
        out.append(line + b"\n")
    path.write_bytes(b"".join(out))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value that can be put another value into."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _hostile(value: Any, draw: random.Random) -> Any:
    if isinstance(value, str) and draw.random() < 0.8:
        return draw.choice(HOSTILE_STRINGS)
    if isinstance(value, int | float) and draw.random() < 0.8:
        return draw.choice(HOSTILE_NUMBERS)
    return draw.choice((*HOSTILE_STRINGS, *HOSTILE_NUMBERS, [], {}, [value] * 50))


# -- opening ---------------------------------------------------------------------------------------


def open_in_every_way(folder: Path) -> list[str]:
    """What the commands do with a session; returns the errors that users would read."""
    told: list[str] = []
    integrity: list[Integrity] = []
    timelines: list[Timeline] = []
    attempt = _Attempts(told)
    attempt(lambda: integrity.append(check_integrity(folder)[0]))
    attempt(lambda: timelines.append(read_session(folder).timeline))
    attempt(lambda: told.extend(session_entry(folder).damage))
    attempt(lambda: settings_of(folder))
    for timeline in timelines:
        _use(folder, timeline, attempt)
    attempt(lambda: Journal.reopen(folder, REDACTOR).close())
    return told + [f.describe() for i in integrity for f in i.flaws]


def _use(folder: Path, timeline: Timeline, attempt: _Attempts) -> None:
    for position in (0, len(timeline) // 2, len(timeline)):
        timeline.state(position)
    state = timeline.final_state()
    if timeline.broken is not None:
        attempt.told.append(timeline.broken.message)
    attempt(lambda: replay_lines(timeline, len(timeline), write=attempt.told.append))
    if state.opened is None:
        return
    attempt(lambda: text_lines(result_blocks(state, folder)))
    attempt(lambda: run_report(state, folder))
    for named in ("", "r1", *(h[:12] for h in state.candidates)):
        attempt(lambda named=named: find_candidate(state, str(folder), named))
    for hash_ in state.candidates:
        attempt(lambda hash_=hash_: attempt.told.append(read_blob(folder, hash_)))
    places = ("r1", *itertools.islice(state.questions, 2), *itertools.islice(state.candidates, 2))
    for number, at in enumerate(places):
        branch = folder.parent / "branches" / str(number)
        attempt(lambda at=at, branch=branch: _fork(folder, timeline, at, branch))


def _fork(folder: Path, timeline: Timeline, at: str, branch: Path) -> None:
    fork_session(folder, timeline, find_place(timeline, at), branch, REDACTOR, BY, note="fuzz")


class _Attempts:
    """Does things of which each may end with a UserError, and keeps what these say."""

    def __init__(self, told: list[str]):
        self.told = told

    def __call__(self, do: Callable[[], object]) -> None:
        try:
            do()
        except UserError as error:
            self.told.append(error.describe())


# -- cases -----------------------------------------------------------------------------------------


def run_case(original: Path, root: Path, seed: int) -> None:
    """One case in a folder of its own. Raises AssertionError, with the seed, where it fails."""
    draw = random.Random(seed)
    place = root / "case"
    folder = place / "session"
    shutil.copytree(original, folder)
    outside = place / "outside"
    outside.mkdir()
    (outside / "text").write_text(OUTSIDE, encoding="utf-8")
    harms = [draw.choice(HARMS) for _ in range(draw.randint(1, 3))]
    try:
        told = _within_time(lambda: _harmed_and_opened(folder, harms, draw))
        assert OUTSIDE not in "".join(told), "a text outside of the folder was read"
        left = sorted(p.name for p in outside.iterdir())
        assert left == ["text"], f"written outside of the folder: {left}"
        assert (outside / "text").read_text(encoding="utf-8") == OUTSIDE
        beside = sorted(p.name for p in place.iterdir())
        assert set(beside) <= {"session", "outside", "branches"}, beside
    except BaseException as error:
        names = ", ".join(h.__name__ for h in harms)
        raise AssertionError(f"seed {seed} ({names}): {type(error).__name__}: {error}") from error
    finally:
        shutil.rmtree(place)


def _harmed_and_opened(folder: Path, harms: list[Harm], draw: random.Random) -> list[str]:
    for harm in harms:
        with contextlib.suppress(OSError):
            harm(folder, draw)
    return open_in_every_way(folder)


def _within_time(do: Callable[[], list[str]]) -> list[str]:
    def late(_number: int, _frame: object) -> None:
        raise TimeoutError(f"longer than {MAX_SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(MAX_SECONDS)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return do()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fuzz(cases: int, first_seed: int) -> Iterator[int]:
    """Runs cases; yields the seed of each that is done."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        write_whole(root / "original")
        for seed in itertools.islice(itertools.count(first_seed), cases):
            run_case(root / "original", root, seed)
            yield seed


def main() -> None:
    """Runs cases and says how many."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # What is written to last is waited for; thousands of waits would say nothing more.
    os.fsync = lambda handle: None  # type: ignore[assignment]
    begin = time.monotonic()
    done = sum(1 for _ in fuzz(options.cases, options.seed))
    sys.stdout.write(f"{done} cases in {time.monotonic() - begin:.0f} s: none failed\n")


if __name__ == "__main__":
    main()
