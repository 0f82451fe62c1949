"""A small real model through four rounds of the loop, with and without faults on its way, and
through the searches, where a script gives the plans and codes that make them merge and restart.

    python tests/llm_team/small_model.py FILE.json [--python INTERPRETER] [--rounds N] [--tokens N]

`benchmarks/small_model_server.py` serves the model from an interpreter that has its packages. All
calls go through the scripted server, which hands them on, injects faults, and counts. What is asked
is not that the model is of use, but that every call is journaled and charged, whether it was
answered, cut or refused, and that rounds end as rounds. The task is silu_and_mul with few sizes,
and there are no tools: this model never asks for one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "benchmarks")]

from astra_tui.llm import Endpoint
from astra_tui.model.events import CallReserved, ExchangeMade, SessionClosed, StopReason
from astra_tui.model.roles import Role
from astra_tui.model.settings import ModelSettings, SearchKind, ToolLimits
from astra_tui.model.state import RoundState
from astra_tui.model.task import load_task
from astra_tui.present.words import stands_on
from astra_tui.sessions.integrity import read_session
from tests.conftest import ROOT
from tests.llm.conftest import SERVER, Scripted
from tests.llm_team.conftest import (
    Ran,
    coded,
    planned,
    planning,
    proposed,
    quickened,
    reply,
    run_engine,
    source,
)
from tests.llm_team.server_faults import FAULTS
from tests.quick import write_quick_task

Entry = dict[str, Any]

SERVE = ROOT / "benchmarks" / "small_model_server.py"
MOST_ROUNDS_LOST = 1
TOKENS_OF_CODE, TOKENS_OF_PLANS = 300, 160
"""Of answers of which a script gives some: these have to fit."""

ON_THE_WAY: tuple[Entry, ...] = (
    {**FAULTS["503"], "when": {"system": "profiling"}},
    {**FAULTS["no answer"], "when": {"user": "planning, round 1"}},
    {**FAULTS["declined"], "when": {"user": "planning, round 1"}},
    planning(proposed("read pairs"), when={"user": "planning, round 2"}),
    {**FAULTS["not JSON"], "when": {"system": "coding"}},
    {**FAULTS["413"], "when": {"user": "planning, round 3"}, "times": 2},
    {"forward": True, "after": 20, "when": {"user": "planning, round 4"}},
    {**FAULTS["a page"], "when": {"user": "planning, round 4"}},
    {**FAULTS["429"], "when": {"user": "planning, round 5"}},
)
"""Each once, but for the refusals that cost a whole round. The other calls reach the model, and the
plan of round 2 is a script's, so that the model is asked for code.
"""


def searched() -> dict[str, tuple[tuple[Entry, ...], Entry]]:
    """For each search what a script answers, and settings. Archive: two winners of round 1, and the
    plan of the round that merges them. Restarts: a winner, and two rounds without gain. All else,
    the code of the merge and every plan after it, is the model's.
    """
    baseline = load_task(ROOT / "kernels" / "silu_and_mul").baseline_file.read_text(
        encoding="utf-8"
    )
    pairs, fast = source("better"), quickened(baseline)
    idle = (f"// idle {n}\n{pairs}" for n in (1, 2))
    quiet = reply("Step: testing", {"cases": []})
    steps = (planned(n, f"idea {n}") for n in (2, 3))
    merging = (planned(1, "pairs", "fast"), coded("pairs", pairs), coded("fast", fast))
    line = (planned(1, "pairs"), coded("pairs", pairs))
    limits = {Role.CODING: TOKENS_OF_CODE, Role.PLANNING: TOKENS_OF_PLANS}
    roles = {role: ModelSettings(output_tokens=limit) for role, limit in limits.items()}
    return {
        "archive": (
            (quiet, *merging, planned(2, "both")),
            {"candidates": 2, "search": SearchKind.ARCHIVE, "roles": roles, "reflections": 0},
        ),
        "restarts": (
            (quiet, *line, *steps, *(coded(f"idea {n}", code) for n, code in enumerate(idle, 2))),
            {"search": SearchKind.RESTARTS, "roles": roles, "reflections": 0},
        ),
    }


class Patient:
    """The server, with the patience that a loaded machine needs."""

    def __init__(self, server: Scripted):
        self._server = server

    def endpoint(self) -> Endpoint:
        endpoint = self._server.endpoint("chat", attempts=2)
        return replace(endpoint, timeouts=replace(endpoint.timeouts, silence=1500.0, total=3000.0))


def how_it_ended(exchange: ExchangeMade) -> str:
    """One word or two for the table."""
    if not exchange.error:
        return "answered"
    first = exchange.error.splitlines()[0]
    if "limit of output tokens" in first:
        return "cut"
    return "declined" if "declined" in first else "failed"


def round_row(ran: Ran, state: RoundState) -> Entry:
    """What became of a round."""
    outcomes = [p.verdict.outcome.value for p in state.proposals if p.verdict is not None]
    ended = "no answer of the server" if state.lost else "nothing usable"
    return {
        "round": state.number,
        "stands_on": stands_on(state),
        "plan": state.proposals[0].plan.title if state.proposals else "",
        "ended": ended if state.lost or state.unusable else ", ".join(outcomes),
        "reason": state.loss.splitlines()[0] if state.loss else "",
        "closed": state.closed,
    }


def play(
    folder: Path, server: Scripted, about: Entry, scripted: tuple[Entry, ...], options: Any,
    more: Entry,
) -> Entry:  # fmt: skip
    """One run, and what has to hold of it. Raises AssertionError."""
    server.play(*scripted, forward=about["url"], models=[about["model"]])
    task = load_task(write_quick_task(folder.parent / f"{folder.name}-kernels"))
    ran = run_engine(
        folder, task, Patient(server), rounds=options.rounds, output_tokens=options.tokens,
        model=about["model"], tools=ToolLimits(calls=0), **more,
    )  # fmt: skip
    made, sent = ran.of(ExchangeMade), ran.of(CallReserved)
    usage, (closed,) = ran.state.usage, ran.of(SessionClosed)
    row: Entry = {
        "output_tokens": options.tokens,
        "reason": closed.reason.value,
        "message": closed.message,
        "rounds": [round_row(ran, r) for r in ran.state.rounds[1:]],
        "calls": [
            {
                "purpose": e.purpose, "ended": how_it_ended(e), "input": e.input_tokens,
                "output": e.output_tokens, "estimated": e.estimated, "seconds": round(e.seconds, 1),
                "error": e.error.splitlines()[0] if e.error else "",
            }
            for e in made
        ],
        "requests": len(server.requests("chat")),
        "sendings": len(sent),
        "tokens": usage.tokens,
    }  # fmt: skip
    assert closed.reason is StopReason.ROUNDS, closed.message
    assert all(r.closed for r in ran.state.rounds)
    assert sum(r.lost for r in ran.state.rounds) <= (MOST_ROUNDS_LOST if scripted else 0)
    assert not usage.reserved, "a call was not settled"
    assert row["requests"] == row["sendings"], "the journal and the server count differently"
    assert usage.tokens == sum(e.input_tokens + e.output_tokens for e in made)
    spoke = [e for e in made if how_it_ended(e) != "failed"]
    assert all(e.input_tokens and e.output_tokens for e in spoke), "a call is not charged"
    assert read_session(folder).state.digest() == ran.state.digest()
    return row


def serve(python: str) -> tuple[subprocess.Popen[str], Entry]:
    """The model's server and what it says of itself."""
    process = subprocess.Popen(
        [python, str(SERVE)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def main() -> int:
    """Runs both, and writes what was found."""
    import environment

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--only", choices=("plain", "faults", "archive", "restarts"))
    options = parser.parse_args()
    result: Entry = {"environment": {**environment.describe(), "command": "python small_model.py"}}
    if options.file.exists():
        result = json.loads(options.file.read_text(encoding="utf-8"))
    runs = {"plain": ((), {}), "faults": (ON_THE_WAY, {}), **searched()}
    scripted = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    model, about = serve(options.python)
    try:
        assert scripted.stdout is not None
        server = Scripted(scripted.stdout.readline().split()[1])
        result["server"] = {key: value for key, value in about.items() if key != "url"}
        for name, (answers, more) in runs.items():
            if options.only in (None, name):
                with tempfile.TemporaryDirectory() as place:
                    row = play(Path(place) / name, server, about, answers, options, more)
                sys.stdout.write(f"{name}: {Counter(c['ended'] for c in row['calls'])}\n")
                result[name] = row
                options.file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    finally:
        model.terminate()
        scripted.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
