"""What `astra-tui verify` of the recorded sessions said on a GPU, without the cases.

    for s in sessions/h100-*; do
        astra-tui verify $s --device cuda:0 --json > $(basename $s).json
    done
    python benchmarks/verify_summary.py h100-*.json > benchmarks/results/gpu_verify.json

Nothing is measured here: it takes ratios, verdicts and what is allowed from verify's answers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Prints one JSON object for all answers that are named."""
    sessions = [
        _session(json.loads(Path(name).read_text(encoding="utf-8"))) for name in sys.argv[1:]
    ]
    print(json.dumps({"sessions": sessions}, indent=1))


def _session(answer: dict[str, Any]) -> dict[str, Any]:
    kept = ("session", "exit_code", "message", "task", "task_hash", "recorded", "here")
    candidates = [_candidate(c) for c in answer["candidates"]]
    apart = [w["apart"] for c in candidates for t in c["timings"] for w in t["workloads"]]
    return {
        **{name: answer[name] for name in kept},
        "differences": answer["differences"],
        "largest_difference_of_a_workload": max(apart, default=0.0),
        "candidates": candidates,
    }


def _candidate(candidate: dict[str, Any]) -> dict[str, Any]:
    kept = ("candidate", "round", "recorded", "measured", "cases", "problems", "notes")
    return {
        **{name: candidate[name] for name in kept},
        "timings": [_timing(t) for t in candidate["timings"] if t["measured"]],
    }


def _timing(pair: dict[str, Any]) -> dict[str, Any]:
    recorded, measured = pair["recorded"], pair["measured"]
    workloads = zip(recorded["workloads"], measured["workloads"], strict=True)
    return {
        "base": pair["base"],
        "allowed": pair["tolerance"],
        "disagreement": pair["disagreement"],
        **_both(recorded["speedup"], measured["speedup"]),
        "verdicts": [recorded["verdict"], measured["verdict"]],
        "workloads": [
            {
                "workload": was["workload"],
                **_both(was["cold"]["speedup"], now["cold"]["speedup"]),
                "verdicts": [was["verdict"], now["verdict"]],
                "doubts": [caveat["kind"] for caveat in now.get("doubts", ())],
            }
            for was, now in workloads
        ],
    }


def _both(was: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return {
        "recorded": [was["low"], was["value"], was["high"]],
        "measured": [now["low"], now["value"], now["high"]],
        "apart": abs(now["value"] / was["value"] - 1),
    }


if __name__ == "__main__":
    main()
