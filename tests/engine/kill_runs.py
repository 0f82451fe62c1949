"""Kills a run again and again, resumes it, and compares its result with an unkilled run.

    python -m tests.engine.kill_runs [--runs 200] [--rounds 2] [--seed 0]

Every run is the real command in a process group of its own, ended by SIGKILL at a random moment.
One line a run says how often it was killed and what differs; the exit code is 1 if anything does.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from astra_tui.model.events import SessionClosed
from astra_tui.model.fold import fold
from astra_tui.sessions.journal_reader import read_journal
from tests.quick import write_quick_task
from tests.warm import WarmPopen

LONGEST_RUN = 120.0
MAX_KILLS = 3
"""Of one run; after them it is left to end by itself."""


@dataclass(frozen=True)
class Result:
    """What a session came to, from its journal alone."""

    best: str
    verdicts: tuple[tuple[int, int, str, str], ...]
    """Round, proposal, outcome and candidate."""
    folds_to_its_digest: bool


def command(task: Path, session: Path, rounds: int) -> list[str]:
    """The command that begins a session and, given again, continues with it."""
    run = [sys.executable, "-m", "astra_tui", "run", str(task), "--team", "playbook"]
    flags = ["--approve", "auto", "--headless", "--rounds", str(rounds), "--json"]
    return [*run, *flags, "--session", str(session)]


def run_for(arguments: list[str], seconds: float | None) -> bool:
    """Runs a command and kills its process group after a time; whether it ended before that.

    Raises RuntimeError, with what it said, when it ended badly.
    """
    process = WarmPopen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        _, errors = process.communicate(timeout=LONGEST_RUN if seconds is None else seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if seconds is None:
            raise RuntimeError(f"no end after {LONGEST_RUN} s") from None
        return False
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {errors.decode()[-500:]}")
    return True


def result_of(session: Path) -> Result:
    """Reads the journal again and folds it."""
    events = read_journal(session).events
    closed = events[-1]
    assert isinstance(closed, SessionClosed), closed
    state = fold(events)
    verdicts = tuple(
        (round_.number, proposal.index, proposal.verdict.outcome.value, proposal.verdict.candidate)
        for round_ in state.rounds
        for proposal in round_.proposals
        if proposal.verdict is not None
    )
    return Result(state.best, verdicts, fold(events[:-1]).digest() == closed.digest)


def differences(whole: Result, killed: Result) -> list[str]:
    """What differs, in words."""
    before, after = asdict(whole), asdict(killed)
    return [f"{k}: {before[k]!r}, now {after[k]!r}" for k in before if before[k] != after[k]]


def killed_run(task: Path, session: Path, rounds: int, moments: list[float]) -> int:
    """Runs a session to its end, killed after each of the moments (s); how often it was."""
    arguments = command(task, session, rounds)
    for kills, seconds in enumerate(moments):
        if run_for(arguments, seconds):
            return kills
    run_for(arguments, None)
    return len(moments)


def main() -> int:
    """The exit code: 0 when no run differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    bad = kills = 0
    with tempfile.TemporaryDirectory(prefix="kill-runs-") as name:
        folder = Path(name)
        task = write_quick_task(folder / "kernels")
        began = time.monotonic()
        run_for(command(task, folder / "whole", options.rounds), None)
        length = time.monotonic() - began
        whole = result_of(folder / "whole")
        print(f"unkilled: {length:.1f} s, best {whole.best[:12]}")
        for number in range(1, options.runs + 1):
            count = chance.randint(1, MAX_KILLS)
            moments = [chance.uniform(0, length) for _ in range(count)]
            session = folder / f"run-{number}"
            try:
                done = killed_run(task, session, options.rounds, moments)
                wrong = differences(whole, result_of(session))
            except RuntimeError as error:
                done, wrong = count, [str(error)]
            kills += done
            bad += bool(wrong)
            when = ", ".join(f"{s:.2f}" for s in moments[:done])
            print(f"run {number}: killed at [{when}] s: {'; '.join(wrong) or 'the same'}")
    print(f"{options.runs} runs, {kills} kills, {bad} runs that differ")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
