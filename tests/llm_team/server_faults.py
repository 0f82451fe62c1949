"""Runs of the loop against a model's server that fails: what is said, what it costs, what is left.

    python tests/llm_team/server_faults.py [FILE.json] [--only TEXT]

Each fault meets a copy of one session whose baseline is done. The run has to end with a message
and the exit code for it, within its budget and with every call settled; then the session is resumed
on a server that works and has to reach the diff of the plan, as it does without a fault.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from astra_tui.cli.run_result import EXIT_CODE_OF
from astra_tui.llm import Endpoint
from astra_tui.model.digest import content_hash
from astra_tui.model.events import SessionClosed, StopReason
from astra_tui.model.settings import Approval, Budget, GatePolicy
from astra_tui.model.task import KernelTask, find_task
from tests.llm.conftest import KEY, SERVER, Scripted
from tests.llm_team.conftest import (
    QUIET,
    Ran,
    fence,
    planning,
    proposed,
    reply,
    run_engine,
    source,
)

Entry = dict[str, Any]

TITLE = "read pairs"
TO_THE_DIFF = Approval(plan=GatePolicy.AUTO, diff=GatePolicy.ASK)
BUDGET = Budget(tokens=60_000)
ANSWER_TOKENS = 1024
LONG = "The reduction is bound by memory. " * 40

STEPS: dict[str, Entry] = {
    "every call": {},
    "advice": {"when": {"system": "profiling"}},
    "planning": {"when": {"user": "Step: planning"}},
    "coding": {"when": {"system": "coding"}},
}
"""Which calls meet the fault; the others are answered as they should be."""

FAULTS: dict[str, Entry] = {
    "401": {"fault": "status", "status": 401, "error": {"message": "bad key {key}"}},
    "402": {"fault": "status", "status": 402},
    "400 too long": {
        "fault": "status",
        "status": 400,
        "error": {"message": "maximum context length is 10", "code": "context_length_exceeded"},
    },
    "404": {"fault": "status", "status": 404},
    "413": {"fault": "status", "status": 413},
    "429": {"fault": "status", "status": 429, "headers": {"Retry-After": "0"}},
    "429 for an hour": {"fault": "status", "status": 429, "headers": {"Retry-After": "3600"}},
    "500": {"fault": "status", "status": 500},
    "503": {"fault": "status", "status": 503},
    "refusal of 64 MB": {"fault": "flood", "status": 500, "bytes": 64 << 20},
    "another host": {
        "fault": "status",
        "status": 307,
        "headers": {"Location": "http://localhost:9/v1/chat/completions"},
    },
    "a page": {"fault": "html"},
    "no answer": {"fault": "drop"},
    "breaks off": {"fault": "break", "text": LONG, "after": 4},
    "falls silent": {"fault": "stall", "text": LONG, "after": 4},
    "not JSON": {"fault": "garbage", "text": LONG, "after": 4},
    "nested 100,000 deep": {"fault": "deep", "text": LONG, "after": 4},
    "error in the stream": {"fault": "error", "text": LONG, "after": 4},
    "compressed": {"fault": "gzip", "text": LONG},
    "no end of a line": {"fault": "flood", "bytes": 64 << 20},
    "cut at its limit": {"text": LONG, "finish": "length"},
    "no end mark": {"text": LONG, "finish": None},
    "filtered": {"text": LONG, "finish": "content_filter"},
    "declined": {"refusal": "I cannot help with that."},
    "empty": {"text": ""},
    "runs away": {"text": "x" * 400_000, "piece": 4096},
    "nonsense": {"text": "\ud83d no JSON, no code"},
}


OF_THE_MODEL = ("cut at its limit", "filtered", "declined", "empty", "runs away", "nonsense")
"""Faults in which the model answers, and nothing that can be used: rounds of them are done."""

ROUNDS = 3


def cases() -> list[tuple[str, str, bool]]:
    """Fault, step, and whether the server counts tokens."""
    counted = [(fault, step, True) for fault, step in product(FAULTS, STEPS)]
    return [*counted, *((fault, "planning", False) for fault in ("runs away", "cut at its limit"))]


def play(server: Scripted, fault: Entry | None, step: str, counts: bool) -> None:
    """The script of a server that answers well but for the fault in one step."""
    faulty = [] if fault is None else [{**fault, **STEPS[step], "times": None}]
    if fault is not None and step == "planning":
        faulty.append({**fault, "when": {"user": "That answer is not valid"}, "times": None})
    plan = planning(proposed(TITLE), times=None)
    code = reply("Step: coding", fence(source("better")))
    server.play(*faulty, *QUIET, plan, code, key=KEY, usage=counts)


def run(
    folder: Path, task: KernelTask, endpoint: Any, budget: Budget = BUDGET, rounds: int = ROUNDS
) -> Ran:
    """The loop up to the diff of a plan, or to what stops it before."""
    return run_engine(
        folder, task, endpoint, approval=TO_THE_DIFF, rounds=rounds, budget=budget,
        output_tokens=ANSWER_TOKENS,
    )  # fmt: skip


class Impatient:
    """The server, with little patience, so that silence takes no minutes here."""

    def __init__(self, server: Scripted):
        self._server = server

    def endpoint(self) -> Endpoint:
        endpoint = self._server.endpoint("chat", attempts=2)
        return replace(endpoint, timeouts=replace(endpoint.timeouts, silence=1.0))


def prepared(folder: Path, task: KernelTask, server: Scripted) -> Path:
    """A session whose baseline is done and in which no model was asked yet."""
    server.play(key=KEY)
    run_engine(folder, task, server, rounds=0)
    return folder


def try_fault(
    base: Path, folder: Path, task: KernelTask, server: Scripted, case: tuple[str, str, bool]
) -> dict[str, Any]:
    """One row of the table. Raises AssertionError where a promise is broken."""
    fault, step, counts = case
    shutil.copytree(base, folder)
    play(server, FAULTS[fault], step, counts)
    failed = run(folder, task, Impatient(server))
    closed, usage = failed.of(SessionClosed)[-1], failed.state.usage
    over = usage.tokens - (BUDGET.tokens or 0)
    assert not usage.reserved, "a call was not settled"
    assert over <= ANSWER_TOKENS, f"{over} tokens over the budget"
    assert KEY not in closed.message
    assert closed.message
    lost = [r.number for r in failed.state.rounds if r.lost]
    play(server, None, step, counts)
    resumed = run(folder, task, Impatient(server), Budget(), 2 * ROUNDS).state
    assert resumed.pending, f"not resumable: {resumed.closed}"
    assert resumed.pending[-1].subject == content_hash(source("better"))
    return {
        "fault": fault,
        "in": step if counts else f"{step}, no tokens counted",
        "reason": closed.reason.value,
        "exit code": int(EXIT_CODE_OF[closed.reason]),
        "message": closed.message.splitlines()[0],
        "calls": usage.calls,
        "tokens": usage.tokens,
        "estimated calls": usage.estimated_calls,
        "lost rounds": len(lost),
        "resumes": True,
    }


def expected(row: dict[str, Any]) -> bool:
    """Whether the run ended as it should: advice costs itself, a server that gives no answer ends
    it with 6, and answers that cannot be used cost rounds.
    """
    if row["in"] == "advice":
        return bool(row["reason"] == StopReason.UNATTENDED.value)
    ends = StopReason.ROUNDS if row["fault"] in OF_THE_MODEL else StopReason.TROUBLE
    return row["reason"] in (ends.value, StopReason.BUDGET.value)


def main() -> int:
    """Tries them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    rows, problems = [], []
    with (
        tempfile.TemporaryDirectory() as place,
        subprocess.Popen(
            [sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            server = Scripted(process.stdout.readline().split()[1])
            task = find_task("silu_and_mul")
            base = prepared(Path(place) / "base", task, server)
            for number, case in enumerate(cases()):
                name = f"{case[0]} in {case[1]}"
                if options.only not in name:
                    continue
                try:
                    row = try_fault(base, Path(place) / str(number), task, server, case)
                except AssertionError as broken:
                    problems.append(f"{name}: {broken}")
                else:
                    rows.append(row)
                    if not expected(row):
                        problems.append(f"{name}: ended with {row['reason']}: {row['message']}")
                sys.stdout.write(f"{name}: {rows[-1] if rows else problems[-1]}\n")
                sys.stdout.flush()
        finally:
            process.terminate()
    if options.file is not None:
        answer = {"faults": len(rows), "problems": problems, "rows": rows}
        options.file.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write("".join(f"PROBLEM {text}\n" for text in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
