"""Exports winners in every format on a GPU, and checks the exports there.

    python benchmarks/gpu_exports.py [--out FILE] [--session FOLDER]... [--format FORMAT]...

Winners are those of the sessions named; a task without one takes its tuned.cu. Each export
goes through the checks of `astra-tui export`; the PyTorch package is then used in a process that
has no astra_tui: torch.compile, CUDA graphs, other streams, the fallback, time on the host a call.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import msgspec

from astra_tui.export import (
    Format,
    StepOutcome,
    Winner,
    export_files,
    find_winner,
    package_name,
)
from astra_tui.export.exporting import Exporter, open_exporter
from astra_tui.export.winner import Step
from astra_tui.lab.compiler import Compiler
from astra_tui.model.author import Author, AuthorKind
from astra_tui.model.digest import content_hash
from astra_tui.model.errors import UserError
from astra_tui.model.task import KernelTask, find_task
from astra_tui.sessions.integrity import read_session
from benchmarks import gpu

USE_SECONDS = 300.0


def main() -> None:
    """Prints every step, and ends with 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("exports.json"))
    parser.add_argument("--session", type=Path, action="append", default=[])
    parser.add_argument("--format", type=Format, action="append", choices=list(Format))
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    environment: dict[str, Any] = {"device": options.device}
    if options.device != "emulator":
        with gpu.open_machine(options.device) as machine:
            environment = gpu.environment(machine)
    formats = tuple(options.format or Format)
    exports = []
    for winner in _winners(options.session):
        exports += _export(winner, formats, options.device)
        gpu.save(options.out, {"environment": environment, "exports": exports})
    failed = [e for e in exports if e["failed"]]
    print(f"{len(exports)} exports, {len(failed)} failed")
    sys.exit(1 if failed else 0)


def _winners(sessions: list[Path]) -> list[Winner]:
    """The winner of each session, and the tuned kernel of every task without one."""
    winners = [find_winner(read_session(folder)) for folder in sessions]
    named = {Path(w.task).name for w in winners}
    return [*winners, *(_tuned(find_task(t)) for t in gpu.TASKS if t not in named)]


def _tuned(task: KernelTask) -> Winner:
    text = task.tuned_file.read_text(encoding="utf-8")
    hash_ = content_hash(text)
    return Winner(
        session="none",
        task=task.name,
        task_hash=task.hash,
        team="none",
        device="none",
        candidate=hash_,
        text=text,
        baseline=task.baseline_file.read_text(encoding="utf-8"),
        steps=(Step(0, hash_, Author(AuthorKind.TASK), "tuned.cu"),),
        verdict="not of a session",
        versions={},
    )


def _export(winner: Winner, formats: tuple[Format, ...], device: str) -> list[dict[str, Any]]:
    task = find_task(winner.task)
    found = []
    with (
        Compiler() as compiler,
        open_exporter(task, device, compiler, trust=True) as exporter,
        tempfile.TemporaryDirectory() as temporary,
    ):
        for to in formats:
            found.append(_one(exporter, winner, to, Path(temporary) / to.value))
    return found


def _one(exporter: Exporter, winner: Winner, to: Format, folder: Path) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        report = exporter.export(winner, to, folder)
    except UserError as error:
        print(f"{winner.task:24} {to.value:8} {error}")
        return {"task": winner.task, "format": to.value, "failed": True, "error": str(error)}
    answer: dict[str, Any] = {**msgspec.to_builtins(report), "folder": folder.name}
    answer["failed"] = report.failed
    for step in report.steps:
        print(f"{winner.task:24} {to.value:8} {step.outcome.value:12} {step.name}: {step.detail}")
    ran = [s for s in report.steps if s.name == "run on the GPU"]
    if to is Format.TORCH and any(s.outcome is StepOutcome.PASSED for s in ran):
        answer["use"] = _use(exporter, folder)
        answer["failed"] |= any(s["outcome"] == "failed" for s in answer["use"])
        for used in answer["use"]:
            print(f"{winner.task:24} {'':8} {used['outcome']:12} {used['name']}: {used['detail']}")
    if to is Format.TORCH and report.failed:
        answer["contents"] = sorted(export_files(exporter.subject(winner), to))
    answer["seconds"] = round(time.perf_counter() - started, 1)
    return answer


def _use(exporter: Exporter, folder: Path) -> list[dict[str, str]]:
    """Uses the package in a process of its own, started in another folder."""
    task = exporter.checker.task
    script = Path(__file__).with_name("exported_package.py").resolve()
    dims = {name: d.typical for name, d in task.dims.items()}
    given = {"dims": dims, "scalars": {a.name: a.choices[0] for a in task.scalars}}
    command = [sys.executable, "-P", str(script), str(folder / package_name(task)), task.name]
    done = subprocess.run(
        [*command, json.dumps(given)],
        cwd=folder, capture_output=True, text=True, timeout=USE_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        detail = (done.stderr or done.stdout).strip()[-1500:]
        return [{"name": "process", "outcome": "failed", "detail": detail}]
    answer: list[dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    main()
