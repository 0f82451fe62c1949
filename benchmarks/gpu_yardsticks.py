"""The recorded winners, with and without dependent launch, against the kernels that others ship.

    astra-tui yardstick update
    python benchmarks/gpu_yardsticks.py [--out FILE] [--task NAME]... [--device cuda:0]
    python benchmarks/gpu_yardsticks.py --table          # the README's, from what is committed

The sources are the winners of sessions/h100-playbook-*, the same after the playbook's move
overlap_launches, and after trigger_early on top of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from astra_tui.export.winner import find_winner
from astra_tui.model.task import find_task
from astra_tui.playbook import Evidence, KernelText, Proposal
from astra_tui.playbook.moves.overlap_launches import OverlapLaunches
from astra_tui.playbook.moves.trigger_early import TriggerEarly
from astra_tui.sessions.integrity import read_session

ROOT = Path(__file__).parent.parent
SESSIONS = {
    "silu_and_mul": "h100-playbook-silu",
    "fused_add_rmsnorm": "h100-playbook-rmsnorm",
    "merge_attn_states_lse": "h100-playbook-merge",
}
RESULTS = ROOT / "benchmarks" / "results" / "gpu_yardsticks.json"
BEST, LATE, EARLY = "best", "best_pdl_late", "best_pdl_early"


def main() -> None:
    """Times the three tasks, or prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu_yardsticks.json"))
    parser.add_argument("--task", choices=SESSIONS, action="append", help="default: all three")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        found = json.loads(RESULTS.read_text(encoding="utf-8"))
        print("\n".join(line for task in SESSIONS for line in table(task, found["tasks"][task])))
        return
    found = {"command": f"python {Path(__file__).name}", "tasks": {}}
    with tempfile.TemporaryDirectory() as folder:
        for task in options.task or SESSIONS:
            files = [str(file) for file in write_sources(task, Path(folder))]
            command = [sys.executable, "-m", "astra_tui", "yardstick", "time", task, *files]
            command += ["--device", options.device, "--json"]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
            found["tasks"][task] = json.loads(done.stdout)
            options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def write_sources(task: str, folder: Path) -> list[Path]:
    """The winner's source and what the moves make of it."""
    text = find_winner(read_session(ROOT / "sessions" / SESSIONS[task])).text
    evidence = Evidence(find_task(task), device="cuda:0", arch="sm_90a")
    texts = {BEST: text}
    for name, move in ((LATE, OverlapLaunches()), (EARLY, TriggerEarly())):
        proposal = move.propose(KernelText.read(text), evidence)
        if not isinstance(proposal, Proposal):
            raise SystemExit(f"{task}: {proposal.reason}")
        texts[name] = text = proposal.source
    files = [folder / f"{task}_{name}.cu" for name in texts]
    for file, content in zip(files, texts.values(), strict=True):
        file.write_text(content, encoding="utf-8")
    return files


def table(task: str, answer: dict[str, Any]) -> list[str]:
    """A row a shape: microseconds after itself, and the ratio in both chains.

    A shape has no ratio where a shipped kernel that serves it was not timed.
    """
    alone, producer = ({s["workload"]: s for s in c["shapes"]} for c in answer["chains"])
    lines = [
        f"| {task} | floor | baseline.cu | best | best, pdl | fastest timed "
        "| fastest timed / best, pdl | after a producer |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    source = f"{task}_{LATE}.cu"
    for name, shape in alone.items():
        us = {version["name"]: version["us"] for version in shape["versions"]}
        fastest = shape["fastest"].get(source)
        shown = f"{us[fastest['name']]:.2f} {fastest['name']}" if fastest else "-"
        found = (s["fastest"].get(source, {}).get("speedup") for s in (shape, producer[name]))
        lines.append(
            f"| {name} | {shape['floor_us']:.2f} | {shape['base_us']:.2f} "
            f"| {us[f'{task}_{BEST}.cu']:.2f} | {us[source]:.2f} | {shown} "
            f"| {' | '.join(map(_ratio, found))} |"
        )
    means = (_ratio(chain["means"][source]) for chain in answer["chains"])
    plain = (_ratio(chain["means"][f"{task}_{BEST}.cu"]) for chain in answer["chains"])
    lines.append(f"| mean | | | | | | {' | '.join(means)} |")
    lines.append(f"| mean, best without pdl | | | | | | {' | '.join(plain)} |")
    return [*lines, ""]


def _ratio(found: dict[str, float] | None) -> str:
    if found is None:
        return "-"
    return f"{found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


if __name__ == "__main__":
    main()
