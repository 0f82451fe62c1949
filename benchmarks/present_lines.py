"""Lines of what says and draws the facts of sessions and answers, at any commit.

    python benchmarks/present_lines.py [COMMIT]

Counted as in commit 1aba7b8, where the sum is 7,255 lines: every line of a Python file, blank ones
and docstrings included. Templates and style sheets are listed apart, and so is what asks at a
terminal and follows an engine there: it is a front end, and no version of the facts. A path that a
commit does not have counts nothing, so that one list serves all.
"""

from __future__ import annotations

import subprocess
import sys

PARTS = {
    "documents, words, numbers, reports": ("astra_tui/present", "astra_tui/session/report"),
    "lines on a terminal": ("astra_tui/plain",),
    "JSON of answers and runs": (
        "astra_tui/cli/answers.py",
        "astra_tui/session/summary.py",
        "astra_tui/sessions/summary.py",
    ),
    "layout and text panes of the screen": (
        "astra_tui/tui/page.py",
        "astra_tui/tui/text_layout.py",
        "astra_tui/tui/words.py",
        *(
            f"astra_tui/tui/widgets/{name}.py"
            for name in (
                "cited", "gpu", "hardware", "log", "plan", "profile", "rounds", "sanitizer",
                "sides", "tests", "times",
            )
        ),
    ),
}  # fmt: skip
_ASKING = ("ask", "asking", "attend", "follow", "terminal")
ASKING = {f"astra_tui/plain/{name}.py" for name in _ASKING}
"""What asks an engineer at a terminal, and follows an engine there."""


def lines_under(commit: str, path: str) -> dict[str, int]:
    """The lines of each file at or under a path, by its name; nothing where it is not there."""
    listed = _git("ls-tree", "-r", "--name-only", commit, "--", path).splitlines()
    return {name: _git("show", f"{commit}:{name}").count("\n") for name in listed}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Prints a line a part, their sum, and what asks."""
    commit = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    total = 0
    apart = {"asking and following at a terminal": 0, "templates and style sheets": 0}
    for part, paths in PARTS.items():
        found = {n: size for path in paths for n, size in lines_under(commit, path).items()}
        python = {n: size for n, size in found.items() if n.endswith(".py")}
        asks = sum(size for name, size in python.items() if name in ASKING)
        said = sum(python.values()) - asks
        total += said
        apart["asking and following at a terminal"] += asks
        apart["templates and style sheets"] += sum(found.values()) - sum(python.values())
        print(f"{said:6,}  {part}")
    print(f"{total:6,}  together")
    for part, size in apart.items():
        print(f"{size:6,}  apart: {part}")


if __name__ == "__main__":
    main()
