"""Flags that several commands share, and how a command is added."""

from __future__ import annotations

import argparse
import importlib
import os
import secrets
from collections.abc import Callable
from textwrap import fill
from typing import TypeAlias

from astra_tui.cli.exit_codes import MEANINGS
from astra_tui.cli.parsing import CommandParser, at_least_one

EPILOG = "exit codes:\n" + "\n".join(f"  {int(c):3}  {text}" for c, text in MEANINGS.items())

MAX_SEED = (1 << 48) - 1
"""Seeds are whole numbers that every reader of JSON has exactly."""

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"


def add_command(commands: Commands, name: str, summary: str, more: str) -> CommandParser:
    """A command whose work is in the module of its name, which is loaded when it runs."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n{fill(more, 79)}".strip(),
        epilog=EPILOG,
    )
    parser.set_defaults(run=_lazily(name))
    return parser


LEAST_MEMORY = 192 << 20
"""Bytes of address space below which NumPy's library ends a process without an exception."""


def _lazily(name: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        if "device" in options:
            _require_memory()
        module = importlib.import_module(f"astra_tui.cli.{name}")
        return int(module.run(options))

    return run


def _require_memory() -> None:
    """Raises MemoryError where a command that runs kernels has no room to load what it needs."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < LEAST_MEMORY:
        raise MemoryError(
            f"this process may use {limit >> 20} MiB of memory, and needs {LEAST_MEMORY >> 20}"
        )


def json_flag(parser: CommandParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object (docs/json.md)")


def plain_flag(parser: CommandParser) -> None:
    """`--plain`."""
    parser.add_argument(
        "--plain",
        action="store_const",
        const=True,
        help="lines of text instead of the screen, for screen readers and dumb terminals",
    )


def device_flag(parser: CommandParser) -> None:
    """`--device`, for a command that runs kernels."""
    parser.add_argument(
        "--device",
        default="auto",
        metavar="DEVICE",
        help="auto (default): the first GPU, else the emulator; or emulator, cuda, cuda:1",
    )


def seed_flag(parser: CommandParser) -> None:
    """`--seed`, for a command that checks candidates."""
    parser.add_argument(
        "--seed",
        type=whole_number,
        metavar="N",
        help="what sizes, scalars and values are drawn from; by default drawn, and reported",
    )


def chosen_seed(given: int | None) -> int:
    """The seed that a flag gives, else $ASTRA_TUI_SEED, else one that no team can know."""
    if given is not None:
        return given
    configured = os.environ.get("ASTRA_TUI_SEED", "")
    return int(configured) if configured.isdecimal() else 1 + secrets.randbelow(MAX_SEED)


def whole_number(text: str) -> int:
    """Reads a seed."""
    if not text.isdecimal() or int(text) > MAX_SEED:
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0 to {MAX_SEED}")
    return int(text)


def sanitize_flag(parser: CommandParser) -> None:
    """`--sanitize`, for a command that checks candidates."""
    parser.add_argument(
        "--sanitize",
        action=argparse.BooleanOptionalAction,
        help="run compute-sanitizer on what passed its check; what it finds is an error, and "
        "where it is not installed that is said",
    )


def run_flags(parser: CommandParser) -> None:
    """What a run, new or old, may be told."""
    _work_flags(parser)
    _approval_flags(parser)
    _limit_flags(parser)
    parser.add_argument("--config", metavar="FILE", help="a TOML file of settings")
    parser.add_argument(
        "--linger-seconds",
        type=float,
        metavar="X",
        help="how long an engine that nobody attends waits for a decision (default: 3600)",
    )
    parser.add_argument(
        "--headless", action="store_true", help="never ask at the terminal; exit code 5 instead"
    )
    plain_flag(parser)
    json_flag(parser)


def _work_flags(parser: CommandParser) -> None:
    parser.add_argument(
        "--team",
        choices=("llm", "llm-single", "playbook"),
        help="who works: a model in four roles, a model in one, or the playbook, which needs no "
        "model (default: llm where a model is set up, else playbook)",
    )
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        help="auto (default): the first GPU, else the emulator; or emulator, cuda, cuda:1",
    )
    parser.add_argument(
        "--rounds", type=at_least_one, metavar="N", help="rounds at most (default: 5)"
    )
    parser.add_argument(
        "--candidates",
        type=at_least_one,
        metavar="K",
        help="plans that are tried in a round (default: 1)",
    )
    parser.add_argument(
        "--repairs", type=int, metavar="N",
        help="how often failed code goes back to be mended (default: 2)",
    )  # fmt: skip
    sanitize_flag(parser)
    parser.add_argument(
        "--ncu",
        action=argparse.BooleanOptionalAction,
        help="read hardware counters of every best candidate with ncu, where that is permitted",
    )


def _approval_flags(parser: CommandParser) -> None:
    parser.add_argument(
        "--approve",
        metavar="ask|auto|FILE",
        help="who decides on plans and diffs: you (default), a policy, or a file of decisions "
        "(docs/approvals.md)",
    )
    parser.add_argument("--approve-plan", choices=("ask", "auto"), help="the same for plans alone")
    parser.add_argument("--approve-diff", choices=("ask", "auto"), help="the same for diffs alone")
    parser.add_argument(
        "--max-risk",
        choices=("low", "medium", "high"),
        help="the riskiest plan that auto accepts (default: high)",
    )


def _limit_flags(parser: CommandParser) -> None:
    parser.add_argument("--model", metavar="NAME", help="the model of team llm")
    parser.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible server")
    parser.add_argument(
        "--budget-tokens", type=int, metavar="N", help="tokens that the model may cost"
    )
    parser.add_argument(
        "--budget-dollars", type=float, metavar="X", help="dollars that the model may cost"
    )
    parser.add_argument("--budget-calls", type=int, metavar="N", help="calls of the model at most")
    parser.add_argument(
        "--budget-gpu-seconds",
        type=float,
        metavar="S",
        help="seconds of timing on the GPU at most",
    )
    parser.add_argument("--title", metavar="TEXT", help="what the session is called in lists")
    parser.add_argument(
        "--roofline",
        type=float,
        metavar="SHARE",
        help="stop at this share of a copy's speed on every workload (default: 0.95; 0: never)",
    )
