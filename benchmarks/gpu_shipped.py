"""What the playbook makes of a shipped and of a slow kernel, against every kernel that ships.

    astra-tui yardstick update
    python benchmarks/gpu_shipped.py [--out FOLDER] [--task NAME]... [--device D]... [--minutes N]
    python benchmarks/gpu_shipped.py --table [--out FOLDER]    # what was measured, without a GPU

For each task the playbook runs twice, from a slow kernel and from the one that ships, or is written
as one that does, and the winner of each run is swept at its end. Then both winners, the start with
dependent launch and every yardstick of the task are timed in one run, shape by shape, after
themselves and after a producer, with the copy of as many bytes as floor.

Tasks share out the devices; `--minutes` is for each task. The same command continues where the
time was over, in a run, before a sweep or before the last timing; `--now` times what is there.
`--swept slow` sweeps the winner of one run alone. With `--finish` a task ends within its minutes:
the last timing and the sweeps keep theirs, the runs share the rest, and what a run has not reached
by then is left out, which the table says; of a sweep that is cut the best that it has measured is
taken. On an H200 with 16 cores the baseline's round takes 20 to
31 s, another 12 to 20 s, a sweep with its checks 100 s and more, the last timing 1 to 2 minutes:
`--finish --minutes 8` leaves each run about 2 minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.cli.exit_codes import ExitCode
from astra_tui.export.winner import find_winner
from astra_tui.model.errors import UserError
from astra_tui.model.task import find_task
from astra_tui.model.task.yardstick import load_yardsticks
from astra_tui.playbook import Evidence, KernelText, NotApplicable, propose
from astra_tui.playbook.moves.overlap_launches import OverlapLaunches
from astra_tui.sessions.integrity import read_session

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "gpu_shipped"
KERNELS = ROOT / "benchmarks" / "kernels"
SWEEP_SECONDS = 60.0
"""What a sweep needs at least; it is not begun with less."""
VERSION_SECONDS = 0.9
"""What the last timing takes for a version of a shape in each of the two chains."""
GRACE_SECONDS = 45.0
"""From an interrupt to the end by force; a sweep checks the best of what it has measured then."""


@dataclass(frozen=True)
class Start:
    """A source from which the playbook starts."""

    name: str
    file: str
    """In the task's folder, or next to this script in `kernels/`."""

    def text(self, task: str) -> str:
        """The source."""
        own = find_task(task).folder / self.file
        return (own if own.is_file() else KERNELS / self.file).read_text(encoding="utf-8")


NAMES = ("slow", "shipped")
STARTS = {
    task: (Start("slow", slow), Start("shipped", shipped))
    for task, shipped, slow in (
        ("silu_and_mul", "tuned.cu", "baseline.cu"),
        ("fused_add_rmsnorm", "tuned.cu", "baseline.cu"),
        ("merge_attn_states_lse", "tuned.cu", "baseline.cu"),
        ("flashinfer_rmsnorm_quant", "baseline.cu", "rmsnorm_quant.cu"),
    )
}


def main() -> None:
    """Runs and times the tasks, or prints their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--task", choices=STARTS, action="append", help="default: all four")
    parser.add_argument("--device", action="append", help="default: cuda:0")
    parser.add_argument("--minutes", type=float, default=9.0, help="of a task")
    parser.add_argument("--rounds", type=int, default=14)
    parser.add_argument("--start", choices=NAMES, action="append", help="default: both")
    parser.add_argument("--swept", choices=NAMES, action="append", help="default: both")
    parser.add_argument("--share", default="0.1", help="of the trials that a sweep times")
    parser.add_argument("--now", action="store_true", help="time the best that there is")
    parser.add_argument("--finish", action="store_true", help="end within the minutes")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    tasks = options.task or list(STARTS)
    if not options.table:
        options.out = options.out.resolve()
        options.out.mkdir(parents=True, exist_ok=True)
        _on_all_devices(tasks, options)
    for task in tasks:
        file = options.out / f"{task}.json"
        if file.is_file():
            print("\n".join(table(json.loads(file.read_text(encoding="utf-8")))))


def _on_all_devices(tasks: Sequence[str], options: argparse.Namespace) -> None:
    left: SimpleQueue[str] = SimpleQueue()
    for task in tasks:
        left.put(task)
    devices = options.device or ["cuda:0"]

    def work(device: str) -> None:
        while not left.empty():
            task = left.get()
            if not (options.out / f"{task}.json").is_file():
                Trial(task, device, options).run()

    with ThreadPoolExecutor(len(devices)) as pool:
        for done in [pool.submit(work, device) for device in devices]:
            done.result()


@dataclass(frozen=True)
class Trial:
    """One task on one device."""

    task: str
    device: str
    options: argparse.Namespace
    begun: float = field(default_factory=time.monotonic)

    @property
    def out(self) -> Path:
        """Where everything goes."""
        folder: Path = self.options.out
        return folder

    @property
    def left(self) -> float:
        """Seconds that the task still has."""
        return self.begun + 60 * self.options.minutes - time.monotonic()

    @property
    def swept(self) -> Sequence[str]:
        """The starts whose winners are swept."""
        return self.options.swept or [s.name for s in self.starts]

    @property
    def starts(self) -> list[Start]:
        """What the playbook starts from."""
        return [s for s in STARTS[self.task] if s.name in (self.options.start or NAMES)]

    @property
    def timing_seconds(self) -> float:
        """What the last timing needs at least, with its checks; it is not begun with less."""
        task = find_task(self.task)
        shipped = sum(1 + one.pdl for one in load_yardsticks(task))
        versions = shipped + 1 + len(self.starts)
        return 25.0 + VERSION_SECONDS * 2 * len(task.workloads) * versions

    def run(self) -> None:
        """Runs, sweeps and times, as far as the time goes; writes TASK.json at the end."""
        runs, winners = [], []
        whatever_there_is = self.options.now or self.options.finish
        for number, start in enumerate(self.starts, 1):
            runs.append(self._optimised(start, self._share(number)))
            ended = runs[-1]["exit_code"] == 0
            swept = start.name in self.swept and (ended or self.options.finish)
            winners.append(self._winner(start, swept=swept))
            if not (ended and winners[-1]) and not whatever_there_is:
                return self._note("the time is over; the same command continues")
        if self.left < self.timing_seconds and not whatever_there_is:
            return self._note("everything is ready to be timed by the same command")
        _, shipped = STARTS[self.task]
        sources = [f for f in (self._start(shipped), *winners) if f]
        command = ["yardstick", "time", self.task, *map(str, sources)]
        code, answer = self._json([*command, "--device", self.device, "--json"], "timing", 600.0)
        result = {
            "command": " ".join(["python", *sys.argv]),
            "commit": source_commit(),
            "task": self.task,
            "runs": runs,
            "sources": {f.stem: f.read_text(encoding="utf-8") for f in sources},
            "exit_code": code,
            "times": answer,
        }
        name = f"{self.task}.json" if answer.get("chains") else f"{self.task}.failed.json"
        (self.out / name).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        return None

    def _share(self, number: int) -> float:
        """Seconds that a run may take; with `--finish` those that the others and the end leave."""
        if not self.options.finish:
            return self.left
        runs, sweeps = self._to_come(self.starts[number - 1 :])
        return (self.left - self.timing_seconds - SWEEP_SECONDS * sweeps) / max(runs, 1)

    def _of_sweep(self, start: Start) -> float:
        """Seconds that a sweep may take with `--finish`; later runs and sweeps need theirs."""
        later = self._to_come(self.starts[self.starts.index(start) + 1 :])
        return (self.left - self.timing_seconds) / (1 + sum(later))

    def _to_come(self, starts: Sequence[Start]) -> tuple[int, int]:
        """How many runs and sweeps from these starts are not kept from before."""
        runs = sum(not self._kept(s).is_file() for s in starts)
        sweeps = sum(s.name in self.swept and not self._kept(s, "_sweep").is_file() for s in starts)
        return runs, sweeps

    def _kept(self, start: Start, what: str = "") -> Path:
        """Where it is kept how a run has ended, or its `_sweep`."""
        return self.out / f"{self.task}_from_{start.name}{what}.json"

    def _optimised(self, start: Start, seconds: float) -> dict[str, Any]:
        """A session of the playbook, until its end or the time; what `run --json` says."""
        kept = self._kept(start)
        if kept.is_file():
            found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
            return found
        told: dict[str, Any] = {"start": start.name, "exit_code": -1, "ended": None, "moves": []}
        if self.options.now:
            return told
        session = self.out / "sessions" / f"{self.task}-{start.name}"
        command = ["run", str(self._task_from(start)), "--session", str(session), "--json"]
        command += ["--team", "playbook", "--device", self.device, "--approve", "auto"]
        command += ["--headless", "--rounds", str(self.options.rounds), "--sweep", "0"]
        code, answer = self._json(command, start.name, seconds)
        cut = code == ExitCode.INTERRUPTED or not answer.get("message")
        told |= {"exit_code": code}
        told["ended"] = f"cut after {seconds:.0f} s" if cut else answer["message"]
        told["moves"] = [
            [p.get("move"), p.get("outcome")]
            for r in answer.get("rounds", []) for p in r.get("proposals", [])
        ]  # fmt: skip
        if code == 0:
            kept.write_text(json.dumps(told), encoding="utf-8")
        return told

    def _winner(self, start: Start, *, swept: bool) -> Path | None:
        """What a sweep makes of the best of a session; None where there was no time for it.

        Of a session that goes on, and where the sweep finds nothing better, the best itself.
        """
        try:
            session = self.out / "sessions" / f"{self.task}-{start.name}"
            text = find_winner(read_session(session)).text
        except UserError as error:
            self._note(f"{start.name}: {error.describe()}")
            return None
        file = self.out / f"{self.task}_from_{start.name}.cu"
        file.write_text(text, encoding="utf-8")
        told = self._kept(start, "_sweep")
        tuned = file.with_name(f"{file.stem}_swept.cu")
        if not swept or self.options.now:
            return tuned if tuned.is_file() else file
        if not told.is_file():
            left = self._of_sweep(start) if self.options.finish else self.left
            if left < SWEEP_SECONDS:
                return file if self.options.finish else None
            tuned.unlink(missing_ok=True)  # Of a sweep that was cut.
            command = ["tune", self.task, str(file), "--out", str(tuned), "--device", self.device]
            command += ["--share", self.options.share]
            seconds = left - GRACE_SECONDS
            code, answer = self._json([*command, "--json"], f"{start.name}-sweep", seconds)
            if code >= 0 and code != ExitCode.INTERRUPTED:
                told.write_text(json.dumps(answer), encoding="utf-8")
            elif not self.options.finish:
                return None
        return tuned if tuned.is_file() else file

    def _start(self, start: Start) -> Path | None:
        """What ships, or is written like it, with dependent launch."""
        text = KernelText.read(start.text(self.task))
        evidence = Evidence(find_task(self.task), device=self.device, arch="sm_90a")
        answer = propose(OverlapLaunches(), text, evidence)
        if isinstance(answer, NotApplicable):
            return None  # What FlashInfer ships has it already, and is a yardstick.
        file = self.out / f"{self.task}_start.cu"
        file.write_text(answer.source, encoding="utf-8")
        return file

    def _task_from(self, start: Start) -> Path:
        """The task with a start as its baseline, and nothing else to compare with at the end."""
        folder = self.out / "tasks" / f"{self.task}-{start.name}"
        if not folder.is_dir():
            left_out = shutil.ignore_patterns("tuned.cu", "yardsticks.toml", "__pycache__")
            shutil.copytree(find_task(self.task).folder, folder, ignore=left_out)
            (folder / "baseline.cu").write_text(start.text(self.task), encoding="utf-8")
        return folder

    def _json(self, arguments: list[str], name: str, seconds: float) -> tuple[int, dict[str, Any]]:
        """Exit code and answer of an astra-tui command, which is interrupted after some seconds."""
        log = self.out / f"{self.task}.{name}.log"
        command = [sys.executable, "-m", "astra_tui", *arguments]
        with log.open("a", encoding="utf-8") as errors:
            child = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            stop = threading.Timer(max(seconds, 1.0), child.send_signal, [signal.SIGINT])
            end = threading.Timer(max(seconds, 1.0) + GRACE_SECONDS, child.kill)
            for timer in (stop, end):
                timer.start()
            output, _ = child.communicate()
            for timer in (stop, end):
                timer.cancel()
        self._note(f"{name}: exit code {child.returncode}")
        try:
            return child.returncode, json.loads(output)
        except ValueError:
            return child.returncode, {}

    def _note(self, text: str) -> None:
        print(f"{self.task}: {text}", file=sys.stderr, flush=True)


def source_commit() -> str:
    """The commit, or what ASTRA_TUI_COMMIT says where a tree travels without its history."""
    said = os.environ.get("ASTRA_TUI_COMMIT")
    if said:
        return said
    command = ["git", "describe", "--always", "--dirty"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


# -- what was measured -----------------------------------------------------------------------------


def table(result: dict[str, Any]) -> list[str]:
    """A table a chain: a row a shape, times in microseconds, ratios against the fastest shipped."""
    ours = [name for name in result["sources"] if not name.endswith("_start")]
    lines = [f"## {result['task']}", ""]
    for run in result["runs"]:
        moves = ", ".join(f"{m} {outcome or 'unfinished'}" for m, outcome in run["moves"])
        ended = "cut" if run["exit_code"] == ExitCode.INTERRUPTED else run["ended"]
        lines.append(f"- from {run['start']}: {moves} ({ended})")
    for chain in result["times"]["chains"]:
        short = [o.removeprefix(f"{result['task']}_") for o in ours]
        heads = [
            "workload",
            "copy",
            "start",
            "fastest shipped",
            *short,
            *(f"{s}, ratio" for s in short),
        ]
        lines += ["", f"After {chain['chain']}:", "", _row(heads), _row(["---"] * len(heads))]
        for shape in chain["shapes"]:
            lines.append(_row(_cells(shape, result["task"], ours)))
        means = [_mean(chain["means"].get(f"{o}.cu")) for o in ours]
        lines.append(_row(["mean", "", "", "", *([""] * len(ours)), *means]))
    return [*lines, ""]


def _cells(shape: dict[str, Any], task: str, ours: Sequence[str]) -> Iterator[str]:
    us = {v["name"]: v["us"] for v in shape["versions"]}
    shipped = {v["name"]: v["us"] for v in shape["versions"] if v["shipped"]}
    fastest = min(shipped, key=lambda name: shipped[name], default="")
    yield shape["workload"]
    yield f"{shape['floor_us']:.2f}" if shape["floor_us"] else "-"
    start = us.get(f"{task}_start.cu")
    yield f"{start:.2f}" if start else "-"
    yield f"{shipped[fastest]:.2f} {fastest}" if fastest else "-"
    yield from (f"{us[f'{o}.cu']:.2f}" if us.get(f"{o}.cu") else "-" for o in ours)
    for o in ours:
        found = shape["fastest"].get(f"{o}.cu")
        yield _mean(found["speedup"]) if found else "-"


def _mean(found: dict[str, float] | None) -> str:
    if found is None or not math.isfinite(found["value"]):
        return "-"
    return f"{found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def _row(cells: Sequence[str] | Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
