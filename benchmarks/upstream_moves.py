"""What the playbook offers for the bundled tasks whose kernels are only included, and what holds.

    python benchmarks/upstream_moves.py [TASK ...] [--whole]

Every proposal for the emulator and for a GPU is compiled and passes, or fails, the task's check on
the emulator: with `--whole` all of it, conditions and workloads at their own size included, else
every fourth case alone. Tasks whose package is not in the cache are left out, which is said.

Writes results/upstream_moves.json; a run of some tasks keeps the others.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from environment import RESULTS, ROOT, describe

from astra_tui.emulator.device import Emulator
from astra_tui.lab.check.oracle import Oracle
from astra_tui.lab.check.runner import Checker
from astra_tui.lab.check.suite import build_suite
from astra_tui.lab.compiler import Compiler
from astra_tui.lab.upstream import included_texts, task_headers
from astra_tui.model.check import CheckReport
from astra_tui.model.task import KernelTask, load_task
from astra_tui.playbook import Evidence, Proposal, propose_all
from astra_tui.playbook.propose import Base

FILE = RESULTS / "upstream_moves.json"
DEVICES = ("emulator", "cuda:0")
EVERY = 4


def offered(task: KernelTask, source: str) -> tuple[dict[str, Proposal], dict[str, str]]:
    """The proposals that a workload would show, for either device, and why there are no others."""
    found: dict[str, Proposal] = {}
    refused: dict[str, str] = {}
    included = included_texts(task)
    for device in DEVICES:
        evidence = Evidence(task, device=device, arch="sm_90a", included=included)
        base = Base.of(source, evidence)
        proposals, refusals = propose_all(source, evidence)
        refused |= {r.move: r.reason for r in refusals}
        for proposal in proposals:
            why = base.why_unmeasured(proposal)
            if why:
                refused[proposal.plan.move] = why
            else:
                on_gpu_alone = device != DEVICES[0]
                name = proposal.plan.move + (" (GPU)" if on_gpu_alone else "")
                if all(p.source != proposal.source for p in found.values()):
                    found[name] = proposal
    moves = {p.plan.move for p in found.values()}
    return found, {m: r for m, r in refused.items() if m not in moves}


def tried(folder: Path, whole: bool) -> dict[str, Any] | None:
    """A task's proposals with what their checks said; None where its files are not here."""
    task = load_task(folder)
    if not included_texts(task):
        return None
    source = task.baseline_file.read_text(encoding="utf-8")
    proposals, refused = offered(task, source)
    cases = build_suite(task)[:: 1 if whole else EVERY]
    begin, outcomes = _cpu_seconds(), {}
    with Compiler(upstream=task_headers(task)) as compiler, Oracle(task) as oracle:
        checker = Checker(task, Emulator(), compiler, oracle)
        for name, proposal in proposals.items():
            *_, report = checker.check(proposal.source, "candidate.cu", None if whole else cases)
            assert isinstance(report, CheckReport)
            outcomes[name] = {"verdict": report.verdict.value, "message": report.message}
    return {
        "cases": len(cases),
        "cpu_seconds": round(_cpu_seconds() - begin, 1),
        "proposals": outcomes,
        "refused": refused if not outcomes else {},
    }


def _cpu_seconds() -> float:
    """Of this process and of those that have ended."""
    return sum(os.times()[:4])


def main() -> None:
    """Prints a line a task and how many have a proposal that passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    known = json.loads(FILE.read_text())["tasks"] if FILE.exists() else {}
    for folder in sorted(f.parent for f in ROOT.glob("kernels/*/upstream.toml")):
        if given.tasks and folder.name not in given.tasks:
            continue
        found = tried(folder, given.whole)
        if found is None:
            print(f"{folder.name}: its package is not in the cache")
            continue
        known[folder.name] = found
        said = (f"{name} {outcome['verdict']}" for name, outcome in found["proposals"].items())
        print(f"{folder.name}: {', '.join(said) or 'none'} ({found['cpu_seconds']} s)", flush=True)
        passed = [
            name for name, task in known.items()
            if any(p["verdict"] == "passed" for p in task["proposals"].values())
        ]  # fmt: skip
        result = {
            "environment": describe(),
            "command": "python benchmarks/upstream_moves.py" + (" --whole" if given.whole else ""),
            "with_a_proposal_that_passed": len(passed),
            "of": len(known),
            "tasks": dict(sorted(known.items())),
        }
        FILE.write_text(json.dumps(result, indent=2) + "\n")
    print(f"{len(passed)} of {len(known)} have a proposal that passed")


if __name__ == "__main__":
    main()
