"""The generated parts of docs/agents.md and docs/study.md: what was run with a team."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from astra_tui.cli.json_answers import StudyAnswer
from astra_tui.present.files import blocks_as_markdown
from astra_tui.present.sessions import study_blocks

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
STUDIES = Path(__file__).parents[1] / "benchmarks" / "studies"

Entry = dict[str, Any]


def small_model_tables() -> str:
    """The calls and rounds of a small model, as `tests/llm_team/small_model.py` recorded them."""
    found = _read("small_model.json")
    server = found["server"]
    versions = ", ".join(f"{name} {version}" for name, version in server["packages"].items())
    parts = [
        f"Weights `{server['weights']}`, {server['bytes']:,} bytes, sha256 `{server['sha256']}`; "
        f"{versions}; Python {found['environment']['python']}."
    ]
    titles = {
        "plain": "Without faults", "faults": "With faults injected",
        "archive": "With `--search archive`", "restarts": "With `--search restarts`",
    }  # fmt: skip
    for key, title in ((k, t) for k, t in titles.items() if k in found):
        run = found[key]
        most = f"answers of at most {run['output_tokens']} tokens"
        end = run["message"].partition("; ")[0]
        parts += [
            f"**{title}**, {most}. It ended with: {end}. {run['requests']} requests reached the "
            f"server, {run['sendings']} are in the journal; {run['tokens']:,} tokens were charged.",
            _table(("call", "calls", "ended", "tokens charged"), _calls(run)),
            _table(("round", "ended", "why"), _rounds(run))
            if "stands_on" not in run["rounds"][0]
            else _table(("round", "stands on", "ended", "why"), _rounds(run)),
        ]
    return "\n\n".join(parts)


def _calls(run: Entry) -> Iterator[tuple[object, ...]]:
    kinds = Counter((c["purpose"], _ended(c)) for c in run["calls"])
    for (purpose, ended), count in sorted(kinds.items()):
        own = [c for c in run["calls"] if (c["purpose"], _ended(c)) == (purpose, ended)]
        tokens = sum(c["input"] + c["output"] for c in own)
        guessed = " (estimated)" if any(c["estimated"] for c in own) else ""
        yield purpose, count, ended, f"{tokens:,}{guessed}"


def _ended(call: Entry) -> str:
    if call["ended"] != "failed":
        return str(call["ended"])
    return f"failed: {call['error'].partition(' http')[0].partition(' (')[0]}"


def _rounds(run: Entry) -> Iterator[tuple[object, ...]]:
    for row in run["rounds"]:
        stands_on = [row["stands_on"]] if "stands_on" in row else []
        yield row["round"], *stands_on, row["ended"], row["reason"]


def prompt_table() -> str:
    """Prompts of a round, before and after, as `benchmarks/prompt_sizes.py` counted them."""
    found = _read("prompt_sizes.json")
    rows = [
        (
            row["round"], f"{version['name']} ({version['commit'].partition('-')[0]})",
            row["calls"], f"{row['largest']:,}", f"{row['tokens']:,}", f"${row['dollars']:.3f}",
        )
        for version in found["versions"]
        for row in version["rounds"]
    ]  # fmt: skip
    columns = "round", "version", "calls", "largest prompt", "all prompts", "cost"
    return _table(columns, sorted(rows, key=lambda r: r[0]))


def study_tables(name: str) -> Callable[[], str]:
    """The file of a study and its tables, from `astra-tui study FILE --json`."""

    def tables() -> str:
        told = msgspec.json.decode((RESULTS / f"study_{name}.json").read_bytes(), type=StudyAnswer)
        file = (STUDIES / f"{name}.toml").read_text(encoding="utf-8").strip()
        blocks = blocks_as_markdown(study_blocks(told.rows, told.usage), 3)
        return f"```toml\n{file}\n```\n\n{blocks}"

    return tables


def _table(columns: tuple[str, ...], rows: Iterator[tuple[object, ...]] | list[Any]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    cells = ([str(cell).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def _read(name: str) -> Entry:
    found: Entry = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return found
