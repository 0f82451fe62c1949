"""Has a profiling agent compare two accepted candidates, on a GPU by paired times.

    python benchmarks/gpu_profiling_agent.py FILE.json [--device cuda:0] [--task silu_and_mul]

Two rounds of the loop by the command line. The answers are a script's (tests/llm/server.py):
what is looked at is what the tools measure and what the planner is shown of it. About two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import environment

sys.path.insert(0, str(environment.ROOT))

from astra_tui.model.events import AnalysisGiven, ExchangeMade, TimingFinished, ToolUsed
from astra_tui.sessions.folder import read_blob
from astra_tui.sessions.integrity import read_session
from tests.llm.conftest import SERVER, Scripted
from tests.llm_team.conftest import QUIET, fence, planned, reply, selected, source

AGAIN = "Step: profiling, round 2."


def script() -> list[dict[str, object]]:
    """A better kernel in round 1; in round 2 it is compared, and then left as it is."""
    compare = {"first": "baseline", "second": "base", "workload": ""}
    tool = {"name": "compare", "arguments": compare}
    chosen = selected("Pairs are read at once.", measured=["m1"])
    return [
        {"when": {"user": AGAIN}, "tool_calls": [tool]},
        reply("base against baseline", chosen),
        *QUIET,
        planned(1, "read pairs"),
        planned(2, "read pairs"),
        reply("", fence(source("better")), when={"system": "coding"}),
    ]


def run(folder: Path, device: str, task: str, url: str) -> None:
    """Two rounds."""
    environ = {**os.environ, "OPENAI_API_KEY": "none", "ASTRA_TUI_MEMORY": "off"}
    command = [
        sys.executable, "-m", "astra_tui", "run", task, "--team", "llm", "--rounds", "2",
        "--device", device, "--model", "test-model", "--base-url", url, "--approve", "auto",
        "--headless", "--session", str(folder), "--repairs", "0", "--reflections", "0",
    ]  # fmt: skip
    subprocess.run(command, env=environ, check=False, stdout=sys.stderr)


def main() -> None:
    """Runs it, and writes what was measured and shown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--task", default="silu_and_mul")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as place,
        subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True) as serve,
    ):
        assert serve.stdout is not None
        server = Scripted(serve.stdout.readline().split()[1])
        try:
            server.play(*script())
            folder = Path(place) / "s"
            run(folder, options.device, options.task, server.url)
        finally:
            serve.terminate()
        session = read_session(folder)
        events = session.contents.events
        used = [e for e in events if isinstance(e, ToolUsed)]
        plans = [e for e in events if isinstance(e, ExchangeMade) and e.purpose == "plan"]
        told = [read_blob(folder, e.answer) for e in used]
        shown = read_blob(folder, plans[-1].request)
        result = {
            "environment": {**environment.describe(), "command": "python gpu_profiling_agent.py"},
            "tools": [
                {"tool": e.tool, "subject": e.subject, "gpu_seconds": e.gpu_seconds, "answer": text}
                for e, text in zip(used, told, strict=True)
            ],
            "selections": [e.text for e in events if isinstance(e, AnalysisGiven)],
            "shown to the planner": all(line in shown for t in told for line in t.splitlines()),
            "timings of the loop": sum(isinstance(e, TimingFinished) for e in events),
            "gpu_seconds": session.state.usage.gpu_seconds,
        }
    options.file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{json.dumps(result, indent=1)}\n")


if __name__ == "__main__":
    main()
