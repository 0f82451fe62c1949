"""What prompts and answers of a round cost, of one version of this repository and another.

    python benchmarks/prompt_sizes.py FILE.json --tokenizer URL NAME=CHECKOUT[:tools] ...

Each checkout runs three rounds on silu_and_mul with its own command line, against a server that
answers by one script: code that does not compile and is repaired; a plan that is wrong twice; one
that is slower. With `:tools` the coding agent compiles, checks and counts a draft in each turn.
Counted are the requests as the server got them, schemas and tools included, by the tokenizer of the
server at URL (llama.cpp's, as benchmarks/small_model_server.py starts it).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import environment

sys.path.insert(0, str(environment.ROOT))

from tests.llm.conftest import SERVER, Scripted
from tests.llm_team.conftest import QUIET, fence, planning, proposed, reply, source

Entry = dict[str, Any]

TASK = "silu_and_mul"
PRICES = {"input": 2.0, "output": 10.0}
"""Dollars a million tokens, for the comparison."""

WORSE = (environment.ROOT / "kernels" / TASK / "baseline.cu").read_text(encoding="utf-8")
_STEP = re.compile(r"^Step: (\w+), round (\d+)[,.] ?(.{0,40})", re.MULTILINE)


def script(tools: bool) -> list[Entry]:
    """The answers of a whole run."""
    turns = [
        ("read pairs", [source("broken"), source("better")]),
        ("read the gate once", [source("wrong"), source("wrong"), source("wrong")]),
        ("one element a thread", [WORSE, WORSE]),
    ]
    entries: list[Entry] = [
        reply("a look at the playbook", "Nothing to add."),
        reply(". Add at most", {"cases": []}),
        *QUIET,
        *(planning(proposed(title)) for title, _ in turns),
    ]
    for title, sources in turns:
        coder = {"system": "coding", "user": f"title: {title}"}
        if tools:
            draft = {"name": "compile", "arguments": {"source": sources[-1], "of": "base"}}
            use = [{"name": n, "arguments": {"draft": "d1"}} for n in ("check", "count")]
            entries.append({"when": coder, "tool_calls": [draft]})
            entries.append({"when": {"user": "d1 compiles"}, "tool_calls": use[:1]})
            entries.append({"when": {"user": "d1 "}, "tool_calls": use[1:]})
            entries.append({"when": {"system": "coding"}, "text": "As tried.\nDRAFT d1\n"})
        entries += [{"when": coder, "text": fence(code)} for code in sources]
        entries.append({"when": coder, "text": "KEEP: it is as good as it gets.", "times": None})
    return entries


def run(checkout: Path, server: Scripted) -> None:
    """Three rounds of a version, on what is scripted."""
    with tempfile.TemporaryDirectory() as place:
        environ = {
            **os.environ, "PYTHONPATH": str(checkout), "OPENAI_API_KEY": "none",
            "ASTRA_TUI_MEMORY": "off", "XDG_RUNTIME_DIR": place,
        }  # fmt: skip
        command = [
            sys.executable, "-m", "astra_tui", "run", TASK, "--team", "llm", "--rounds", "3",
            "--device", "emulator", "--model", "test-model", "--base-url", server.url,
            "--approve", "auto", "--headless", "--session", str(Path(place) / "s"),
        ]  # fmt: skip
        ended = subprocess.run(
            command, cwd=place, env=environ, capture_output=True, text=True, check=False
        )
    if ended.returncode not in (0, 6):
        raise SystemExit(f"{checkout}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")


def requests_of(server: Scripted, tokenizer: str) -> Iterator[Entry]:
    """Each request with its round and step, and its size."""
    number, step = 0, ""
    for body in server.requests("chat"):
        text = "\n".join(str(m.get("content") or m.get("tool_calls")) for m in body["messages"])
        found = _STEP.search(text)
        if found:
            number, step = int(found[2]), f"{found[1]}: {found[3]}".rstrip(": ")
        extra = json.dumps({k: body[k] for k in ("tools", "response_format") if k in body})
        yield {
            "round": number,
            "step": step,
            "characters": len(text),
            "tokens": count_tokens(text, tokenizer),
            "tokens of schema and tools": count_tokens(extra, tokenizer) if extra != "{}" else 0,
        }


def count_tokens(text: str, tokenizer: str) -> int:
    """By the tokenizer of a llama.cpp server."""
    body = json.dumps({"content": text}).encode()
    url = tokenizer.removesuffix("/v1") + "/tokenize"
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=600) as answer:
        return len(json.load(answer)["tokens"])


def by_round(rows: list[Entry]) -> list[Entry]:
    """Calls and tokens of each round."""
    found = []
    for number in sorted({r["round"] for r in rows}):
        own = [r for r in rows if r["round"] == number]
        tokens = sum(r["tokens"] + r["tokens of schema and tools"] for r in own)
        found.append(
            {
                "round": number,
                "calls": len(own),
                "largest": max(r["tokens"] for r in own),
                "tokens": tokens,
                "dollars": round(tokens * PRICES["input"] / 1e6, 4),
            }
        )
    return found


def main() -> None:
    """Runs the versions, and writes what was counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--tokenizer", required=True)
    options = parser.parse_args()
    about = {**environment.describe(), "command": "python prompt_sizes.py"}
    result: Entry = {"environment": about, "prices": PRICES, "versions": []}
    with subprocess.Popen(
        [sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        server = Scripted(process.stdout.readline().split()[1])
        try:
            for version in options.versions:
                name, _, place = version.partition("=")
                checkout = Path(place.removesuffix(":tools")).resolve()
                server.play(*script(place.endswith(":tools")))
                run(checkout, server)
                rows = list(requests_of(server, options.tokenizer))
                commit = environment.commit_of(checkout)
                rounds = by_round(rows)
                result["versions"].append(
                    {"name": name, "commit": commit, "rounds": rounds, "requests": rows}
                )
                sys.stdout.write(f"{name} ({commit}): {rounds}\n")
        finally:
            process.terminate()
    options.file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
