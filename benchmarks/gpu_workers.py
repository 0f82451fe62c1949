"""On a machine with one GPU or two: sweeps and a study by workers, and whether they agree.

    python benchmarks/gpu_workers.py [--task silu_and_mul] [--workloads 2] [--seeds 2]
        [--seconds 150] [--out FILE]

One sweep of a task's tuned kernel without workers, one by a worker for each GPU, and with two GPUs
one by both; then a study by one worker, and by two. Writes what each sweep found, for how long
GPUs measured and idled meanwhile, what each GPU told of itself before its first timing, and
where sweeps chose different sources, a timing of these against each other; of the study the best
candidate and the speedup of every run. A study that does not end by `--seconds` is cut: the runs
that ended are written down. 150 s with one GPU are meant to be enough; four minutes with two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.engine.lab import Lab
from astra_tui.engine.rerun import time_pair
from astra_tui.engine.sweeping import join, tuner_of
from astra_tui.lab.requests import NamedSource
from astra_tui.lab.tuning.portfolio import words
from astra_tui.model.launch import print_expression
from astra_tui.model.state import SessionState
from astra_tui.model.task import find_task
from astra_tui.model.timing import Timing
from astra_tui.sessions.integrity import read_session
from astra_tui.sessions.summary import final_timings
from astra_tui.workers import Workers, WorkersAsked, open_workers
from astra_tui.workers.roster import Roster
from benchmarks import gpu
from benchmarks.gpu_tuning import WORKLOADS, swept_space

STUDY = """
tasks = ["{task}"]
teams = ["playbook"]
seeds = {seeds}

[settings.plain]
rounds = 1
device = "cuda"
sweep = 0
"""
DEVICE = "cuda:0"
SEED = 1


def main() -> None:
    """All parts, each in a process that sees some GPUs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", default=gpu.TASKS[0], choices=gpu.TASKS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--workloads", type=int, default=2, help="of a sweep: 2 to 4")
    parser.add_argument("--seconds", type=float, default=150.0, help="when a study is cut")
    parser.add_argument("--out", type=Path, default=Path("gpu_workers.json"))
    parser.add_argument("--part", help="what one of the processes does: for the script itself")
    options = parser.parse_args()
    if options.part:
        print(json.dumps(asyncio.run(part(options))))
        return
    begun = time.monotonic()
    found = gpus()[:2]
    with gpu.open_machine(DEVICE) as machine:
        result: dict[str, Any] = {"environment": gpu.environment(machine)}
    result |= {"gpus": found, "cores": len(os.sched_getaffinity(0)), "task": options.task}
    sweeps = result["sweeps"] = {
        name: in_process(f"sweep {name}", visible, options)
        for name, visible in {"one process": found[:1], **workers_of(found)}.items()
    }
    result["chosen_against_each_other"] = compared(sweeps, found, options)
    gpu.save(options.out, result)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.toml"
        seeds = list(range(1, options.seeds + 1))
        file.write_text(STUDY.format(task=options.task, seeds=seeds))
        result["studies"] = {
            name: studied(file, Path(folder) / name, visible, begun + options.seconds)
            for name, visible in workers_of(found).items()
        }
    result["seconds"] = round(time.monotonic() - begun, 1)
    result["summary"] = summary(result)
    gpu.save(options.out, result)
    print(json.dumps(result["summary"], indent=1))


def gpus() -> list[str]:
    """UUIDs, as nvidia-smi lists them."""
    told = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return told.stdout.split()


def workers_of(found: list[str]) -> dict[str, list[str]]:
    """GPUs of each number of workers that is tried."""
    names = ("one worker", "two workers")
    return {name: found[:number] for number, name in enumerate(names[: len(found)], 1)}


def in_process(part: str, visible: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """What a process of this script finds that sees some GPUs, or why it did not end well."""
    command = [sys.executable, __file__, "--part", part, "--task", options.task]
    command += ["--share", str(options.share), "--workloads", str(options.workloads)]
    ended = subprocess.run(
        command, env=seeing(visible), capture_output=True, text=True, check=False
    )
    if ended.returncode:
        return {"failed": ended.stderr[-4000:]}
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


def seeing(visible: list[str]) -> dict[str, str]:
    """The environment of a process that sees some GPUs."""
    return {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(visible)}


# -- sweeps ----------------------------------------------------------------------------------------


async def part(options: argparse.Namespace) -> dict[str, Any]:
    """What one process does: a sweep, or two files timed against each other."""
    what, _, rest = options.part.partition(" ")
    task = options.task
    if what == "compare":
        base, candidate = (NamedSource(Path(f).read_text(), Path(f).name) for f in rest.split())
        lab = Lab(find_task(task), DEVICE)
        try:
            return told_of(await time_pair(lab, base, candidate, names_of(options)))
        finally:
            lab.close()
    seen: list[dict[str, Any]] = []
    begun = time.monotonic()

    def changed(roster: Roster) -> None:
        proven = {m.name: m.proven for m in roster.members.values() if m.proven}
        if proven and (not seen or seen[-1]["proven"] != proven):
            done = sum(m.done for m in roster.members.values())
            seconds = round(time.monotonic() - begun, 2)
            seen.append({"seconds": seconds, "proven": proven, "jobs_done_by_then": done})

    with ExitStack() as stack:
        workers = None
        if rest != "one process":
            workers = stack.enter_context(open_workers(WorkersAsked(), changed))
        return {**await swept(options, workers), "a_a": seen}


def names_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Workloads of a sweep: the largest, and the first of the others."""
    *others, largest = WORKLOADS[options.task]
    return (*others[: options.workloads - 1], largest)


async def swept(options: argparse.Namespace, workers: Workers | None) -> dict[str, Any]:
    """A sweep, once every process is there and every GPU has told what it can tell apart."""
    task = find_task(options.task)
    space, names = swept_space(task), names_of(options)
    lab = Lab(task, DEVICE, seed=SEED, workers=workers)
    named = [w for w in task.workloads if w.name in names]
    sources, began = space.sources(), time.monotonic()
    own = NamedSource(sources[0][1], "own.cu")
    try:
        first = [time_pair(lab, own, own, (named[0].name,)) for _ in range(lab.timings_at_once)]
        await asyncio.gather(*first)
        begun = time.monotonic()
        tuned = await (await tuner_of(lab, space, sources, named)).tune(options.share)
        ended = time.monotonic()
    finally:
        lab.close()
    found = tuned.portfolio
    roster = workers.roster.members.values() if workers is not None else ()
    return {
        "seconds_to_the_first_timing": round(begun - began, 2),
        "seconds": round(ended - begun, 2),
        "seconds_of_trials": round(tuned.seconds, 2),
        "gpu_seconds": round(tuned.gpu_seconds, 2),
        "idle": round(1 - tuned.gpu_seconds / (tuned.seconds * lab.timings_at_once), 4),
        "timed": tuned.timed,
        "trials": tuned.trials,
        "gpus": tuned.gpus,
        "default": dict(sources[found.default][0]),
        "parts": {
            print_expression(p.condition): {**sources[p.trial][0], "gains": words(p)}
            for p in found.parts
        },
        "workers": {m.name: {"done": m.done, "seconds": round(m.seconds, 2)} for m in roster},
        "source": join(task, sources, found),
    }


def compared(
    sweeps: dict[str, Any], found: list[str], options: argparse.Namespace
) -> dict[str, Any]:
    """Sources that sweeps by workers chose against that of one process; "same" where they are."""
    texts = {name: sweep.get("source", "") for name, sweep in sweeps.items()}
    base, *others = texts
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in others:
            if not (texts[base] and texts[name]):
                continue
            if texts[name] == texts[base]:
                told[name] = "same"
                continue
            files = [Path(folder) / "base.cu", Path(folder) / "other.cu"]
            for file, text in zip(files, (texts[base], texts[name]), strict=True):
                file.write_text(text)
            paths = " ".join(map(str, files))
            told[name] = in_process(f"compare {paths}", found[:1], options)
    return told


def told_of(timing: Timing) -> dict[str, Any]:
    """A timing in short."""
    ratio = timing.speedup
    return {
        "speedup": (ratio.low, ratio.value, ratio.high),
        "verdict": timing.verdict.value,
        "uuid": timing.uuid,
    }


# -- studies ---------------------------------------------------------------------------------------


def studied(file: Path, out: Path, visible: list[str], until: float) -> dict[str, Any]:
    """A study on some GPUs, one worker each: its seconds, and every run's best and speedup."""
    command = [
        sys.executable, "-m", "astra_tui", "study", str(file), "--out", str(out),
        "--workers", "local", "--json",
    ]  # fmt: skip
    begun, cut = time.monotonic(), False
    with subprocess.Popen(
        command, env=seeing(visible), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _, told = process.communicate(timeout=max(10.0, until - begun))
        except subprocess.TimeoutExpired:
            cut = True
            process.terminate()
            _, told = process.communicate()
    seconds = time.monotonic() - begun
    states = {s.name: read_session(s).state for s in sorted(out.glob("*")) if s.is_dir()}
    used = sum(state.usage.gpu_seconds for state in states.values())
    return {
        "gpus": len(visible),
        "exit_code": process.returncode,
        "cut": cut,
        "seconds": round(seconds, 1),
        "gpu_seconds": round(used, 1),
        "measuring": round(used / (len(visible) * seconds), 4),
        "workers": [line for line in told.splitlines() if " jobs in " in line],
        "runs": {name: run_of(state) for name, state in states.items()},
        "told": told[-1500:],
    }


def run_of(state: SessionState) -> dict[str, Any]:
    """The best candidate of a run, its last timing, and the GPUs that its timings name."""
    timings = [t.timing for t in final_timings(state)]
    all_timings = [t.timing for c in state.candidates.values() for t in c.timings]
    return {
        "ended": state.closed.reason.value if state.closed is not None else "",
        "best": state.best,
        "timings": [told_of(timing) for timing in timings],
        "uuids": sorted({t.uuid for t in all_timings}),
    }


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether both runs ended alike with the same best candidate, and intervals share a point."""
    pairs = zip(one["timings"], other["timings"], strict=False)
    meets = all(
        a["speedup"][0] <= b["speedup"][2] and b["speedup"][0] <= a["speedup"][2] for a, b in pairs
    )
    return (one["best"], one["ended"]) == (other["best"], other["ended"]) and meets


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """What a reader looks for first."""
    sweeps, studies = result["sweeps"], result["studies"]
    told: dict[str, Any] = {
        "seconds": result["seconds"],
        "chosen": result["chosen_against_each_other"],
        "a_a": {name: sweep.get("a_a") for name, sweep in sweeps.items()},
    }
    for key in ("seconds", "seconds_of_trials", "idle", "timed"):
        told[f"sweep_{key}"] = {name: sweep.get(key) for name, sweep in sweeps.items()}
    for key in ("seconds", "measuring", "cut", "exit_code"):
        told[f"study_{key}"] = {name: study[key] for name, study in studies.items()}
    if len(studies) > 1:
        one, two = studies["one worker"], studies["two workers"]
        told["study_gain"] = round(one["seconds"] / two["seconds"], 3)
        told["same_within_intervals"] = {
            name: name in two["runs"] and overlap(run, two["runs"][name])
            for name, run in one["runs"].items()
        }
        seconds = told["sweep_seconds_of_trials"]
        told["sweep_gain"] = round(seconds["one worker"] / seconds["two workers"], 3)
    return told


if __name__ == "__main__":
    main()
