"""Every command with its flags and help. What a command does is in the module named after it."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from textwrap import fill
from typing import TYPE_CHECKING

import astra_tui
from astra_tui.cli.exit_codes import MEANINGS
from astra_tui.cli.parsing import CommandParser, at_least_one

EPILOG = "exit codes:\n" + "\n".join(f"  {int(c):3}  {text}" for c, text in MEANINGS.items())

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[CommandParser]


def build_parser() -> CommandParser:
    """The parser for all commands."""
    parser = CommandParser(prog="astra-tui", description=astra_tui.__doc__, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"astra-tui {astra_tui.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _run(commands)
    _kernels(commands)
    _check(commands)
    _counters(commands)
    _sass(commands)
    _bench(commands)
    _new(commands)
    _doctor(commands)
    _sessions(commands)
    _attach(commands)
    _ps(commands)
    _stop(commands)
    return parser


def _command(commands: _Commands, name: str, summary: str, more: str) -> CommandParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n{fill(more, 79)}".strip(),
        epilog=EPILOG,
    )
    parser.set_defaults(run=_lazily(name))
    return parser


def _lazily(name: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        module = importlib.import_module(f"astra_tui.cli.{name}")
        return int(module.run(options))

    return run


def _json(parser: CommandParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object (docs/json.md)")


def _plain(parser: CommandParser) -> None:
    parser.add_argument(
        "--plain",
        action="store_const",
        const=True,
        help="lines of text instead of the screen, for screen readers and dumb terminals",
    )


def _device(parser: CommandParser) -> None:
    parser.add_argument(
        "--device",
        default="auto",
        metavar="DEVICE",
        help="auto (default): the first GPU, else the emulator; or emulator, cuda, cuda:1",
    )


def _run(commands: _Commands) -> None:
    parser = _command(
        commands,
        "run",
        "optimise a kernel, round by round",
        "Each round plans one change, writes it, checks it and profiles it; you decide on the "
        "plan and on the diff. Settings come from flags, then from the environment "
        "(ASTRA_TUI_ROUNDS, ...), then from ./astra-tui.toml or the user's config.toml.",
    )
    parser.add_argument("task", metavar="TASK", help="a task's name or folder")
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
    parser.add_argument("--model", metavar="NAME", help="the model of team llm")
    parser.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible server")
    parser.add_argument("--budget-tokens", type=int, metavar="N", help="stop after this many")
    parser.add_argument("--budget-dollars", type=float, metavar="X", help="stop after this much")
    parser.add_argument(
        "--budget-gpu-seconds",
        type=float,
        metavar="S",
        help="stop after so many seconds of timing",
    )
    parser.add_argument(
        "--roofline",
        type=float,
        metavar="SHARE",
        help="stop at this share of a copy's speed on every workload (default: 0.95; 0: never)",
    )
    parser.add_argument(
        "--session", metavar="DIR", help="the session's folder; one that has a journal goes on"
    )
    parser.add_argument(
        "--sessions", metavar="DIR", help="where new sessions go (default: ./sessions)"
    )
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
    _plain(parser)
    _json(parser)


def _kernels(commands: _Commands) -> None:
    parser = _command(
        commands,
        "kernels",
        "list the kernel tasks",
        "Tasks are looked up in ./kernels, in $ASTRA_TUI_KERNELS, then among the bundled ones.",
    )
    _json(parser)


def _check(commands: _Commands) -> None:
    parser = _command(
        commands,
        "check",
        "check that kernels compute what their task says",
        "Without SOURCE, every source in the task's folder is checked.",
    )
    parser.add_argument("task", nargs="?", metavar="TASK", help="a task's name or folder")
    parser.add_argument("sources", nargs="*", metavar="SOURCE.cu", help="kernel sources to check")
    parser.add_argument("--all", action="store_true", help="check every source of every task")
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only cases that match, such as 'float16/d=769' or '*shifted*'; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="list the cases with their reasons")
    parser.add_argument("--verbose", "-v", action="store_true", help="show every case")
    _device(parser)
    _json(parser)


def _counters(commands: _Commands) -> None:
    parser = _command(
        commands,
        "counters",
        "count memory traffic and instructions, line by line",
        "Counts come from the emulator: they are exact for memory, and never a time.",
    )
    parser.add_argument("task", metavar="TASK", help="a task's name or folder")
    parser.add_argument("source", metavar="SOURCE.cu", help="the kernel source to count")
    parser.add_argument("--against", metavar="OTHER.cu", help="a version to compare with")
    parser.add_argument("--workload", metavar="NAME", help="the workload; by default the first")
    parser.add_argument(
        "--rows",
        type=at_least_one,
        metavar="N",
        help="rows to run; by default as many as stay quick",
    )
    _json(parser)


def _sass(commands: _Commands) -> None:
    parser = _command(
        commands,
        "sass",
        "show the machine code of a source beside its lines",
        "It is compiled for sm_90a and disassembled by nvdisasm; no GPU is needed. Counts are of "
        "instructions in the code, not of executions.",
    )
    parser.add_argument("task", metavar="TASK", help="a task's name or folder")
    parser.add_argument("source", metavar="SOURCE.cu", help="the source to disassemble")
    parser.add_argument("--against", metavar="SOURCE.cu", help="show what changed since this one")
    parser.add_argument("--kernel", metavar="NAME", help="this kernel alone, by its C++ name")
    parser.add_argument(
        "--workload", metavar="NAME", help="the kernels of this workload (default: the first)"
    )
    parser.add_argument(
        "--histogram", action="store_true", help="counts by class alone, without the listing"
    )
    _json(parser)


def _bench(commands: _Commands) -> None:
    parser = _command(
        commands,
        "bench",
        "time sources beside each other on a GPU",
        "Every source is checked first; one that is wrong is not timed. The first is the base, "
        "the others are candidates; a single one is timed beside itself, which shows what "
        "differences this machine can tell. docs/timing.md says what is measured.",
    )
    parser.add_argument("task", metavar="TASK", help="a task's name or folder")
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE.cu", help="the base, then the candidates"
    )
    parser.add_argument(
        "--workload",
        action="append",
        default=[],
        metavar="NAME",
        help="only this workload (default: all); may be repeated",
    )
    parser.add_argument(
        "--protocol",
        choices=("both", "paired", "paper"),
        default="both",
        help="paired graph replay, the Astra paper's host launches, or both (default)",
    )
    parser.add_argument(
        "--device",
        default="auto",
        metavar="DEVICE",
        help="auto (default): the first GPU; or cuda:1",
    )
    _json(parser)


def _new(commands: _Commands) -> None:
    parser = _command(
        commands,
        "new",
        "make a kernel task from a CUDA source",
        "Writes a draft of the task and lists what is left for you to decide.",
    )
    parser.add_argument("folder", metavar="FOLDER", help="the task's folder, which must not exist")
    parser.add_argument(
        "--from", dest="source", required=True, metavar="KERNEL.cu", help="the CUDA source"
    )
    parser.add_argument("--kernel", metavar="NAME", help="which kernel, if the source has several")
    _json(parser)


def _doctor(commands: _Commands) -> None:
    parser = _command(
        commands,
        "doctor",
        "try what is installed, and say what is missing",
        "Everything reported as working was tried just now, a model's server too where one is "
        "set up (three short calls).",
    )
    parser.add_argument("--model", metavar="NAME", help="the model to try")
    parser.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible server to try")
    parser.add_argument("--config", metavar="FILE", help="a TOML file of settings")
    _json(parser)


def _sessions(commands: _Commands) -> None:
    parser = _command(
        commands,
        "sessions",
        "list sessions",
        "Each is listed with what came of it; what is damaged in a journal is said on stderr.",
    )
    parser.add_argument("--sessions", metavar="DIR", help="where they are (default: ./sessions)")
    _json(parser)


def _attach(commands: _Commands) -> None:
    parser = _command(
        commands,
        "attach",
        "come back to a running engine",
        "Shows what has happened and what happens, and asks you what is to be decided. Ctrl-C "
        "cancels the run; to leave it running, detach at a question or close the terminal. "
        "Without a terminal to ask at, it only shows.",
    )
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="a session's name or folder; by default the only one that runs",
    )
    _plain(parser)


def _ps(commands: _Commands) -> None:
    parser = _command(
        commands,
        "ps",
        "list the engines that run now",
        "Every engine of this user on this machine is asked; sockets of dead ones are removed.",
    )
    _json(parser)


def _stop(commands: _Commands) -> None:
    parser = _command(
        commands,
        "stop",
        "end a running engine",
        "Asks the engine to end and waits until it has. The session can be resumed.",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help="a session's name or folder")
    parser.add_argument("--all", action="store_true", help="end every engine that runs")
