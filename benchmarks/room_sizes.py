"""Files, lines and imports of every room, at any commit, next to what each room may have.

    python benchmarks/room_sizes.py [COMMIT] [--before COMMIT] [--write FILE]

Read from git, so that a tree of any age can be counted. A line is a line of a Python file as ruff
formats it, blank ones and docstrings included; templates, headers, style sheets and prompts are
listed apart. `imports` is the share of import statements in the lines that are code: neither
blank, nor comment, nor docstring. `once` counts private functions of modules that their module
names once outside of their definition: helpers with one user.

A budget is what a room was to come to when it was drawn up, at commit 1aba7b8, where the whole
package had 563 files and 71,974 lines. Rooms that began after it have none and stand apart; what
has since been added to a room that existed counts in it.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DRAWN_UP = "1aba7b8"

HOST = ("server", "peer", "orders", "process")
TEXT_PANES = (
    "cited", "gpu", "hardware", "log", "plan", "profile", "rounds", "sanitizer", "sides", "tests",
    "times",
)  # fmt: skip
ASKING = ("ask", "asking", "attend", "follow", "terminal")
"""What of `plain` asks an engineer at a terminal, and follows an engine there: a front end."""


class Room(NamedTuple):
    """A room of the layout: its paths now and under earlier names, and what it may have."""

    name: str
    paths: tuple[str, ...]
    files: int = 0
    lines: int = 0


ROOMS = (
    # Parts of a folder stand before the folder: a file belongs to the first room that has it.
    Room("lab/audit", ("lab/audit/",)),
    Room("lab/conditions", ("lab/conditions/",)),
    Room("lab/tuning", ("lab/tuning/",)),
    Room("lab/yardsticks", ("lab/yardsticks/",)),
    Room("drafting/operators", ("drafting/operators/",)),
    Room("constraints", ("constraints/",)),
    Room("deliver", ("deliver/",)),
    Room("packages", ("packages/",)),
    Room("web", ("web/",)),
    Room("workers", ("workers/",)),
    Room(
        "rpc",
        (
            *("rpc/", "processes/", "lab/child.py", "lab/frames.py"),
            *(f"engine/{name}.py" for name in HOST),
            *("session/wire.py", "session/client.py", "session/engines.py"),
            *("session/spawn.py", "session/runtime.py"),
            *("sessions/wire.py", "sessions/client.py", "sessions/engines.py"),
        ),
        *(7, 1_200),
    ),
    Room(
        "present",
        (
            *("present/", "session/report/", "session/summary.py", "sessions/summary.py"),
            *(
                "cli/answers.py",
                "cli/json_answers.py",
                "tui/page.py",
                "tui/text_layout.py",
                "tui/words.py",
            ),
            *(f"tui/widgets/{name}.py" for name in TEXT_PANES),
        ),
        *(30, 4_700),
    ),
    Room("cli", (*(f"plain/{name}.py" for name in ASKING), "cli/"), 28, 3_300),
    Room("present", ("plain/",)),
    Room("tui", ("tui/",), 50, 8_300),
    Room("export", ("session/export/", "engine/export", "export/"), 14, 3_000),
    Room("engine", ("engine/",), 17, 2_800),
    Room("sessions", ("session/", "sessions/"), 12, 2_000),
    Room("llm", ("llm/", "agents/llm/", "agents/team.py", "agents/__init__.py"), 18, 3_300),
    Room("playbook", ("playbook/", "agents/playbook/"), 22, 4_300),
    Room("cuda_source", ("cuda_source/",), 9, 1_900),
    Room("drafting", ("drafting/", "lab/draft/"), 7, 1_500),
    Room("gpu", ("gpu/", "lab/cuda/", "lab/nvml/", "lab/timing/"), 34, 5_500),
    Room("emulator", ("emulator/", "lab/emulator/", "model/opcodes.py"), 20, 5_700),
    Room("lab", ("lab/",), 24, 5_000),
    Room("model", ("model/",), 26, 6_200),
)
"""`cuda_source` was in `drafting` and `playbook` when the budgets were drawn up."""

BUDGETS = {room.name: room for room in ROOMS if room.files}

SHORT = 40
"""Lines under which a file needs a reason to be one."""

COMMAND = "a command: one file each"
PROCESS = "a process begins here, and loads little"
COPIED = "goes into packages as it is"
REASONS = {
    "cli/commands/pack.py": COMMAND,
    "cli/commands/ps.py": COMMAND,
    "cli/commands/sessions.py": COMMAND,
    "cli/commands/sign.py": COMMAND,
    "cli/read_file.py": "the one door to files that users name",
    "export/templates/_eager.py": COPIED,
    "export/templates/_gpu.py": COPIED,
    "export/templates/_pins.py": COPIED,
    "export/templates/eager_fused_add_rmsnorm.py": COPIED,
    "export/templates/eager_silu_and_mul.py": COPIED,
    "gpu/process/main.py": PROCESS,
    "model/author.py": "plans, decisions and notes share it; every other file would bring in more",
    "emulator/faults.py": "all of the emulator raises these; any other file would bring in more",
    "gpu/tools.py": "the Python side of tools.cu, next to it",
    "model/roles.py": "events, teams and the loop share it; their files would bring in more",
    "model/verdict_thresholds.py": "looked for by name; their readers are in four rooms",
    "playbook/tolerance.py": "several moves share it, and nothing else",
    "model/workers.py": "events, screen and lines share it; other files would bring in more",
    "processes/exit_with_parent.py": "every child process loads it first",
    "tui/widgets/gpu.py": "a pane: one file each",
}
"""Why a short file of its own is right; by path."""


class Size(NamedTuple):
    """What a room has."""

    files: int = 0
    lines: int = 0
    code: int = 0
    imports: int = 0
    once: int = 0
    other: int = 0

    def __add__(self, other: Size) -> Size:  # type: ignore[override]
        return Size(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def share(self) -> float:
        """Percent of its code that imports."""
        return 100 * self.imports / self.code if self.code else 0.0


def room_of(path: str) -> str:
    """The room of a path in the package; of one that no room lists, its folder."""
    for room in ROOMS:
        if path.startswith(room.paths):
            return room.name
    return path.split("/")[0] if "/" in path else "(root)"


def tree_at(commit: str) -> dict[str, str]:
    """The text files of the package at a commit, by their path in it."""
    packed = subprocess.run(
        ["git", "archive", commit, "astra_tui"], capture_output=True, check=True
    ).stdout
    found = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                name = member.name.removeprefix("astra_tui/")
                found[name] = file.read().decode(errors="replace")
    return found


def sizes_of(tree: dict[str, str]) -> dict[str, Size]:
    """What each room has, by its name."""
    modules = {path: ast.parse(text) for path, text in tree.items() if path.endswith(".py")}
    sizes: dict[str, Size] = {}
    for path, text in tree.items():
        lines = text.count("\n")
        size = Size(other=lines)
        if path in modules:
            module = modules[path]
            size = Size(1, lines, _code_lines(module, text), _import_lines(module))
            named = Counter(_names(module))
            size = size._replace(once=sum(named[name] == 1 for name in _private(module)))
        room = room_of(path)
        sizes[room] = sizes.get(room, Size()) + size
    return sizes


def short_files(tree: dict[str, str]) -> dict[str, int]:
    """The modules of fewer than SHORT lines with theirs; a package's `__init__` is none."""
    return {
        path: text.count("\n")
        for path, text in sorted(tree.items())
        if path.endswith(".py") and "__" not in path and text.count("\n") < SHORT
    }


def _names(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name


def _private(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("_"):
            yield node.name


def _import_lines(module: ast.Module) -> int:
    statements = (n for n in ast.walk(module) if isinstance(n, ast.Import | ast.ImportFrom))
    return sum((n.end_lineno or n.lineno) - n.lineno + 1 for n in statements)


def _code_lines(module: ast.Module, text: str) -> int:
    told = {
        number
        for node in ast.walk(module)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(
        number not in told and re.match(r"\s*(#|$)", line) is None
        for number, line in enumerate(text.split("\n"), 1)
    )


def table(now: dict[str, Size], before: dict[str, Size], names: list[str]) -> Iterator[str]:
    """Rows of rooms, with their sum."""
    yield (
        f"{'room':20}{'files':>6}{'before':>7}{'budget':>7}{'lines':>9}{'before':>8}{'budget':>8}"
        f"{'imports':>9}{'before':>8}{'once':>6}{'before':>7}{'other':>8}"
    )
    rows = [(name, now.get(name, Size()), before.get(name, Size())) for name in names]
    rows = [row for row in rows if row[1].files or row[2].files]
    rows.append(("together", *(sum((r[i] for r in rows), Size()) for i in (1, 2))))
    for name, has, had in rows:
        may = BUDGETS.get(name)
        files, lines = (may.files, f"{may.lines:,}") if may else ("", "")
        yield (
            f"{name:20}{has.files:6}{had.files:7}{files:>7}{has.lines:9,}{had.lines:8,}{lines:>8}"
            f"{has.share:8.1f}%{had.share:7.1f}%{has.once:6}{had.once:7}{has.other:8,}"
        )


def report(commit: str, before: str) -> str:
    """The whole of it in lines."""
    tree = tree_at(commit)
    now, had = sizes_of(tree), sizes_of(tree_at(before))
    apart = sorted({*now, *had} - {*BUDGETS})
    short = short_files(tree)
    return "\n".join(
        [
            f"{_name_of(commit)}, before: {_name_of(before)}",
            "",
            *table(now, had, list(BUDGETS)),
            "",
            "Without a budget: begun since, or no room",
            *table(now, had, apart),
            "",
            f"Files under {SHORT} lines",
            *(f"{n:4}  {path}  ({REASONS.get(path, 'no reason')})" for path, n in short.items()),
            "",
        ]
    )


def _name_of(commit: str) -> str:
    words = ["git", "log", "-1", "--format=%h of %as", commit]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Prints the tables, or writes them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commit", nargs="?", default="HEAD", metavar="COMMIT")
    parser.add_argument("--before", default=DRAWN_UP, metavar="COMMIT")
    parser.add_argument("--write", type=Path, metavar="FILE", help="where to write them")
    args = parser.parse_args()
    text = report(args.commit, args.before)
    if args.write:
        args.write.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
