"""Tries an adapter in an interpreter that has its framework."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from astra_tui.export.delivery import Adapter
from astra_tui.export.torch_package import package_name
from astra_tui.model.export import ExportStep, StepOutcome
from astra_tui.processes.child import child_environment

HOOK_SECONDS = 300.0
PROOF_SECONDS = 600.0

_MISSING = ("is not installed", "No module named")
_SHOWN = 300

_HOOK = """
import importlib
adapter = importlib.import_module("{package}.{module}")
adapter.install({widths})
adapter.uninstall()
"""


@dataclass(frozen=True)
class AdapterTrial:
    """An adapter whose package lies in `draft`, tried by the interpreter `python`."""

    adapter: Adapter
    draft: Path
    python: str
    gpu: bool

    @property
    def _package(self) -> str:
        return package_name(self.adapter.task)

    def hook(self) -> ExportStep:
        """The adapter imports against the framework, installs itself and goes again."""
        target = self.adapter.target
        script = _HOOK.format(package=self._package, module=target.module, widths=[128, 4096])
        name = f"hook into {target.title}"
        done = self._ran(["-c", script], HOOK_SECONDS)
        if isinstance(done, str):
            return ExportStep(name, StepOutcome.FAILED, done)
        if not done.returncode:
            return ExportStep(
                name, StepOutcome.PASSED, f"installed and removed; {', '.join(target.pinned)}"
            )
        said = (done.stderr.strip().splitlines() or ["it failed"])[-1][:_SHOWN]
        missing = any(words in said for words in _MISSING)
        outcome = StepOutcome.NOT_CHECKED if missing else StepOutcome.FAILED
        hint = f"; name an interpreter that has {target.title}: --python" if missing else ""
        return ExportStep(name, outcome, f"{said}{hint}")

    def proof(self) -> ExportStep:
        """Hits equal the calls inside the guard, on a GPU; those outside give the same bits."""
        name = "proof of engagement"
        if not self.gpu:
            return ExportStep(
                name, StepOutcome.NOT_CHECKED, "there is no GPU here, and nothing is launched"
            )
        done = self._ran(["-m", f"{self._package}.prove"], PROOF_SECONDS)
        if isinstance(done, str):
            return ExportStep(name, StepOutcome.FAILED, done)
        lines = done.stdout.strip().splitlines()
        if not lines or not lines[-1].startswith("{"):
            return ExportStep(
                name, StepOutcome.FAILED, done.stderr.strip()[-_SHOWN:] or "no answer"
            )
        found: dict[str, Any] = json.loads(lines[-1])
        outcome = StepOutcome.FAILED if done.returncode else StepOutcome.PASSED
        return ExportStep(name, outcome, describe_proof(found))

    def _ran(self, arguments: list[str], seconds: float) -> subprocess.CompletedProcess[str] | str:
        command = [self.python, *arguments]
        environment = {**child_environment(), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            return subprocess.run(
                command, cwd=self.draft, capture_output=True, text=True, timeout=seconds,
                env=environment, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)[:_SHOWN]


def describe_proof(found: dict[str, Any]) -> str:
    """What a run of the package's `prove` found, in a line."""
    parts = []
    for part in ("proof", "cupti", "graph", "compile", "times"):
        said = found.get(part)
        if isinstance(said, dict) and "error" in said:
            parts.append(f"{part}: {said['error']}")
        elif part == "proof" and said:
            text = (
                f"{said.get('hits', 0)} hits and {said.get('launches', 0)} launches in "
                f"{said.get('inside', 0)} calls inside the guard over {said['shapes']} shapes, "
                f"{said.get('outside', 0)} outside"
            )
            wrong = (f"{sort}: {one}" for sort, ones in said["wrong"].items() for one in ones)
            parts.append("; ".join([text, *islice(wrong, 3)]))
        elif part == "times" and said:
            timed = [row for row in said if "ratio" in row]
            parts += [
                f"{r['name']}: {r['ratio']:.3f} ({r['low']:.3f} to {r['high']:.3f})" for r in timed
            ]
        elif said:
            parts.append(f"{part}: {'equal' if said['equal'] else 'DIFFERENT'}")
    return "; ".join(parts)
